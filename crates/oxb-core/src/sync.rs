//! Atomics, locks and queues, from `std` and crossbeam or, under `--cfg loom`, from loom.
//!
//! Whatever a claim about interleavings rests on comes from here. Under loom the queues are a
//! `Mutex<VecDeque>`: crossbeam's are not modelled, the protocols around them are.

#[cfg(not(loom))]
pub(crate) use crossbeam_queue::{ArrayQueue, SegQueue};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

#[cfg(not(loom))]
type Guard<'a, T> = std::sync::MutexGuard<'a, T>;
#[cfg(loom)]
type Guard<'a, T> = loom::sync::MutexGuard<'a, T>;

/// Locks what foreign code runs under: where that panics, the next one goes on with what is there.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> Guard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(loom)]
pub(crate) use self::shim::{ArrayQueue, SegQueue};
#[cfg(loom)]
pub(crate) use loom::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

#[cfg(loom)]
mod shim {
    use super::Mutex;
    use std::collections::VecDeque;

    /// Stands for `crossbeam_queue::ArrayQueue`.
    pub(crate) struct ArrayQueue<T> {
        items: Mutex<VecDeque<T>>,
        capacity: usize,
    }

    impl<T> ArrayQueue<T> {
        pub(crate) fn new(capacity: usize) -> Self {
            ArrayQueue { items: Mutex::new(VecDeque::new()), capacity }
        }

        pub(crate) fn push(&self, item: T) -> Result<(), T> {
            let mut items = self.items.lock().expect("no holder panics");
            if items.len() == self.capacity {
                return Err(item);
            }
            items.push_back(item);
            Ok(())
        }

        pub(crate) fn pop(&self) -> Option<T> {
            self.items.lock().expect("no holder panics").pop_front()
        }

        pub(crate) fn len(&self) -> usize {
            self.items.lock().expect("no holder panics").len()
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.len() == 0
        }
    }

    /// Stands for `crossbeam_queue::SegQueue`.
    pub(crate) struct SegQueue<T> {
        items: Mutex<VecDeque<T>>,
    }

    impl<T> SegQueue<T> {
        pub(crate) fn new() -> Self {
            SegQueue { items: Mutex::new(VecDeque::new()) }
        }

        pub(crate) fn push(&self, item: T) {
            self.items.lock().expect("no holder panics").push_back(item);
        }

        pub(crate) fn pop(&self) -> Option<T> {
            self.items.lock().expect("no holder panics").pop_front()
        }

        pub(crate) fn len(&self) -> usize {
            self.items.lock().expect("no holder panics").len()
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.len() == 0
        }
    }
}
