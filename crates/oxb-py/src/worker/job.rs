//! A job: one request on its way through a loop, and what is owed for it.
//!
//! Invariants 4 and 5 of ARCHITECTURE.md: [`Owed`] is what a loop owes for a job it took. It is settled once, on
//! every path, by a method that consumes it: the slot is released, then the answer goes out. In that order: a client
//! that has its answer may have sent its next request before this thread has taken another step, and would find
//! the slot of its first one taken (api.md 1.4).

use std::sync::Arc;

use oxb_core::{LoopSet, Slot};
use oxb_http::exchange::{Exchange, Responder};
use oxb_http::reply::Reply;
use oxb_http::request::Request;
use oxb_http::service::Notice;

use super::context::Context;
use super::plan::{Asked, Plan};
use super::stream::Streaming;
use crate::reply::Outcome;

/// What an I/O thread hands to a loop: Rust data only (invariant 1).
pub(crate) struct Job {
    /// Boxed: it is some 500 bytes, and a job is moved about ten times between the connection and the handler.
    pub(crate) request: Box<Request>,
    pub(crate) responder: Responder,
}

/// The loops of one server and their queues.
pub(crate) type Loops = LoopSet<Job, Notice>;

/// The answer and the slot of a job in hand.
#[must_use = "a job is answered and its slot released"]
pub(crate) struct Owed {
    pub(crate) responder: Responder,
    pub(crate) slot: Slot,
}

impl Owed {
    /// Sends the whole answer.
    #[inline]
    pub(crate) fn reply(self, loops: &Loops, reply: Reply) {
        loops.release(self.slot);
        self.responder.reply(reply);
    }

    /// Sends the whole answer, and keeps the slot.
    pub(crate) fn reply_and_hold(self, reply: Reply) -> Sent {
        let exchange = Arc::clone(self.responder.exchange());
        self.responder.reply(reply);
        Sent { exchange, slot: self.slot }
    }

    /// Refuses it: the loop is stopped before there was an answer, or it waited for too long.
    pub(crate) fn turn_away(self, loops: &Loops) {
        loops.release(self.slot);
        self.responder.overloaded();
    }

    /// Gives no answer: nobody waits for one any more, or the engine makes its own of it.
    pub(crate) fn abandon(self, loops: &Loops) {
        loops.release(self.slot);
        drop(self.responder);
    }
}

/// A job that suspended.
pub(crate) struct Held {
    pub(crate) plan: Arc<Plan>,
    pub(crate) asked: Asked,
    pub(crate) context: Context,
    pub(crate) answer: Answer,
}

/// A job that goes on after its handler, on a Task that is free.
pub(crate) struct Onward {
    pub(crate) held: Held,
    /// The stream a blocking handler returned; without one, work for after the response is done.
    pub(crate) stream: Option<Outcome>,
}

/// The slot of a job whose answer is out: held by what runs after it.
#[must_use = "the slot is released"]
pub(crate) struct Sent {
    exchange: Arc<Exchange>,
    slot: Slot,
}

impl Sent {
    pub(super) fn new(exchange: Arc<Exchange>, slot: Slot) -> Self {
        Self { exchange, slot }
    }

    pub(super) fn exchange(&self) -> &Arc<Exchange> {
        &self.exchange
    }

    /// Nothing more is done for the job.
    pub(crate) fn release(self, loops: &Loops) {
        loops.release(self.slot);
    }
}

/// How far the answer of a suspended job is.
pub(crate) enum Answer {
    /// Nothing was sent yet.
    Owed(Owed),
    /// The head was sent.
    Streaming(Streaming),
    /// All of it was sent, or will never be.
    Sent(Sent),
}

impl Answer {
    pub(crate) fn exchange(&self) -> &Arc<Exchange> {
        match self {
            Self::Owed(owed) => owed.responder.exchange(),
            Self::Streaming(streaming) => streaming.exchange(),
            Self::Sent(sent) => sent.exchange(),
        }
    }

    /// The loop is stopped: ends it without (the rest of) its answer.
    pub(crate) fn turn_away(self, loops: &Loops) {
        match self {
            Self::Owed(owed) => owed.turn_away(loops),
            Self::Streaming(streaming) => drop(streaming.fail(loops, false)),
            Self::Sent(sent) => sent.release(loops),
        }
    }
}
