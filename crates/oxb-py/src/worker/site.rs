//! What all loops of a server share on the side of Python: the plans, the app and the hooks.
//!
//! Invariant 1 of ARCHITECTURE.md: only loop threads look in here; the I/O threads' table of routes is another.

use std::sync::Arc;

use pyo3::prelude::*;

use super::plan::Plan;

/// Plans and hooks, made before the loops start and unchanged after.
pub(crate) struct Site {
    /// By the engine's number of the route.
    pub(crate) plans: Vec<Arc<Plan>>,
    pub(crate) app: Py<PyAny>,
    pub(crate) state: Py<PyAny>,
    /// `answer(exception, request, debug)`: the response to an exception.
    pub(crate) answer: Py<PyAny>,
    /// `log_stream(exception, request)`: a stream's source failed after its head was sent.
    pub(crate) log_stream: Py<PyAny>,
    /// `send_stream(source, outlet, declared)`: the coroutine that sends the body of a stream.
    pub(crate) send_stream: Py<PyAny>,
    /// `submit(call)`: gives a call to the pool.
    pub(crate) submit: Py<PyAny>,
    pub(crate) is_debug: bool,
}
