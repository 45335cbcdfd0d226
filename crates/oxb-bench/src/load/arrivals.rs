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
    due: Mutex<VecDeque<Instant>>,
    arrived: Notify,
}

impl Schedule {
    pub(super) fn new() -> Self {
        Self { due: Mutex::new(VecDeque::new()), arrived: Notify::new() }
    }

    /// Lets arrivals in from `start` until `end`, then one `None` for each of `takers`.
    pub(super) async fn run(
        &self,
        arrivals: Arrivals,
        rate: f64,
        seed: u64,
        start: Instant,
        end: Instant,
    ) -> io::Result<()> {
        let mut timer = FineTimer::new()?;
        let mut seeded = Seeded::new(seed);
        let mut next = start;
        loop {
            next += match arrivals {
                Arrivals::Poisson => seeded.exponential_gap(rate),
                Arrivals::Fixed => Duration::from_secs_f64(1.0 / rate),
            };
            if next >= end {
                return Ok(());
            }
            timer.sleep_until(next).await?;
            self.due().push_back(next);
            self.arrived.notify_one();
        }
    }

    /// The next intended time, waiting for it until `end`.
    pub(super) async fn take(&self, end: Instant) -> Option<Instant> {
        loop {
            if let Some(intended) = self.due().pop_front() {
                return Some(intended);
            }
            if tokio::time::timeout_at(end.into(), self.arrived.notified()).await.is_err() {
                return self.due().pop_front();
            }
        }
    }

    fn due(&self) -> MutexGuard<'_, VecDeque<Instant>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
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
        loop {
            let mut ready = self.0.readable().await?;
            let mut count = [0_u8; 8];
            match ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut count)?)) {
                Ok(read) => return read.map(drop),
                Err(_would_block) => continue,
            }
        }
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
