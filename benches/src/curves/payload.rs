//! C3: how large payloads are.

use std::sync::Arc;

use postroom_stores::{PgStore, StoreConfig};

use super::{Points, panel};
use crate::dispatch::{self, Counting};
use crate::plan::Plan;
use crate::postgres::{fresh, session};
use crate::progress::say;
use crate::report::numbers::{digits, rate};
use crate::report::{Figure, Unit};
use crate::{control, fill};

const SIZES: [usize; 6] = [100, 400, 1_000, 4_000, 16_000, 64_000];

/// Bytes per point, so that large payloads do not take for ever.
const BYTES: usize = 200_000_000;

pub(super) async fn measure(url: &str, plan: Plan) -> anyhow::Result<Figure> {
    let pool = session(url).await?;
    let [mut ours, mut bare, mut ours_bytes, mut bare_bytes] = [const { Points(Vec::new()) }; 4];
    for payload in SIZES {
        say("C3", &format!("{} B each", digits(payload as f64)));
        let messages = (plan.messages / 2).min(BYTES / payload);
        let plan = Plan { payload, messages, ..plan };
        let store = Arc::new(PgStore::connect(url, StoreConfig::default()).await?);
        fresh(&pool, &store).await?;
        fill::fill(Arc::clone(&store), plan).await?;
        let (sink, config) = (Counting::default(), dispatch::config(plan));
        let dispatcher = dispatch::drain(Arc::clone(&store) as _, sink, messages, config).await?;
        fresh(&pool, &store).await?;
        fill::fill(Arc::clone(&store), plan).await?;
        let control = rate(messages, control::postgres(&pool, plan, true).await?);
        store.close().await;
        let (x, megabytes) = (payload as u64, payload as f64 / 1e6);
        ours.add(x, dispatcher);
        bare.add(x, control);
        ours_bytes.add(x, dispatcher * megabytes);
        bare_bytes.add(x, control * megabytes);
    }
    let (x, title) = ("bytes of payload", "how fast a backlog is drained");
    let messages = vec![ours.ours("dispatcher"), bare.control("control")];
    let bytes = vec![ours_bytes.ours("dispatcher"), bare_bytes.control("control")];
    Ok(Figure::new("C3", "PostgreSQL: the size of payloads")
        .note(format!("{} messages, less of large ones", digits((plan.messages / 2) as f64)))
        .note(dispatch::settings(plan))
        .note("control: one claimer's statements through the bare driver")
        .panel(panel(title, x, Unit::MessagesPerSecond, messages))
        .panel(panel("the same in bytes", x, Unit::MegabytesPerSecond, bytes)))
}
