//! What a server is told: limits and timeouts. Defaults are those of the Python API.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::access_log::AccessLog;
use crate::cors::Cors;
use crate::health::Health;

/// Where to listen.
#[derive(Debug)]
pub enum Place {
    /// An address and port; port 0 takes a free one.
    Tcp {
        /// IP literal (IPv6 with or without brackets) or a name, resolved once.
        host: String,
        /// 0 to 65535.
        port: u16,
    },
    /// A Unix socket.
    Unix {
        /// Path of the socket file.
        path: PathBuf,
        /// Rights of a socket file made new.
        mode: u32,
    },
    /// A socket that already listens, inherited from the process's parent.
    Inherited(OwnedFd),
}

/// Limits and timeouts of a server. A timeout of `None` never fires.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Connections the OS may keep waiting.
    pub backlog: u32,
    /// Threads that own connections.
    pub io_threads: usize,
    /// Connections held; when full, accepting stops.
    pub max_connections: usize,
    /// Bytes in a request body, unless the route has its own limit.
    pub max_body: u64,
    /// Bytes of collected bodies in the whole server.
    pub max_buffered: u64,
    /// From hand-over to the first part of the answer; then 504.
    pub request_timeout: Option<Duration>,
    /// From hand-over until a loop begins the request; then 503.
    pub queue_timeout: Option<Duration>,
    /// For the first byte of a new connection, and for a head from its first byte to its end; then closed.
    pub header_timeout: Option<Duration>,
    /// For the next request of a connection with nothing in progress; then closed.
    pub keep_alive_timeout: Option<Duration>,
    /// Without a byte of a body that is being read; then 408.
    pub body_timeout: Option<Duration>,
    /// Without the client taking a byte of what waits for it; then closed.
    pub write_timeout: Option<Duration>,
    /// Who may call from other origins; `None`: browsers let nobody.
    pub cors: Option<Arc<Cors>>,
    /// Where requests are told of when their responses end; `None`: nowhere.
    pub access_log: Option<Arc<AccessLog>>,
    /// Probes that are answered before anything else is looked at.
    pub health: Option<Arc<Health>>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            backlog: 2048,
            io_threads: 1,
            max_connections: 2048,
            max_body: 16 * 1024 * 1024,
            max_buffered: 256 * 1024 * 1024,
            request_timeout: Some(Duration::from_secs(30)),
            queue_timeout: None,
            header_timeout: Some(Duration::from_secs(15)),
            keep_alive_timeout: Some(Duration::from_secs(75)),
            body_timeout: Some(Duration::from_secs(30)),
            write_timeout: Some(Duration::from_secs(30)),
            cors: None,
            access_log: None,
            health: None,
        }
    }
}
