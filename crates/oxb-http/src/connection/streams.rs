//! Answers that come piece by piece, whole or broken off.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::inflows::settled;
use super::{Asked, Connection, Fed, FileEnd, Phase, Streaming, Turn, files, persisting};
use crate::exchange::{Feed, FeedWaker, HIGH_WATER, Part};
use crate::io_thread::{self, Timed};
use crate::output::Output;
use crate::reply::ReplyHead;
use crate::service::Notice;
use crate::socket::Broken;
use crate::streaming::StreamBody;
use crate::transport::Transport;
use crate::wire::{self, BodyWire};

/// Before a reset: how often the system is asked whether all is sent, and then the time the last of it has to
/// arrive, which is that of one retransmission (RFC 6298 has 200 ms in practice).
const SENT_LOOK: Duration = Duration::from_millis(20);
const ARRIVAL: Duration = Duration::from_millis(250);
/// Pieces of a feed that wait on its connection (api.md 11.6).
const FEED_PIECES: usize = 64;

impl<T: Transport> Connection<T> {
    pub(super) fn begin_stream(&mut self, asked: Asked, head: &ReplyHead, declared: Option<u64>) -> Turn {
        let declared = match head.check().and_then(|()| head.length(declared)) {
            Ok(declared) => declared,
            Err(error) => {
                self.give_up_stream_source();
                let rest = self.end_exchange();
                return self.answer_bad_head(asked, &error, rest);
            }
        };
        let bodyless = wire::bodyless(head.status);
        let body = match (bodyless, declared) {
            (Some(framing), _) => framing,
            (None, Some(length)) => BodyWire::Length(length),
            (None, None) if asked.is_head => BodyWire::None,
            (None, None) if asked.is_http10 => BodyWire::UntilClose,
            (None, None) => BodyWire::Chunked,
        };
        let closes = wire::asks_to_close(head) || body == BodyWire::UntilClose;
        if bodyless.is_some() || asked.is_head {
            self.give_up_stream_source();
            let rest = self.end_exchange();
            let asked = settled(asked, closes, &rest);
            self.write_reply_head(asked, head, body);
            return self.after_exchange(asked, rest);
        }
        let asked = persisting(asked, closes | self.forgo_continue());
        self.write_reply_head(asked, head, body);
        if body == BodyWire::UntilClose {
            // However it ends from here on, a body that is not whole must not look so.
            self.socket.end_in_reset(true);
        }
        io_thread::with(|io| io.set_deadline(self.seat, None));
        let Phase::Handed(mut handed) = std::mem::replace(&mut self.phase, Phase::Head) else {
            return Turn::Again;
        };
        handed.asked = asked;
        self.phase = Phase::Streaming(Box::new(Streaming {
            handed,
            body: StreamBody::new(body, declared),
            feed: None,
            file: None,
        }));
        Turn::Again
    }

    /// As [`begin_stream`](Self::begin_stream), and the body comes from `feed`.
    pub(super) fn begin_feed(&mut self, asked: Asked, head: &ReplyHead, feed: Feed) -> Turn {
        let turn = self.begin_stream(asked, head, None);
        if let Phase::Streaming(streaming) = &mut self.phase {
            let idle = feed.idle.as_ref().map(|(after, _)| *after);
            let (waker, since) = io_thread::with(|io| {
                io.set_deadline(self.seat, idle);
                io.set_fed(self.seat);
                (FeedWaker::waker(Arc::clone(io.returns()), io.token(self.seat)), io.now())
            });
            streaming.feed = Some(Fed { feed, waker, since });
        }
        turn
    }

    /// The deadline of a feed has passed, or of a disk.
    pub(super) fn stream_is_due(&mut self) -> Turn {
        let has_part = io_thread::with(|io| io.has_part(self.seat));
        match &self.phase {
            Phase::Streaming(streaming) if streaming.file.is_some() && !has_part => self.break_off_stream(),
            _ => self.feed_is_idle(),
        }
    }

    /// The deadline of a feed has passed: whatever came meanwhile, something is sent at least that often.
    fn feed_is_idle(&mut self) -> Turn {
        let Phase::Streaming(streaming) = &mut self.phase else { return Turn::Again };
        let Some(Fed { feed, since, .. }) = &mut streaming.feed else { return Turn::Again };
        let Some((after, piece)) = &feed.idle else { return Turn::Again };
        let now = io_thread::with(|io| io.now());
        let quiet = Duration::from_micros(now.0.saturating_sub(since.0));
        let left = after.saturating_sub(quiet);
        // Where the client takes nothing, another piece would tell it nothing.
        if left.is_zero() && self.socket.output.is_empty() {
            *since = now;
            // A feed declares no length, so a piece always fits.
            drop(streaming.body.push(piece.clone(), &mut self.socket.output));
        }
        let next = if left.is_zero() { *after } else { left };
        io_thread::with(|io| io.set_deadline(self.seat, Some(next)));
        Turn::Again
    }

    /// The source of a stream that sends no body is closed at once (api.md 2.6).
    pub(super) fn give_up_stream_source(&self) {
        let Phase::Handed(handed) = &self.phase else { return };
        if handed.exchange.abandon() {
            self.notify(Notice::Abandoned(Arc::clone(&handed.exchange)));
        }
    }

    pub(super) fn turn_streaming(&mut self, cx: &mut Context<'_>) -> Turn {
        let Phase::Streaming(streaming) = &mut self.phase else { return Turn::Again };
        while let Some(part) = io_thread::with(|io| io.take_part(self.seat)) {
            let outcome = match part {
                Part::Chunk(bytes) => {
                    if let Some(file) = &mut streaming.file {
                        file.took(bytes.len());
                        io_thread::with(|io| io.set_deadline(self.seat, None));
                    }
                    streaming.body.push(bytes, &mut self.socket.output)
                }
                Part::End => streaming.body.end(&mut self.socket.output),
                Part::Failed
                | Part::Dropped
                | Part::Overloaded
                | Part::Whole(_)
                | Part::Head(..)
                | Part::Feed(..)
                | Part::Open(_)
                | Part::File(_) => {
                    return self.break_off_stream();
                }
            };
            if outcome.is_err() {
                tracing::error!("a stream gave more or less than the length it declared");
                self.give_up();
                return self.break_off_stream();
            }
        }
        let mut has_more = false;
        if let Some(fed) = &mut streaming.feed
            && !streaming.body.is_ended()
        {
            // What the last turns read has to leave first.
            has_more = !self.socket.output.is_empty()
                || read_feed(fed, &mut streaming.body, &mut self.socket.output) == Read::UpToHere;
        }
        let flushed = self.socket.flush(cx);
        if !self.read_on(cx) {
            tracing::error!("a file got shorter while it was sent");
            return self.break_off_stream();
        }
        let Phase::Streaming(streaming) = &mut self.phase else { return Turn::Again };
        if streaming.file.as_ref().is_some_and(files::Reading::is_done) && !streaming.body.is_ended() {
            // The length is that of the head, so this cannot fail; what is left in the output is flushed next.
            drop(streaming.body.end(&mut self.socket.output));
            return Turn::Again;
        }
        let credit = streaming.body.credit(self.socket.output.len());
        let (asked, is_ended) = (streaming.handed.asked, streaming.body.is_ended());
        let ends_by_closing = streaming.body.ends_by_closing();
        let has_inflow = streaming.handed.inflow.is_some();
        // A feed is read as its pieces leave, as is a file, and credited by nobody.
        let is_own = streaming.feed.is_some() || streaming.file.is_some();
        if credit > 0 && !is_own && streaming.handed.exchange.wrote(credit) {
            let exchange = Arc::clone(&streaming.handed.exchange);
            self.notify(Notice::Room(exchange));
        }
        match flushed {
            Poll::Ready(Err(Broken)) => return Turn::Close,
            Poll::Ready(Ok(())) if is_ended => {
                if ends_by_closing {
                    self.socket.end_in_reset(false);
                }
                let rest = self.file_ends(FileEnd::Sent);
                return self.after_exchange(asked, rest);
            }
            Poll::Ready(Ok(())) if has_more => return Turn::Again,
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        if has_inflow {
            return self.turn_inflow(cx, flushed.is_pending());
        }
        if flushed.is_ready() {
            io_thread::with(|io| io.wait_for(self.seat, Timed::Nothing));
        }
        self.turn_watching(cx)
    }

    /// The body breaks off: the client gets what was accepted of it, and has to see that more was to come (R07).
    pub(super) fn break_off_stream(&mut self) -> Turn {
        let Phase::Streaming(streaming) = &self.phase else { return Turn::Again };
        let (asked, ends_by_closing) = (streaming.handed.asked, streaming.body.ends_by_closing());
        let rest = self.end_exchange();
        if ends_by_closing {
            self.log_ends();
            self.phase = Phase::Resetting { is_sent: false };
            return Turn::Again;
        }
        self.after_exchange(Asked { keep_alive: false, ..asked }, rest)
    }

    pub(super) fn turn_resetting(&mut self, cx: &mut Context<'_>, is_sent: bool) -> Turn {
        match self.socket.flush(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(Broken)) => return Turn::Close,
            Poll::Pending => return Turn::Wait,
        }
        // Nothing that comes is of interest but the news that the client is gone.
        self.socket.discard_pending();
        match self.socket.read(cx) {
            Poll::Ready(Ok(0) | Err(Broken)) => return Turn::Close,
            Poll::Ready(Ok(_)) => return Turn::Again,
            Poll::Pending => {}
        }
        if !is_sent {
            let is_sent = self.socket.is_sent();
            self.phase = Phase::Resetting { is_sent };
            io_thread::with(|io| {
                io.wait_for(self.seat, if is_sent { Timed::Nothing } else { Timed::Write });
                io.set_deadline(self.seat, Some(if is_sent { ARRIVAL } else { SENT_LOOK }));
            });
        }
        Turn::Wait
    }
}

/// How far a feed was read.
#[derive(PartialEq, Eq)]
enum Read {
    /// It has no more for now, and wakes its connection when it has.
    Whole,
    /// There may be more, to be read when this has left.
    UpToHere,
}

/// Reads what a feed has, as much as may wait on one connection.
fn read_feed(fed: &mut Fed, body: &mut StreamBody, output: &mut Output) -> Read {
    if io_thread::with(|io| io.is_closing()) {
        drop(body.end(output));
        return Read::Whole;
    }
    let cx = &mut Context::from_waker(&fed.waker);
    for _ in 0..FEED_PIECES {
        if output.len() >= HIGH_WATER {
            return Read::UpToHere;
        }
        // A feed declares no length, so every piece fits and any end is right.
        match fed.feed.poll_next(cx) {
            Poll::Ready(Some(piece)) if piece.is_empty() => continue,
            Poll::Ready(Some(piece)) => drop(body.push(piece, output)),
            Poll::Ready(None) => {
                drop(body.end(output));
                return Read::Whole;
            }
            Poll::Pending => return Read::Whole,
        }
        fed.since = io_thread::with(|io| io.now());
    }
    Read::UpToHere
}
