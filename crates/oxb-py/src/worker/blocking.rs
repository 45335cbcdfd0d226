//! A call on the blocking pool: runs the handler, then answers from the pool's thread.
//!
//! Invariants 4 and 5 of ARCHITECTURE.md: what is owed is taken out once, by whoever settles it.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;

use super::Worker;
use super::context::Context;
use super::desk::fail;
use super::job::{Answer, Held, Loops, Onward, Owed};
use super::plan::{Asked, Plan};
use crate::reply::{Outcome, to_reply};

/// What the loop calls to go on with a job.
#[pyclass(frozen, module = "oxbrook._core")]
struct GoOn {
    worker: Py<Worker>,
    onward: Mutex<Option<Onward>>,
}

impl GoOn {
    fn take(&self) -> Option<Onward> {
        // A panic under this lock left nothing half done.
        self.onward.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn turn_away(&self, loops: &Loops) {
        if let Some(onward) = self.take() {
            onward.held.answer.turn_away(loops);
        }
    }
}

#[pymethods]
impl GoOn {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        let Some(onward) = self.take() else { return Ok(()) };
        Worker::go_on(self.worker.bind(py), onward)
    }
}

struct Parts {
    asked: Asked,
    owed: Owed,
    context: Context,
}

/// What the pool calls.
#[pyclass(frozen, module = "oxbrook._core")]
pub(crate) struct BlockingCall {
    /// The loop that took the request: a stream is sent there.
    worker: Py<Worker>,
    event_loop: Py<PyAny>,
    plan: Arc<Plan>,
    parts: Mutex<Option<Parts>>,
}

impl BlockingCall {
    pub(super) fn new(
        worker: Py<Worker>,
        event_loop: Py<PyAny>,
        plan: Arc<Plan>,
        asked: Asked,
        owed: Owed,
        context: Context,
    ) -> Self {
        Self { worker, event_loop, plan, parts: Mutex::new(Some(Parts { asked, owed, context })) }
    }

    /// It will not be called.
    pub(super) fn turn_away(&self) {
        if let Some(parts) = self.take() {
            parts.owed.turn_away(&self.worker.get().loops);
        }
    }

    /// Has the loop go on with the job.
    fn go_on(&self, py: Python<'_>, onward: Onward) {
        let go_on = GoOn { worker: self.worker.clone_ref(py), onward: Mutex::new(Some(onward)) };
        let told = Bound::new(py, go_on).and_then(|go_on| {
            let told = self.event_loop.bind(py).call_method1(intern!(py, "call_soon_threadsafe"), (&go_on,));
            if told.is_err() {
                // The loop was closed meanwhile.
                go_on.get().turn_away(&self.worker.get().loops);
            }
            told
        });
        if let Err(error) = told {
            error.write_unraisable(py, None);
        }
    }

    fn take(&self) -> Option<Parts> {
        // A panic under this lock left nothing half done.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl BlockingCall {
    fn __call__(&self, py: Python<'_>) {
        let Some(Parts { mut asked, owed, context }) = self.take() else { return };
        if owed.responder.exchange().is_abandoned() && self.plan.cancels_on_disconnect {
            // The client left while the call waited in the pool's queue: it never runs.
            owed.abandon(&self.worker.get().loops);
            return;
        }
        let outcome = context.enter(py).and_then(|entered| {
            let called = self.plan.call(py, self.worker.get().site(), &mut asked);
            drop(entered);
            to_reply(py, &called?, &self.plan.answers)
        });
        let plan = Arc::clone(&self.plan);
        match outcome {
            Ok(Outcome::Whole(reply)) if !asked.has_work() => owed.reply(&self.worker.get().loops, reply),
            Ok(Outcome::Whole(reply)) => {
                let answer = Answer::Sent(owed.reply_and_hold(reply));
                self.go_on(py, Onward { held: Held { plan, asked, context, answer }, stream: None });
            }
            Ok(outcome @ (Outcome::Stream { .. } | Outcome::File { .. })) => {
                let held = Held { plan, asked, context, answer: Answer::Owed(owed) };
                self.go_on(py, Onward { held, stream: Some(outcome) });
            }
            Err(error) => {
                fail(py, self.worker.get().site(), &self.worker.get().loops, &self.plan, asked, owed, error)
            }
        }
    }

    /// The pool was shut down before this ran.
    fn drop(&self) {
        self.turn_away();
    }
}
