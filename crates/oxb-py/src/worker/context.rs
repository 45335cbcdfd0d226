//! Contexts of jobs: each job runs inside a copy of its worker's base context.
//!
//! Invariant 8 of ARCHITECTURE.md: one handler's context never leaks into the next. What is entered here is
//! left here, whatever the job did.

use pyo3::ffi;
use pyo3::prelude::*;

/// A `contextvars.Context`.
pub(crate) struct Context(Py<PyAny>);

impl Context {
    /// A copy of the context this thread is in.
    pub(crate) fn copy_current(py: Python<'_>) -> PyResult<Self> {
        // SAFETY: `py` proves the thread is attached; the result is a new reference or null with an error set.
        let copy = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyContext_CopyCurrent())? };
        Ok(Self(copy.unbind()))
    }

    #[inline]
    pub(crate) fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        // SAFETY: `self` holds a context, made by the two functions here; the result is as above.
        let copy = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyContext_Copy(self.0.as_ptr()))? };
        Ok(Self(copy.unbind()))
    }

    /// Enters the context until the guard is dropped.
    #[inline]
    pub(crate) fn enter<'a>(&'a self, py: Python<'a>) -> PyResult<Entered<'a>> {
        // SAFETY: `self` holds a context and outlives the guard; -1 leaves an error set.
        if unsafe { ffi::PyContext_Enter(self.0.as_ptr()) } < 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(Entered { context: self, py })
    }
}

/// Proof that a context is entered; leaves it when dropped.
pub(crate) struct Entered<'a> {
    context: &'a Context,
    py: Python<'a>,
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: entered by `enter` on this thread, which is still attached: the guard borrows `py`.
        if unsafe { ffi::PyContext_Exit(self.context.0.as_ptr()) } < 0 {
            // A job that entered a context through C and stayed there. Nothing can be done for it here.
            PyErr::fetch(self.py).write_unraisable(self.py, None);
        }
    }
}
