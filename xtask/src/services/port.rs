//! Free ports on 127.0.0.1, the same ones at each start when they are still free.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

use anyhow::{Result, bail};

/// Below the range from which Linux takes ports for outgoing connections.
pub(super) const RANGE: Range<u16> = 20_000..30_000;

/// Keeps the `stored` ports that are free and looks for the rest upwards of `first`, round the range.
pub(super) fn choose(stored: &[u16], first: u16, count: usize, is_free: impl Fn(u16) -> bool) -> Result<Vec<u16>> {
    let mut ports: Vec<u16> = stored
        .iter()
        .copied()
        .filter(|port| is_free(*port))
        .take(count)
        .collect();
    for port in (first..RANGE.end).chain(RANGE.start..first) {
        if ports.len() == count {
            return Ok(ports);
        }
        if !ports.contains(&port) && is_free(port) {
            ports.push(port);
        }
    }
    if ports.len() < count {
        bail!("no free port between {} and {}", RANGE.start, RANGE.end);
    }
    Ok(ports)
}

pub(super) fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::{RANGE, choose, is_free};

    #[test]
    fn stored_ports_are_kept_while_they_are_free() {
        assert_eq!(
            choose(&[21_000, 21_001], 25_000, 2, |_| true).unwrap(),
            [21_000, 21_001]
        );
        assert_eq!(
            choose(&[21_000, 21_001], 25_000, 2, |port| port != 21_000).unwrap(),
            [21_001, 25_000]
        );
    }

    #[test]
    fn the_search_goes_round_the_range() {
        assert_eq!(
            choose(&[], RANGE.end - 1, 2, |_| true).unwrap(),
            [RANGE.end - 1, RANGE.start]
        );
    }

    #[test]
    fn no_free_port_is_an_error() {
        assert!(choose(&[], 25_000, 1, |_| false).is_err());
    }

    #[test]
    fn a_port_that_listens_is_not_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(!is_free(listener.local_addr().unwrap().port()));
    }
}
