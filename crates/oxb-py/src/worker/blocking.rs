//! A call on the blocking pool: runs the handler, then answers from the pool's thread.
//!
//! Invariants 4 and 5 of ARCHITECTURE.md: what is owed is taken out once, by whoever settles it.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;

use super::Worker;
use super::context::Context;
use super::desk::fail;
use super::job::{Answer, Held, Loops, Owed};
use super::plan::{Asked, Plan};
use crate::reply::{Outcome, to_reply};

/// A stream that a blocking handler returned, on its way to the loop.
pub(super) struct PendingStream {
    pub(super) held: Held,
    pub(super) outcome: Outcome,
}

/// What the loop calls to begin it.
#[pyclass(frozen, module = "oxbrook._core")]
struct StreamStart {
    worker: Py<Worker>,
    stream: Mutex<Option<PendingStream>>,
}

impl StreamStart {
    fn take(&self) -> Option<PendingStream> {
        // A panic under this lock left nothing half done.
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn turn_away(&self, loops: &Loops) {
        if let Some(stream) = self.take() {
            stream.held.answer.turn_away(loops);
        }
    }
}

#[pymethods]
impl StreamStart {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        let Some(stream) = self.take() else { return Ok(()) };
        Worker::begin_stream(self.worker.bind(py), stream)
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
            to_reply(py, &called?, self.plan.status)
        });
        match outcome {
            Ok(Outcome::Whole(reply)) => owed.reply(&self.worker.get().loops, reply),
            Ok(outcome @ Outcome::Stream { .. }) => {
                let held = Held { plan: Arc::clone(&self.plan), asked, context, answer: Answer::Owed(owed) };
                let start = StreamStart {
                    worker: self.worker.clone_ref(py),
                    stream: Mutex::new(Some(PendingStream { held, outcome })),
                };
                let told = Bound::new(py, start).and_then(|start| {
                    let told =
                        self.event_loop.bind(py).call_method1(intern!(py, "call_soon_threadsafe"), (&start,));
                    if told.is_err() {
                        // The loop was closed meanwhile.
                        start.get().turn_away(&self.worker.get().loops);
                    }
                    told
                });
                if let Err(error) = told {
                    error.write_unraisable(py, None);
                }
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
