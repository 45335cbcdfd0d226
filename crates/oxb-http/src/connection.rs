//! One HTTP/1 connection: a task that gathers heads, collects bodies, hands requests over and writes answers.
//!
//! A state machine in one file ([`Phase`]): whatever a client or a handler does next is met by one `match`.
//! One request is in progress at a time; those pipelined behind it wait unparsed, so answers keep their order.
//!
//! Invariant 5 of ARCHITECTURE.md: every request handed over is answered once, by the service, by a timeout or
//! by the end of the connection, whichever comes first; what comes later finds another serial on the seat.

use std::future::Future;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use oxb_core::Micros;

use crate::answer::{self, Answer};
use crate::body::{BodyEnd, Collecting, Refused};
use crate::exchange::{Exchange, Part, Responder};
use crate::head::{Head, HeadError, HeadLimits, HeadScan, Version};
use crate::io_thread::{self, Timed};
use crate::params::Value;
use crate::reply::ReplyHead;
use crate::request::Request;
use crate::router::{Found, RouteId};
use crate::service::Notice;
use crate::site::Site;
use crate::socket::{Broken, Socket};
use crate::streaming::StreamBody;
use crate::transport::Transport;
use crate::wire::{self, BodyWire, Persistence};

/// The header section's limits (api.md 16.8).
pub(crate) const HEAD_LIMITS: HeadLimits = HeadLimits { section: 64 * 1024, fields: 100 };
/// A body that is refused is read away for at most this long (api.md 1.4).
const DISCARD: Duration = Duration::from_millis(250);
/// After the last answer of a connection whose client may still be sending, it is read from for at most this
/// long, since closing with unread bytes resets the connection and takes the answer away (RFC 9112 section 9.6).
const LINGER: Duration = Duration::from_secs(1);
/// Before a reset: how often the system is asked whether all is sent, and then the time the last of it has to
/// arrive, which is that of one retransmission (RFC 6298 has 200 ms in practice).
const SENT_LOOK: Duration = Duration::from_millis(20);
const ARRIVAL: Duration = Duration::from_millis(250);
/// Turns of the state machine in one poll, so that a pipelining client does not keep the thread.
const TURNS: usize = 32;
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What of a request the answer depends on.
#[derive(Clone, Copy, Debug)]
struct Asked {
    is_head: bool,
    is_http10: bool,
    /// The connection goes on after the answer.
    keep_alive: bool,
    /// The client did not ask to close: it may send its next request before it learns that it is refused.
    may_send_more: bool,
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
}

/// An answer whose body comes piece by piece.
struct Streaming {
    handed: Handed,
    body: StreamBody,
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
}

impl<T: Transport> Connection<T> {
    /// Takes a seat on this I/O thread.
    pub(crate) fn new(transport: T, site: Arc<Site>, peer: Option<IpAddr>) -> Self {
        site.opened();
        let seat = io_thread::with(|io| io.sit());
        let socket = Socket::new(transport, seat);
        Self { socket, site, seat, peer, scan: HeadScan::new(), phase: Phase::Head, is_first: true }
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

    // --- heads ---

    fn turn_head(&mut self, cx: &mut Context<'_>, is_draining: bool) -> Turn {
        match self.socket.flush(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(Broken)) => return Turn::Close,
            Poll::Pending => return Turn::Wait,
        }
        match self.scan.advance(self.socket.pending(), &HEAD_LIMITS) {
            Ok(Some(length)) => self.take_head(cx, length, is_draining),
            Ok(None) => {
                // Empty lines before a request line, which some clients send after a body, begin nothing.
                let has_begun = self.scan.has_begun();
                let timed = match (has_begun, self.is_first) {
                    (false, true) => Timed::Silence,
                    (false, false) => Timed::KeepAlive,
                    (true, _) => Timed::Head,
                };
                io_thread::with(|io| io.wait_for(self.seat, timed));
                match self.socket.read(cx) {
                    Poll::Ready(Ok(0) | Err(Broken)) => Turn::Close,
                    Poll::Ready(Ok(_)) => Turn::Again,
                    // A drain closes what is idle (R28), but not before it has read what had arrived.
                    Poll::Pending if is_draining && !has_begun => Turn::Close,
                    Poll::Pending => Turn::Wait,
                }
            }
            Err(error) => self.refuse_head(&error),
        }
    }

    fn take_head(&mut self, cx: &mut Context<'_>, length: usize, is_draining: bool) -> Turn {
        let raw = self.socket.take(length);
        self.scan.reset();
        self.is_first = false;
        match Head::parse(raw, &HEAD_LIMITS) {
            Ok(head) => self.route(cx, head, is_draining),
            Err(error) => self.refuse_head(&error),
        }
    }

    fn route(&mut self, cx: &mut Context<'_>, head: Head, is_draining: bool) -> Turn {
        let framing = head.framing();
        let asked = Asked {
            is_head: head.method() == "HEAD",
            is_http10: head.version() == Version::Http10,
            keep_alive: framing.keep_alive && !is_draining,
            may_send_more: framing.keep_alive,
        };
        let (route, values) = match self.site.router.find(head.method(), head.path()) {
            Found::Route { id, values, .. } => match self.site.router.coerce(id, &values, head.query()) {
                Ok(values) => (id, values),
                Err(error) => return self.refuse(&head, asked, &answer::unprocessable(&error)),
            },
            Found::MethodNotAllowed { allow } => {
                return self.refuse(&head, asked, &answer::method_not_allowed(allow));
            }
            Found::NotFound if head.path() == "*" => {
                return self.refuse(
                    &head,
                    asked,
                    &answer::server_options(self.site.router.allow_of_server()),
                );
            }
            Found::NotFound => return self.refuse(&head, asked, &answer::problem(404, None)),
        };
        let Some(end) = BodyEnd::new(framing.body) else {
            return self.hand_over(head, route, values, asked, Bytes::new(), 0);
        };
        let limit = self.site.max_body(route);
        if let BodyEnd::Length(length) = end {
            if length > limit {
                return self.refuse(&head, asked, &answer::problem(413, None));
            }
            if length > 64 * 1024 && self.site.service.is_full() {
                return self.refuse(&head, asked, &answer::overloaded());
            }
        }
        let owes_continue = framing.expects_continue;
        let body = Collecting::new(end, limit);
        self.phase = Phase::Body(Box::new(Arriving {
            head,
            route,
            values,
            asked,
            body,
            owes_continue,
            waits_since: None,
            waited: Micros(0),
        }));
        self.turn_body(cx)
    }

    /// Answers without the service. The connection goes on when the rest of the body can be read away.
    fn refuse(&mut self, head: &Head, asked: Asked, answer: &Answer) -> Turn {
        let framing = head.framing();
        match BodyEnd::new(framing.body) {
            None => {
                self.write_answer(asked, answer);
                self.after_answer(asked)
            }
            // The client may send the body or not: nobody can tell where the next head would begin.
            Some(_) if framing.expects_continue => {
                self.write_answer(Asked { keep_alive: false, ..asked }, answer);
                self.close(true)
            }
            Some(end) => self.discard(asked, end, answer),
        }
    }

    /// Answers and reads the rest of the body away, so that the client gets the answer (R11).
    fn discard(&mut self, asked: Asked, end: BodyEnd, answer: &Answer) -> Turn {
        self.write_answer(asked, answer);
        if !asked.keep_alive {
            return self.close(true);
        }
        io_thread::with(|io| {
            io.wait_for(self.seat, Timed::Nothing);
            io.set_deadline(self.seat, Some(DISCARD));
        });
        self.phase = Phase::Discarding(Box::new(end));
        Turn::Again
    }

    /// What is no request ends the connection: nobody knows where the next one would begin.
    fn refuse_head(&mut self, error: &HeadError) -> Turn {
        self.break_off(&answer::problem(error.status(), Some(error.detail())))
    }

    fn break_off(&mut self, answer: &Answer) -> Turn {
        let asked = Asked { is_head: false, is_http10: false, keep_alive: false, may_send_more: true };
        self.write_answer(asked, answer);
        self.close(true)
    }

    // --- bodies ---

    fn turn_body(&mut self, cx: &mut Context<'_>) -> Turn {
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

    fn body_is_whole(&mut self) -> Turn {
        let Phase::Body(arriving) = std::mem::replace(&mut self.phase, Phase::Head) else {
            return Turn::Again;
        };
        let Arriving { head, route, values, asked, body, .. } = *arriving;
        self.hand_over(head, route, values, asked, Bytes::from(body.bytes), body.reserved.0)
    }

    fn refuse_body(&mut self, refused: Refused) -> Turn {
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
            None => self.break_off(&answer),
        }
    }

    fn break_off_body(&mut self, status: u16, detail: &'static str) -> Turn {
        self.forget_body();
        self.break_off(&answer::problem(status, Some(detail)))
    }

    /// The budget has no room for this body and will not have any in time.
    fn refuse_for_room(&mut self) -> Turn {
        self.forget_body();
        self.break_off(&answer::overloaded())
    }

    fn turn_discarding(&mut self, cx: &mut Context<'_>) -> Turn {
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

    // --- the service ---

    fn hand_over(
        &mut self,
        head: Head,
        route: RouteId,
        values: Vec<Value>,
        asked: Asked,
        body: Bytes,
        reserved: u64,
    ) -> Turn {
        let site = &self.site;
        let (queue_timeout, request_timeout) = (site.options.queue_timeout, site.options.request_timeout);
        // The queue timeout is looked at first only where it is the shorter one.
        let is_queue_deadline =
            queue_timeout.is_some_and(|queue| request_timeout.is_none_or(|request| queue < request));
        let deadline = if is_queue_deadline { queue_timeout } else { request_timeout };
        let wants_ticks = site.service.wants_ticks();
        let exchange = Arc::new(Exchange::new());
        let (queue, token) = io_thread::with(|io| {
            io.wait_for(self.seat, Timed::Nothing);
            io.set_busy(self.seat, true);
            io.set_deadline(self.seat, deadline);
            if wants_ticks {
                io.want_ticks();
            }
            (Arc::clone(io.returns()), io.token(self.seat))
        });
        let handed = Handed {
            exchange: Arc::clone(&exchange),
            asked,
            cancel_on_disconnect: site.route_options(route).cancel_on_disconnect,
            is_queue_deadline,
            reserved,
        };
        self.phase = Phase::Handed(handed);
        let request = Request { head, route, values, body, peer: self.peer };
        let responder = Responder::new(exchange, queue, token);
        // A service that panics has dropped the responder on the way, which answers 500.
        if catch_unwind(AssertUnwindSafe(|| site.service.call(request, responder))).is_err() {
            tracing::error!("a service panicked while taking a request");
        }
        Turn::Again
    }

    fn turn_handed(&mut self, cx: &mut Context<'_>) -> Turn {
        let Phase::Handed(handed) = &self.phase else { return Turn::Again };
        let asked = handed.asked;
        if let Some(part) = io_thread::with(|io| io.take_part(self.seat)) {
            return match part {
                Part::Whole(reply) => {
                    self.end_exchange();
                    match reply.head.check() {
                        Ok(()) => {
                            let asked = persisting(asked, wire::asks_to_close(&reply.head));
                            self.write_reply(asked, &reply.head, reply.body);
                            self.after_answer(asked)
                        }
                        Err(error) => self.answer_bad_head(asked, &error),
                    }
                }
                Part::Head(head, declared) => self.begin_stream(asked, &head, declared),
                Part::Overloaded => self.end_with(asked, &answer::overloaded()),
                Part::Dropped | Part::Chunk(_) | Part::End | Part::Failed => {
                    self.end_with(asked, &answer::problem(500, Some("handler finished without responding")))
                }
            };
        }
        match self.socket.watch(cx) {
            Poll::Ready(()) => Turn::Close,
            Poll::Pending => Turn::Wait,
        }
    }

    fn answer_bad_head(&mut self, asked: Asked, error: &crate::reply::BadHead) -> Turn {
        tracing::error!(%error, "bad response header");
        let asked = persisting(asked, false);
        self.write_answer(asked, &answer::problem(500, Some("bad response header")));
        self.after_answer(asked)
    }

    fn end_with(&mut self, asked: Asked, answer: &Answer) -> Turn {
        self.end_exchange();
        let asked = persisting(asked, false);
        self.write_answer(asked, answer);
        self.after_answer(asked)
    }

    /// The deadline of a handed request has passed.
    fn is_due(&mut self) -> Turn {
        let Phase::Handed(handed) = &mut self.phase else { return Turn::Again };
        let asked = handed.asked;
        if std::mem::take(&mut handed.is_queue_deadline) {
            if handed.exchange.abandon_queued() {
                return self.end_with(asked, &answer::overloaded());
            }
            let left = match (self.site.options.request_timeout, self.site.options.queue_timeout) {
                (Some(request), Some(queue)) => Some(request.saturating_sub(queue)),
                (request, _) => request,
            };
            io_thread::with(|io| io.set_deadline(self.seat, left));
            return Turn::Again;
        }
        self.give_up();
        self.end_with(asked, &answer::problem(504, Some("handler did not respond in time")))
    }

    fn end_exchange(&mut self) {
        let reserved = match &mut self.phase {
            Phase::Handed(handed) => &mut handed.reserved,
            Phase::Streaming(streaming) => &mut streaming.handed.reserved,
            _ => return,
        };
        self.site.budget.give_back(std::mem::take(reserved));
        io_thread::with(|io| io.end_exchange(self.seat));
    }

    // --- streams ---

    fn begin_stream(&mut self, asked: Asked, head: &ReplyHead, declared: Option<u64>) -> Turn {
        let declared = match head.check().and_then(|()| head.length(declared)) {
            Ok(declared) => declared,
            Err(error) => {
                self.give_up_stream_source();
                self.end_exchange();
                return self.answer_bad_head(asked, &error);
            }
        };
        let has_body = wire::has_body(head.status);
        let body = match declared {
            _ if !has_body => BodyWire::None,
            Some(length) => BodyWire::Length(length),
            None if asked.is_head => BodyWire::None,
            None if asked.is_http10 => BodyWire::UntilClose,
            None => BodyWire::Chunked,
        };
        let closes = wire::asks_to_close(head) || body == BodyWire::UntilClose;
        let asked = persisting(asked, closes);
        self.write_reply_head(asked, head, body);
        if !has_body || asked.is_head {
            self.give_up_stream_source();
            self.end_exchange();
            return self.after_answer(asked);
        }
        if body == BodyWire::UntilClose {
            // However it ends from here on, a body that is not whole must not look so.
            self.socket.end_in_reset(true);
        }
        io_thread::with(|io| io.set_deadline(self.seat, None));
        let Phase::Handed(mut handed) = std::mem::replace(&mut self.phase, Phase::Head) else {
            return Turn::Again;
        };
        handed.asked = asked;
        self.phase = Phase::Streaming(Box::new(Streaming { handed, body: StreamBody::new(body, declared) }));
        Turn::Again
    }

    /// The source of a stream that sends no body is closed at once (api.md 2.6).
    fn give_up_stream_source(&self) {
        let Phase::Handed(handed) = &self.phase else { return };
        if handed.exchange.abandon() {
            self.notify(Notice::Abandoned(Arc::clone(&handed.exchange)));
        }
    }

    fn turn_streaming(&mut self, cx: &mut Context<'_>) -> Turn {
        let Phase::Streaming(streaming) = &mut self.phase else { return Turn::Again };
        while let Some(part) = io_thread::with(|io| io.take_part(self.seat)) {
            let outcome = match part {
                Part::Chunk(bytes) => streaming.body.push(bytes, &mut self.socket.output),
                Part::End => streaming.body.end(&mut self.socket.output),
                Part::Failed | Part::Dropped | Part::Overloaded | Part::Whole(_) | Part::Head(..) => {
                    return self.break_off_stream();
                }
            };
            if outcome.is_err() {
                tracing::error!("a stream gave more or less than the length it declared");
                self.give_up();
                return self.break_off_stream();
            }
        }
        let flushed = self.socket.flush(cx);
        let credit = streaming.body.credit(self.socket.output.len());
        let (asked, is_ended) = (streaming.handed.asked, streaming.body.is_ended());
        let ends_by_closing = streaming.body.ends_by_closing();
        if credit > 0 && streaming.handed.exchange.wrote(credit) {
            let exchange = Arc::clone(&streaming.handed.exchange);
            self.notify(Notice::Room(exchange));
        }
        match flushed {
            Poll::Ready(Err(Broken)) => return Turn::Close,
            Poll::Ready(Ok(())) if is_ended => {
                if ends_by_closing {
                    self.socket.end_in_reset(false);
                }
                self.end_exchange();
                return self.after_answer(asked);
            }
            Poll::Ready(Ok(())) => io_thread::with(|io| io.wait_for(self.seat, Timed::Nothing)),
            Poll::Pending => {}
        }
        match self.socket.watch(cx) {
            Poll::Ready(()) => Turn::Close,
            Poll::Pending => Turn::Wait,
        }
    }

    /// The body breaks off: the client gets what was accepted of it, and has to see that more was to come (R07).
    fn break_off_stream(&mut self) -> Turn {
        let Phase::Streaming(streaming) = &self.phase else { return Turn::Again };
        let (asked, ends_by_closing) = (streaming.handed.asked, streaming.body.ends_by_closing());
        self.end_exchange();
        if ends_by_closing {
            self.phase = Phase::Resetting { is_sent: false };
            return Turn::Again;
        }
        self.after_answer(Asked { keep_alive: false, ..asked })
    }

    fn turn_resetting(&mut self, cx: &mut Context<'_>, is_sent: bool) -> Turn {
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

    // --- answers ---

    fn write_answer(&mut self, asked: Asked, answer: &Answer) {
        self.write_reply(asked, &answer.head, answer.body.clone());
    }

    fn write_reply(&mut self, asked: Asked, head: &ReplyHead, body: Bytes) {
        let has_body = wire::has_body(head.status);
        let framing = if has_body { BodyWire::Length(body.len() as u64) } else { BodyWire::None };
        self.write_reply_head(asked, head, framing);
        if has_body && !asked.is_head {
            self.socket.output.push(body);
        }
    }

    fn write_reply_head(&mut self, asked: Asked, head: &ReplyHead, body: BodyWire) {
        let persistence = match (asked.keep_alive, asked.is_http10) {
            (false, _) => Persistence::Close,
            (true, true) => Persistence::KeepAlive,
            (true, false) => Persistence::Implied,
        };
        let buf = &mut self.socket.output.buf;
        if buf.capacity() == 0 {
            *buf = io_thread::take_out();
        }
        io_thread::with(|io| wire::write_head(buf, head, body, persistence, io.date()));
    }

    fn after_answer(&mut self, asked: Asked) -> Turn {
        if asked.keep_alive {
            self.phase = Phase::Head;
            Turn::Again
        } else {
            self.close(asked.may_send_more || !self.socket.pending().is_empty())
        }
    }

    /// Nothing more is read as a request. `lingers`: the client may still be sending.
    fn close(&mut self, lingers: bool) -> Turn {
        self.phase = Phase::Closing { lingers };
        Turn::Again
    }

    fn turn_closing(&mut self, cx: &mut Context<'_>, lingers: bool) -> Turn {
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

    fn turn_lingering(&mut self, cx: &mut Context<'_>) -> Turn {
        self.socket.discard_pending();
        match self.socket.read(cx) {
            Poll::Ready(Ok(0) | Err(Broken)) => Turn::Close,
            Poll::Ready(Ok(_)) => Turn::Again,
            Poll::Pending => Turn::Wait,
        }
    }

    /// The sweep found that what was waited for did not come, and a last look found nothing either.
    fn expire(&mut self, timed: Timed) -> Turn {
        match (timed, &self.phase) {
            (Timed::Budget, Phase::Body(_)) => self.refuse_for_room(),
            (Timed::Body, Phase::Body(_)) => self.break_off_body(408, "request body stalled"),
            _ => Turn::Close,
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
            Phase::Handed(handed) => (handed, false),
            Phase::Streaming(streaming) => (&streaming.handed, true),
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
        self.give_up();
        self.forget_body();
        self.site.budget.give_back(self.reserved());
        io_thread::with(|io| io.leave(self.seat));
        self.site.closed();
    }
}
