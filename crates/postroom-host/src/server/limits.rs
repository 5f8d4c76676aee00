//! Limits of connections. All but their number are constants for every user; tests use shorter times.

use std::time::Duration;

use postroom::{Error, Result};

use super::serving::Serving;

const CONNECTIONS_MAX: usize = 10_000;
/// Files that stay for the rest of the process, whatever the settings say.
const FILES_KEPT: usize = 256;

/// Limits of one listener.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Open connections. Further ones wait until one of them ends.
    pub(super) connections_max: usize,
    /// TLS handshakes under way: each holds buffers and costs computing time.
    pub(super) handshakes_max: usize,
    /// From the connection to the end of the TLS handshake.
    pub(super) handshake_time_max: Duration,
    /// From the connection, or from the last response, to the end of the headers of the next request. hyper has one timer for idle
    /// connections and for slow headers.
    pub(super) headers_time_max: Duration,
    /// The same for trusted proxies, which keep connections for the next request. Longer than most proxies keep an idle connection,
    /// so that they do not send a request into one that closes.
    pub(super) headers_time_max_proxy: Duration,
    /// How long a client may take no byte of a response.
    pub(super) write_time_max: Duration,
    /// Of the request line and all headers. Their number has the limit of hyper: 100.
    pub(super) header_bytes_max: usize,
    /// How often the files of the certificate are read.
    pub(super) certificate_every: Duration,
}

impl Limits {
    /// The limits with these settings. A number of connections for which the process may not open enough files is an error.
    pub(super) fn of(serving: &Serving) -> Result<Self> {
        let files = std::fs::read_to_string("/proc/self/limits").ok();
        let files = files.as_deref().and_then(open_files);
        let connections_max = match serving.connections_max {
            None => connections_max(files),
            Some(wanted) => check_connections_max(wanted.get(), files)?,
        };
        Ok(Self {
            connections_max,
            handshakes_max: 512,
            handshake_time_max: Duration::from_secs(10),
            headers_time_max: Duration::from_secs(10),
            headers_time_max_proxy: Duration::from_secs(75),
            write_time_max: Duration::from_secs(30),
            header_bytes_max: 64 << 10,
            certificate_every: Duration::from_secs(5),
        })
    }
}

/// At most half of the files that the process may open: its clients must not take those that its store and brokers need.
fn connections_max(open_files: Option<usize>) -> usize {
    open_files.map_or(CONNECTIONS_MAX, |files| (files / 2).clamp(1, CONNECTIONS_MAX))
}

/// The number that the settings ask for, if there are enough files.
fn check_connections_max(wanted: usize, open_files: Option<usize>) -> Result<usize> {
    match open_files {
        Some(files) if wanted.saturating_add(FILES_KEPT) > files => Err(Error::invalid(format!(
            "connections_max is {wanted}, and the process may open {files} files; allow it at least {} (ulimit -n, LimitNOFILE), or choose \
             at most {}",
            wanted.saturating_add(FILES_KEPT),
            files.saturating_sub(FILES_KEPT).max(1)
        ))),
        _ => Ok(wanted),
    }
}

/// How many files this process may open, from Linux's table of its limits. None: unlimited or unknown.
fn open_files(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_rest_of_the_process() {
        let table =
            |soft: &str| format!("Limit  Soft Limit  Hard Limit  Units\nMax open files   {soft}   524288   files\n");
        let check =
            |soft: &str, expected: usize| assert_eq!(connections_max(open_files(&table(soft))), expected, "{soft}");
        check("1024", 512);
        check("1", 1);
        check("1048576", CONNECTIONS_MAX);
        check("unlimited", CONNECTIONS_MAX);
        assert_eq!(connections_max(open_files("")), CONNECTIONS_MAX);
    }

    #[test]
    fn more_connections_than_the_process_has_files_for_are_refused() {
        let check = |wanted: usize, files: Option<usize>| check_connections_max(wanted, files);
        assert_eq!(check(100_000, Some(100_256)).unwrap(), 100_000);
        assert_eq!(check(1_000_000, None).unwrap(), 1_000_000);
        let error = check(100_001, Some(100_256)).unwrap_err().report();
        assert!(
            error.contains("at least 100257") && error.contains("at most 100000"),
            "{error}"
        );
    }
}
