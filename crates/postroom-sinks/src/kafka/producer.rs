//! A producer that knows whether anybody is there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{FutureProducer, Producer as _};
use tokio::task::spawn_blocking;

use crate::link::Connection;

/// How long the client is trusted to tell of an answer: it may miss the moment, and would then wait
/// for the next one.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// One life of a producer: from a cluster that answered to one that does not. librdkafka takes
/// messages for a cluster that is away, and would keep them.
pub(super) struct Producer {
    /// Is there until the drop.
    inner: Option<FutureProducer<Watch>>,
    heard: Arc<Heard>,
    pub(super) cluster: String,
}

impl Producer {
    /// Waits until the cluster has answered.
    pub(super) async fn connect(config: ClientConfig, limit: Duration) -> Result<Self, String> {
        let heard: Arc<Heard> = Arc::default();
        let watch = Watch(Arc::clone(&heard));
        // So that what was heard is told, and not only that it took too long.
        let limit = limit * 9 / 10;
        let made = spawn_blocking(move || {
            let inner = config.create_with_context(watch);
            let inner: FutureProducer<Watch> = inner.map_err(|error| shown(&error))?;
            let cluster = cluster(&inner, limit);
            Ok::<_, String>((inner, cluster))
        });
        let (inner, cluster) = made.await.map_err(|error| error.to_string())??;
        let Some(cluster) = cluster else {
            // Its threads must not hold up the runtime.
            drop(Self { inner: Some(inner), heard: Arc::clone(&heard), cluster: String::new() });
            return Err(heard.why());
        };
        // What went wrong before it worked is over.
        heard.lost.store(false, Ordering::Relaxed);
        Ok(Self { inner: Some(inner), heard, cluster })
    }

    pub(super) fn get(&self) -> Option<&FutureProducer<Watch>> {
        self.inner.as_ref()
    }
}

impl Connection for Producer {
    fn is_alive(&self) -> bool {
        !self.heard.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Producer {
    /// The client waits for its threads, which must not hold up the runtime.
    fn drop(&mut self) {
        let inner = self.inner.take();
        std::thread::spawn(move || drop(inner));
    }
}

/// The id of the cluster, when it has answered.
fn cluster(client: &FutureProducer<Watch>, limit: Duration) -> Option<String> {
    let begin = Instant::now();
    while begin.elapsed() < limit {
        if let Some(cluster) = client.client().fetch_cluster_id(LOOK_AGAIN) {
            return Some(cluster);
        }
        // A broker that has no id to tell is answered for at once.
        std::thread::sleep(LOOK_AGAIN / 5);
    }
    None
}

/// What the client said beside the answers to messages.
#[derive(Default)]
pub(super) struct Heard {
    lost: AtomicBool,
    last: Mutex<Option<RDKafkaErrorCode>>,
}

impl Heard {
    fn why(&self) -> String {
        match *self.last.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(code) => format!("no broker answers: {code}"),
            None => "no broker answers".to_owned(),
        }
    }
}

/// Listens. Texts may name hosts and users: only codes are kept, and nothing is logged.
pub(super) struct Watch(Arc<Heard>);

impl ClientContext for Watch {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, error: KafkaError, _: &str) {
        let Some(code) = error.rdkafka_error_code() else { return };
        if matches!(code, RDKafkaErrorCode::AllBrokersDown | RDKafkaErrorCode::Fatal) {
            self.0.lost.store(true, Ordering::Relaxed);
        } else {
            *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(code);
        }
    }
}

/// An error without what it may hold of the settings.
pub(super) fn shown(error: &KafkaError) -> String {
    match (error.rdkafka_error_code(), error) {
        (Some(code), _) => code.to_string(),
        (None, KafkaError::ClientConfig(_, _, name, _)) => format!("the setting {name} is wrong"),
        (None, _) => "the client can not be made: look at properties".to_owned(),
    }
}
