//! Where a server under test is reached: a port of this machine, or a Unix socket.
//!
//! **Invariant:** whoever waits for an answer here waits ten seconds for each part of it and no longer.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::error::Error;

const PATIENCE: Duration = Duration::from_secs(10);

/// An address that a server is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// Of 127.0.0.1.
    Port(u16),
    /// The path of a Unix socket.
    Socket(PathBuf),
}

/// A connection over either.
pub(crate) trait Connection: Read + Write {}
impl<T: Read + Write> Connection for T {}

impl Address {
    /// A port of its own.
    pub(crate) fn port() -> Result<Self, Error> {
        free_port().map(Self::Port)
    }

    /// A socket of its own, among temporary files: the path of one has a hundred bytes.
    pub(crate) fn socket() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        // Relaxed: a number of its own is all that is asked for.
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self::Socket(std::env::temp_dir().join(format!("oxb-bench-{}-{number}.sock", std::process::id())))
    }

    /// Puts it where a word of a command line names it: `{port}` or `{socket}`.
    pub(crate) fn fill(&self, word: &str) -> String {
        match self {
            Self::Port(port) => word.replace("{port}", &port.to_string()),
            Self::Socket(path) => word.replace("{socket}", &path.to_string_lossy()),
        }
    }

    /// Connects.
    pub(crate) fn connect(&self) -> std::io::Result<Box<dyn Connection>> {
        match self {
            Self::Port(port) => {
                let stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, *port)))?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Ok(Box::new(stream))
            }
            Self::Socket(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Ok(Box::new(stream))
            }
        }
    }

    /// The URL of a path there; over a socket the host is only a name.
    pub(crate) fn url(&self, path: &str) -> String {
        match self {
            Self::Port(port) => format!("http://127.0.0.1:{port}{path}"),
            Self::Socket(_) => format!("http://localhost{path}"),
        }
    }

    /// One request of a client that closes afterwards; the body. An error unless the status is 200.
    pub(crate) fn get(&self, path: &str) -> std::io::Result<Vec<u8>> {
        let mut stream = self.connect()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
        match end {
            Some(end) if answer.starts_with(b"HTTP/1.1 200") => Ok(answer.split_off(end + 4)),
            _ => Err(std::io::Error::other(String::from_utf8_lossy(&answer).into_owned())),
        }
    }
}

/// A port nobody listens on at this moment, and that no connection is given as its own.
///
/// Whoever waits for a server connects until it listens. On a port that the system hands out to connections, that
/// attempt can get the very port it connects to: it succeeds with itself, and the server can no longer bind.
fn free_port() -> Result<u16, Error> {
    let (low, high) = connection_ports();
    let start = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let offset = start.map_or(0, |since| since.subsec_nanos()) / 1000 + std::process::id();
    let candidates: Vec<u16> = (10_000..low).chain(high.saturating_add(1)..u16::MAX).collect();
    let count = candidates.len().max(1);
    let mut ports = candidates.iter().cycle().skip(offset as usize % count).take(count);
    ports
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, **port)).is_ok())
        .copied()
        .ok_or_else(|| Error::failed("no free port outside those that connections are given"))
}

/// The first and the last port of those that the system gives to connections.
fn connection_ports() -> (u16, u16) {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut numbers = text.split_ascii_whitespace().flat_map(str::parse);
    // Where it cannot be asked: what RFC 6335 calls dynamic.
    (numbers.next().unwrap_or(49152), numbers.next().unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_to_serve_on_is_none_that_a_connection_may_be_given() {
        let (low, high) = connection_ports();
        for _ in 0..100 {
            let port = free_port().unwrap();
            assert!(port < low || port > high, "{port} is one of {low}-{high}");
            assert!(Address::Port(port).connect().is_err(), "nobody listens, not even itself");
        }
    }

    #[test]
    fn a_socket_is_answered_over_like_a_port() {
        let address = Address::socket();
        assert_ne!(address, Address::socket(), "each server has its own");
        let Address::Socket(path) = &address else { unreachable!("it is a socket") };
        let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut piece = [0; 1024];
            let length = stream.read(&mut piece).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").unwrap();
            String::from_utf8_lossy(&piece[..length]).into_owned()
        });
        assert_eq!(address.get("/a").unwrap(), b"hi");
        assert!(server.join().unwrap().starts_with("GET /a HTTP/1.1\r\n"));
        assert_eq!(address.fill("--uds {socket}"), format!("--uds {}", path.display()));
        std::fs::remove_file(path).unwrap();
    }
}
