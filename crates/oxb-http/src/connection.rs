//! One HTTP/1 connection: a task that gathers heads, collects bodies, hands requests over and writes answers.
//!
//! A state machine ([`Phase`]): whatever a client or a handler does next is met by the `match` of
//! [`Connection::turn`]. What a phase does lies in a file of its own below this one.
//! One request is in progress at a time; those pipelined behind it wait unparsed, so answers keep their order.
//!
//! Invariant 5 of ARCHITECTURE.md: every request handed over is answered once, by the service, by a timeout or
//! by the end of the connection, whichever comes first; what comes later finds another serial on the seat.

mod answers;
mod bodies;
mod files;
mod handed;
mod heads;
mod inflows;
mod logging;
mod streams;

use std::future::Future;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use oxb_core::Micros;

use crate::body::{BodyEnd, Collecting};
use crate::cors::Stance;
use crate::exchange::{Exchange, Feed, FileEnd};
use crate::head::{Head, HeadLimits, HeadScan};
use crate::inflow::Inflow;
use crate::io_thread;
use crate::params::Value;
use crate::router::RouteId;
use crate::service::Notice;
use crate::site::Site;
use crate::socket::Socket;
use crate::streaming::StreamBody;
use crate::transport::Transport;

/// The header section's limits (api.md 16.8).
pub(crate) const HEAD_LIMITS: HeadLimits = HeadLimits { section: 64 * 1024, fields: 100 };
/// A body that is refused is read away for at most this long (api.md 1.4).
const DISCARD: Duration = Duration::from_millis(250);
/// Turns of the state machine in one poll, so that a pipelining client does not keep the thread.
const TURNS: usize = 32;

/// What of a request the answer depends on.
#[derive(Clone, Copy, Debug)]
struct Asked {
    is_head: bool,
    is_http10: bool,
    /// The connection goes on after the answer.
    keep_alive: bool,
    /// The client did not ask to close: it may send its next request before it learns that it is refused.
    may_send_more: bool,
    /// What the answer says to the origin of its request.
    stance: Stance,
}

/// A routed request whose body is still coming.
struct Arriving {
    head: Head,
    route: RouteId,
    values: Vec<Value>,
    asked: Asked,
    body: Collecting,
    owes_continue: bool,
    /// When the wait for room in the budget that is going on began.
    waits_since: Option<Micros>,
    /// How long the waits for room before it took together.
    waited: Micros,
}

/// A request that is with the service.
struct Handed {
    exchange: Arc<Exchange>,
    asked: Asked,
    cancel_on_disconnect: bool,
    /// The deadline that is armed is the queue timeout.
    is_queue_deadline: bool,
    /// Given back to the budget when the exchange ends.
    reserved: u64,
    /// The body, where it flows.
    inflow: Option<Box<Inflow>>,
    /// The service answered with a file, and waits for its end: how it would end now.
    file: Option<FileEnd>,
}

/// An answer whose body comes piece by piece.
struct Streaming {
    handed: Handed,
    body: StreamBody,
    feed: Option<Fed>,
    /// Where the pieces come from, if not from the service.
    file: Option<files::Reading>,
}

/// What the connection itself reads the body from.
struct Fed {
    feed: Feed,
    /// Wakes this connection when there is more.
    waker: Waker,
    /// When something was sent last.
    since: Micros,
}

enum Phase {
    /// Between requests, or in the middle of a head.
    Head,
    Body(Box<Arriving>),
    Handed(Handed),
    Streaming(Box<Streaming>),
    /// The answer is written; the rest of the request's body is read away.
    Discarding(Box<BodyEnd>),
    /// The last answer has to leave, then the connection closes; with `lingers`, slowly.
    Closing {
        lingers: bool,
    },
    /// The write side is shut; whatever still comes is read away.
    Lingering,
    /// What was accepted of a body that broke off has to leave, then the connection is reset: its end would be
    /// taken for that of the body. `is_sent`: the system has sent it all, and the client gets a moment to have it.
    Resetting {
        is_sent: bool,
    },
}

/// Whether the connection goes on is settled when its answer is written: a drain may have begun meanwhile.
fn persisting(asked: Asked, closes: bool) -> Asked {
    Asked { keep_alive: asked.keep_alive && !closes && !io_thread::with(|io| io.is_draining()), ..asked }
}

enum Turn {
    Again,
    Wait,
    Close,
}

/// One connection. The task that polls it owns the socket.
pub(crate) struct Connection<T> {
    socket: Socket<T>,
    site: Arc<Site>,
    seat: u32,
    peer: Option<IpAddr>,
    scan: HeadScan,
    phase: Phase,
    is_first: bool,
    /// What the access log will say of the request in progress.
    entry: Option<Box<logging::Entry>>,
}

impl<T: Transport> Connection<T> {
    /// Takes a seat on this I/O thread.
    pub(crate) fn new(transport: T, site: Arc<Site>, peer: Option<IpAddr>) -> Self {
        site.opened();
        let seat = io_thread::with(|io| io.sit());
        let socket = Socket::new(transport, seat);
        Self {
            socket,
            site,
            seat,
            peer,
            scan: HeadScan::new(),
            phase: Phase::Head,
            is_first: true,
            entry: None,
        }
    }

    #[cfg(feature = "harness")]
    pub(crate) fn transport_mut(&mut self) -> &mut T {
        self.socket.transport_mut()
    }

    fn turn(&mut self, cx: &mut Context<'_>, is_draining: bool) -> Turn {
        match self.phase {
            Phase::Head => self.turn_head(cx, is_draining),
            Phase::Body(_) => self.turn_body(cx),
            Phase::Handed(_) => self.turn_handed(cx),
            Phase::Streaming(_) => self.turn_streaming(cx),
            Phase::Discarding(_) => self.turn_discarding(cx),
            Phase::Closing { lingers } => self.turn_closing(cx, lingers),
            Phase::Lingering => self.turn_lingering(cx),
            Phase::Resetting { is_sent } => self.turn_resetting(cx, is_sent),
        }
    }
}

impl<T: Transport> Future for Connection<T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let found = io_thread::with(|io| io.enter(this.seat, cx.waker()));
        let mut turn = match this.phase {
            _ if !found.is_due => Turn::Again,
            // An answer that came back with the deadline is still the answer.
            Phase::Handed(_) if !io_thread::with(|io| io.has_part(this.seat)) => this.is_due(),
            Phase::Discarding(_) => this.close(true),
            Phase::Streaming(_) => this.stream_is_due(),
            Phase::Lingering | Phase::Resetting { is_sent: true } => Turn::Close,
            _ => Turn::Again,
        };
        for _ in 0..TURNS {
            match turn {
                Turn::Again => turn = this.turn(cx, found.is_draining),
                Turn::Close => return Poll::Ready(()),
                Turn::Wait => match found.expired {
                    // What was waited for may have come between the sweep and this poll.
                    Some(wait) if io_thread::with(|io| io.still_waits(this.seat, wait)) => {
                        turn = this.expire(wait.timed);
                    }
                    _ => return Poll::Pending,
                },
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<T> Connection<T> {
    /// Gives up what a body that is still coming holds.
    fn forget_body(&mut self) {
        if let Phase::Body(arriving) = &mut self.phase {
            arriving.body.forget(&self.site.budget);
        }
    }

    /// Nobody waits for the answer any more: a queued request never runs, a running handler is cancelled, unless
    /// its route says otherwise; then it runs on, and only a source of its answer is told that nobody reads it.
    fn give_up(&self) {
        let (handed, is_streaming) = match &self.phase {
            Phase::Handed(handed) => (handed, handed.file.is_some()),
            // A feed ends with its connection; no handler reads it.
            Phase::Streaming(streaming) if streaming.feed.is_none() => (&streaming.handed, true),
            _ => return,
        };
        let exchange = &handed.exchange;
        // After the first reply the source of a stream ends with its client, whatever the route says.
        if handed.cancel_on_disconnect || is_streaming {
            if exchange.abandon() {
                self.notify(Notice::Abandoned(Arc::clone(exchange)));
            }
        } else if exchange.detach() {
            self.notify(Notice::Room(Arc::clone(exchange)));
        }
    }

    fn notify(&self, notice: Notice) {
        // Called while a connection is dropped as well, where a panic would end the process.
        if catch_unwind(AssertUnwindSafe(|| self.site.service.notify(notice))).is_err() {
            tracing::error!("a service panicked while taking a notice");
        }
    }

    /// Bytes taken from the budget and not given back yet.
    fn reserved(&self) -> u64 {
        match &self.phase {
            Phase::Body(arriving) => arriving.body.reserved.0,
            Phase::Handed(handed) => handed.reserved,
            Phase::Streaming(streaming) => streaming.handed.reserved,
            Phase::Head
            | Phase::Discarding(_)
            | Phase::Closing { .. }
            | Phase::Lingering
            | Phase::Resetting { .. } => 0,
        }
    }
}

impl<T> Drop for Connection<T> {
    fn drop(&mut self) {
        self.close_inflow();
        self.give_up();
        self.forget_body();
        self.site.budget.give_back(self.reserved());
        self.log_ends();
        io_thread::with(|io| io.leave(self.seat));
        self.site.closed();
    }
}
