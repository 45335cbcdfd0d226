//! Time on one I/O thread: the clock it reads when it wakes, what its connections wait for, and when to look again.
//!
//! Invariant 11 of ARCHITECTURE.md: a deadline is a place in the wheel of this thread, not a timer of its own, and
//! nothing ticks while nothing is armed.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use oxb_core::{Micros, clock};
use tokio::sync::Notify;

use super::{Io, with};
use crate::http_date;

/// The sweep of connection states (architecture.md: every 500 ms while a connection is open).
pub(super) const SWEEP: Micros = Micros(500_000);
/// Ticks of a service with waiting jobs.
const TICK: Micros = Micros(10_000);

/// What a connection is waiting for, as the sweep sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timed {
    /// Nothing that the sweep bounds.
    Nothing,
    /// The first byte of a new connection.
    Silence,
    /// The rest of a head.
    Head,
    /// The next request.
    KeepAlive,
    /// The next byte of a body.
    Body,
    /// Room in the budget of collected bodies.
    Budget,
    /// The client, to take what waits for it.
    Write,
}

/// A wait and when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) timed: Timed,
    pub(super) since: Micros,
}

impl Io {
    /// The time, read once when the thread woke.
    pub(crate) fn now(&self) -> Micros {
        self.now
    }

    /// The value of `Date` now.
    pub(crate) fn date(&mut self) -> &[u8; 29] {
        // The monotonic clock decides when the wall clock is asked again: once a second.
        let second = self.now.0 / 1_000_000 + 1;
        if second != self.date_second {
            self.date_second = second;
            let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
            self.date = http_date::imf_fixdate(unix);
        }
        &self.date
    }

    /// Says what `seat` waits for and since when.
    pub(crate) fn wait_since(&mut self, seat: u32, timed: Timed, since: Micros) {
        self.entries[seat as usize].wait = Wait { timed, since };
    }

    /// Says what `seat` waits for from now on; a wait that goes on keeps its beginning.
    pub(crate) fn wait_for(&mut self, seat: u32, timed: Timed) {
        let entry = &mut self.entries[seat as usize];
        if entry.wait.timed != timed {
            entry.wait = Wait { timed, since: self.now };
        }
    }

    /// Whether `wait` is going on, with nothing moved since it began.
    pub(crate) fn still_waits(&self, seat: u32, wait: Wait) -> bool {
        self.entries[seat as usize].wait == wait
    }

    /// Something moved: the wait of `seat` begins anew.
    pub(crate) fn moved(&mut self, seat: u32) {
        self.entries[seat as usize].wait.since = self.now;
    }

    /// Sets or clears the deadline of `seat`.
    pub(crate) fn set_deadline(&mut self, seat: u32, after: Option<Duration>) {
        let entry = &mut self.entries[seat as usize];
        entry.is_due = false;
        let Some(key) = entry.key else { return };
        match after {
            None => self.wheel.disarm(key),
            Some(after) => {
                let at = self.now.after(Micros::from(after));
                self.wheel.arm(key, at);
                self.look_by(at);
            }
        }
    }

    /// The service has work that may have to be moved: tick while that is so.
    pub(crate) fn want_ticks(&mut self) {
        if self.next_tick.is_none() {
            let at = self.now.after(TICK);
            self.next_tick = Some(at);
            self.look_by(at);
        }
    }

    pub(super) fn refresh(&mut self) {
        self.now = clock::now();
    }

    pub(super) fn look_by(&mut self, at: Micros) {
        if self.next_look.is_none_or(|next| at < next) {
            self.next_look = Some(at);
            self.poke.notify_one();
        }
    }

    /// Does what the clock says is due, and says when to look again; `None`: not before something asks.
    pub(super) fn look(&mut self) -> Option<Micros> {
        self.refresh();
        let now = self.now;
        if self.next_sweep.is_some_and(|at| at <= now) {
            let has_connections = self.entries.len() > self.free.len();
            self.sweep();
            self.next_sweep = has_connections.then_some(now.after(SWEEP));
        }
        let (entries, seat_of_key) = (&mut self.entries, &self.seat_of_key);
        self.wheel.expire(now, |key| {
            let entry = &mut entries[seat_of_key[key.index()] as usize];
            entry.is_due = true;
            if let Some(waker) = &entry.waker {
                waker.wake_by_ref();
            }
        });
        if self.next_tick.is_some_and(|at| at <= now) {
            self.next_tick = self.site.service.tick().then_some(now.after(TICK));
        }
        self.next_look = [self.next_sweep, self.next_tick, self.wheel.next()].into_iter().flatten().min();
        self.next_look
    }

    fn sweep(&mut self) {
        let options = &self.site.options;
        for entry in self.entries.iter_mut().filter(|entry| entry.is_live) {
            let limit = match entry.wait.timed {
                Timed::Nothing => None,
                Timed::Silence | Timed::Head => options.header_timeout,
                Timed::KeepAlive => options.keep_alive_timeout,
                // A handler that never gets its body would not answer in time either (api.md 4.2).
                Timed::Body => shorter(options.body_timeout, options.request_timeout),
                Timed::Budget => options.body_timeout,
                Timed::Write => options.write_timeout,
            };
            if limit.is_some_and(|limit| entry.wait.since.after(Micros::from(limit)) <= self.now) {
                entry.is_expired = true;
                if let Some(waker) = &entry.waker {
                    waker.wake_by_ref();
                }
            }
        }
    }
}

fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Looks at the clock whenever something is due; sleeps without a timer while nothing is.
pub(crate) async fn keep_time(poke: Arc<Notify>) {
    loop {
        match with(Io::look) {
            None => poke.notified().await,
            Some(at) => {
                let now = with(|io| io.now());
                let sleep = Duration::from_micros(at.since(now).0.max(1000));
                tokio::select! {
                    biased;
                    () = poke.notified() => {}
                    () = tokio::time::sleep(sleep) => {}
                }
            }
        }
    }
}
