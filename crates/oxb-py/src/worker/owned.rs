//! State that one thread owns, inside an object that any thread may hold.
//!
//! A loop's own state needs no lock, yet Python lets every thread call a method of an object it got hold of
//! (`task.get_coro().send(None)` from a pool thread). Every access asks which thread this is; another thread
//! is refused, so cells inside are only ever touched by one thread (invariant 8 of ARCHITECTURE.md).

use std::ptr;

use pyo3::PyErr;
use pyo3::exceptions::PyRuntimeError;

thread_local! {
    static MARK: u8 = const { 0 };
}

/// An address that no other living thread has.
#[inline]
fn this_thread() -> usize {
    MARK.with(|mark| ptr::from_ref(mark).addr())
}

/// A value that only the thread that made it may look at.
pub(crate) struct Owned<T: Send> {
    owner: usize,
    value: T,
}

// SAFETY: `get` gives the value to the owner thread only, so `&T` is never used by two threads at once, and a
// thread that gets the address of one that ended has the value to itself. `T: Send` lets any thread drop it.
unsafe impl<T: Send> Sync for Owned<T> {}

impl<T: Send> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { owner: this_thread(), value }
    }

    /// The value, on its own thread.
    #[inline]
    pub(crate) fn get(&self) -> Result<&T, PyErr> {
        if self.owner == this_thread() { Ok(&self.value) } else { Err(foreign_thread()) }
    }
}

#[cold]
fn foreign_thread() -> PyErr {
    PyRuntimeError::new_err("this belongs to a worker loop and was used from another thread")
}
