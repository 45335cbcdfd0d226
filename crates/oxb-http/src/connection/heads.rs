//! Heads: from the first byte of a request to its route, or to the answer that needs no service.

use std::task::{Context, Poll};

use bytes::Bytes;
use oxb_core::Micros;

use super::{Arriving, Asked, Connection, DISCARD, HEAD_LIMITS, Phase, Turn};
use crate::answer::{self, Answer};
use crate::body::{BodyEnd, Collecting};
use crate::cors::Stance;
use crate::head::{Head, HeadError, Version};
use crate::health::Probe;
use crate::inflow::Inflow;
use crate::io_thread::{self, Timed};
use crate::router::Found;
use crate::socket::Broken;
use crate::transport::Transport;

impl<T: Transport> Connection<T> {
    pub(super) fn turn_head(&mut self, cx: &mut Context<'_>, is_draining: bool) -> Turn {
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

    pub(super) fn take_head(&mut self, cx: &mut Context<'_>, length: usize, is_draining: bool) -> Turn {
        let raw = self.socket.take(length);
        self.scan.reset();
        self.is_first = false;
        match Head::parse(raw, &HEAD_LIMITS) {
            Ok(head) => self.route(cx, head, is_draining),
            Err(error) => self.refuse_head(&error),
        }
    }

    pub(super) fn route(&mut self, cx: &mut Context<'_>, head: Head, is_draining: bool) -> Turn {
        let framing = head.framing();
        let cors = self.site.options.cors.as_deref();
        let asked = Asked {
            is_head: head.method() == "HEAD",
            is_http10: head.version() == Version::Http10,
            keep_alive: framing.keep_alive && !is_draining,
            may_send_more: framing.keep_alive,
            stance: cors.map_or(Stance::Silent, |cors| cors.stance(head.header("origin"))),
        };
        let health = self.site.options.health.as_deref();
        let probe = health.map_or(Probe::No, |health| {
            health.probe(head.method(), head.path(), is_draining, &*self.site.service)
        });
        let is_probe = match probe {
            Probe::No => false,
            Probe::Checks => true,
            Probe::Answered(answer) => {
                return self.refuse(&head, Asked { stance: Stance::Silent, ..asked }, &answer);
            }
        };
        if let Some(answer) = cors.and_then(|cors| cors.preflight(&head)) {
            return self.refuse(&head, Asked { stance: Stance::Silent, ..asked }, &answer);
        }
        if !is_probe {
            self.log_begins(&head);
        }
        let (route, values) = match self.site.router.find(head.method(), head.path()) {
            Found::Route { id, values, .. } => {
                match self.site.router.coerce(id, &values, head.query(), Some(&head)) {
                    Ok(values) => (id, values),
                    Err(error) => return self.refuse(&head, asked, &answer::unprocessable(&error)),
                }
            }
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
        if let Some(mount) = self.site.mount(route) {
            return self.serve_mount(&head, asked, &mount);
        }
        let Some(end) = BodyEnd::new(framing.body) else {
            return self.hand_over(head, route, values, asked, Bytes::new(), 0, None);
        };
        let limit = self.site.max_body(route);
        if self.site.route_options(route).streams_body {
            let inflow = Inflow::new(end, limit, framing.expects_continue, &self.site.budget);
            return self.hand_over(head, route, values, asked, Bytes::new(), 0, Some(Box::new(inflow)));
        }
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
    pub(super) fn refuse(&mut self, head: &Head, asked: Asked, answer: &Answer) -> Turn {
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
    pub(super) fn discard(&mut self, asked: Asked, end: BodyEnd, answer: &Answer) -> Turn {
        self.write_answer(asked, answer);
        if !asked.keep_alive {
            return self.close(true);
        }
        self.read_away(Box::new(end))
    }

    /// The answer is written: what is left of the body is read away.
    pub(super) fn read_away(&mut self, end: Box<BodyEnd>) -> Turn {
        self.log_ends();
        io_thread::with(|io| {
            io.wait_for(self.seat, Timed::Nothing);
            io.set_deadline(self.seat, Some(DISCARD));
        });
        self.phase = Phase::Discarding(end);
        Turn::Again
    }

    /// What is no request ends the connection: nobody knows where the next one would begin.
    pub(super) fn refuse_head(&mut self, error: &HeadError) -> Turn {
        self.break_off(Stance::Silent, &answer::problem(error.status(), Some(error.detail())))
    }

    pub(super) fn break_off(&mut self, stance: Stance, answer: &Answer) -> Turn {
        let asked =
            Asked { is_head: false, is_http10: false, keep_alive: false, may_send_more: true, stance };
        self.write_answer(asked, answer);
        self.close(true)
    }
}
