//! One connection driven by hand, without a socket or a runtime: head bytes in, a call of the service, the
//! answer pushed back, bytes out. For instruction counts and differential tests.
//!
//! ```
//! use std::sync::Arc;
//! use oxb_http::harness::Harness;
//! use oxb_http::options::ServerOptions;
//! use oxb_http::router::RouterBuilder;
//! use oxb_http::service::Handlers;
//!
//! let mut harness = Harness::new(RouterBuilder::new().build(), Arc::new(Handlers::new()), ServerOptions::default())?;
//! harness.feed(b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n");
//! assert!(harness.turn());
//! assert!(harness.taken().starts_with(b"HTTP/1.1 404 Not Found\r\n"));
//! # Ok::<(), std::io::Error>(())
//! ```

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use oxb_core::ReturnQueue;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use crate::connection::Connection;
use crate::io_thread;
use crate::options::ServerOptions;
use crate::router::Router;
use crate::service::Service;
use crate::site::{RouteOptions, Site};
use crate::transport::Transport;

/// What the connection reads from and writes to.
#[derive(Debug, Default)]
struct Pipe {
    input: Vec<u8>,
    read: usize,
    output: Vec<u8>,
    is_shut: bool,
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let waiting = &this.input[this.read..];
        if waiting.is_empty() {
            return Poll::Pending;
        }
        let count = waiting.len().min(buf.remaining());
        buf.put_slice(&waiting[..count]);
        this.read += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.output.extend_from_slice(buf);
        Poll::Ready(Ok(buf.len()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_shut = true;
        Poll::Ready(Ok(()))
    }
}

impl Transport for Pipe {
    fn end_in_reset(&self, _: bool) {}

    fn is_sent(&self) -> bool {
        true
    }
}

/// A connection driven by hand. One at a time on a thread.
pub struct Harness {
    connection: Connection<Pipe>,
    is_over: bool,
}

impl Harness {
    /// Makes the calling thread an I/O thread with one connection.
    ///
    /// # Errors
    /// When the system gives no descriptor for the way back.
    pub fn new(router: Router, service: Arc<dyn Service>, options: ServerOptions) -> io::Result<Self> {
        Self::with_route_options(router, Vec::new(), service, options)
    }

    /// The same with what routes say beyond their paths.
    ///
    /// # Errors
    /// When the system gives no descriptor for the way back.
    pub fn with_route_options(
        router: Router,
        route_options: Vec<RouteOptions>,
        service: Arc<dyn Service>,
        options: ServerOptions,
    ) -> io::Result<Self> {
        let site = Arc::new(Site::new(router, route_options, service, options));
        let returns = Arc::new(ReturnQueue::new()?);
        io_thread::install(0, Arc::clone(&site), returns, Arc::new(Notify::new()), Arc::new(Notify::new()));
        Ok(Self { connection: Connection::new(Pipe::default(), site, None), is_over: false })
    }

    /// Bytes the client sends.
    pub fn feed(&mut self, bytes: &[u8]) {
        let pipe = self.connection.transport_mut();
        pipe.input.clear();
        pipe.read = 0;
        pipe.input.extend_from_slice(bytes);
    }

    /// One wake of the I/O thread: the connection is polled, owed wakes are flushed and what came back is
    /// delivered. False once the connection has closed.
    pub fn turn(&mut self) -> bool {
        io_thread::unpark();
        self.poll();
        io_thread::park();
        !self.is_over
    }

    /// One poll of the connection on a thread that is busy: nothing is flushed or delivered before it sleeps.
    /// False once the connection has closed.
    pub fn poll(&mut self) -> bool {
        if !self.is_over {
            let mut cx = Context::from_waker(Waker::noop());
            self.is_over = Pin::new(&mut self.connection).poll(&mut cx).is_ready();
        }
        !self.is_over
    }

    /// Takes what the client would have received since the last call.
    pub fn taken(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.connection.transport_mut().output)
    }

    /// Forgets what the client would have received and keeps its buffer; says how many bytes it was.
    pub fn forget(&mut self) -> usize {
        let output = &mut self.connection.transport_mut().output;
        let count = output.len();
        output.clear();
        count
    }

    /// Whether the write side was shut.
    #[must_use]
    pub fn is_shut(&mut self) -> bool {
        self.connection.transport_mut().is_shut
    }
}

impl std::fmt::Debug for Harness {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Harness").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}
