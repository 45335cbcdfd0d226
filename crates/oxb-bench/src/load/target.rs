//! Where requests go and what they are, as bytes.
//!
//! Invariant: a request is built once and sent as it is; nothing about it is made up per request but its token.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use tokio::net::{TcpSocket, UnixStream};

use super::transport::Transport;

/// A server's address, and the addresses connections to it come from.
#[derive(Debug, Clone)]
pub struct Target {
    address: Address,
    host: String,
    path: String,
    sources: Vec<IpAddr>,
}

#[derive(Debug, Clone)]
enum Address {
    Ip(SocketAddr),
    Unix(PathBuf),
}

/// The text is not `http://host:port/path`.
#[derive(Debug, PartialEq, Eq)]
pub struct BadUrl(pub String);

impl std::fmt::Display for BadUrl {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "`{}` is not http://host:port/path", self.0)
    }
}

impl std::error::Error for BadUrl {}

impl Target {
    /// Reads `http://host:port/path`; the name is resolved once.
    ///
    /// # Errors
    /// Any other text, or a name that does not resolve.
    ///
    /// ```
    /// use oxb_bench::load::Target;
    /// assert_eq!(Target::parse("http://127.0.0.1:8000/a?b=c").unwrap().path(), "/a?b=c");
    /// assert!(Target::parse("https://127.0.0.1/").is_err());
    /// ```
    pub fn parse(url: &str) -> Result<Self, BadUrl> {
        let bad = || BadUrl(url.to_owned());
        let rest = url.strip_prefix("http://").ok_or_else(bad)?;
        let (host, path) = match rest.find(['/', '?']) {
            Some(end) => rest.split_at(end),
            None => (rest, "/"),
        };
        let with_port = if host.rsplit(']').next().is_some_and(|end| end.contains(':')) {
            host.to_owned()
        } else {
            format!("{host}:80")
        };
        let address = with_port.to_socket_addrs().ok().and_then(|mut found| found.next()).ok_or_else(bad)?;
        let address = Address::Ip(address);
        Ok(Self { address, host: host.to_owned(), path: path.to_owned(), sources: Vec::new() })
    }

    /// Binds connections to these local addresses in turn: one address has some 28,000 ports.
    #[must_use]
    pub fn from_sources(mut self, sources: Vec<IpAddr>) -> Self {
        self.sources = sources;
        self
    }

    /// The same server, another path.
    #[must_use]
    pub fn at(&self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self.clone() }
    }

    /// Path and query of the URL.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Host and port as in the URL.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The same requests over a Unix socket.
    #[must_use]
    pub fn over_unix(self, socket: PathBuf) -> Self {
        Self { address: Address::Unix(socket), ..self }
    }

    /// Connects the connection of that number, with NODELAY.
    pub(super) async fn connect(&self, number: usize) -> io::Result<Transport> {
        self.connect_with(number, None).await
    }

    /// The same with a receive buffer of so many bytes, for a client that is slow to read. Unix sockets have none.
    pub(super) async fn connect_with(
        &self,
        number: usize,
        receive_buffer: Option<u32>,
    ) -> io::Result<Transport> {
        let address = match &self.address {
            Address::Unix(path) => return Ok(Transport::Unix(UnixStream::connect(path).await?)),
            Address::Ip(address) => *address,
        };
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        if let Some(size) = receive_buffer {
            socket.set_recv_buffer_size(size)?;
        }
        if !self.sources.is_empty() {
            socket.bind(SocketAddr::new(self.sources[number % self.sources.len()], 0))?;
        }
        let stream = socket.connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Transport::Tcp(stream))
    }
}

/// One request.
#[derive(Debug, Clone, Default)]
pub struct RequestSpec {
    /// `GET` where empty.
    pub method: String,
    /// Path and query; those of the target where empty.
    pub path: String,
    /// Header fields; Host and Content-Length are added where they are not among them.
    pub headers: Vec<(String, String)>,
    /// The body; a length is sent where it is not empty.
    pub body: Vec<u8>,
}

impl RequestSpec {
    /// The method as sent.
    pub fn method(&self) -> &str {
        if self.method.is_empty() { "GET" } else { &self.method }
    }

    /// The bytes of the request to `target`.
    ///
    /// ```
    /// use oxb_bench::load::{RequestSpec, Target};
    /// let target = Target::parse("http://127.0.0.1:8000/a").unwrap();
    /// assert_eq!(RequestSpec::default().bytes(&target), b"GET /a HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n\r\n");
    /// ```
    pub fn bytes(&self, target: &Target) -> Vec<u8> {
        // RFC 9110 section 8.6: a method that is meant to have a body says so where there is none.
        let wants_length =
            !self.body.is_empty() || matches!(self.method(), "POST" | "PUT" | "PATCH" | "QUERY");
        let length = format!("Content-Length: {}\r\n", self.body.len());
        let mut bytes = self.head(target, if wants_length { &length } else { "" });
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// The head alone, with `framing` among its fields unless the request has its own.
    pub(super) fn head(&self, target: &Target, framing: &str) -> Vec<u8> {
        let path = if self.path.is_empty() { &target.path } else { &self.path };
        let mut text = format!("{} {path} HTTP/1.1\r\n", self.method());
        if !self.has("host") {
            text.push_str(&format!("Host: {}\r\n", target.host));
        }
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.has("content-length") && !self.has("transfer-encoding") {
            text.push_str(framing);
        }
        text.push_str("\r\n");
        text.into_bytes()
    }

    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
    }
}
