//! Reading and writing one connection's socket: what was read and not used yet, and what waits to be written.
//!
//! Invariant 10 of ARCHITECTURE.md: bytes are read only when somebody asks for them, so what is pending is one
//! head or at most [`READ_AHEAD`] and one read more; a connection that waits holds no buffer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::ReadBuf;

use crate::io_thread::{self, Timed};
use crate::output::Output;
use crate::transport::Transport;

/// Pipelined bytes read ahead while a request is in progress.
const READ_AHEAD: usize = 64 * 1024;

/// The connection is broken.
#[derive(Debug)]
pub(crate) struct Broken;

/// A socket and the bytes on both sides of it.
pub(crate) struct Socket<T> {
    transport: T,
    seat: u32,
    input: Vec<u8>,
    start: usize,
    is_eof: bool,
    pub(crate) output: Output,
}

impl<T> Socket<T> {
    pub(crate) fn new(transport: T, seat: u32) -> Self {
        Self { transport, seat, input: Vec::new(), start: 0, is_eof: false, output: Output::default() }
    }

    #[cfg(feature = "harness")]
    pub(crate) fn transport_mut(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Bytes that were read and not used yet.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.input[self.start..]
    }

    /// The client has shut its side.
    pub(crate) fn is_eof(&self) -> bool {
        self.is_eof
    }

    /// The first `count` pending bytes were used. With the last of them goes the buffer.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start == self.input.len() {
            self.input = Vec::new();
            self.start = 0;
        }
    }

    /// Moves the first `count` pending bytes out; where they are all there is, without copying.
    pub(crate) fn take(&mut self, count: usize) -> Bytes {
        if self.start == 0 && count == self.input.len() {
            return Bytes::from(std::mem::take(&mut self.input));
        }
        let taken = Bytes::copy_from_slice(&self.input[self.start..self.start + count]);
        self.consume(count);
        taken
    }

    /// Forgets what is pending.
    pub(crate) fn discard_pending(&mut self) {
        self.consume(self.input.len() - self.start);
    }
}

impl<T: Transport> Socket<T> {
    /// From now on closing resets the connection, or no longer does.
    pub(crate) fn end_in_reset(&self, is_reset: bool) {
        self.transport.end_in_reset(is_reset);
    }

    /// Whether the system has sent all that was written.
    pub(crate) fn is_sent(&self) -> bool {
        self.transport.is_sent()
    }

    /// Reads what is there behind what is pending. 0: the client has shut its side.
    pub(crate) fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Broken>> {
        if self.is_eof {
            return Poll::Ready(Ok(0));
        }
        let mut scratch = io_thread::take_scratch();
        let mut buf = ReadBuf::new(&mut scratch);
        let outcome = Pin::new(&mut self.transport).poll_read(cx, &mut buf);
        let outcome = match outcome {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(_)) => Poll::Ready(Err(Broken)),
            Poll::Ready(Ok(())) => {
                let read = buf.filled();
                if self.input.is_empty() {
                    self.input = read.to_vec();
                } else {
                    if self.start > 0 {
                        self.input.drain(..self.start);
                        self.start = 0;
                    }
                    self.input.extend_from_slice(read);
                }
                self.is_eof = read.is_empty();
                Poll::Ready(Ok(read.len()))
            }
        };
        io_thread::give_scratch(scratch);
        outcome
    }

    /// While a request is in progress: ready when the client has gone. Reads a bounded piece ahead.
    pub(crate) fn watch(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.pending().len() < READ_AHEAD {
            match ready!(self.read(cx)) {
                Ok(0) | Err(Broken) => return Poll::Ready(()),
                Ok(_) => {}
            }
        }
        Poll::Pending
    }

    /// Writes what waits. `Err`: the connection is broken.
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        if self.output.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let mut taken = 0;
        let outcome = self.output.poll_flush(&mut self.transport, cx, &mut taken);
        match outcome {
            Poll::Ready(Ok(())) => {
                io_thread::give_out(std::mem::take(&mut self.output.buf));
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(Broken)),
            Poll::Pending => {
                io_thread::with(|io| {
                    io.wait_for(self.seat, Timed::Write);
                    if taken > 0 {
                        io.moved(self.seat);
                    }
                });
                Poll::Pending
            }
        }
    }

    /// Shuts the write side.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(cx)
    }
}
