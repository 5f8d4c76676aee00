//! Traces to an OpenTelemetry collector, over OTLP and HTTP.

use std::time::Duration;

use anyhow::{Context as _, Result};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::runtime::Tokio;
use opentelemetry_sdk::trace::span_processor_with_async_runtime::BatchSpanProcessor;
use opentelemetry_sdk::trace::{SdkTracerProvider, Tracer};
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

/// A collector that has not answered by then gets the spans with the next batch, or never.
const EXPORT_MAX: Duration = Duration::from_secs(5);

/// Where spans go: to no place unless a collector is configured.
#[derive(Debug, Default)]
pub struct Traces(Option<SdkTracerProvider>);

impl Traces {
    /// Sends spans to the collector at this address, for example `http://127.0.0.1:4318`.
    pub fn to(collector: Option<&str>) -> Result<Self> {
        let Some(collector) = collector else {
            return Ok(Self::default());
        };
        // The HTTP client wants to know who encrypts, even if nobody does; a choice that was made before stays.
        drop(rustls::crypto::ring::default_provider().install_default());
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpJson)
            .with_endpoint(format!("{}/v1/traces", collector.trim_end_matches('/')))
            .with_timeout(EXPORT_MAX)
            .build()
            .with_context(|| format!("send traces to {collector}"))?;
        let provider = SdkTracerProvider::builder()
            .with_span_processor(BatchSpanProcessor::builder(exporter, Tokio).build())
            .with_resource(Resource::builder().with_service_name("postroom").build())
            .build();
        Ok(Self(Some(provider)))
    }

    /// The layer that turns tracing's spans into OpenTelemetry's.
    pub(crate) fn layer<S>(&self) -> Option<OpenTelemetryLayer<S, Tracer>>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let provider = self.0.as_ref()?;
        Some(tracing_opentelemetry::layer().with_tracer(provider.tracer("postroom")))
    }

    /// Sends what has not been sent yet.
    pub async fn finish(self) {
        if let Some(provider) = self.0 {
            // It waits for its own task on this runtime, so it must not hold one of its threads.
            let ended = tokio::task::spawn_blocking(move || provider.shutdown()).await;
            if let Ok(Err(error)) = ended {
                tracing::warn!(%error, "the last traces were not sent");
            }
        }
    }
}
