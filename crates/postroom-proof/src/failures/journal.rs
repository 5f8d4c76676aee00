//! The journal of a relay process, which outlives it: how often each failure happened, and the last call of each group.
//!
//! Plain files, written with one system call each: what was written is there, whenever the process is killed.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, read, read_to_string};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use postroom::{Error, ErrorKind, Result};

use super::Group;
use super::fate::Failure;
use crate::workload::Change;

const COUNTS: &str = "failures";
/// Room for one call.
const CALL_BYTES: usize = 160;

/// The journal of one process.
#[derive(Debug)]
pub struct Journal {
    failures: File,
    calls: File,
}

impl Journal {
    /// Opens the journal of this process in the folder of the run.
    pub fn open(folder: &Path) -> Result<Self> {
        let mut append = OpenOptions::new();
        append.create(true).append(true);
        let mut write = OpenOptions::new();
        write.create(true).truncate(true).write(true);
        let open = |options: &OpenOptions, path: PathBuf| {
            options
                .open(&path)
                .map_err(|source| Error::caused(ErrorKind::Failed, format!("open {}", path.display()), source))
        };
        Ok(Self {
            failures: open(&append, folder.join(COUNTS))?,
            calls: open(&write, calls_of(folder, std::process::id()))?,
        })
    }

    /// Counts a failure.
    pub(crate) fn failed(&self, failure: Failure) {
        if let Err(error) = (&self.failures).write_all(&[letter(failure)]) {
            tracing::debug!(%error, "a failure was not counted");
        }
    }

    /// A handler of this group works on this change.
    pub(crate) fn works_on(&self, group: Group, change: &Change) {
        self.note(group, &format!("{} {}", change.key, change.ver));
    }

    /// A handler of this group has failed: nothing of it is to be committed.
    pub(crate) fn gave_up(&self, group: Group) {
        self.note(group, "");
    }

    fn note(&self, group: Group, text: &str) {
        let line = format!("{text:<CALL_BYTES$}");
        let offset = (group.slot() * CALL_BYTES) as u64;
        if let Err(error) = self.calls.write_all_at(line.as_bytes(), offset) {
            tracing::debug!(%error, "a call was not written down");
        }
    }
}

fn letter(failure: Failure) -> u8 {
    match failure {
        Failure::Refused => b'r',
        Failure::Rejected => b'j',
        Failure::Panicked => b'p',
        Failure::Hung => b'h',
        Failure::Unavailable => b'u',
    }
}

fn calls_of(folder: &Path, process: u32) -> PathBuf {
    folder.join(format!("calls-{process}"))
}

/// How often each failure happened in any process of the run.
pub(crate) fn failures(folder: &Path) -> HashMap<Failure, u64> {
    let letters = read(folder.join(COUNTS)).unwrap_or_default(); // no file: none happened
    let count = |failure| letters.iter().filter(|found| **found == letter(failure)).count() as u64;
    Failure::ALL.map(|failure| (failure, count(failure))).into()
}

/// The last call of each group in a process.
pub(crate) fn last_calls(folder: &Path, process: u32) -> Vec<(Group, Change)> {
    let text = read_to_string(calls_of(folder, process)).unwrap_or_default();
    let call = |group: Group| {
        let line = text.get(group.slot() * CALL_BYTES..)?.get(..CALL_BYTES)?;
        let (key, ver) = line.trim_matches(['\0', ' ']).split_once(' ')?;
        let change = Change {
            key: key.to_owned(),
            ver: ver.parse().ok()?,
        };
        Some((group, change))
    };
    Group::ALL.into_iter().filter_map(call).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_wrote_down_is_read_by_another() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        let change = |ver| Change {
            key: "run--7".to_owned(),
            ver,
        };
        journal.works_on(Group::Skip, &change(100));
        journal.works_on(Group::Natural, &change(1));
        journal.works_on(Group::Natural, &change(12));
        journal.works_on(Group::Inbox, &change(3));
        journal.gave_up(Group::Inbox);
        let last = last_calls(folder.path(), std::process::id());
        assert_eq!(last, [(Group::Skip, change(100)), (Group::Natural, change(12))]);
        journal.failed(Failure::Panicked);
        Journal::open(folder.path()).unwrap().failed(Failure::Panicked);
        let found = failures(folder.path());
        assert_eq!((found[&Failure::Panicked], found[&Failure::Refused]), (2, 0));
    }
}
