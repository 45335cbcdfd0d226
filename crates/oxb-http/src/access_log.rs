//! The access log: one record for every request that was looked up, when its response ends.
//!
//! I/O threads push, one thread of whoever runs the server takes and writes. A record is made only where a server was
//! given a log.
//!
//! Invariant 10 of ARCHITECTURE.md: at most so many records wait as the log was made for. Those that find no room are
//! counted, and the count is told once to the one who takes.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use oxb_core::Micros;

/// The status of a request whose client left before there was a response: no status is sent then, and this is what logs
/// of other servers have for it.
pub const CLIENT_LEFT: u16 = 499;

/// What the log says of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRecord {
    /// The method.
    pub method: String,
    /// The request target as sent.
    pub target: String,
    /// The status of the response; [`CLIENT_LEFT`] where there was none.
    pub status: u16,
    /// From the end of the request's head to the end of its response.
    pub duration: Micros,
    /// The response is a 500 because whoever should have answered failed.
    pub is_failure: bool,
}

/// What was taken from a log.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Records, the oldest first.
    pub records: Vec<AccessRecord>,
    /// How many found no room since the last time.
    pub lost: u64,
}

/// Records on their way from the I/O threads to the thread that writes them.
#[derive(Debug)]
pub struct AccessLog {
    waiting: Mutex<Waiting>,
    has_come: Condvar,
    capacity: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    records: VecDeque<AccessRecord>,
    lost: u64,
    is_closed: bool,
    /// The taker sleeps: the next record wakes it.
    is_awaited: bool,
}

impl AccessLog {
    /// A log in which at most `capacity` records wait.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { waiting: Mutex::default(), has_come: Condvar::new(), capacity }
    }

    /// Adds a record.
    pub fn push(&self, record: AccessRecord) {
        let mut waiting = self.waiting();
        if waiting.records.len() >= self.capacity {
            waiting.lost += 1;
            return;
        }
        waiting.records.push_back(record);
        let is_awaited = std::mem::take(&mut waiting.is_awaited);
        drop(waiting);
        if is_awaited {
            self.has_come.notify_one();
        }
    }

    /// Takes at most `limit` records and waits until there is one; `None` once the log is closed and empty. For one thread.
    pub fn take(&self, limit: usize) -> Option<Taken> {
        let mut waiting = self.waiting();
        loop {
            let count = waiting.records.len().min(limit.max(1));
            if count > 0 || waiting.lost > 0 {
                let records = waiting.records.drain(..count).collect();
                return Some(Taken { records, lost: std::mem::take(&mut waiting.lost) });
            }
            if waiting.is_closed {
                return None;
            }
            waiting.is_awaited = true;
            waiting = self.has_come.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// No more records come: what waits can still be taken.
    pub fn close(&self) {
        self.waiting().is_closed = true;
        self.has_come.notify_all();
    }

    /// Held for a few instructions by either side.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    fn record(number: usize) -> AccessRecord {
        AccessRecord {
            method: "GET".to_owned(),
            target: format!("/{number}"),
            status: 200,
            duration: Micros(1),
            is_failure: false,
        }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_told_once() {
        let log = AccessLog::new(2);
        (0..5).for_each(|number| log.push(record(number)));
        let taken = log.take(1).unwrap();
        assert_eq!(taken, Taken { records: vec![record(0)], lost: 3 });
        assert_eq!(log.take(10).unwrap(), Taken { records: vec![record(1)], lost: 0 });
        log.push(record(6));
        log.close();
        assert_eq!(log.take(10).unwrap().records, [record(6)]);
        assert_eq!(log.take(10), None);
    }

    #[test]
    fn a_taker_that_waits_misses_nothing_of_what_many_threads_push() {
        let log = Arc::new(AccessLog::new(100_000));
        let pushers: Vec<_> = (0..4)
            .map(|_| {
                let log = Arc::clone(&log);
                thread::spawn(move || (0..5_000).for_each(|number| log.push(record(number))))
            })
            .collect();
        let taker = {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                let mut count = 0;
                while let Some(taken) = log.take(7) {
                    assert!(taken.records.len() <= 7);
                    count += taken.records.len();
                }
                count
            })
        };
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        log.close();
        assert_eq!(taker.join().unwrap(), 20_000);
    }
}
