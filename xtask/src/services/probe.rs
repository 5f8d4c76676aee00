//! A first word to a broker, to see whether it answers: no client library needed.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(2);

/// Sends bytes to a local port and reads the first bytes of the answer.
pub(super) fn ask<const LENGTH: usize>(port: u16, question: &[u8]) -> Option<[u8; LENGTH]> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, LIMIT).ok()?;
    stream.set_read_timeout(Some(LIMIT)).ok()?;
    stream.write_all(question).ok()?;
    let mut answer = [0; LENGTH];
    stream.read_exact(&mut answer).ok()?;
    Some(answer)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    use super::ask;

    #[test]
    fn the_first_bytes_of_the_answer_are_returned() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = [0; 4];
            stream.read_exact(&mut question).unwrap();
            stream.write_all(b"+PONG\r\n").unwrap();
            question
        });
        assert_eq!(ask(port, b"PING"), Some(*b"+PONG"));
        assert_eq!(&server.join().unwrap(), b"PING");
    }

    #[test]
    fn nobody_there_is_no_answer() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        assert_eq!(ask::<1>(port, b"PING"), None);
    }
}
