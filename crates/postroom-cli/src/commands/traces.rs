//! Traces, when this binary is built with them and the environment asks for them.

#[cfg(feature = "otel")]
pub(super) use on::Traces;

#[cfg(not(feature = "otel"))]
pub(super) use off::Traces;

#[cfg(feature = "otel")]
mod on {
    use std::sync::Arc;

    use postroom::fleet::Fleet;
    use postroom::{Message, OutboxConfig};
    use postroom_otel::otlp::Exporter;
    use tracing::Subscriber;
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::registry::LookupSpan;
    use tracing_subscriber::util::SubscriberInitExt as _;

    use crate::failure::{Exit, Failure};
    use crate::fleet::Place;
    use crate::store::OpenStore;

    /// Whether a delivery is in the trace of its message, or only linked to it.
    const SHAPE: &str = "POSTROOM_TRACES";

    /// Where spans go, if anywhere.
    pub(in crate::commands) struct Traces {
        exporter: Option<Exporter>,
        deliveries: postroom_otel::Traces,
    }

    impl Traces {
        /// For `up`, whose log has the layer in it.
        pub(in crate::commands) async fn of_relay() -> Result<Self, Failure> {
            let deliveries = deliveries(std::env::var(SHAPE).ok().as_deref())?;
            if !Exporter::is_wanted() {
                return Ok(Self { exporter: None, deliveries });
            }
            // Its client blocks, and has to be made where that may be.
            let made = tokio::task::spawn_blocking(|| Exporter::from_env("postroom")).await;
            let made = made.map_err(|error| Failure::new(Exit::Error, "no traces").why(&error))?;
            let exporter = made.map_err(|error| {
                let next = "check the variables that begin with OTEL_";
                Failure::new(Exit::Invalid, "can not send traces").why(&error).next(next)
            })?;
            Ok(Self { exporter: Some(exporter), deliveries })
        }

        /// For a command that logs nothing.
        pub(in crate::commands) async fn of_command() -> Result<Self, Failure> {
            let traces = Self::of_relay().await?;
            tracing_subscriber::registry().with(traces.layer()).init();
            Ok(traces)
        }

        pub(in crate::commands) fn layer<S>(&self) -> Option<impl Layer<S> + Send + Sync + use<S>>
        where
            S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
        {
            self.exporter.as_ref().map(Exporter::layer)
        }

        /// The same fleet, whose deliveries have spans.
        pub(in crate::commands) fn around(
            &self,
            fleet: Fleet<Place, OpenStore>,
        ) -> Fleet<Place, OpenStore> {
            match &self.exporter {
                Some(_) => fleet.intercept(self.deliveries),
                None => fleet,
            }
        }

        /// The same message with the context of its creation, unless it has one.
        pub(in crate::commands) fn create(&self, message: Message) -> Result<Message, Failure> {
            let trace = Some(Arc::new(postroom_otel::current_context) as Arc<_>);
            match &self.exporter {
                Some(_) => Ok(OutboxConfig { trace, ..OutboxConfig::default() }.check(message)?),
                None => Ok(message),
            }
        }

        /// Sends what is left.
        pub(in crate::commands) async fn end(self) {
            if let Some(exporter) = self.exporter {
                let _ = tokio::task::spawn_blocking(|| exporter.shutdown()).await;
            }
        }
    }

    fn deliveries(shape: Option<&str>) -> Result<postroom_otel::Traces, Failure> {
        match shape {
            None | Some("" | "links") => Ok(postroom_otel::Traces::default()),
            Some("joined") => Ok(postroom_otel::Traces::default().joined()),
            Some(_) => {
                let what = format!("{SHAPE} is links or joined");
                Err(Failure::new(Exit::Invalid, what))
            }
        }
    }
}

#[cfg(not(feature = "otel"))]
mod off {
    use postroom::Message;
    use postroom::fleet::Fleet;
    use tracing_subscriber::layer::Identity;

    use crate::failure::Failure;
    use crate::fleet::Place;
    use crate::store::OpenStore;

    /// Nothing.
    pub(in crate::commands) struct Traces;

    impl Traces {
        pub(in crate::commands) async fn of_relay() -> Result<Self, Failure> {
            if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_some() {
                eprintln!("this binary was built without traces; --features otel has them");
            }
            Ok(Self)
        }

        pub(in crate::commands) async fn of_command() -> Result<Self, Failure> {
            Ok(Self)
        }

        pub(in crate::commands) fn layer(&self) -> Identity {
            Identity::new()
        }

        pub(in crate::commands) fn around(
            &self,
            fleet: Fleet<Place, OpenStore>,
        ) -> Fleet<Place, OpenStore> {
            fleet
        }

        pub(in crate::commands) fn create(&self, message: Message) -> Result<Message, Failure> {
            Ok(message)
        }

        pub(in crate::commands) async fn end(self) {}
    }
}
