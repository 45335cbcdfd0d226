//! How far the answer to a request is: whether its handler still runs, and what is to run after the response.
//!
//! Invariants: a client that leaves cancels a handler, never a teardown (api.md 16.9): what is noticed while none runs is
//! kept for one that begins later. Work is taken until there is none left, and none after that.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// No work was given, and the response may still go out.
const EMPTY: u8 = 0;
/// Work was given.
const FILLED: u8 = 1;
/// The response is out, and all work was taken.
const CLOSED: u8 = 2;

/// What a request remembers of its way through a loop.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The handler has ended: what runs now is teardown.
    is_over: AtomicBool,
    /// The client left, or the time was over, while no handler ran.
    is_missed: AtomicBool,
    /// The last handler raised or was cancelled: nothing runs after the response.
    has_failed: AtomicBool,
    /// An exception that nobody handled was answered.
    is_unhandled: AtomicBool,
    stage: AtomicU8,
    work: Mutex<Work>,
}

#[derive(Debug, Default)]
struct Work {
    waiting: VecDeque<Py<PyTuple>>,
    /// How much of it was there when the last handler began.
    earlier: usize,
}

// Relaxed for the four flags: they are read and written by the loop's own thread.
impl Progress {
    /// Middleware calls on. True when the client left meanwhile, so that the handler is not to begin.
    pub(super) fn begin(&self) -> bool {
        self.is_over.store(false, Ordering::Relaxed);
        self.has_failed.store(false, Ordering::Relaxed);
        let mut work = self.work();
        work.earlier = work.waiting.len();
        self.is_missed.load(Ordering::Relaxed)
    }

    /// The handler has ended.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// The handler, or what is around it, raised: what it left to do is not done, though middleware calls on again.
    pub(super) fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
        let dropped = {
            let mut work = self.work();
            let earlier = work.earlier.min(work.waiting.len());
            work.waiting.split_off(earlier)
        };
        // Out of the lock: what it refers to may run code when it is let go.
        drop(dropped);
    }

    /// An exception that nobody handled is answered.
    pub(super) fn unhandled(&self) {
        self.is_unhandled.store(true, Ordering::Relaxed);
    }

    /// Whether one was.
    pub(crate) fn is_unhandled(&self) -> bool {
        self.is_unhandled.load(Ordering::Relaxed)
    }

    /// Whether a client that leaves now cancels what runs. Where not, that is remembered.
    pub(crate) fn may_cancel(&self) -> bool {
        let is_over = self.is_over.load(Ordering::Relaxed);
        if is_over {
            self.is_missed.store(true, Ordering::Relaxed);
        }
        !is_over
    }

    /// Keeps work for after the response. False once that is out.
    pub(super) fn add(&self, work: Py<PyTuple>) -> bool {
        let mut kept = self.work();
        // AcqRel, here and in `close`: of two threads that do both at once, one sees what the other did.
        let stage = self.stage.compare_exchange(EMPTY, FILLED, Ordering::AcqRel, Ordering::Acquire);
        if stage == Err(CLOSED) {
            return false;
        }
        kept.waiting.push_back(work);
        true
    }

    /// The response goes out, or is refused. True when there is work, which `next` then gives.
    pub(crate) fn close(&self) -> bool {
        let stage = self.stage.compare_exchange(EMPTY, CLOSED, Ordering::AcqRel, Ordering::Acquire);
        if stage != Err(FILLED) {
            return false;
        }
        if self.has_failed.load(Ordering::Relaxed) {
            self.drop_all();
            return false;
        }
        true
    }

    /// The next work; `None` when there is no more, and none can be added.
    pub(super) fn next(&self) -> Option<Py<PyTuple>> {
        let mut work = self.work();
        let next = work.waiting.pop_front();
        if next.is_none() {
            // Release: pairs with the exchange in `add`, which is under the same lock anyway.
            self.stage.store(CLOSED, Ordering::Release);
        }
        next
    }

    /// Nothing of it will run.
    pub(crate) fn drop_all(&self) {
        let dropped = {
            let mut work = self.work();
            // Release: as in `next`.
            self.stage.store(CLOSED, Ordering::Release);
            std::mem::take(&mut *work)
        };
        // As in `fail`.
        drop(dropped);
    }

    /// Shows what is kept to the collector; not while another thread has it.
    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.work.try_lock() {
            Ok(work) => work.waiting.iter().try_for_each(|work| visit.call(work)),
            Err(_) => Ok(()),
        }
    }

    /// Held for a few instructions, none of which runs Python.
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
