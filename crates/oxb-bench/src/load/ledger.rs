//! Which requests belong to the measured window, and what came of those.
//!
//! Invariant: a request is counted by the measured window alone: by when its answer came in a closed loop, by when it
//! was due in an open one and where a fixed number is measured.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::outcome::{Failure, Outcome};
use super::tally::{Seen, Tally, latencies, nanos};
use super::window::{Reading, Window};

/// How long the measured window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// So much time.
    For(Duration),
    /// So many requests.
    Count(u64),
}

/// One request of the window.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    /// When it was sent, from the start of the window.
    pub sent: Duration,
    /// How it ended.
    pub outcome: Outcome,
    /// From when it was due to the head, to the first byte of the body, to the end; none where it got no answer.
    pub parts: Option<(Duration, Option<Duration>, Duration)>,
}

pub(super) struct Ledger {
    pub(super) begin: Instant,
    start: Instant,
    /// None where a fixed number is measured.
    end: Option<Instant>,
    is_by_due_time: bool,
    keeps_lines: bool,
    counts: Mutex<Counts>,
}

struct Counts {
    tally: Tally,
    send_lag: Histogram<u64>,
    lines: Vec<Line>,
    /// Of a fixed number: requests not begun yet.
    left: u64,
}

/// What a request is to the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Warmup,
    Measured,
    Over,
}

/// Everything that was counted, and what it took.
#[derive(Debug, Clone)]
pub(super) struct Closed {
    pub(super) tally: Tally,
    pub(super) unanswered: u64,
    pub(super) lines: Vec<Line>,
    pub(super) window: Window,
    send_lag: Histogram<u64>,
}

/// How long answers may still come after the window.
const SETTLE: Duration = Duration::from_secs(10);
/// Lines that are kept; later requests are counted only.
const MAX_LINES: usize = 1_000_000;

impl Ledger {
    /// A window that begins after `warmup`, counted from now.
    pub(super) fn new(warmup: Duration, measured: Extent, is_open_loop: bool, keeps_lines: bool) -> Self {
        let begin = Instant::now();
        let start = begin + warmup;
        let (end, left) = match measured {
            Extent::For(measured) => (Some(start + measured), u64::MAX),
            Extent::Count(count) => (None, count),
        };
        let counts = Counts { tally: Tally::new(), send_lag: super::tally::empty(), lines: Vec::new(), left };
        let is_by_due_time = is_open_loop || end.is_none();
        Self { begin, start, end, is_by_due_time, keeps_lines, counts: Mutex::new(counts) }
    }

    /// When no more requests are begun, where that is known.
    pub(super) fn end(&self) -> Option<Instant> {
        self.end
    }

    /// What a request that is due at that moment is to the window. Of a fixed number it takes one.
    pub(super) fn turn(&self, due: Instant) -> Turn {
        if self.end.is_some_and(|end| due >= end) {
            return Turn::Over;
        }
        if due < self.start {
            return Turn::Warmup;
        }
        if self.end.is_none() {
            let mut counts = self.counts();
            if counts.left == 0 {
                return Turn::Over;
            }
            counts.left -= 1;
        }
        Turn::Measured
    }

    /// Whether what happens at that moment happens in the window.
    pub(super) fn is_within(&self, at: Instant) -> bool {
        at >= self.start && self.end.is_none_or(|end| at < end)
    }

    /// Counts a request. Latency is counted `from` when it was due.
    pub(super) fn record(
        &self,
        turn: Turn,
        from: Instant,
        sent: Instant,
        result: Result<(Outcome, Seen), Failure>,
    ) {
        let done = result.as_ref().map_or_else(|_| Instant::now(), |(_, seen)| seen.end);
        let is_counted = if self.is_by_due_time { turn == Turn::Measured } else { self.is_within(done) };
        if !is_counted {
            return;
        }
        let mut counts = self.counts();
        if self.keeps_lines && counts.lines.len() < MAX_LINES {
            counts.lines.push(Line {
                sent: sent.saturating_duration_since(self.start),
                outcome: result.as_ref().map_or_else(|failure| Outcome::Failed(*failure), |seen| seen.0),
                parts: result.as_ref().ok().map(|(_, seen)| {
                    let since = |at: Instant| at.saturating_duration_since(from);
                    (since(seen.head), seen.first_byte.map(since), since(seen.end))
                }),
            });
        }
        match result {
            Ok((outcome, seen)) => counts.tally.record_seen(outcome, from, &seen),
            Err(failure) => counts.tally.record(Outcome::Failed(failure), done - from),
        }
    }

    /// Notes how late a request was sent.
    pub(super) fn note_lag(&self, lag: Duration) {
        self.counts().send_lag.saturating_record(nanos(lag));
    }

    /// Waits for the window and the clients, reading the server around it.
    pub(super) async fn close(&self, mut clients: JoinSet<()>, watched: Option<u32>) -> Closed {
        tokio::time::sleep_until(self.start.into()).await;
        let before = Reading::now(watched);
        let after = match self.end {
            Some(end) => {
                tokio::time::sleep_until(end.into()).await;
                let after = Reading::now(watched);
                // An error here means that some requests have no end; they are counted below.
                let _ = tokio::time::timeout(SETTLE, join(&mut clients)).await;
                after
            }
            // Every request has a time limit, so this ends.
            None => {
                join(&mut clients).await;
                Reading::now(watched)
            }
        };
        let unanswered = clients.len() as u64;
        clients.abort_all();
        let counts = self.counts();
        Closed {
            tally: counts.tally.clone(),
            unanswered,
            lines: counts.lines.clone(),
            window: before.until(after),
            send_lag: counts.send_lag.clone(),
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for all of them. A fault of the generator itself ends it, lest a client that fell over pass as a quiet one.
pub(super) async fn join(clients: &mut JoinSet<()>) {
    while let Some(ended) = clients.join_next().await {
        if let Err(error) = ended
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

impl Closed {
    /// Whether every request of the window was answered as it should be, and there was one.
    pub(super) fn is_right(&self) -> bool {
        self.tally.bad() == 0 && self.unanswered == 0 && self.tally.good() > 0
    }

    pub(super) fn requests_per_second(&self) -> f64 {
        self.tally.good() as f64 / self.window.elapsed().as_secs_f64()
    }

    /// The report of any load that is made of requests.
    pub(super) fn to_json(&self) -> Value {
        let answered = self.tally.good() + self.tally.refused();
        let mut errors = self.tally.errors();
        if self.unanswered > 0 {
            errors.insert("unanswered", self.unanswered);
        }
        json!({
            "is_right": self.is_right(),
            "seconds": self.window.elapsed().as_secs_f64(),
            "requests_per_second": self.requests_per_second(),
            "requests": self.tally.to_json(),
            "errors": errors,
            "unanswered": self.unanswered,
            "server": self.window.server(answered),
            "generator": self.window.generator(answered),
            "send_lag_ms": latencies(&self.send_lag),
        })
    }
}
