//! What a loop works with on the side of Python: the plans, the app and the hooks, which all loops of a server
//! share, and the loop's own state.
//!
//! Invariant 1 of ARCHITECTURE.md: only loop threads look in here; the I/O threads' table of routes is another.

use std::sync::Arc;

use pyo3::prelude::*;

use super::inlet::Readers;
use super::plan::Plan;

/// Plans and hooks, made before the loop takes requests and unchanged after.
pub(crate) struct Site {
    /// By the engine's number of the route.
    pub(crate) plans: Vec<Arc<Plan>>,
    pub(crate) app: Py<PyAny>,
    /// The `State` of the loop; `None` in what the server keeps to make those of its loops from.
    pub(crate) state: Py<PyAny>,
    /// `answer(exception, request, debug)`: the response to an exception.
    pub(crate) answer: Py<PyAny>,
    /// `log_stream(exception, request)`: a stream's source failed after its head was sent.
    pub(crate) log_stream: Py<PyAny>,
    /// `send_stream(source, outlet, declared)`: the coroutine that sends the body of a stream.
    pub(crate) send_stream: Py<PyAny>,
    /// `run_after(request)`: the coroutine that does what a request left for after its response.
    pub(crate) run_after: Py<PyAny>,
    /// `submit(call)`: gives a call to the pool.
    pub(crate) submit: Py<PyAny>,
    pub(crate) is_debug: bool,
    /// Who waits for a body on the loop; `None` as with `state`.
    pub(crate) readers: Option<Arc<Readers>>,
}

impl Site {
    /// The same for the loop of the calling thread, with this state.
    pub(super) fn of_loop(&self, py: Python<'_>, state: Py<PyAny>, event_loop: &Bound<'_, PyAny>) -> Self {
        Self {
            plans: self.plans.clone(),
            app: self.app.clone_ref(py),
            state,
            answer: self.answer.clone_ref(py),
            log_stream: self.log_stream.clone_ref(py),
            send_stream: self.send_stream.clone_ref(py),
            run_after: self.run_after.clone_ref(py),
            submit: self.submit.clone_ref(py),
            is_debug: self.is_debug,
            readers: Some(Arc::new(Readers::new(event_loop.clone().unbind()))),
        }
    }
}
