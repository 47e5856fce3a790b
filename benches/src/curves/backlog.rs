//! C1: how long the backlog is.

use super::{Bed, Curves};
use crate::dispatch;
use crate::plan::Plan;
use crate::progress::say;
use crate::report::Figure;
use crate::report::numbers::{digits, short};

const SIZES: [u64; 6] = [10_000, 50_000, 200_000, 1_000_000, 2_000_000, 5_000_000];

pub(super) async fn measure(url: &str, plan: Plan, most: u64) -> anyhow::Result<Figure> {
    let bed = Bed::new("C1", url, plan).await?;
    let mut curves = Curves::default();
    for size in SIZES.into_iter().filter(|size| *size <= most) {
        say("C1", &format!("a backlog of {}", short(size as f64)));
        curves.add(size, bed.measure(size).await?);
    }
    let part = digits((plan.messages / 2) as f64);
    let [drains, claims] = curves.panels("backlog");
    Ok(Figure::new("C1", "PostgreSQL: the length of the backlog")
        .note(format!("messages of {} B; the first {part} are drained", plan.payload))
        .note(dispatch::settings(plan))
        .note("control: one claimer's statements through the bare driver")
        .panel(drains)
        .panel(claims))
}
