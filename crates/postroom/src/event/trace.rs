//! Traces that cross processes: a span for each step an event takes, under the trace it was emitted in.

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::event::Event;
use crate::event::cause::TRACEPARENT;

/// A step of an event's way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A relay delivers it.
    Deliver,
    /// A subscriber handles it.
    Handle,
}

/// The span of a step; none for an event whose trace nobody records, which is most of them.
pub(crate) fn span(step: Step, route: &str, event: &Event) -> Span {
    let Some(parent) = event.headers.get(TRACEPARENT).and_then(|text| parent(text)) else {
        return Span::none();
    };
    let (id, kind) = (event.id, event.event_type.as_str());
    let span = match step {
        Step::Deliver => tracing::info_span!("deliver", otel.kind = "producer", route, event = %id, r#type = kind),
        Step::Handle => tracing::info_span!("handle", otel.kind = "consumer", route, event = %id, r#type = kind),
    };
    if let Err(error) = span.set_parent(parent) {
        tracing::trace!(?error, "nobody records traces");
    }
    span
}

/// Puts a span under the trace that a request names in its header `traceparent`, so that what is emitted in it belongs there
/// too. A header that is not valid is as good as none.
pub fn adopt_trace(span: &Span, traceparent: &str) {
    if let Some(parent) = parent(traceparent)
        && let Err(error) = span.set_parent(parent)
    {
        tracing::trace!(?error, "nobody records traces");
    }
}

/// Reads W3C trace context, version 00; `None` unless it is valid and sampled.
fn parent(traceparent: &str) -> Option<Context> {
    let mut parts = traceparent.split('-');
    let (version, trace_id, span_id, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?);
    if version.len() != 2 || version == "ff" || !flags.is_sampled() {
        return None;
    }
    let trace_id = TraceId::from_hex(trace_id).ok().filter(|_| trace_id.len() == 32)?;
    let span_id = SpanId::from_hex(span_id).ok().filter(|_| span_id.len() == 16)?;
    let context = SpanContext::new(trace_id, span_id, flags, true, TraceState::default());
    context
        .is_valid()
        .then(|| Context::new().with_remote_span_context(context))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_context_is_read_when_somebody_records_it() {
        let check = |text: &str, expected: bool| assert_eq!(parent(text).is_some(), expected, "{text}");
        check("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true);
        check("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-later", true);
        check("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", false);
        check("00-00000000000000000000000000000000-00f067aa0ba902b7-01", false);
        check("00-4bf92f35-00f067aa0ba902b7-01", false);
        check("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false);
        check("garbage", false);
    }
}
