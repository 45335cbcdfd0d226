//! A body that flows to its handler while it arrives: a bounded buffer between the connection and its reader.
//!
//! The connection reads nothing before the first piece is asked for, and stops where too much waits (api.md 4.4).
//!
//! Invariants: at most [`WINDOW`] bytes and one read wait, and beyond [`FREE`] only what the budget of all bodies
//! has room for (invariant 10 of ARCHITECTURE.md). A side that waits is told: the reader says so by `is_awaited`,
//! the connection by `is_paused`, both under the lock, and the other takes the flag and wakes it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use oxb_core::{Micros, clock};
use thiserror::Error;

use crate::body::BodyEnd;
use crate::budget::Budget;
use crate::exchange::{Exchange, WayBack};

/// Bytes that wait for the reader, then the socket is left unread.
const WINDOW: usize = 1 << 20;
/// A connection that stopped at [`WINDOW`] goes on below this, so that it is not woken for every piece.
const RESUME: usize = WINDOW / 2;
/// What a body may have waiting though the budget is used up, so that it gets on in any case.
const FREE: usize = 64 * 1024;
/// Small reads are joined up to this, so that a client that sends byte by byte costs bytes and not buffers.
const PIECE: usize = 64 * 1024;

/// Why a body ended before it was whole.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum BodyFailure {
    /// It is over the limit of its route.
    #[error("request body larger than {0} bytes")]
    TooLarge(u64),
    /// The client sent nothing for the body timeout.
    #[error("request body stalled")]
    Stalled,
    /// The client left, or was answered before all of it was read.
    #[error("request body ended early")]
    EndedEarly,
    /// Its framing is broken.
    #[error("bad body")]
    Broken,
}

impl BodyFailure {
    /// The status it is answered with where nobody says otherwise.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::TooLarge(_) => 413,
            Self::Stalled => 408,
            Self::EndedEarly | Self::Broken => 400,
        }
    }
}

/// What a reader finds.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Bytes, never none.
    Piece(Vec<u8>),
    /// All was read; so every later call finds.
    End,
    /// There will be no more; so every later call finds.
    Failed(BodyFailure),
    /// Nothing yet: wait for [`crate::service::Notice::Body`].
    Later,
}

struct State {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes in `pieces`, and how many of them were taken from the budget.
    waiting: usize,
    counted: usize,
    /// The budget had no room for the last piece.
    is_short: bool,
    end: Option<Result<(), BodyFailure>>,
    is_awaited: bool,
    /// The reader was given a failure.
    is_told: bool,
    is_paused: bool,
    /// When a piece was taken last, or came for a reader that waited.
    moved_at: Option<Micros>,
}

struct Shared {
    state: Mutex<State>,
    budget: Arc<Budget>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let counted = self.state.get_mut().map_or(0, |state| state.counted);
        self.budget.give_back(counted as u64);
    }
}

impl State {
    fn append(&mut self, data: &[u8], budget: &Budget) {
        if data.is_empty() {
            return;
        }
        self.is_short = !budget.take(data.len() as u64);
        self.counted += if self.is_short { 0 } else { data.len() };
        self.waiting += data.len();
        match self.pieces.back_mut() {
            Some(last) if last.len() + data.len() <= PIECE => last.extend_from_slice(data),
            _ => self.pieces.push_back(data.to_vec()),
        }
    }

    fn tell(&mut self) -> bool {
        let is_awaited = std::mem::take(&mut self.is_awaited);
        if is_awaited {
            self.moved_at = Some(clock::now());
        }
        is_awaited
    }
}

/// The reader's side of a body that flows. Usable from any thread.
pub struct BodyReader {
    shared: Arc<Shared>,
    exchange: Arc<Exchange>,
    back: WayBack,
}

impl BodyReader {
    /// The next piece, if one waits.
    #[must_use]
    pub fn next(&self) -> Next {
        let mut state = self.shared.lock();
        let Some(piece) = state.pieces.pop_front() else {
            if let Some(end) = state.end {
                state.is_told |= end.is_err();
                return end.map_or_else(Next::Failed, |()| Next::End);
            }
            state.is_awaited = true;
            let resumes = std::mem::take(&mut state.is_paused);
            drop(state);
            if resumes {
                self.back.nudge();
            }
            return Next::Later;
        };
        state.waiting -= piece.len();
        let freed = piece.len().min(state.counted);
        state.counted -= freed;
        state.moved_at = Some(clock::now());
        let resumes = state.end.is_none() && state.waiting <= RESUME && std::mem::take(&mut state.is_paused);
        drop(state);
        self.shared.budget.give_back(freed as u64);
        if resumes {
            self.back.nudge();
        }
        Next::Piece(piece)
    }

    /// What this request shares with its connection.
    #[must_use]
    pub fn exchange(&self) -> &Arc<Exchange> {
        &self.exchange
    }
}

impl std::fmt::Debug for BodyReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("BodyReader").field("back", &self.back).finish_non_exhaustive()
    }
}

/// What is left of a body when its request was answered.
#[derive(Debug)]
pub(crate) enum Rest {
    /// Nothing: what follows is the next request.
    Nothing,
    /// This much has to be read away first.
    Unread(Box<BodyEnd>),
    /// Nobody can tell where the next request would begin.
    Lost,
}

/// The connection's side of a body that flows.
pub(crate) struct Inflow {
    shared: Arc<Shared>,
    end: BodyEnd,
    limit: u64,
    received: u64,
    pub(crate) owes_continue: bool,
    /// How it ended, as far as the connection is concerned.
    over: Option<Result<(), BodyFailure>>,
}

impl Inflow {
    pub(crate) fn new(end: BodyEnd, limit: u64, owes_continue: bool, budget: &Arc<Budget>) -> Self {
        let over = match end {
            BodyEnd::Length(length) if length > limit => Some(Err(BodyFailure::TooLarge(limit))),
            _ => None,
        };
        let state = State {
            pieces: VecDeque::new(),
            waiting: 0,
            counted: 0,
            is_short: false,
            end: over,
            is_awaited: false,
            is_told: false,
            is_paused: true,
            moved_at: None,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), budget: Arc::clone(budget) });
        Self { shared, end, limit, received: 0, owes_continue, over }
    }

    pub(crate) fn reader(&self, exchange: Arc<Exchange>, back: WayBack) -> BodyReader {
        BodyReader { shared: Arc::clone(&self.shared), exchange, back }
    }

    /// Whether nothing more is read of it, be it whole or not.
    pub(crate) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Whether the client ended its side in the middle of it.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.over == Some(Err(BodyFailure::EndedEarly))
    }

    /// Whether its reader knows that it failed.
    pub(crate) fn is_told(&self) -> bool {
        self.shared.lock().is_told
    }

    /// Whether more of it is to be read now. Where not, its reader nudges when it is.
    pub(crate) fn is_wanted(&self) -> bool {
        let mut state = self.shared.lock();
        let most = if state.is_short { FREE } else { WINDOW };
        state.is_paused |= state.waiting >= most;
        !state.is_paused
    }

    /// Takes what `input` holds of it: how many bytes that were, and whether the reader waits for them.
    pub(crate) fn push(&mut self, input: &[u8]) -> (usize, bool) {
        let mut state = self.shared.lock();
        let (consumed, over) = match &mut self.end {
            BodyEnd::Length(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= count as u64;
                state.append(&input[..count], &self.shared.budget);
                (count, (*left == 0).then_some(Ok(())))
            }
            BodyEnd::Chunked(decoder) => {
                let mut is_over = false;
                let progress = decoder.decode(input, |data| {
                    self.received = self.received.saturating_add(data.len() as u64);
                    is_over |= self.received > self.limit;
                    if !is_over {
                        state.append(data, &self.shared.budget);
                    }
                });
                match progress {
                    Err(_) => (input.len(), Some(Err(BodyFailure::Broken))),
                    Ok(progress) if is_over => {
                        (progress.consumed, Some(Err(BodyFailure::TooLarge(self.limit))))
                    }
                    Ok(progress) => (progress.consumed, progress.done.then_some(Ok(()))),
                }
            }
        };
        self.over = over;
        state.end = state.end.or(over);
        let has_news = over.is_some() || !state.pieces.is_empty();
        (consumed, has_news && state.tell())
    }

    /// It ends here. True when the reader waits for it.
    pub(crate) fn fail(&mut self, failure: BodyFailure) -> bool {
        self.over.get_or_insert(Err(failure));
        let mut state = self.shared.lock();
        state.end.get_or_insert(Err(failure));
        state.tell()
    }

    /// Nobody reads the connection for it any more. True when the reader waits.
    pub(crate) fn close(&self) -> bool {
        let mut state = self.shared.lock();
        state.end.get_or_insert(Err(BodyFailure::EndedEarly));
        let (counted, is_awaited) = (std::mem::take(&mut state.counted), state.tell());
        drop(state);
        self.shared.budget.give_back(counted as u64);
        is_awaited
    }

    /// What of it is left on the connection.
    pub(crate) fn into_rest(self) -> Rest {
        match self.over {
            Some(Ok(())) => Rest::Nothing,
            Some(Err(BodyFailure::Stalled | BodyFailure::EndedEarly | BodyFailure::Broken)) => Rest::Lost,
            // The client may send the body or not.
            _ if self.owes_continue => Rest::Lost,
            Some(Err(BodyFailure::TooLarge(_))) | None => match &self.end {
                BodyEnd::Chunked(decoder) if decoder.is_done() => Rest::Nothing,
                _ => Rest::Unread(Box::new(self.end)),
            },
        }
    }

    /// How long the handler has left of `timeout`: it counts from the last piece that moved, and stands still while
    /// the reader waits for the client (api.md 4.4). `None`: it does not have to do with the body.
    pub(crate) fn time_left(&self, now: Micros, timeout: Duration) -> Option<Duration> {
        let state = self.shared.lock();
        if state.is_awaited && state.end.is_none() {
            return Some(timeout);
        }
        let spent = Duration::from_micros(now.since(state.moved_at?).0);
        timeout.checked_sub(spent).filter(|left| !left.is_zero())
    }
}
