//! The inlet of a body that flows, as the coroutine that reads it sees it.
//!
//! `take` never blocks; when nothing is there, `ready()` gives a future to await, which the notice that more has come
//! completes. Both notice and coroutine run on the loop's thread, one step at a time, so a notice that follows an
//! empty `take` finds the future of the same step.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use oxb_http::exchange::Exchange;
use oxb_http::inflow::{BodyReader, Next};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::owned::Owned;
use crate::errors;

struct Wait {
    /// Kept, so that its address, by which this is found, is not another's.
    _exchange: Arc<Exchange>,
    future: Py<PyAny>,
}

struct State {
    event_loop: Py<PyAny>,
    /// By the address of the exchange.
    waits: RefCell<HashMap<usize, Wait>>,
}

/// Who waits for more of a body on one loop, whatever Task that is.
///
/// An entry is taken out by the notice that every wait is answered with, at the latest when the exchange ends.
pub(crate) struct Readers(Owned<State>);

impl Readers {
    /// Those of the calling thread's loop.
    pub(super) fn new(event_loop: Py<PyAny>) -> Self {
        Self(Owned::new(State { event_loop, waits: RefCell::default() }))
    }

    /// More has come: whoever waits goes on.
    pub(super) fn wake(&self, py: Python<'_>, exchange: &Arc<Exchange>) -> PyResult<()> {
        let wait = self.0.get()?.waits.borrow_mut().remove(&Arc::as_ptr(exchange).addr());
        let Some(wait) = wait else { return Ok(()) };
        let future = wait.future.bind(py);
        if !future.call_method0(intern!(py, "done"))?.is_truthy()? {
            future.call_method1(intern!(py, "set_result"), (py.None(),))?;
        }
        Ok(())
    }

    fn wait(&self, py: Python<'_>, exchange: &Arc<Exchange>) -> PyResult<Py<PyAny>> {
        let state = self.0.get()?;
        let address = Arc::as_ptr(exchange).addr();
        let before = state.waits.borrow().get(&address).map(|wait| wait.future.clone_ref(py));
        if let Some(before) = before
            && !before.bind(py).call_method0(intern!(py, "done"))?.is_truthy()?
        {
            return Err(PyRuntimeError::new_err("the body of this request is being read already"));
        }
        let future = state.event_loop.bind(py).call_method0(intern!(py, "create_future"))?.unbind();
        let wait = Wait { _exchange: Arc::clone(exchange), future: future.clone_ref(py) };
        let replaced = state.waits.borrow_mut().insert(address, wait);
        drop(replaced);
        Ok(future)
    }
}

/// Where the pieces of a body come from.
#[pyclass(frozen, module = "oxbrook._core")]
pub(crate) struct Inlet {
    reader: Box<BodyReader>,
    readers: Option<Arc<Readers>>,
    is_begun: AtomicBool,
    whole: OnceLock<Py<PyBytes>>,
}

impl Inlet {
    pub(crate) fn new(reader: Box<BodyReader>, readers: Option<Arc<Readers>>) -> Self {
        Self { reader, readers, is_begun: AtomicBool::new(false), whole: OnceLock::new() }
    }

    /// The body, once it was read to its end and kept.
    pub(crate) fn kept(&self, py: Python<'_>) -> Option<Py<PyBytes>> {
        self.whole.get().map(|whole| whole.clone_ref(py))
    }
}

#[pymethods]
impl Inlet {
    /// The next piece; empty at the end, None when nothing has come yet.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        // Relaxed: a flag for whoever reads next, which the caller's own order brings.
        self.is_begun.store(true, Ordering::Relaxed);
        match self.reader.next() {
            Next::Piece(piece) => Ok(Some(PyBytes::new(py, &piece))),
            Next::End => Ok(Some(PyBytes::new(py, b""))),
            Next::Failed(failure) => Err(errors::http_error(py, failure.status(), &failure.to_string())),
            Next::Later => Ok(None),
        }
    }

    /// A future that is done when more has come; after a `take` that gave None, in the same step.
    fn ready(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.readers {
            Some(readers) => readers.wait(py, self.reader.exchange()),
            None => Err(PyRuntimeError::new_err("this request is on no loop")),
        }
    }

    /// Keeps the body that was read to its end.
    fn keep(&self, body: Py<PyBytes>) {
        // The first stays: there is one body.
        let _ = self.whole.set(body);
    }

    /// Whether a piece was asked for.
    #[getter]
    fn is_begun(&self) -> bool {
        // Relaxed: as in `take`.
        self.is_begun.load(Ordering::Relaxed)
    }

    /// What was kept.
    #[getter]
    fn whole(&self, py: Python<'_>) -> Option<Py<PyBytes>> {
        self.kept(py)
    }
}
