//! A producer that knows whether anybody is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{FutureProducer, Producer as _};
use tokio::task::spawn_blocking;

use crate::link::Connection;

/// One life of a producer: from a cluster that answered to one that does not. librdkafka takes
/// messages for a cluster that is away, and would keep them.
pub(super) struct Producer {
    /// Is there until the drop.
    inner: Option<FutureProducer<Watch>>,
    lost: Arc<AtomicBool>,
    pub(super) cluster: String,
}

impl Producer {
    /// Waits until the cluster has answered.
    pub(super) async fn connect(config: ClientConfig, limit: Duration) -> Result<Self, String> {
        let lost: Arc<AtomicBool> = Arc::default();
        let watch = Watch(Arc::clone(&lost));
        let made = spawn_blocking(move || {
            let inner = config.create_with_context(watch);
            let inner: FutureProducer<Watch> = inner.map_err(|error| shown(&error))?;
            let cluster = inner.client().fetch_cluster_id(limit);
            let cluster = cluster.ok_or_else(|| "no broker answers".to_owned())?;
            Ok::<_, String>((inner, cluster))
        });
        let (inner, cluster) = made.await.map_err(|error| error.to_string())??;
        // What went wrong before it worked is over.
        lost.store(false, Ordering::Relaxed);
        Ok(Self { inner: Some(inner), lost, cluster })
    }

    pub(super) fn get(&self) -> Option<&FutureProducer<Watch>> {
        self.inner.as_ref()
    }
}

impl Connection for Producer {
    fn is_alive(&self) -> bool {
        !self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Producer {
    /// The client waits for its threads, which must not hold up the runtime.
    fn drop(&mut self) {
        let inner = self.inner.take();
        std::thread::spawn(move || drop(inner));
    }
}

/// Hears what the client says beside the answers to messages. It may name hosts and users: none of
/// it is logged.
pub(super) struct Watch(Arc<AtomicBool>);

impl ClientContext for Watch {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, error: KafkaError, _: &str) {
        let code = error.rdkafka_error_code();
        let ends = matches!(code, Some(RDKafkaErrorCode::AllBrokersDown | RDKafkaErrorCode::Fatal));
        if ends {
            self.0.store(true, Ordering::Relaxed);
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
