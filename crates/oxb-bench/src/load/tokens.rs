//! Requests with tokens of their own: each answer must be the token of its own request.
//!
//! Invariant: no token is sent twice in a run, so a good answer cannot be that of another request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::connection::{Connection, LIMIT};
use super::tally::Tally;
use super::{Failure, Outcome, RequestSpec, Target};
use crate::seeded::Seeded;

/// How many requests, over how many connections, and what an answer must be.
#[derive(Debug, Clone)]
pub struct TokenOptions {
    /// The server; `{token}` in its path stands for the token.
    pub target: Target,
    /// The body that a good answer has; `{token}` stands for the token.
    pub body: String,
    /// Requests in all. With `at_once` each has a connection of its own.
    pub request_count: usize,
    /// Connections they go over.
    pub connection_count: usize,
    /// First open a connection for every request, then send all at the same moment.
    pub at_once: bool,
    /// Of the tokens.
    pub seed: u64,
    /// Statuses counted as refused, not as wrong.
    pub refusals: Vec<u16>,
    /// What has no answer after this long in all is unanswered.
    pub deadline: Duration,
}

/// What came of them.
#[derive(Debug, Clone)]
pub struct TokenReport {
    /// Counts and latencies.
    pub tally: Tally,
    /// Requests without any end when the deadline came.
    pub unanswered: u64,
    /// When each good answer came, counted from the first request, in order.
    pub answered_after: Vec<Duration>,
    /// The first answers that were not the own token.
    pub samples: Vec<String>,
}

/// Samples of wrong answers kept for the report.
const SAMPLES: usize = 10;

struct Shared {
    options: TokenOptions,
    state: Mutex<State>,
    barrier: Barrier,
}

struct State {
    next: usize,
    report: TokenReport,
    begin: Instant,
}

/// Sends the requests and judges every answer.
pub async fn tokens(mut options: TokenOptions) -> TokenReport {
    if options.at_once {
        options.connection_count = options.request_count;
    }
    let report =
        TokenReport { tally: Tally::new(), unanswered: 0, answered_after: Vec::new(), samples: Vec::new() };
    let deadline = tokio::time::Instant::now() + options.deadline;
    let (request_count, connection_count) = (options.request_count, options.connection_count);
    let shared = Arc::new(Shared {
        options,
        state: Mutex::new(State { next: 0, report, begin: Instant::now() }),
        barrier: Barrier::new(connection_count),
    });
    let mut clients = JoinSet::new();
    for number in 0..connection_count {
        clients.spawn(Arc::clone(&shared).client(number));
    }
    // An error here is the deadline: what has no end yet is counted below.
    let _ = tokio::time::timeout_at(deadline, async { while clients.join_next().await.is_some() {} }).await;
    clients.abort_all();
    let mut report = shared.state().report.clone();
    report.answered_after.sort_unstable();
    let ended = report.tally.good() + report.tally.refused() + report.tally.bad();
    report.unanswered = (request_count as u64).saturating_sub(ended);
    report
}

impl Shared {
    async fn client(self: Arc<Self>, number: usize) {
        let mut connection = Connection::open(&self.options.target, number, LIMIT).await.ok();
        if self.options.at_once && self.barrier.wait().await.is_leader() {
            self.state().begin = Instant::now();
        }
        while let Some(token) = self.next_token() {
            let sent = Instant::now();
            let outcome = self.request(number, &token, &mut connection).await;
            let mut state = self.state();
            state.report.tally.record(outcome, sent.elapsed());
            if outcome == Outcome::Good {
                let after = state.begin.elapsed();
                state.report.answered_after.push(after);
            }
        }
    }

    async fn request(&self, number: usize, token: &str, connection: &mut Option<Connection>) -> Outcome {
        let mut current = match connection.take() {
            Some(current) => current,
            None => match Connection::open(&self.options.target, number, LIMIT).await {
                Ok(current) => current,
                Err(failure) => return Outcome::Failed(failure),
            },
        };
        let target = self.options.target.at(&self.options.target.path().replace("{token}", token));
        let taken = match current.exchange(&RequestSpec::default().bytes(&target), false).await {
            Ok((taken, _)) => taken,
            Err(failure) => return Outcome::Failed(failure),
        };
        let body = current.body(&taken);
        let outcome = if taken.status == 200 {
            if body == self.options.body.replace("{token}", token).as_bytes() {
                Outcome::Good
            } else {
                Outcome::Failed(Failure::Body)
            }
        } else if self.options.refusals.contains(&taken.status) {
            Outcome::Refused
        } else {
            Outcome::Failed(Failure::Status(taken.status))
        };
        if !matches!(outcome, Outcome::Good | Outcome::Refused) {
            let sample = format!(
                "{token}: {} {:?}",
                taken.status,
                String::from_utf8_lossy(&body[..body.len().min(200)])
            );
            let samples = &mut self.state().report.samples;
            if samples.len() < SAMPLES {
                samples.push(sample);
            }
        }
        if taken.keeps_alive {
            *connection = Some(current);
        }
        outcome
    }

    fn next_token(&self) -> Option<String> {
        let mut state = self.state();
        if state.next == self.options.request_count {
            return None;
        }
        let number = state.next;
        state.next += 1;
        // The number makes it unique, the random half keeps a server from guessing it.
        let noise = Seeded::new(self.options.seed ^ number as u64).next_u64();
        Some(format!("{number}-{noise:016x}"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenReport {
    /// Whether every request got its own token or an allowed refusal.
    pub fn is_right(&self) -> bool {
        self.tally.bad() == 0 && self.unanswered == 0
    }

    /// The report as `oxb-bench tokens` prints it.
    pub fn to_json(&self) -> Value {
        // As a list they matter only where few requests queue behind each other.
        let times: Vec<f64> =
            self.answered_after.iter().take(64).map(|time| time.as_secs_f64() * 1e3).collect();
        json!({
            "is_right": self.is_right(),
            "requests": self.tally.to_json(),
            "unanswered": self.unanswered,
            "first_answers_after_ms": times,
            "last_answer_after_ms": self.answered_after.last().map(|time| time.as_secs_f64() * 1e3),
            "samples": self.samples,
        })
    }
}
