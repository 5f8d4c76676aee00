//! Connections whose other end has vanished without a word: a client that lost its network, a machine that lost its power.
//!
//! Without limits, what is written to such a connection goes into a buffer of the system, and the system tries to send it for a quarter
//! of an hour.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// How long bytes that were sent may stay without a confirmation. Longer than the pause between two pings of a stream, so that an
/// interruption of the network between them ends nothing.
const UNCONFIRMED_MAX: Duration = Duration::from_secs(40);
/// When nothing is sent, the system asks after the first time, and then after the second.
const PROBES: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));

/// Sets the limits of the system.
pub(super) fn limit(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let (first, next) = PROBES;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(first).with_interval(next))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNCONFIRMED_MAX))?;
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn the_system_gives_up_a_connection_whose_other_end_has_vanished() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (server, _) = accepted.unwrap();
        limit(&server).unwrap();
        let socket = SockRef::from(&server);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(UNCONFIRMED_MAX));
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), PROBES.0);
        drop(client);
    }
}
