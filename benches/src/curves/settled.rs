//! C2: how many settled messages are kept.

use super::{Bed, Curves};
use crate::plan::Plan;
use crate::progress::say;
use crate::report::Figure;
use crate::report::numbers::{digits, short};
use crate::{bulk, dispatch};

const SIZES: [u64; 6] = [0, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000];

pub(super) async fn measure(url: &str, plan: Plan, most: u64) -> anyhow::Result<Figure> {
    let bed = Bed::new("C2", url, plan).await?;
    let backlog = plan.messages as u64 / 2;
    let mut curves = Curves::default();
    for size in SIZES.into_iter().filter(|size| *size <= most) {
        say("C2", &format!("{} settled messages", short(size as f64)));
        let mut conn = bed.pool.acquire().await?;
        let sql = "select count(*) from postroom.outbox_settled";
        let there: i64 = sqlx::query_scalar(sql).fetch_one(&mut *conn).await?;
        let missing = size.saturating_sub(u64::try_from(there)?);
        bulk::settled(&mut conn, "C2", missing, plan.payload).await?;
        drop(conn);
        curves.add(size, bed.measure(backlog).await?);
    }
    let [drains, claims] = curves.panels("settled messages").map(|mut panel| {
        // It begins at nothing.
        panel.logarithmic = false;
        panel
    });
    let shown = digits(backlog as f64);
    Ok(Figure::new("C2", "PostgreSQL: the number of settled messages")
        .note(format!("a backlog of {shown} messages of {} B is drained", plan.payload))
        .note(dispatch::settings(plan))
        .note("control: one claimer's statements through the bare driver")
        .note("what is drained adds to what is settled")
        .panel(drains)
        .panel(claims))
}
