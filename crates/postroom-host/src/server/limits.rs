//! Limits of connections. They are constants for every user; tests use shorter times.

use std::time::Duration;

const CONNECTIONS_MAX: usize = 10_000;

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

impl Default for Limits {
    fn default() -> Self {
        let files = std::fs::read_to_string("/proc/self/limits").ok();
        Self {
            connections_max: connections_max(files.as_deref().and_then(open_files)),
            handshakes_max: 512,
            handshake_time_max: Duration::from_secs(10),
            headers_time_max: Duration::from_secs(10),
            headers_time_max_proxy: Duration::from_secs(75),
            write_time_max: Duration::from_secs(30),
            header_bytes_max: 64 << 10,
            certificate_every: Duration::from_secs(5),
        }
    }
}

/// At most half of the files that the process may open: its clients must not take those that its store and brokers need.
fn connections_max(open_files: Option<usize>) -> usize {
    open_files.map_or(CONNECTIONS_MAX, |files| (files / 2).clamp(1, CONNECTIONS_MAX))
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
}
