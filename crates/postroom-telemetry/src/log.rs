//! Logs: tracing to standard error as text or JSON, or to a writer. Ids yes, payloads never.

use std::io;

use tracing::{Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

use crate::traces::Traces;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON document per line.
    Json,
}

/// Whether this is a level or a filter. A filter takes any bare word for the name of a target, and would log all of it and
/// nothing else.
pub fn is_level(text: &str) -> bool {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let is_known =
        |part: &str| part.contains(['=', '[']) || LEVELS.iter().any(|level| part.eq_ignore_ascii_case(level));
    text.split(',').all(is_known) && EnvFilter::try_new(text).is_ok()
}

/// Logs of a daemon, beside its traces.
pub fn to_stderr(format: LogFormat, level: &str, traces: &Traces) {
    let filter = filter(level);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let registry = tracing_subscriber::registry();
    match format {
        LogFormat::Text => {
            let lines = lines.with_ansi(is_colourful()).with_target(false).with_filter(filter);
            registry.with(lines).with(ours(traces)).init();
        }
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_filter(filter);
            registry.with(lines).with(ours(traces)).init();
        }
    }
}

/// The log filter. It excludes lapin, which writes whole messages with their payloads into its warnings; Postroom's own
/// warnings hold the relevant part.
fn filter(level: &str) -> EnvFilter {
    EnvFilter::new(format!("{level},lapin=off"))
}

/// Only the spans of Postroom: drivers and HTTP libraries produce far more spans.
fn ours<S>(traces: &Traces) -> Option<impl Layer<S> + use<S>>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let ours = Targets::new().with_target("postroom", Level::INFO);
    traces.layer().map(|layer| layer.with_filter(ours))
}

/// Logs of a command: only what goes wrong.
pub fn warnings_to_stderr() {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter("warn"))
        .with_writer(io::stderr);
    lines.with_ansi(is_colourful()).with_target(false).without_time().init();
}

/// Logs of a daemon while a live view has the terminal: only warnings, to this writer.
pub fn warnings_to<W>(writer: W, traces: &Traces)
where
    W: for<'line> MakeWriter<'line> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .with_level(false)
        .with_filter(filter("warn"));
    tracing_subscriber::registry().with(lines).with(ours(traces)).init();
}

fn is_colourful() -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::IsTerminal::is_terminal(&io::stderr()) && !is_refused
}
