//! Logs: tracing to standard error as text or JSON, or to the live view. Ids yes, payloads never.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::{Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::{Format, Log};
use crate::telemetry::Telemetry;

/// Log lines that the live view keeps.
const NOTES_MAX: usize = 50;

/// Logs of a daemon, beside its traces.
pub(crate) fn to_stderr(log: &Log, telemetry: &Telemetry) {
    let filter = filter(&log.level);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let registry = tracing_subscriber::registry();
    match log.format {
        Format::Text => {
            let lines = lines.with_ansi(is_colourful()).with_target(false).with_filter(filter);
            registry.with(lines).with(traces(telemetry)).init();
        }
        Format::Json => {
            let lines = lines.json().flatten_event(true).with_filter(filter);
            registry.with(lines).with(traces(telemetry)).init();
        }
    }
}

/// The log filter. It excludes lapin, which writes whole messages with their payloads into its warnings; Postroom's own
/// warnings hold the relevant part.
fn filter(level: &str) -> EnvFilter {
    EnvFilter::new(format!("{level},lapin=off"))
}

/// Only the spans of Postroom: drivers and HTTP libraries produce far more spans.
fn traces<S>(telemetry: &Telemetry) -> Option<impl Layer<S> + use<S>>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let ours = Targets::new().with_target("postroom", Level::INFO);
    telemetry.layer().map(|layer| layer.with_filter(ours))
}

/// Logs of a command: only what goes wrong.
pub(crate) fn warnings_to_stderr() {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter("warn"))
        .with_writer(io::stderr);
    lines.with_ansi(is_colourful()).with_target(false).without_time().init();
}

/// Logs while a live view has the terminal: warnings, as notes in the view.
pub(crate) fn to_notes(telemetry: &Telemetry) -> Notes {
    let notes = Notes::default();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(notes.clone())
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .with_level(false)
        .with_filter(filter("warn"));
    tracing_subscriber::registry()
        .with(lines)
        .with(traces(telemetry))
        .init();
    notes
}

fn is_colourful() -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::IsTerminal::is_terminal(&io::stderr()) && !is_refused
}

/// The last few log lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    lines: Arc<Mutex<VecDeque<String>>>,
}

impl Notes {
    /// The newest `count`, oldest first.
    pub(crate) fn last(&self, count: usize) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().skip(lines.len().saturating_sub(count)).cloned().collect()
    }
}

impl<'a> MakeWriter<'a> for Notes {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl io::Write for Notes {
    /// The formatter writes a whole line at once.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_back(String::from_utf8_lossy(line).trim_end().to_owned());
        while lines.len() > NOTES_MAX {
            lines.pop_front();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
