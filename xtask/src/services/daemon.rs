//! A process in the background, known by its pid and the moment it began.

use std::fs;
use std::time::Duration;

use crate::process;

/// How long a process may take to stop before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// The start time tells our process from a later one that was given the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) started: u64,
}

impl Process {
    pub(super) fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(Self {
            pid,
            started: start_time(&stat)?,
        })
    }

    pub(super) fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Asks it to stop, then kills it and its group: it leads one, see `Home::spawn`.
    pub(super) fn stop(self, signal: &str) {
        if !self.is_alive() {
            return;
        }
        process::signal(signal, self.pid);
        if !process::wait_until(STOP_LIMIT, || !self.is_alive()) {
            process::signal_group("KILL", self.pid);
            process::wait_until(STOP_LIMIT, || !self.is_alive());
        }
    }
}

/// The start time of a living process from its `/proc/<pid>/stat`; a zombie does not live.
fn start_time(stat: &str) -> Option<u64> {
    // The program's name stands in parentheses and may itself hold spaces and parentheses.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Process, start_time};

    #[test]
    fn the_start_time_is_read_past_an_odd_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1";
        assert_eq!(start_time(stat), Some(4242));
        assert_eq!(start_time(&stat.replace(" S ", " Z ")), None);
    }

    #[test]
    fn this_process_is_alive_and_one_with_another_start_is_not() {
        let me = Process::of(std::process::id()).expect("this process has a stat file");
        assert!(me.is_alive());
        assert!(
            !Process {
                started: me.started + 1,
                ..me
            }
            .is_alive()
        );
    }
}
