//! Logs: tracing to standard error as text or JSON, or to the live view. Ids yes, payloads never.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::{Format, Log};

/// Log lines that the live view keeps.
const NOTES_MAX: usize = 50;

/// Logs of a daemon.
pub(crate) fn to_stderr(log: &Log) {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(&log.level))
        .with_writer(io::stderr);
    match log.format {
        Format::Text => lines.with_ansi(is_colourful()).with_target(false).init(),
        Format::Json => lines.json().flatten_event(true).init(),
    }
}

/// Logs of a command: only what goes wrong.
pub(crate) fn warnings_to_stderr() {
    let filter = EnvFilter::new("warn");
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    lines.with_ansi(is_colourful()).with_target(false).without_time().init();
}

/// Logs while a live view has the terminal: warnings, as notes in the view.
pub(crate) fn to_notes() -> Notes {
    let notes = Notes::default();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("warn"))
        .with_writer(notes.clone());
    lines
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .with_level(false)
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
