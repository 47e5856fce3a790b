//! Traces, when this binary is built with them and the environment asks for them.

#[cfg(feature = "otel")]
pub(super) use on::Traces;

#[cfg(not(feature = "otel"))]
pub(super) use off::Traces;

#[cfg(feature = "otel")]
mod on {
    use postroom::Dispatcher;
    use postroom_otel::otlp::Exporter;
    use tracing::Subscriber;
    use tracing_subscriber::Layer;
    use tracing_subscriber::registry::LookupSpan;

    use crate::failure::{Exit, Failure};

    /// Where spans go, if anywhere.
    pub(in crate::commands) struct Traces(Option<Exporter>);

    impl Traces {
        pub(in crate::commands) async fn from_env() -> Result<Self, Failure> {
            if !Exporter::is_wanted() {
                return Ok(Self(None));
            }
            // Its client blocks, and has to be made where that may be.
            let made = tokio::task::spawn_blocking(|| Exporter::from_env("postroom")).await;
            let made = made.map_err(|error| Failure::new(Exit::Error, "no traces").why(&error))?;
            let exporter = made.map_err(|error| {
                let next = "check the variables that begin with OTEL_";
                Failure::new(Exit::Invalid, "can not send traces").why(&error).next(next)
            })?;
            Ok(Self(Some(exporter)))
        }

        pub(in crate::commands) fn layer<S>(&self) -> Option<impl Layer<S> + Send + Sync + use<S>>
        where
            S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
        {
            self.0.as_ref().map(Exporter::layer)
        }

        /// The same dispatcher, whose deliveries are part of the traces of their messages.
        pub(in crate::commands) fn around(&self, dispatcher: Dispatcher) -> Dispatcher {
            match &self.0 {
                Some(_) => dispatcher.intercept(postroom_otel::Traces::default()),
                None => dispatcher,
            }
        }

        /// Sends what is left.
        pub(in crate::commands) async fn end(self) {
            if let Some(exporter) = self.0 {
                let _ = tokio::task::spawn_blocking(|| exporter.shutdown()).await;
            }
        }
    }
}

#[cfg(not(feature = "otel"))]
mod off {
    use postroom::Dispatcher;
    use tracing_subscriber::layer::Identity;

    use crate::failure::Failure;

    /// Nothing.
    pub(in crate::commands) struct Traces;

    impl Traces {
        pub(in crate::commands) async fn from_env() -> Result<Self, Failure> {
            if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_some() {
                eprintln!("this binary was built without traces; --features otel has them");
            }
            Ok(Self)
        }

        pub(in crate::commands) fn layer(&self) -> Identity {
            Identity::new()
        }

        pub(in crate::commands) fn around(&self, dispatcher: Dispatcher) -> Dispatcher {
            dispatcher
        }

        pub(in crate::commands) async fn end(self) {}
    }
}
