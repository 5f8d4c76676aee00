//! Log lines in memory, for the live view.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Log lines that are kept.
const NOTES_MAX: usize = 50;

/// The last few log lines. A clone writes to the same lines.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    lines: Arc<Mutex<VecDeque<String>>>,
}

impl Notes {
    /// The newest `count`, oldest first.
    pub fn last(&self, count: usize) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().skip(lines.len().saturating_sub(count)).cloned().collect()
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
