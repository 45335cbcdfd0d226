//! One client connection that sends a request and waits for its answer.
//!
//! Invariant: at most one request is in flight, so an answer belongs to the request sent last.

use std::io;
use std::pin::Pin;
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use super::answer::{AnswerReader, Taken};
use super::target::Target;

pub(super) struct Connection {
    stream: TcpStream,
    reader: AnswerReader,
}

/// Why no answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// The peer closed or reset, before or during the answer.
    Closed,
    /// What came is not HTTP.
    Malformed,
}

impl Connection {
    pub(super) async fn open(target: &Target, number: usize) -> io::Result<Self> {
        Ok(Self { stream: target.connect(number).await?, reader: AnswerReader::new() })
    }

    /// Sends `request` whole and waits for the answer.
    pub(super) async fn exchange(&mut self, request: &[u8], to_head: bool) -> Result<Taken, Lost> {
        self.send(request).await?;
        self.answer(to_head).await
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        // A small request goes out in one write without waiting for readiness.
        self.stream.write_all(bytes).await.map_err(|_| Lost::Closed)
    }

    pub(super) async fn answer(&mut self, to_head: bool) -> Result<Taken, Lost> {
        loop {
            if let Some(taken) = self.reader.take(to_head).map_err(|_| Lost::Malformed)? {
                return Ok(taken);
            }
            if self.fill().await.map_err(|_| Lost::Closed)? == 0 {
                return self.reader.take_at_close().ok_or(Lost::Closed);
            }
        }
    }

    pub(super) fn body(&self, taken: &Taken) -> &[u8] {
        self.reader.body(taken)
    }

    /// Whether the peer has neither closed nor sent anything unasked.
    pub(super) fn is_open(&self) -> bool {
        let mut byte = [0];
        matches!(self.stream.try_read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether bytes of an answer wait already; for a client that would stop sending then.
    pub(super) fn has_answer(&mut self) -> bool {
        match self.stream.try_read(self.reader.space()) {
            Ok(count) => {
                self.reader.add(count);
                true
            }
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    /// Ends the writing side: the peer sees that this client has left.
    pub(super) async fn leave(mut self) {
        // A peer that closed first makes this fail, and has left as well.
        let _ = self.stream.shutdown().await;
    }

    async fn fill(&mut self) -> io::Result<usize> {
        let Self { stream, reader } = self;
        std::future::poll_fn(|cx| {
            let mut space = ReadBuf::new(reader.space());
            // `poll_read`, not `try_read`: after a read that did not fill the buffer it knows that the socket is
            // empty, and the next wait costs no system call that only says so.
            ready!(Pin::new(&mut *stream).poll_read(cx, &mut space))?;
            let count = space.filled().len();
            reader.add(count);
            Poll::Ready(Ok(count))
        })
        .await
    }
}
