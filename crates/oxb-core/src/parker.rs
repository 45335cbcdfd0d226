//! A bell for a thread that waits on nothing else: a lock and a condition variable.
//!
//! Rust loops use it, and it is the whole of a signal under loom and where there are no descriptors to wait on.
//!
//! Invariant: a ring stays until it is consumed, however many there were, so one that comes before the wait is not lost.

use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex};

pub(crate) struct Parker {
    is_rung: Mutex<bool>,
    rung: Condvar,
}

impl Parker {
    pub(crate) fn new() -> Parker {
        Parker { is_rung: Mutex::new(false), rung: Condvar::new() }
    }

    pub(crate) fn raise(&self) {
        *self.is_rung.lock().expect("no holder panics") = true;
        self.rung.notify_one();
    }

    pub(crate) fn consume(&self) {
        *self.is_rung.lock().expect("no holder panics") = false;
    }

    /// Waits for a ring, for at most `timeout`; whether there was one. The ring stays.
    #[cfg(not(loom))]
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> bool {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut is_rung = self.is_rung.lock().expect("no holder panics");
        while !*is_rung {
            is_rung = match deadline {
                None => self.rung.wait(is_rung).expect("no holder panics"),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    self.rung.wait_timeout(is_rung, left).expect("no holder panics").0
                }
            };
        }
        true
    }

    /// Under loom no wait ends by time: one that nobody rings for is the deadlock loom reports.
    #[cfg(loom)]
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> bool {
        let _: (Option<Duration>, Option<Instant>) = (timeout, None);
        let mut is_rung = self.is_rung.lock().expect("no holder panics");
        while !*is_rung {
            is_rung = self.rung.wait(is_rung).expect("no holder panics");
        }
        true
    }
}
