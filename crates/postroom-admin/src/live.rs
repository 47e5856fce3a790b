//! Figures as they come, for who keeps looking: server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::OwnedSemaphorePermit;

use crate::api::figures::BoxView;
use crate::api::input::Query;
use crate::api::shape::safe_json;
use crate::desk::Desk;
use crate::problem::Problem;

const HEARTBEAT: Duration = Duration::from_secs(15);

impl Desk {
    /// A place among the streams that may be open at once.
    pub(crate) fn stream(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.streams).try_acquire_owned().map_err(|_| {
            let told = "too many live streams and exports are open; close one, or try again later";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_streams", told).retry_after(10)
        })
    }
}

/// An event `sample` with the figures of a box, for each box at once and then whenever it was
/// looked at. Ends when the server stops.
#[utoipa::path(get, path = "/events", tag = "boxes",
    responses((status = 200, body = String, content_type = "text/event-stream")))]
pub(crate) async fn events(
    State(desk): State<Arc<Desk>>,
    query: Query,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    query.finish()?;
    let permit = desk.stream()?;
    let all = stream::select_all((0..desk.queues.len()).map(|at| samples(Arc::clone(&desk), at)));
    let shutdown = desk.shutdown.clone().cancelled_owned();
    let held = all.take_until(Box::pin(shutdown)).map(move |event| {
        let _ = &permit;
        Ok(event)
    });
    Ok(Sse::new(held).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}

fn samples(desk: Arc<Desk>, at: usize) -> impl Stream<Item = Event> + Unpin {
    let mut watch = desk.queues[at].sampler.watch();
    watch.mark_changed();
    Box::pin(stream::unfold((desk, watch), move |(desk, mut watch)| async move {
        watch.changed().await.ok()?;
        let sample = Arc::clone(&watch.borrow_and_update());
        let queue = &desk.queues[at];
        // Who keeps the stream open keeps looking.
        queue.sampler.look();
        let view = BoxView::new(&queue.database, queue.kind, &sample);
        let event = Event::default().event("sample").data(safe_json(&view).unwrap_or_default());
        Some((event, (desk, watch)))
    }))
}
