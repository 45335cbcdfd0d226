//! A request that is with the service: handed over, answered by it or by its deadline.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;

use super::inflows::settled;
use super::{Asked, Connection, Handed, Phase, Turn};
use crate::answer::{self, Answer};
use crate::exchange::{Exchange, Part, Responder, WayBack};
use crate::head::Head;
use crate::inflow::{Inflow, Rest};
use crate::io_thread::{self, Timed};
use crate::params::Value;
use crate::reply::BadHead;
use crate::request::Request;
use crate::router::RouteId;
use crate::service::Notice;
use crate::transport::Transport;
use crate::wire;

impl<T: Transport> Connection<T> {
    #[expect(clippy::too_many_arguments, reason = "the parts of a request, which it moves into one")]
    pub(super) fn hand_over(
        &mut self,
        head: Head,
        route: RouteId,
        values: Vec<Value>,
        asked: Asked,
        body: Bytes,
        reserved: u64,
        inflow: Option<Box<Inflow>>,
    ) -> Turn {
        let site = &self.site;
        let (queue_timeout, request_timeout) = (site.options.queue_timeout, site.options.request_timeout);
        // The queue timeout is looked at first only where it is the shorter one.
        let is_queue_deadline =
            queue_timeout.is_some_and(|queue| request_timeout.is_none_or(|request| queue < request));
        let deadline = if is_queue_deadline { queue_timeout } else { request_timeout };
        let wants_ticks = site.service.wants_ticks();
        let exchange = self.begin_exchange(deadline, wants_ticks);
        let responder = self.responder(Arc::clone(&exchange));
        let reader = inflow.as_ref().map(|inflow| {
            let back =
                io_thread::with(|io| WayBack { queue: Arc::clone(io.returns()), token: io.token(self.seat) });
            Box::new(inflow.reader(Arc::clone(&exchange), back))
        });
        let handed = Handed {
            exchange,
            asked,
            cancel_on_disconnect: site.route_options(route).cancel_on_disconnect,
            is_queue_deadline,
            reserved,
            inflow,
            file: None,
        };
        self.phase = Phase::Handed(handed);
        let request = Request { head, route, values, body, peer: self.peer, reader };
        // A service that panics has dropped the responder on the way, which answers 500.
        if catch_unwind(AssertUnwindSafe(|| site.service.call(request, responder))).is_err() {
            tracing::error!("a service panicked while taking a request");
        }
        Turn::Again
    }

    /// What a request that is not answered at once and its answer have in common.
    pub(super) fn begin_exchange(&self, deadline: Option<Duration>, wants_ticks: bool) -> Arc<Exchange> {
        io_thread::with(|io| {
            io.wait_for(self.seat, Timed::Nothing);
            io.set_busy(self.seat, true);
            io.set_deadline(self.seat, deadline);
            if wants_ticks {
                io.want_ticks();
            }
        });
        Arc::new(Exchange::new())
    }

    /// The way back to the exchange that is going on.
    pub(super) fn responder(&self, exchange: Arc<Exchange>) -> Responder {
        let (queue, token) = io_thread::with(|io| (Arc::clone(io.returns()), io.token(self.seat)));
        Responder::new(exchange, queue, token)
    }

    pub(super) fn turn_handed(&mut self, cx: &mut Context<'_>) -> Turn {
        let Phase::Handed(handed) = &self.phase else { return Turn::Again };
        let asked = handed.asked;
        if let Some(part) = io_thread::with(|io| io.take_part(self.seat)) {
            return match part {
                Part::Whole(reply) => {
                    let rest = self.end_exchange();
                    match reply.head.check() {
                        Ok(()) => {
                            let asked = settled(asked, wire::asks_to_close(&reply.head), &rest);
                            self.write_reply(asked, &reply.head, reply.body);
                            self.after_exchange(asked, rest)
                        }
                        Err(error) => self.answer_bad_head(asked, &error, rest),
                    }
                }
                Part::Head(head, declared) => self.begin_stream(asked, &head, declared),
                Part::Feed(head, feed) => self.begin_feed(asked, &head, feed),
                Part::Open(reply) => self.open_file(asked, reply),
                Part::File(answer) => self.send_file(asked, *answer),
                Part::Overloaded => self.end_with(asked, &answer::overloaded()),
                Part::Dropped | Part::Chunk(_) | Part::End | Part::Failed => {
                    self.log_failure(true);
                    self.end_with(asked, &answer::problem(500, Some("handler finished without responding")))
                }
            };
        }
        if handed.inflow.is_some() {
            return self.turn_inflow(cx, false);
        }
        self.turn_watching(cx)
    }

    /// Nothing is expected of the client but its next request, or its leaving.
    pub(super) fn turn_watching(&mut self, cx: &mut Context<'_>) -> Turn {
        match self.socket.watch(cx) {
            Poll::Ready(()) => Turn::Close,
            Poll::Pending => Turn::Wait,
        }
    }

    pub(super) fn answer_bad_head(&mut self, asked: Asked, error: &BadHead, rest: Rest) -> Turn {
        tracing::error!(%error, "bad response header");
        self.log_failure(true);
        let asked = settled(asked, false, &rest);
        self.write_answer(asked, &answer::problem(500, Some("bad response header")));
        self.after_exchange(asked, rest)
    }

    pub(super) fn end_with(&mut self, asked: Asked, answer: &Answer) -> Turn {
        let rest = self.end_exchange();
        let asked = settled(asked, false, &rest);
        self.write_answer(asked, answer);
        self.after_exchange(asked, rest)
    }

    /// The deadline of a handed request has passed.
    pub(super) fn is_due(&mut self) -> Turn {
        let Phase::Handed(handed) = &mut self.phase else { return Turn::Again };
        let asked = handed.asked;
        if handed.inflow.as_ref().is_some_and(|inflow| inflow.is_cut_short() && !inflow.is_told()) {
            return Turn::Close;
        }
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
        let timeout = self.site.options.request_timeout;
        if let (Some(inflow), Some(timeout)) = (&handed.inflow, timeout)
            && let Some(left) = inflow.time_left(io_thread::with(|io| io.now()), timeout)
        {
            io_thread::with(|io| io.set_deadline(self.seat, Some(left)));
            return Turn::Again;
        }
        self.give_up();
        self.end_with(asked, &answer::problem(504, Some("handler did not respond in time")))
    }

    /// Returns what is left of the request's body on the connection.
    pub(super) fn end_exchange(&mut self) -> Rest {
        let rest = self.end_inflow();
        let handed = match &mut self.phase {
            Phase::Handed(handed) => handed,
            Phase::Streaming(streaming) => &mut streaming.handed,
            _ => return rest,
        };
        let has_failed = handed.exchange.has_failed();
        self.site.budget.give_back(std::mem::take(&mut handed.reserved));
        if let Some(end) = handed.file.take() {
            handed.exchange.end_file(end);
            let exchange = Arc::clone(&handed.exchange);
            self.notify(Notice::Room(exchange));
        }
        io_thread::with(|io| io.end_exchange(self.seat));
        self.log_failure(has_failed);
        rest
    }
}
