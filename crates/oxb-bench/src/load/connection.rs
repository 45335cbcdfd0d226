//! One client connection that sends requests and waits for their answers.
//!
//! Invariant: nothing here waits without progress for longer than the connection's time limit and a quarter more, and
//! answers are taken in the order in which their requests were sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::Sleep;

use super::answer::{AnswerReader, Taken};
use super::outcome::Failure;
use super::tally::Seen;
use super::target::Target;
use super::transport::Transport;

/// For an answer, or the next part of one, where nothing else was said.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

pub(super) struct Connection {
    transport: Transport,
    reader: AnswerReader,
    alarm: Alarm,
}

/// Rings four times within the time limit and looks whether anything was done since: a request that ends in time
/// neither sets a timer nor asks for the time.
struct Alarm {
    quarter: Duration,
    idle_quarters: u8,
    sleep: Pin<Box<Sleep>>,
}

impl Connection {
    pub(super) async fn open(target: &Target, number: usize, limit: Duration) -> Result<Self, Failure> {
        Self::open_narrow(target, number, limit, None).await
    }

    /// The same with a receive buffer of that many bytes.
    pub(super) async fn open_narrow(
        target: &Target,
        number: usize,
        limit: Duration,
        receive_buffer: Option<u32>,
    ) -> Result<Self, Failure> {
        let connect = target.connect_with(number, receive_buffer);
        match tokio::time::timeout(limit, connect).await {
            Ok(Ok(transport)) => {
                Ok(Self { transport, reader: AnswerReader::new(), alarm: Alarm::new(limit) })
            }
            Ok(Err(_)) | Err(_) => Err(Failure::Connect),
        }
    }

    /// Sends `request` whole and waits for the answer.
    pub(super) async fn exchange(&mut self, request: &[u8], to_head: bool) -> Result<(Taken, Seen), Failure> {
        self.send(request).await?;
        self.answer(to_head).await
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.alarm.note_progress();
        let mut left = bytes;
        // A small request goes out in one write without waiting for readiness.
        while !left.is_empty() {
            let count = std::future::poll_fn(|cx| self.poll_write(cx, left)).await?;
            left = &left[count..];
        }
        Ok(())
    }

    /// Sends `bytes` unless an answer comes first. How many bytes went out.
    pub(super) async fn send_unless_answered(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        self.alarm.note_progress();
        let mut sent = 0;
        while sent < bytes.len() {
            let count = std::future::poll_fn(|cx| match self.poll_write(cx, &bytes[sent..]) {
                // The peer reads no further; perhaps because it has said all it has to say.
                Poll::Pending => self.poll_fill(cx).map_ok(|_| 0),
                ready => ready,
            });
            match count.await? {
                0 => break,
                count => sent += count,
            }
        }
        Ok(sent)
    }

    /// The next answer. The time limit counts from the last byte that was sent or came.
    pub(super) async fn answer(&mut self, to_head: bool) -> Result<(Taken, Seen), Failure> {
        let (mut head, mut first_byte, mut last) = (None, None, None);
        loop {
            if let Some(taken) = self.reader.take(to_head).map_err(|_| Failure::Protocol)? {
                // It may have come with the answer before.
                return Ok(self.seen(taken, head, first_byte, last.unwrap_or_else(Instant::now)));
            }
            if head.is_none() && self.reader.has_head() {
                head = last;
            }
            if first_byte.is_none() && self.reader.has_body_byte() {
                first_byte = last;
            }
            let count = self.fill().await?;
            let end = *last.insert(Instant::now());
            if count == 0 {
                let is_midway = self.reader.is_midway();
                return match self.reader.take_at_close() {
                    Some(taken) => Ok(self.seen(taken, head, first_byte, end)),
                    None => Err(if is_midway { Failure::Cut } else { Failure::Closed }),
                };
            }
        }
    }

    fn seen(
        &self,
        taken: Taken,
        head: Option<Instant>,
        first_byte: Option<Instant>,
        end: Instant,
    ) -> (Taken, Seen) {
        let has_body = !self.reader.body(&taken).is_empty();
        let first_byte = if has_body { Some(first_byte.unwrap_or(end)) } else { None };
        (taken, Seen { head: head.unwrap_or(end), first_byte, end })
    }

    pub(super) fn body(&self, taken: &Taken) -> &[u8] {
        self.reader.body(taken)
    }

    /// What came and was not taken, for one that reads bodies piece by piece.
    pub(super) fn reader(&mut self) -> &mut AnswerReader {
        &mut self.reader
    }

    /// Whether the peer has neither closed nor sent anything unasked.
    pub(super) fn is_open(&self) -> bool {
        let mut byte = [0];
        matches!(self.transport.try_read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Reads what is there into `buf`: `None` where nothing is, 0 at the end, which a reset is as well.
    pub(super) fn try_read(&mut self, buf: &mut [u8]) -> Option<usize> {
        let rest = self.reader.rest();
        let count = rest.len().min(buf.len());
        if count > 0 {
            buf[..count].copy_from_slice(&rest[..count]);
            self.reader.skip(count);
            return Some(count);
        }
        match self.transport.try_read(buf) {
            Ok(count) => Some(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(_) => Some(0),
        }
    }

    /// Whether bytes of an answer wait already; for a client that would stop sending then.
    pub(super) fn has_answer(&mut self) -> bool {
        match self.transport.try_read(self.reader.space()) {
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
        let _ = self.transport.shutdown().await;
    }

    /// Reads what comes next; 0 at the end. The time limit begins anew.
    pub(super) async fn fill(&mut self) -> Result<usize, Failure> {
        self.alarm.note_progress();
        std::future::poll_fn(|cx| self.poll_fill(cx)).await
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        let mut space = ReadBuf::new(self.reader.space());
        // `poll_read`, not `try_read`: after a read that did not fill the buffer it knows that the socket is empty,
        // and the next wait costs no system call that only says so.
        match Pin::new(&mut self.transport).poll_read(cx, &mut space) {
            Poll::Pending => self.alarm.poll(cx).map(Err),
            Poll::Ready(Err(error)) => Poll::Ready(Err(Failure::of(&error))),
            Poll::Ready(Ok(())) => {
                let count = space.filled().len();
                self.reader.add(count);
                Poll::Ready(Ok(count))
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Failure>> {
        match Pin::new(&mut self.transport).poll_write(cx, bytes) {
            Poll::Pending => self.alarm.poll(cx).map(Err),
            Poll::Ready(result) => Poll::Ready(result.map_err(|error| Failure::of(&error))),
        }
    }
}

impl Alarm {
    fn new(limit: Duration) -> Self {
        let quarter = limit / 4;
        Self { quarter, idle_quarters: 0, sleep: Box::pin(tokio::time::sleep(quarter)) }
    }

    fn note_progress(&mut self) {
        self.idle_quarters = 0;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Failure> {
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            // The first quarter may have begun long before the request did.
            if self.idle_quarters == 4 {
                return Poll::Ready(Failure::Timeout);
            }
            self.idle_quarters += 1;
            self.sleep.as_mut().reset(tokio::time::Instant::now() + self.quarter);
        }
    }
}
