//! Making spare Tasks, and seeing what a job left on one.
//!
//! A Task is made eager where asyncio can (3.12): its first step runs at once and parks at the door. On 3.11 the
//! first step is the loop's next turn, so some are made ahead.

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::spare::Spare;

/// What is needed of asyncio's `Task`.
pub(crate) struct Tasks {
    task_type: Py<PyAny>,
    options: Py<PyDict>,
    /// `Task.cancelling`, unbound.
    cancelling: Py<PyAny>,
    /// `Task._callbacks`: the descriptor itself where there is one.
    callbacks: Py<PyAny>,
    pub(crate) is_eager: bool,
}

impl Tasks {
    pub(crate) fn new(py: Python<'_>, event_loop: &Bound<'_, PyAny>) -> PyResult<Self> {
        let task_type = py.import(intern!(py, "asyncio"))?.getattr(intern!(py, "Task"))?;
        let options = PyDict::new(py);
        options.set_item(intern!(py, "loop"), event_loop)?;
        let is_eager = py.version_info() >= (3, 12);
        if is_eager {
            options.set_item(intern!(py, "eager_start"), true)?;
        }
        Ok(Self {
            cancelling: task_type.getattr(intern!(py, "cancelling"))?.unbind(),
            callbacks: task_type.getattr(intern!(py, "_callbacks"))?.unbind(),
            task_type: task_type.unbind(),
            options: options.unbind(),
            is_eager,
        })
    }

    /// A Task of the running loop around a spare.
    pub(crate) fn make<'py>(&self, spare: &Bound<'py, Spare>) -> PyResult<Bound<'py, PyAny>> {
        let py = spare.py();
        self.task_type.bind(py).call((spare,), Some(self.options.bind(py)))
    }

    /// Whether somebody asked this Task to be cancelled or waits for its end.
    #[inline]
    pub(crate) fn has_mark(&self, task: &Bound<'_, PyAny>) -> bool {
        let py = task.py();
        // SAFETY: attached; both objects are held for the call.
        let cancelling = unsafe { ffi::PyObject_CallOneArg(self.cancelling.as_ptr(), task.as_ptr()) };
        if cancelling.is_null() {
            drop(PyErr::fetch(py));
            return true;
        }
        // SAFETY: a new reference to an `int`: what `Task.cancelling` returns.
        let is_asked = unsafe {
            let is_asked = ffi::PyLong_AsLong(cancelling) != 0;
            ffi::Py_DECREF(cancelling);
            is_asked
        };
        is_asked || self.callbacks(task).is_ok_and(|callbacks| !has_none(&callbacks))
    }

    /// `task._callbacks`, by the descriptor's own function: this is asked after every job, and the look-up of an
    /// attribute costs several times as much.
    #[inline]
    fn callbacks<'py>(&self, task: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = task.py();
        // SAFETY: attached; a type is never null, and `tp_descr_get` takes a descriptor of this type, an instance of
        // the class it stands in, and may get null for that class. Null is an error set.
        unsafe {
            let descriptor = self.callbacks.as_ptr();
            match (*ffi::Py_TYPE(descriptor)).tp_descr_get {
                Some(get) if ffi::Py_TYPE(task.as_ptr()) == self.task_type.as_ptr().cast() => {
                    Bound::from_owned_ptr_or_err(py, get(descriptor, task.as_ptr(), std::ptr::null_mut()))
                }
                _ => task.getattr(intern!(py, "_callbacks")),
            }
        }
    }
}

/// The C Task has `None` where there are no callbacks, the Python one an empty list.
fn has_none(callbacks: &Bound<'_, PyAny>) -> bool {
    callbacks.is_none() || callbacks.len().is_ok_and(|length| length == 0)
}

/// Registers the spare's class where asyncio looks for coroutines.
pub(crate) fn register_coroutine(py: Python<'_>) -> PyResult<()> {
    let coroutine = py.import("collections.abc")?.getattr("Coroutine")?;
    let registered = coroutine.call_method1("register", (py.get_type::<Spare>(),))?;
    if registered.is_none() { Err(PyTypeError::new_err("the spare is no coroutine")) } else { Ok(()) }
}
