//! Figures as they come, for who keeps looking: server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{BoxStream, SelectAll};
use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::api::figures::BoxView;
use crate::api::input::Query;
use crate::api::shape::safe_json;
use crate::databases::List;
use crate::desk::{Desk, Queue};
use crate::problem::Problem;
use crate::sampler::FEW;

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

/// An event `sample` with the figures of a box, at once and then whenever it was looked at: of the
/// boxes of `store`, or of the first 16 that there are. Boxes come and go with their databases.
/// Ends when the server stops.
#[utoipa::path(get, path = "/events", tag = "boxes",
    params(
        ("store" = Option<String>, Query, description = "The name of a database. Default: the \
         first ones."),
        ("box" = Option<String>, Query, description = "`outbox` or `inbox`. Default: both."),
    ),
    responses((status = 200, body = String, content_type = "text/event-stream")))]
pub(crate) async fn events(
    State(desk): State<Arc<Desk>>,
    mut query: Query,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let (store, kind) = (query.text("store"), query.text("box"));
    query.finish()?;
    if store.is_some() || kind.is_some() {
        desk.queues().find(store.as_deref(), kind.as_deref())?;
    }
    let permit = desk.stream()?;
    let shutdown = desk.shutdown.clone().cancelled_owned();
    let feed = Feed::new(desk, store, kind);
    let all = stream::unfold(feed, |mut feed| async { Some((feed.next().await, feed)) });
    let held = all.take_until(Box::pin(shutdown)).map(move |event| {
        let _ = &permit;
        Ok(event)
    });
    Ok(Sse::new(held).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}

/// The samples of some boxes.
struct Feed {
    desk: Arc<Desk>,
    changes: watch::Receiver<Arc<List>>,
    store: Option<String>,
    kind: Option<String>,
    watched: Vec<Arc<Queue>>,
    samples: SelectAll<BoxStream<'static, Event>>,
}

impl Feed {
    fn new(desk: Arc<Desk>, store: Option<String>, kind: Option<String>) -> Self {
        let (changes, samples) = (desk.changes(), SelectAll::new());
        let mut feed = Self { desk, changes, store, kind, watched: Vec::new(), samples };
        feed.join_in();
        feed
    }

    async fn next(&mut self) -> Event {
        loop {
            tokio::select! {
                Ok(()) = self.changes.changed() => self.join_in(),
                Some(event) = self.samples.next() => return event,
                else => std::future::pending().await,
            }
        }
    }

    /// Also watches what is new, as long as there are few.
    fn join_in(&mut self) {
        self.watched.retain(|queue| !queue.gone.is_cancelled());
        for queue in self.desk.queues().shared() {
            let is_meant = self.store.as_ref().is_none_or(|name| queue.database == *name)
                && self.kind.as_ref().is_none_or(|kind| queue.kind == *kind);
            let is_known = self.watched.iter().any(|known| Arc::ptr_eq(known, queue));
            if is_meant && !is_known && self.watched.len() < FEW {
                self.watched.push(Arc::clone(queue));
                self.samples.push(samples(Arc::clone(queue)));
            }
        }
    }
}

/// The samples of a box until it is gone.
fn samples(queue: Arc<Queue>) -> BoxStream<'static, Event> {
    let mut watch = queue.sampler.watch();
    watch.mark_changed();
    let gone = queue.gone.clone().cancelled_owned();
    let samples = stream::unfold((queue, watch), move |(queue, mut watch)| async move {
        watch.changed().await.ok()?;
        let sample = Arc::clone(&watch.borrow_and_update());
        // Who keeps the stream open keeps looking.
        queue.sampler.look();
        let view = BoxView::new(&queue.database, queue.kind, &sample);
        let event = Event::default().event("sample").data(safe_json(&view).unwrap_or_default());
        Some((event, (queue, watch)))
    });
    samples.take_until(gone).boxed()
}
