//! Bodies that flow to a handler which runs already: read when it asks, cut short, and left unread.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::bodies::CONTINUE;
use super::{Asked, Connection, Handed, Phase, Turn, persisting};
use crate::inflow::{BodyFailure, Inflow, Rest};
use crate::io_thread::{self, Timed};
use crate::service::Notice;
use crate::socket::Broken;
use crate::transport::Transport;

/// How long the handler of a body that was cut short may go without reading on.
const CUT_GRACE: Duration = Duration::from_millis(250);

/// Whether the connection goes on, once it is known what is left of the request's body.
pub(super) fn settled(asked: Asked, closes: bool, rest: &Rest) -> Asked {
    persisting(asked, closes || matches!(rest, Rest::Lost))
}

fn handed(phase: &mut Phase) -> Option<&mut Handed> {
    match phase {
        Phase::Handed(handed) => Some(handed),
        Phase::Streaming(streaming) => Some(&mut streaming.handed),
        _ => None,
    }
}

fn inflow(phase: &mut Phase) -> Option<&mut Inflow> {
    handed(phase)?.inflow.as_deref_mut()
}

impl<T: Transport> Connection<T> {
    /// Moves the body on as far as its reader wants it. `is_writing`: the answer waits for the client.
    pub(super) fn turn_inflow(&mut self, cx: &mut Context<'_>, is_writing: bool) -> Turn {
        let Some(inflow) = inflow(&mut self.phase) else { return self.turn_watching(cx) };
        if inflow.is_over() || !inflow.is_wanted() {
            if !is_writing {
                io_thread::with(|io| io.wait_for(self.seat, Timed::Nothing));
            }
            return self.turn_unwanted(cx);
        }
        if !self.socket.pending().is_empty() {
            inflow.owes_continue = false;
            let (consumed, is_awaited) = inflow.push(self.socket.pending());
            self.socket.consume(consumed);
            if !is_writing {
                io_thread::with(|io| io.moved(self.seat));
            }
            if is_awaited {
                self.tell_reader();
            }
            return Turn::Again;
        }
        if std::mem::take(&mut inflow.owes_continue) {
            self.socket.output.buf.extend_from_slice(CONTINUE);
        }
        if !is_writing {
            match self.socket.flush(cx) {
                Poll::Ready(Ok(())) => io_thread::with(|io| io.wait_for(self.seat, Timed::Body)),
                Poll::Ready(Err(Broken)) => return Turn::Close,
                Poll::Pending => return Turn::Wait,
            }
        }
        match self.socket.read(cx) {
            Poll::Ready(Ok(0)) => self.cut_short(),
            Poll::Ready(Ok(_)) => Turn::Again,
            Poll::Ready(Err(Broken)) => Turn::Close,
            Poll::Pending => Turn::Wait,
        }
    }

    /// Nothing of the body is wanted now, or ever again.
    fn turn_unwanted(&mut self, cx: &mut Context<'_>) -> Turn {
        let is_answered = matches!(self.phase, Phase::Streaming(_));
        let Some(inflow) = inflow(&mut self.phase) else { return Turn::Again };
        if inflow.is_cut_short() {
            // The client has ended its side. A handler that knows answers; no other's answer is waited for.
            return if is_answered && !inflow.is_told() { Turn::Close } else { Turn::Wait };
        }
        match self.socket.watch(cx) {
            Poll::Pending => Turn::Wait,
            Poll::Ready(()) if inflow.is_over() || !self.socket.is_eof() => Turn::Close,
            Poll::Ready(()) => {
                // What had come before can be read.
                let (consumed, is_awaited) = inflow.push(self.socket.pending());
                let is_over = inflow.is_over();
                self.socket.consume(consumed);
                if is_awaited {
                    self.tell_reader();
                }
                if is_over { Turn::Close } else { self.cut_short() }
            }
        }
    }

    /// The client ended its side in the middle of the body. A handler that goes on reading is told and may answer; one
    /// that does not for [`CUT_GRACE`] is cancelled, like any whose client left (api.md 16.9).
    fn cut_short(&mut self) -> Turn {
        if matches!(self.phase, Phase::Streaming(_)) {
            return Turn::Close;
        }
        io_thread::with(|io| io.set_deadline(self.seat, Some(CUT_GRACE)));
        self.fail_inflow(BodyFailure::EndedEarly)
    }

    /// Nothing more comes of the body; its reader learns why.
    pub(super) fn fail_inflow(&mut self, failure: BodyFailure) -> Turn {
        if inflow(&mut self.phase).is_some_and(|inflow| inflow.fail(failure)) {
            self.tell_reader();
        }
        Turn::Again
    }

    /// A final answer begins: a client that waits to be told to go on never will be. True when that was owed.
    pub(super) fn forgo_continue(&mut self) -> bool {
        let has_pending = !self.socket.pending().is_empty();
        inflow(&mut self.phase)
            .is_some_and(|inflow| std::mem::take(&mut inflow.owes_continue) && !has_pending)
    }

    /// The exchange ends: what was not read of the body is out of its reader's reach.
    pub(super) fn end_inflow(&mut self) -> Rest {
        let has_pending = !self.socket.pending().is_empty();
        let Some(mut inflow) = self.close_inflow() else { return Rest::Nothing };
        // A client that has sent some of it did not wait to be told to.
        inflow.owes_continue &= !has_pending;
        inflow.into_rest()
    }
}

impl<T> Connection<T> {
    /// A reader that still waits learns that nothing more will come.
    pub(super) fn close_inflow(&mut self) -> Option<Box<Inflow>> {
        let inflow = handed(&mut self.phase)?.inflow.take()?;
        if inflow.close() {
            self.tell_reader();
        }
        Some(inflow)
    }

    fn tell_reader(&mut self) {
        if let Some(handed) = handed(&mut self.phase) {
            let exchange = Arc::clone(&handed.exchange);
            self.notify(Notice::Body(exchange));
        }
    }
}
