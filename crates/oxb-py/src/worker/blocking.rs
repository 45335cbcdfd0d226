//! A call on the blocking pool: runs the handler, then answers from the pool's thread.
//!
//! Invariants 4 and 5 of ARCHITECTURE.md: what is owed is taken out once, by whoever settles it.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::context::Context;
use super::desk::fail;
use super::job::{Loops, Owed};
use super::plan::{Asked, Plan};
use super::site::Site;
use crate::reply::{Outcome, to_reply};

struct Parts {
    asked: Asked,
    owed: Owed,
    context: Context,
}

/// What the pool calls.
#[pyclass(frozen, module = "oxbrook._core")]
pub(crate) struct BlockingCall {
    plan: Arc<Plan>,
    site: Arc<Site>,
    loops: Arc<Loops>,
    parts: Mutex<Option<Parts>>,
}

impl BlockingCall {
    pub(super) fn new(
        plan: Arc<Plan>,
        site: Arc<Site>,
        loops: Arc<Loops>,
        asked: Asked,
        owed: Owed,
        context: Context,
    ) -> Self {
        Self { plan, site, loops, parts: Mutex::new(Some(Parts { asked, owed, context })) }
    }

    /// It will not be called.
    pub(super) fn abandon(&self) {
        if let Some(parts) = self.take() {
            parts.owed.abandon(&self.loops);
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
            owed.abandon(&self.loops);
            return;
        }
        let outcome = context.enter(py).and_then(|entered| {
            let called = self.plan.call(py, &self.site, &mut asked);
            drop(entered);
            to_reply(py, &called?, self.plan.status)
        });
        match outcome {
            Ok(Outcome::Whole(reply)) => owed.reply(&self.loops, reply),
            Ok(Outcome::Stream { .. }) => {
                let error = PyRuntimeError::new_err("a blocking handler cannot return a Stream");
                fail(py, &self.site, &self.loops, &self.plan, asked, owed, error);
            }
            Err(error) => fail(py, &self.site, &self.loops, &self.plan, asked, owed, error),
        }
    }

    /// The pool was shut down before this ran.
    fn drop(&self) {
        self.abandon();
    }
}
