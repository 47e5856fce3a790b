//! C5: how many keys the messages of an ordered backlog have.

use sqlx::PgPool;

use super::{Points, panel};
use crate::dispatch;
use crate::order::{Shape, drain};
use crate::plan::Plan;
use crate::progress::say;
use crate::report::numbers::short;
use crate::report::{Figure, Unit};

const KEYS: [usize; 5] = [10, 100, 1_000, 10_000, 100_000];

pub(super) async fn measure(url: &str, plan: Plan) -> anyhow::Result<Figure> {
    let pool = PgPool::connect(url).await?;
    let plan = plan.of(plan.messages / 2);
    say("C5", "without keys");
    let without = drain(url, &pool, plan, Shape::Unordered).await?;
    let (mut ordered, mut unordered) = (Points::default(), Points::default());
    for keys in KEYS {
        say("C5", &format!("{} keys", short(keys as f64)));
        ordered.add(keys as u64, drain(url, &pool, plan, Shape::Keys(keys)).await?);
        unordered.add(keys as u64, without);
    }
    let lines = vec![ordered.ours("ordered"), unordered.control("unordered")];
    let title = "how fast an ordered backlog is drained";
    Ok(Figure::new("C5", "PostgreSQL: the number of keys")
        .note(plan.of_one_run())
        .note(dispatch::settings(plan))
        .panel(panel(title, "keys", Unit::MessagesPerSecond, lines)))
}
