//! Answers on their way out, and the ends of a connection that come after the last of them.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;

use super::{Asked, Connection, DISCARD, Phase, Turn};
use crate::answer::Answer;
use crate::inflow::{BodyFailure, Rest};
use crate::io_thread::{self, Timed};
use crate::reply::ReplyHead;
use crate::socket::Broken;
use crate::transport::Transport;
use crate::wire::{self, BodyWire, Persistence};

/// After the last answer of a connection whose client may still be sending, it is read from for at most this
/// long, since closing with unread bytes resets the connection and takes the answer away (RFC 9112 section 9.6).
const LINGER: Duration = Duration::from_secs(1);

impl<T: Transport> Connection<T> {
    pub(super) fn write_answer(&mut self, asked: Asked, answer: &Answer) {
        self.write_reply(asked, &answer.head, answer.body.clone());
    }

    pub(super) fn write_reply(&mut self, asked: Asked, head: &ReplyHead, body: Bytes) {
        let bodyless = wire::bodyless(head.status);
        let framing = bodyless.unwrap_or(BodyWire::Length(body.len() as u64));
        self.write_reply_head(asked, head, framing);
        if bodyless.is_none() && !asked.is_head {
            self.socket.output.push(body);
        }
    }

    pub(super) fn write_reply_head(&mut self, asked: Asked, head: &ReplyHead, body: BodyWire) {
        let persistence = match (asked.keep_alive, asked.is_http10) {
            (false, _) => Persistence::Close,
            (true, true) => Persistence::KeepAlive,
            (true, false) => Persistence::Implied,
        };
        self.log_status(head.status);
        let buf = &mut self.socket.output.buf;
        if buf.capacity() == 0 {
            *buf = io_thread::take_out();
        }
        let own = self.site.options.cors.as_deref().map(|cors| (cors, asked.stance));
        io_thread::with(|io| wire::write_head(buf, head, body, persistence, own, io.date()));
    }

    pub(super) fn after_answer(&mut self, asked: Asked) -> Turn {
        self.log_ends();
        if asked.keep_alive {
            self.phase = Phase::Head;
            Turn::Again
        } else {
            self.close(asked.may_send_more || !self.socket.pending().is_empty())
        }
    }

    /// The same where some of the request's body may not have been read.
    pub(super) fn after_exchange(&mut self, asked: Asked, rest: Rest) -> Turn {
        match rest {
            Rest::Nothing => self.after_answer(asked),
            Rest::Unread(end) if asked.keep_alive => self.read_away(end),
            Rest::Unread(_) | Rest::Lost => self.close(true),
        }
    }

    /// Nothing more is read as a request. `lingers`: the client may still be sending.
    pub(super) fn close(&mut self, lingers: bool) -> Turn {
        self.log_ends();
        self.phase = Phase::Closing { lingers };
        Turn::Again
    }

    pub(super) fn turn_closing(&mut self, cx: &mut Context<'_>, lingers: bool) -> Turn {
        match self.socket.flush(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(Broken)) => return Turn::Close,
            Poll::Pending => return Turn::Wait,
        }
        if self.socket.is_eof() {
            return Turn::Close;
        }
        match self.socket.poll_shutdown(cx) {
            Poll::Ready(Ok(())) if lingers => {
                io_thread::with(|io| {
                    let length = if io.is_draining() { DISCARD } else { LINGER };
                    io.wait_for(self.seat, Timed::Nothing);
                    io.set_deadline(self.seat, Some(length));
                });
                self.phase = Phase::Lingering;
                Turn::Again
            }
            Poll::Ready(_) => Turn::Close,
            Poll::Pending => Turn::Wait,
        }
    }

    pub(super) fn turn_lingering(&mut self, cx: &mut Context<'_>) -> Turn {
        self.socket.discard_pending();
        match self.socket.read(cx) {
            Poll::Ready(Ok(0) | Err(Broken)) => Turn::Close,
            Poll::Ready(Ok(_)) => Turn::Again,
            Poll::Pending => Turn::Wait,
        }
    }

    /// The sweep found that what was waited for did not come, and a last look found nothing either.
    pub(super) fn expire(&mut self, timed: Timed) -> Turn {
        match (timed, &self.phase) {
            (Timed::Budget, Phase::Body(_)) => self.refuse_for_room(),
            (Timed::Body, Phase::Body(_)) => self.break_off_body(408, "request body stalled"),
            (Timed::Body, Phase::Handed(_) | Phase::Streaming(_)) => self.fail_inflow(BodyFailure::Stalled),
            _ => Turn::Close,
        }
    }
}
