//! The cause of an event: the event that is being handled, and the current trace.

use opentelemetry::trace::TraceContextExt;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::event::{CAUSATION_ID, Event, HOPS, Headers};

/// A chain longer than this is taken for a loop (A emits B emits A) and refused.
pub const HOPS_MAX: u32 = 16;

/// The header of W3C trace context.
pub const TRACEPARENT: &str = "traceparent";

tokio::task_local! {
    static HANDLING: Cause;
}

/// The event whose handler is running on this task, if any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cause {
    event_id: Option<Uuid>,
    hops: u32,
}

impl Cause {
    pub(crate) fn of(event: &Event) -> Self {
        Self {
            event_id: Some(event.id),
            hops: event.hops(),
        }
    }

    pub(crate) fn current() -> Self {
        HANDLING.try_with(Clone::clone).unwrap_or_default()
    }

    /// Runs a handler; what it emits carries this cause.
    pub(crate) async fn scope<F: Future>(self, handler: F) -> F::Output {
        HANDLING.scope(self, handler).await
    }

    /// The headers of an event emitted now, or an error when its chain is too long.
    pub(crate) fn headers(&self) -> Result<Headers> {
        let mut headers = Headers::new();
        if let Some(event_id) = self.event_id {
            if self.hops >= HOPS_MAX {
                return Err(Error::invalid(format!(
                    "this event would be number {} of a chain that began elsewhere, the limit is {HOPS_MAX}; \
                     some handlers emit each other's events in a circle",
                    self.hops + 1
                )));
            }
            headers.insert(CAUSATION_ID.to_owned(), event_id.to_string());
            headers.insert(HOPS.to_owned(), (self.hops + 1).to_string());
        }
        if let Some(traceparent) = traceparent() {
            headers.insert(TRACEPARENT.to_owned(), traceparent);
        }
        Ok(headers)
    }
}

/// The running trace as W3C `traceparent`: the OpenTelemetry context, or that of the current tracing span.
fn traceparent() -> Option<String> {
    let attached = opentelemetry::Context::current();
    let mut span = attached.span().span_context().clone();
    if !span.is_valid() {
        span = tracing::Span::current().context().span().span_context().clone();
    }
    span.is_valid().then(|| {
        format!(
            "00-{}-{}-{:02x}",
            span.trace_id(),
            span.span_id(),
            span.trace_flags().to_u8()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    fn event() -> Result<Event> {
        Event::new("a.happened", "a", "1", RawValue::from_string("1".into()).unwrap())
    }

    #[tokio::test]
    async fn an_event_emitted_by_a_handler_names_its_cause() {
        let first = event().unwrap();
        let second = Cause::of(&first).scope(async { event().unwrap() }).await;
        assert_eq!(second.headers[CAUSATION_ID], first.id.to_string());
        assert_eq!(second.hops(), 1);
    }

    #[tokio::test]
    async fn a_chain_that_loops_is_refused() {
        let mut last = event().unwrap();
        for _ in 0..HOPS_MAX {
            last = Cause::of(&last).scope(async { event().unwrap() }).await;
        }
        let error = Cause::of(&last).scope(async { event() }).await.unwrap_err();
        assert!(error.to_string().contains("the limit is 16"), "{error}");
    }
}
