//! What the connections of one I/O thread share: their seats, the clock, the deadlines and the way back.
//!
//! All of it lives in a thread-local, so that a connection's task holds only the number of its seat and can be
//! spawned as it is. Answers are delivered here: [`park`] runs whenever the runtime is about to sleep, flushes
//! the wakes owed to worker loops, then delivers what has come back; so neither direction costs a system call
//! for each request.
//!
//! Invariants 11 and 12 of ARCHITECTURE.md: a deadline is a place in the wheel of this thread, not a timer of
//! its own; and an answer that has come back is looked for before the thread parks, and while it is busy at
//! least every [`LOOK_EVERY`] polls.

mod buffers;
mod time;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use oxb_core::{DeadlineKey, DeadlineWheel, Micros, ReturnQueue, clock};
use tokio::sync::Notify;

use self::time::SWEEP;
use crate::exchange::{Envelope, Part, Token};
use crate::site::Site;

pub(crate) use self::buffers::{give_out, give_scratch, take_out, take_scratch};
pub(crate) use self::time::{Timed, Wait, keep_time};

/// A busy thread looks at its way back at least after this many polls of connections.
const LOOK_EVERY: u32 = 32;

/// One connection as the rest of its thread sees it.
struct Entry {
    serial: u32,
    is_live: bool,
    is_busy: bool,
    /// Its answer is read from a feed.
    is_fed: bool,
    waker: Option<Waker>,
    part: Option<Part>,
    more: VecDeque<Part>,
    wait: Wait,
    is_expired: bool,
    is_due: bool,
    key: Option<DeadlineKey>,
}

impl Entry {
    fn forget_exchange(&mut self) {
        self.serial = self.serial.wrapping_add(1);
        self.is_fed = false;
        self.part = None;
        if !self.more.is_empty() {
            self.more = VecDeque::new();
        }
    }
}

/// What a poll of a connection finds on its seat.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The sweep found that this wait has been going on for too long.
    pub(crate) expired: Option<Wait>,
    /// Its deadline has passed.
    pub(crate) is_due: bool,
    /// The thread is draining.
    pub(crate) is_draining: bool,
}

pub(crate) struct Io {
    index: usize,
    entries: Vec<Entry>,
    free: Vec<u32>,
    seat_of_key: Vec<u32>,
    wheel: DeadlineWheel,
    now: Micros,
    polls: u32,
    date: [u8; 29],
    date_second: u64,
    returns: Arc<ReturnQueue<Envelope>>,
    site: Arc<Site>,
    poke: Arc<Notify>,
    closed: Arc<Notify>,
    accepting: Option<tokio::task::AbortHandle>,
    next_look: Option<Micros>,
    next_sweep: Option<Micros>,
    next_tick: Option<Micros>,
    busy: usize,
    is_draining: bool,
    is_closing: bool,
}

thread_local! {
    static IO: RefCell<Option<Io>> = const { RefCell::new(None) };
}

/// Runs `act` on this thread's state.
///
/// # Panics
/// On a thread that is no I/O thread.
pub(crate) fn with<R>(act: impl FnOnce(&mut Io) -> R) -> R {
    IO.with(|io| act(io.borrow_mut().as_mut().expect("connections live on I/O threads only")))
}

/// Makes this thread an I/O thread.
pub(crate) fn install(
    index: usize,
    site: Arc<Site>,
    returns: Arc<ReturnQueue<Envelope>>,
    poke: Arc<Notify>,
    closed: Arc<Notify>,
) {
    let now = clock::now();
    IO.with(|io| {
        *io.borrow_mut() = Some(Io {
            index,
            entries: Vec::new(),
            free: Vec::new(),
            seat_of_key: Vec::new(),
            wheel: DeadlineWheel::starting_at(now),
            now,
            polls: 0,
            date: [b' '; 29],
            date_second: 0,
            returns,
            site,
            poke,
            closed,
            accepting: None,
            next_look: None,
            next_sweep: None,
            next_tick: None,
            busy: 0,
            is_draining: false,
            is_closing: false,
        });
    });
}

/// Lets every connection take the parts of answers that came before the thread was told to end.
pub(crate) async fn write_what_came() {
    // A connection whose socket is full leaves its parts where they are, so the turns are counted: each polls some
    // dozens of connections.
    let turns = with(|io| 16 + io.entries.len() / 8);
    for _ in 0..turns {
        if !with(|io| io.entries.iter().any(|entry| entry.is_live && (entry.part.is_some() || entry.is_fed)))
        {
            break;
        }
        tokio::task::yield_now().await;
    }
}

/// Before the runtime sleeps: flush owed wakes, deliver what came back, and allow the sleep only when nothing has.
pub(crate) fn park() {
    IO.with(|io| {
        // A runtime may park before `install`.
        let mut borrowed = io.borrow_mut();
        let Some(io) = borrowed.as_mut() else { return };
        io.site.service.before_park();
        loop {
            io.deliver();
            if io.returns.prepare_to_sleep() {
                break;
            }
        }
    });
}

/// After the runtime slept.
pub(crate) fn unpark() {
    IO.with(|io| {
        if let Some(io) = io.borrow_mut().as_mut() {
            io.returns.awake();
            io.now = clock::now();
        }
    });
}

impl Io {
    pub(crate) fn returns(&self) -> &Arc<ReturnQueue<Envelope>> {
        &self.returns
    }

    /// A new connection sits down.
    pub(crate) fn sit(&mut self) -> u32 {
        self.refresh();
        let key = self.wheel.insert();
        let entry = Entry {
            serial: 0,
            is_live: true,
            is_busy: false,
            is_fed: false,
            waker: None,
            part: None,
            more: VecDeque::new(),
            wait: Wait { timed: Timed::Silence, since: self.now },
            is_expired: false,
            is_due: false,
            key: Some(key),
        };
        let seat = match self.free.pop() {
            Some(seat) => {
                let serial = self.entries[seat as usize].serial;
                self.entries[seat as usize] = Entry { serial, ..entry };
                seat
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1)
                    .expect("connections are bounded by descriptors, far below u32")
            }
        };
        let index = key.index();
        if self.seat_of_key.len() <= index {
            self.seat_of_key.resize(index + 1, u32::MAX);
        }
        self.seat_of_key[index] = seat;
        if self.next_sweep.is_none() {
            self.next_sweep = Some(self.now.after(SWEEP));
            self.look_by(self.now.after(SWEEP));
        }
        seat
    }

    /// A connection has gone.
    pub(crate) fn leave(&mut self, seat: u32) {
        self.set_busy(seat, false);
        let entry = &mut self.entries[seat as usize];
        entry.is_live = false;
        entry.forget_exchange();
        entry.waker = None;
        if let Some(key) = entry.key.take() {
            self.wheel.remove(key);
        }
        self.free.push(seat);
    }

    /// Begins a poll of `seat`'s connection.
    pub(crate) fn enter(&mut self, seat: u32, waker: &Waker) -> Found {
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(LOOK_EVERY) {
            self.refresh();
            self.site.service.before_park();
            self.deliver();
        }
        let is_draining = self.is_draining;
        let entry = &mut self.entries[seat as usize];
        if entry.waker.is_none() {
            // A task keeps its waker for life.
            entry.waker = Some(waker.clone());
        }
        Found {
            expired: std::mem::take(&mut entry.is_expired).then_some(entry.wait),
            is_due: std::mem::take(&mut entry.is_due),
            is_draining,
        }
    }

    /// Takes the next part of the answer, if one has come.
    pub(crate) fn take_part(&mut self, seat: u32) -> Option<Part> {
        let entry = &mut self.entries[seat as usize];
        let part = entry.part.take();
        if part.is_some() && !entry.more.is_empty() {
            entry.part = entry.more.pop_front();
        }
        part
    }

    /// Whether a part of the answer has come.
    pub(crate) fn has_part(&self, seat: u32) -> bool {
        self.entries[seat as usize].part.is_some()
    }

    /// The name of the exchange of `seat` that begins.
    pub(crate) fn token(&self, seat: u32) -> Token {
        Token { seat, serial: self.entries[seat as usize].serial }
    }

    /// The exchange of `seat` is over: whatever still comes back for it is late and finds nobody.
    pub(crate) fn end_exchange(&mut self, seat: u32) {
        self.set_busy(seat, false);
        self.set_deadline(seat, None);
        self.entries[seat as usize].forget_exchange();
    }

    /// A request of `seat` is with the service, or no longer.
    pub(crate) fn set_busy(&mut self, seat: u32, is_busy: bool) {
        let entry = &mut self.entries[seat as usize];
        if entry.is_busy != is_busy {
            entry.is_busy = is_busy;
            if is_busy {
                self.busy += 1;
            } else {
                self.busy -= 1;
            }
            self.site.set_busy(self.index, self.busy);
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// The thread ends as soon as what came has been written.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// The answer of `seat` is read from a feed.
    pub(crate) fn set_fed(&mut self, seat: u32) {
        self.entries[seat as usize].is_fed = true;
    }

    pub(crate) fn set_accepting(&mut self, accepting: tokio::task::AbortHandle) {
        self.accepting = Some(accepting);
    }

    fn deliver(&mut self) {
        while let Some(envelope) = self.returns.pop() {
            match envelope {
                Envelope::To(token, part) => {
                    let entry = &mut self.entries[token.seat as usize];
                    if entry.serial != token.serial {
                        continue;
                    }
                    if entry.part.is_none() {
                        entry.part = Some(part);
                    } else {
                        entry.more.push_back(part);
                    }
                    if let Some(waker) = &entry.waker {
                        waker.wake_by_ref();
                    }
                }
                Envelope::Nudge(token) => {
                    let entry = &self.entries[token.seat as usize];
                    if let (true, Some(waker)) = (entry.serial == token.serial, &entry.waker) {
                        waker.wake_by_ref();
                    }
                }
                Envelope::Drain => {
                    self.is_draining = true;
                    if let Some(accepting) = self.accepting.take() {
                        accepting.abort();
                    }
                    for entry in self.entries.iter().filter(|entry| entry.is_live) {
                        if let Some(waker) = &entry.waker {
                            waker.wake_by_ref();
                        }
                    }
                }
                Envelope::Close => {
                    self.is_closing = true;
                    for entry in self.entries.iter().filter(|entry| entry.is_live && entry.is_fed) {
                        if let Some(waker) = &entry.waker {
                            waker.wake_by_ref();
                        }
                    }
                    self.closed.notify_one();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ServerOptions;
    use crate::router::RouterBuilder;
    use crate::service::Handlers;
    use std::time::Duration;

    /// Makes the test's own thread an I/O thread.
    fn install_here(options: ServerOptions) -> Arc<Notify> {
        let service = Arc::new(Handlers::new());
        let site = Arc::new(Site::new(RouterBuilder::new().build(), vec![], service, options));
        let returns = Arc::new(ReturnQueue::new().unwrap());
        let poke = Arc::new(Notify::new());
        install(0, site, returns, Arc::clone(&poke), Arc::new(Notify::new()));
        poke
    }

    #[test]
    fn invariant_11_nothing_ticks_without_a_connection_and_deadlines_share_one_look() {
        drop(install_here(ServerOptions::default()));
        assert_eq!(with(Io::look), None, "no connection: nothing to look at");
        let seats: Vec<u32> = (0..100).map(|_| with(Io::sit)).collect();
        let sweep = with(Io::look).unwrap();
        with(|io| {
            for &seat in &seats {
                io.set_deadline(seat, Some(Duration::from_secs(30)));
            }
            assert_eq!(io.next_look, Some(sweep), "a far deadline changes nothing about the next look");
            for &seat in &seats[..50] {
                io.set_deadline(seat, Some(Duration::from_millis(20)));
            }
            let at = io.next_look.unwrap();
            assert!(at < sweep && at <= io.now.after(Micros(20_000)), "one look for all of them");
            for &seat in &seats {
                io.set_deadline(seat, None);
                io.leave(seat);
            }
        });
        with(|io| io.next_sweep = io.next_sweep.map(|_| io.now));
        assert_eq!(with(Io::look), None, "none again: the last sweep found nobody");
    }

    #[test]
    fn invariant_5_what_comes_back_after_the_end_of_its_exchange_finds_nobody() {
        drop(install_here(ServerOptions::default()));
        let seat = with(Io::sit);
        let push = |token: Token, part: Part| with(|io| io.returns.push(Envelope::To(token, part)));
        let first = with(|io| io.token(seat));
        push(first, Part::Overloaded);
        with(Io::deliver);
        assert!(with(|io| io.has_part(seat)));
        with(|io| io.end_exchange(seat));
        assert!(!with(|io| io.has_part(seat)), "a part that was not taken goes with its exchange");
        push(first, Part::Dropped);
        with(Io::deliver);
        assert!(!with(|io| io.has_part(seat)), "late");
        // The next connection on this seat.
        let second = with(|io| io.token(seat));
        with(|io| io.leave(seat));
        assert_eq!(with(Io::sit), seat, "seats are used again");
        push(second, Part::Dropped);
        with(Io::deliver);
        assert!(!with(|io| io.has_part(seat)), "another connection's");
    }
}
