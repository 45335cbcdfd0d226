//! Bodies on their way in: collected for the service, or read away after a refusal.

use std::task::{Context, Poll};

use bytes::Bytes;
use oxb_core::Micros;

use super::{Arriving, Connection, Phase, Turn};
use crate::answer;
use crate::body::Refused;
use crate::cors::Stance;
use crate::io_thread::{self, Timed};
use crate::socket::Broken;
use crate::transport::Transport;

pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

impl<T: Transport> Connection<T> {
    pub(super) fn turn_body(&mut self, cx: &mut Context<'_>) -> Turn {
        let Phase::Body(arriving) = &mut self.phase else { return Turn::Again };
        if !self.socket.pending().is_empty() {
            arriving.owes_continue = false;
            match arriving.body.collect(self.socket.pending(), &self.site.budget, cx.waker()) {
                Ok(Some(step)) => {
                    self.socket.consume(step.consumed);
                    if step.is_done {
                        return self.body_is_whole();
                    }
                    io_thread::with(|io| {
                        io.moved(self.seat);
                        if let Some(since) = arriving.waits_since.take() {
                            arriving.waited = arriving.waited.after(io.now().since(since));
                        }
                    });
                }
                Ok(None) => {
                    // The waits of one body count together: what others give up in between may be a piece that
                    // is far from enough, and would put off the end of its wait time and again.
                    let limit = self.site.options.body_timeout.map(Micros::from);
                    if arriving.waits_since.is_none() && limit.is_some_and(|limit| arriving.waited >= limit) {
                        return self.refuse_for_room();
                    }
                    io_thread::with(|io| {
                        let since = *arriving.waits_since.get_or_insert(io.now());
                        let since = Micros(since.0.saturating_sub(arriving.waited.0));
                        io.wait_since(self.seat, Timed::Budget, since);
                    });
                    return Turn::Wait;
                }
                Err(refused) => return self.refuse_body(refused),
            }
        }
        let Phase::Body(arriving) = &mut self.phase else { return Turn::Again };
        if std::mem::take(&mut arriving.owes_continue) {
            self.socket.output.buf.extend_from_slice(CONTINUE);
        }
        match self.socket.flush(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(Broken)) => return Turn::Close,
            Poll::Pending => return Turn::Wait,
        }
        io_thread::with(|io| io.wait_for(self.seat, Timed::Body));
        match self.socket.read(cx) {
            Poll::Ready(Ok(0)) => self.break_off_body(400, "bad body"),
            Poll::Ready(Ok(_)) => Turn::Again,
            Poll::Ready(Err(Broken)) => Turn::Close,
            Poll::Pending => Turn::Wait,
        }
    }

    pub(super) fn body_is_whole(&mut self) -> Turn {
        let Phase::Body(arriving) = std::mem::replace(&mut self.phase, Phase::Head) else {
            return Turn::Again;
        };
        let Arriving { head, route, values, asked, body, .. } = *arriving;
        self.hand_over(head, route, values, asked, Bytes::from(body.bytes), body.reserved.0, None)
    }

    pub(super) fn refuse_body(&mut self, refused: Refused) -> Turn {
        let rest = match refused {
            Refused::NoRoom => return self.refuse_for_room(),
            Refused::Broken => return self.break_off_body(400, "bad body"),
            Refused::TooLarge { rest } => rest,
        };
        self.forget_body();
        let Phase::Body(arriving) = std::mem::replace(&mut self.phase, Phase::Head) else {
            return Turn::Again;
        };
        let (asked, answer) = (arriving.asked, answer::problem(413, None));
        match rest {
            Some(step) => {
                self.socket.consume(step.consumed);
                if step.is_done {
                    self.write_answer(asked, &answer);
                    return self.after_answer(asked);
                }
                self.discard(asked, arriving.body.end, &answer)
            }
            None => self.break_off(asked.stance, &answer),
        }
    }

    pub(super) fn break_off_body(&mut self, status: u16, detail: &'static str) -> Turn {
        let stance = self.arriving_stance();
        self.forget_body();
        self.break_off(stance, &answer::problem(status, Some(detail)))
    }

    fn arriving_stance(&self) -> Stance {
        match &self.phase {
            Phase::Body(arriving) => arriving.asked.stance,
            _ => Stance::Silent,
        }
    }

    /// The budget has no room for this body and will not have any in time.
    pub(super) fn refuse_for_room(&mut self) -> Turn {
        let stance = self.arriving_stance();
        self.forget_body();
        self.break_off(stance, &answer::overloaded())
    }

    pub(super) fn turn_discarding(&mut self, cx: &mut Context<'_>) -> Turn {
        if let Poll::Ready(Err(Broken)) = self.socket.flush(cx) {
            return Turn::Close;
        }
        let Phase::Discarding(end) = &mut self.phase else { return Turn::Again };
        match end.skip(self.socket.pending()) {
            Err(()) => return self.close(true),
            Ok(step) => {
                self.socket.consume(step.consumed);
                if step.is_done {
                    io_thread::with(|io| io.set_deadline(self.seat, None));
                    self.phase = Phase::Head;
                    return Turn::Again;
                }
            }
        }
        match self.socket.read(cx) {
            Poll::Ready(Ok(0) | Err(Broken)) => self.close(false),
            Poll::Ready(Ok(_)) => Turn::Again,
            Poll::Pending => Turn::Wait,
        }
    }
}
