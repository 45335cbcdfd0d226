//! The engine's service: gives requests to the worker loops.
//!
//! Invariant 1 of ARCHITECTURE.md: everything here runs on I/O threads and never attaches to the interpreter. Wakes
//! are owed until the I/O thread is about to sleep, so that a burst of requests costs one.

use std::cell::RefCell;
use std::sync::Arc;

use oxb_core::{Micros, PendingWakes, SubmitError, clock};
use oxb_http::exchange::Responder;
use oxb_http::request::Request;
use oxb_http::service::{Notice, Service};

use crate::worker::job::{Job, Loops};

thread_local! {
    /// What this I/O thread, which belongs to one server, owes its loops.
    static OWED: RefCell<PendingWakes> = RefCell::new(PendingWakes::new());
}

/// Submits requests as jobs.
pub(crate) struct Bridge {
    loops: Arc<Loops>,
}

impl Bridge {
    pub(crate) fn new(loops: Arc<Loops>) -> Self {
        Self { loops }
    }
}

impl Service for Bridge {
    #[inline]
    fn call(&self, request: Request, responder: Responder) {
        let job = Job { request: Box::new(request), responder };
        match OWED.with_borrow_mut(|owed| self.loops.submit_unwoken(job, owed)) {
            Ok(_) => {}
            Err(SubmitError::Overloaded { job } | SubmitError::Stopping { job }) => {
                job.responder.overloaded()
            }
        }
    }

    fn is_full(&self) -> bool {
        self.loops.is_full()
    }

    fn stalled(&self, after: Micros) -> Vec<usize> {
        let now = clock::now();
        let is_stalled = |loop_id| {
            let since = self.loops.gauges(loop_id).waiting_since;
            since.is_some_and(|since| now.since(since) > after)
        };
        self.loops.loop_ids().filter(|loop_id| is_stalled(*loop_id)).map(|loop_id| loop_id.index()).collect()
    }

    fn notify(&self, notice: Notice) {
        let (Notice::Abandoned(exchange) | Notice::Room(exchange) | Notice::Body(exchange)) = &notice;
        let index = exchange.loop_index();
        if let Some(loop_id) = index.and_then(|index| self.loops.loop_ids().nth(index)) {
            self.loops.post(loop_id, notice);
        }
    }

    fn before_park(&self) {
        OWED.with_borrow_mut(|owed| self.loops.wake_pending(owed));
    }

    fn wants_ticks(&self) -> bool {
        self.loops.loop_count() > 1
    }

    fn tick(&self) -> bool {
        self.loops.tick(clock::now())
    }
}
