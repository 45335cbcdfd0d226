//! The future an idle spare waits for: it keeps the Task's wakeup, so that the pump can step that Task itself.
//!
//! To asyncio it looks like a future (`_asyncio_future_blocking`, `get_loop`, `add_done_callback`, `result`,
//! `cancel`). It is never done: the pump calls the stored wakeup, the Task asks for `result()`, gets `None` and
//! steps. Cancelling it (somebody cancels all tasks) makes `result()` raise, and the loop wakes the Task.

use std::cell::{Cell, RefCell};

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::owned::Owned;

struct State {
    event_loop: Py<PyAny>,
    wakeup: RefCell<Option<Py<PyAny>>>,
    context: RefCell<Option<Py<PyAny>>>,
    is_blocking: Cell<bool>,
    is_cancelled: Cell<bool>,
    message: RefCell<Option<Py<PyAny>>>,
}

/// What an idle spare awaits.
#[pyclass(frozen, module = "oxbrook._core")]
pub(crate) struct Door {
    state: Owned<State>,
}

impl Door {
    pub(crate) fn new(event_loop: Py<PyAny>) -> Self {
        Self {
            state: Owned::new(State {
                event_loop,
                wakeup: RefCell::new(None),
                context: RefCell::new(None),
                is_blocking: Cell::new(false),
                is_cancelled: Cell::new(false),
                message: RefCell::new(None),
            }),
        }
    }

    /// Says what `Future.__await__` says before it yields itself: that it is awaited, not just passed on.
    #[inline]
    pub(crate) fn await_here(&self) {
        if let Ok(state) = self.state.get() {
            state.is_blocking.set(true);
        }
    }

    /// Steps the Task that waits here, at once. False when none does.
    #[inline]
    pub(crate) fn open(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let state = slf.get().state.get()?;
        let Some(wakeup) = state.wakeup.take() else { return Ok(false) };
        // SAFETY: `py` proves the thread is attached, both objects are held for the call.
        let outcome = unsafe { ffi::PyObject_CallOneArg(wakeup.as_ptr(), slf.as_ptr()) };
        // SAFETY: the call gave a new reference, or null with an error set.
        drop(unsafe { Bound::from_owned_ptr_or_err(py, outcome)? });
        Ok(true)
    }
}

#[pymethods]
impl Door {
    #[getter(_asyncio_future_blocking)]
    fn is_blocking(&self) -> PyResult<bool> {
        Ok(self.state.get()?.is_blocking.get())
    }

    #[setter(_asyncio_future_blocking)]
    fn set_is_blocking(&self, value: bool) -> PyResult<()> {
        self.state.get()?.is_blocking.set(value);
        Ok(())
    }

    fn get_loop(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.state.get()?.event_loop.clone_ref(py))
    }

    #[pyo3(signature = (wakeup, *, context=None))]
    fn add_done_callback(&self, wakeup: Py<PyAny>, context: Option<Py<PyAny>>) -> PyResult<()> {
        let state = self.state.get()?;
        state.wakeup.replace(Some(wakeup));
        state.context.replace(context);
        Ok(())
    }

    fn remove_done_callback(&self, wakeup: &Bound<'_, PyAny>) -> PyResult<usize> {
        let state = self.state.get()?;
        let Some(kept) = state.wakeup.take() else { return Ok(0) };
        if kept.bind(wakeup.py()).eq(wakeup)? {
            return Ok(1);
        }
        state.wakeup.replace(Some(kept));
        Ok(0)
    }

    fn result(&self, py: Python<'_>) -> PyResult<()> {
        let state = self.state.get()?;
        if !state.is_cancelled.get() {
            return Ok(());
        }
        let cancelled = py.import(intern!(py, "asyncio"))?.getattr(intern!(py, "CancelledError"))?;
        let exception = match state.message.take() {
            Some(message) => cancelled.call1((message,))?,
            None => cancelled.call0()?,
        };
        Err(PyErr::from_value(exception))
    }

    fn done(&self) -> PyResult<bool> {
        self.cancelled()
    }

    fn cancelled(&self) -> PyResult<bool> {
        Ok(self.state.get()?.is_cancelled.get())
    }

    /// The Task that waits here is to end cancelled: the loop wakes it at its next turn.
    #[pyo3(signature = (msg=None))]
    fn cancel(slf: &Bound<'_, Self>, msg: Option<Py<PyAny>>) -> PyResult<bool> {
        let py = slf.py();
        let state = slf.get().state.get()?;
        let Some(wakeup) = state.wakeup.take() else { return Ok(false) };
        state.is_cancelled.set(true);
        state.message.replace(msg);
        let keywords = PyDict::new(py);
        if let Some(context) = state.context.take() {
            keywords.set_item(intern!(py, "context"), context)?;
        }
        state.event_loop.bind(py).call_method(intern!(py, "call_soon"), (wakeup, slf), Some(&keywords))?;
        Ok(true)
    }
}
