//! When the requests of a paced run are meant to be sent, to the microsecond.
//!
//! Invariant: the times come from the rate and the seed alone, never from how fast answers come back; that is what
//! makes the run an open loop.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::steady::Arrivals;
use crate::seeded::Seeded;

/// Hands intended send times to the connections, which take them as they become free.
pub(super) struct Schedule {
    queue: Mutex<Queue>,
    arrived: Notify,
}

struct Queue {
    due: VecDeque<Instant>,
    is_closed: bool,
}

impl Schedule {
    pub(super) fn new() -> Self {
        let queue = Queue { due: VecDeque::new(), is_closed: false };
        Self { queue: Mutex::new(queue), arrived: Notify::new() }
    }

    /// Lets arrivals in from `start` until `end`, or until it is closed, and then closes.
    pub(super) async fn run(
        &self,
        arrivals: Arrivals,
        rate: f64,
        seed: u64,
        start: Instant,
        end: Option<Instant>,
    ) -> io::Result<()> {
        let mut timer = FineTimer::new()?;
        let mut seeded = Seeded::new(seed);
        let mut gap = || match arrivals {
            Arrivals::Poisson => seeded.exponential_gap(rate),
            Arrivals::Fixed => Duration::from_secs_f64(1.0 / rate),
        };
        let mut next = start + gap();
        loop {
            timer.sleep_until(next).await?;
            let now = Instant::now();
            let mut queue = self.queue();
            // A wake-up is late by more than a short gap, so it lets in whatever is due by now.
            while next <= now {
                if queue.is_closed || end.is_some_and(|end| next >= end) {
                    drop(queue);
                    self.close();
                    return Ok(());
                }
                queue.due.push_back(next);
                self.arrived.notify_one();
                next += gap();
            }
        }
    }

    /// The next intended time; `None` once it is closed and all were taken.
    pub(super) async fn take(&self) -> Option<Instant> {
        loop {
            // Made before the queue is looked at, so that an arrival in between is not missed.
            let arrived = self.arrived.notified();
            {
                let mut queue = self.queue();
                if let Some(intended) = queue.due.pop_front() {
                    return Some(intended);
                }
                if queue.is_closed {
                    return None;
                }
            }
            arrived.await;
        }
    }

    /// Lets no more arrivals in.
    pub(super) fn close(&self) {
        self.queue().is_closed = true;
        self.arrived.notify_waiters();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// tokio's timers tick in milliseconds, which would be seen in latencies of some hundred microseconds.
#[cfg(target_os = "linux")]
struct FineTimer(tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>);

#[cfg(target_os = "linux")]
impl FineTimer {
    fn new() -> io::Result<Self> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // SAFETY: the reactor wants the descriptor to stay the same and open while it is registered. `AsyncFd` owns
        // this `OwnedFd`, gives out shared references only, and leaves the reactor before it closes it.
        #[allow(unsafe_code)]
        let timer = unsafe { tokio::io::unix::AsyncFd::register(timer) }?;
        Ok(Self(timer))
    }

    async fn sleep_until(&mut self, deadline: Instant) -> io::Result<()> {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};

        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            // Arrivals that are due at once must not keep the connections from running.
            tokio::task::yield_now().await;
            return Ok(());
        }
        let value = Timespec::try_from(remaining).map_err(|_| io::ErrorKind::InvalidInput)?;
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        // Not read: setting it again is what takes it back, and it cannot ring before.
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
struct FineTimer;

#[cfg(not(target_os = "linux"))]
impl FineTimer {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn sleep_until(&mut self, deadline: Instant) -> io::Result<()> {
        tokio::time::sleep_until(deadline.into()).await;
        Ok(())
    }
}
