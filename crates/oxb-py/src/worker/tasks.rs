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
    /// `Task.get_name`, unbound.
    get_name: Py<PyAny>,
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
            get_name: task_type.getattr(intern!(py, "get_name"))?.unbind(),
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

    /// Whether somebody asked this Task to be cancelled, waits for its end or gave it another name than the one
    /// whose address is `named` (0: it was not given one).
    #[inline]
    pub(crate) fn has_mark(&self, task: &Bound<'_, PyAny>, named: usize) -> bool {
        // SAFETY: attached; a live `int`, which is what `Task.cancelling` returns.
        let is_asked = ask(&self.cancelling, task)
            .is_none_or(|count| unsafe { ffi::PyLong_AsLong(count.as_ptr()) } != 0);
        is_asked
            || (named != 0 && ask(&self.get_name, task).is_none_or(|name| name.as_ptr().addr() != named))
            || self.callbacks(task).is_ok_and(|callbacks| !has_none(&callbacks))
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

/// What a method of the Task returns that takes nothing; `None` after an error, which is dropped.
#[inline]
fn ask<'py>(method: &Py<PyAny>, task: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    // SAFETY: attached; both objects are held for the call, which gives a new reference or null with an error set.
    let answer = unsafe {
        Bound::from_owned_ptr_or_err(task.py(), ffi::PyObject_CallOneArg(method.as_ptr(), task.as_ptr()))
    };
    answer.ok()
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
