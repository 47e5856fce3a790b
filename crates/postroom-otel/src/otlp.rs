//! Spans by OTLP over HTTP, as the usual variables say: `OTEL_EXPORTER_OTLP_ENDPOINT`,
//! `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`,
//! `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER` and others.

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

/// As many messages as a sink of ours takes in one call. By default links beyond 128 are dropped.
const MOST_LINKS: u32 = 256;

/// Sends spans until it is shut down.
#[derive(Debug)]
pub struct Exporter(SdkTracerProvider);

impl Exporter {
    /// Whether the environment asks for traces: it names an endpoint and does not turn them off.
    #[must_use]
    pub fn is_wanted() -> bool {
        let is = |name: &str, value: &str| {
            std::env::var(name).is_ok_and(|set| set.trim().eq_ignore_ascii_case(value))
        };
        let endpoints = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
        let named = |name: &&str| std::env::var(name).is_ok_and(|set| !set.is_empty());
        endpoints.iter().any(named)
            && !is("OTEL_SDK_DISABLED", "true")
            && !is("OTEL_TRACES_EXPORTER", "none")
    }

    /// One for a service with this name, unless `OTEL_SERVICE_NAME` gives another.
    ///
    /// # Errors
    /// When an endpoint or another variable is not understood.
    pub fn from_env(service: &str) -> Result<Self, ExporterBuildError> {
        // The client asks for one; whoever chose before keeps theirs.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let exporter = SpanExporter::builder().with_http().with_protocol(Protocol::HttpBinary);
        Ok(Self::with(exporter.build()?, service))
    }

    /// One that sends to the collector at this address, such as `http://127.0.0.1:4318`.
    ///
    /// # Errors
    /// When the address is not understood.
    pub fn to(collector: &str, service: &str) -> Result<Self, ExporterBuildError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let endpoint = format!("{}/v1/traces", collector.trim_end_matches('/'));
        let exporter = SpanExporter::builder().with_http().with_protocol(Protocol::HttpBinary);
        Ok(Self::with(exporter.with_endpoint(endpoint).build()?, service))
    }

    fn with(exporter: SpanExporter, service: &str) -> Self {
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_attribute(KeyValue::new("service.name", service.to_owned()));
        }
        let mut provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build());
        if std::env::var_os("OTEL_SPAN_LINK_COUNT_LIMIT").is_none() {
            provider = provider.with_max_links_per_span(MOST_LINKS);
        }
        Self(provider.build())
    }

    /// The layer that hands it the spans of Postroom. Lines of the log do not become events: their
    /// errors are on the spans already.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let ours = |about: &tracing::Metadata<'_>| {
            about.is_span() && about.target().starts_with("postroom")
        };
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("postroom"))
            .with_location(false)
            .with_threads(false)
            .with_filter(filter_fn(ours))
    }

    /// Sends what is left. It waits for the collector, so call it where that may be.
    pub fn shutdown(self) {
        // A collector that is away loses spans; there is nobody to tell.
        let _ = self.0.shutdown();
    }
}
