//! A steady load: closed loop (a connection sends when it has its answers), open loop (requests are sent at times of
//! their own), a connection for each request, or several requests in one write.
//!
//! Invariant: no request is begun once the window is over, and every one that is begun ends in the ledger.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinSet;

use super::arrivals::Schedule;
use super::connection::Connection;
use super::ledger::{Closed, Extent, Ledger, Line, Turn};
use super::outcome::{Expectation, Failure, Outcome};
use super::tally::{Seen, Tally};
use super::target::{RequestSpec, Target};
use crate::seeded::Seeded;

/// What to send, how, and for how long.
#[derive(Debug, Clone)]
pub struct SteadyOptions {
    /// Where to.
    pub target: Target,
    /// What; each is chosen as often as its weight says.
    pub exchanges: Vec<Exchange>,
    /// Connections; in an open loop the most requests in flight.
    pub connection_count: usize,
    /// Load before the measured window.
    pub warmup: Duration,
    /// The measured window.
    pub measured: Extent,
    /// When requests are sent.
    pub pace: Pace,
    /// Of arrivals and choices.
    pub seed: u64,
    /// For an answer, or the next part of one.
    pub limit: Duration,
    /// Root of the process tree whose CPU time and memory are read around the window.
    pub watched: Option<u32>,
    /// Keep a line for each request of the window.
    pub keeps_lines: bool,
}

/// A request, and what must come back.
#[derive(Debug, Clone, Default)]
pub struct Exchange {
    /// What is sent.
    pub request: RequestSpec,
    /// What must come back.
    pub expect: Expectation,
    /// Its share of all requests is its share of all weights. At least 1.
    pub weight: u32,
}

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Each connection sends as soon as it has its answer.
    Closed,
    /// The same, on a new connection for each request.
    Churn,
    /// Each connection sends so many requests in one write as soon as it has all answers.
    Pipeline(usize),
    /// At times that do not depend on the answers.
    Open {
        /// Requests a second over all connections.
        rate: f64,
        /// How the gaps are spread.
        arrivals: Arrivals,
    },
}

/// How the gaps of an open loop are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Fixed,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct SteadyReport(Closed);

/// Between attempts to reach a server that refuses connections.
const BACKOFF: Duration = Duration::from_millis(20);

struct Shared {
    options: SteadyOptions,
    requests: Vec<Prepared>,
    weights: u64,
    ledger: Ledger,
    schedule: Schedule,
}

struct Prepared {
    wire: Vec<u8>,
    to_head: bool,
    /// The sum of the weights up to this one.
    until: u64,
}

/// Runs a steady load.
///
/// # Errors
/// Where a connection could not be made at the start, or the system has no timer to give.
pub async fn steady(options: SteadyOptions) -> std::io::Result<SteadyReport> {
    let mut weights = 0;
    let requests: Vec<Prepared> = options
        .exchanges
        .iter()
        .map(|exchange| {
            weights += u64::from(exchange.weight.max(1));
            let to_head = exchange.request.method() == "HEAD";
            Prepared { wire: exchange.request.bytes(&options.target), to_head, until: weights }
        })
        .collect();
    if requests.is_empty() {
        return Err(std::io::Error::other("no request to send"));
    }
    let is_churn = options.pace == Pace::Churn;
    let mut connections = Vec::with_capacity(options.connection_count);
    for number in 0..options.connection_count {
        // The first of a churn shows that the server is there, and is not used.
        if is_churn && number > 0 {
            break;
        }
        let opened = Connection::open(&options.target, number, options.limit).await;
        connections.push(opened.map_err(|_| std::io::Error::other(refused(&options.target, number)))?);
    }
    let is_open_loop = matches!(options.pace, Pace::Open { .. });
    let ledger = Ledger::new(options.warmup, options.measured, is_open_loop, options.keeps_lines);
    let shared = Arc::new(Shared { options, requests, weights, ledger, schedule: Schedule::new() });
    let mut clients = JoinSet::new();
    let mut connections = connections.into_iter();
    for number in 0..shared.options.connection_count {
        let connection = connections.next().filter(|_| !is_churn);
        match shared.options.pace {
            Pace::Closed | Pace::Churn => clients.spawn(Arc::clone(&shared).closed(number, connection)),
            Pace::Pipeline(depth) => clients.spawn(Arc::clone(&shared).pipeline(number, connection, depth)),
            Pace::Open { .. } => clients.spawn(Arc::clone(&shared).open(number, connection)),
        };
    }
    if let Pace::Open { rate, arrivals } = shared.options.pace {
        let (shared, seed) = (Arc::clone(&shared), shared.options.seed);
        tokio::spawn(async move {
            shared.schedule.run(arrivals, rate, seed, shared.ledger.begin, shared.ledger.end()).await
        });
    }
    Ok(SteadyReport(shared.ledger.close(clients, shared.options.watched).await))
}

/// Which connection could not be made.
pub(super) fn refused(target: &Target, number: usize) -> String {
    format!("connection {} to {} could not be made: is the server there?", number + 1, target.host())
}

impl Shared {
    async fn closed(self: Arc<Self>, number: usize, mut connection: Option<Connection>) {
        let mut choices = self.choices(number);
        loop {
            let mut sent = Instant::now();
            let turn = self.ledger.turn(sent);
            if turn == Turn::Over {
                return;
            }
            let choice = self.choose(&mut choices);
            if connection.is_none() && self.options.pace != Pace::Churn {
                // What it takes to connect again after a failure is not latency.
                connection = self.reconnect(number).await;
                sent = Instant::now();
            }
            let result = self.request(number, choice, &mut connection).await;
            if self.options.pace == Pace::Churn {
                connection = None;
            }
            self.ledger.record(turn, sent, sent, result);
        }
    }

    async fn pipeline(self: Arc<Self>, number: usize, mut connection: Option<Connection>, depth: usize) {
        let mut choices = self.choices(number);
        let mut wire = Vec::new();
        loop {
            let batch: Vec<(Turn, usize)> = (0..depth)
                .map(|_| (self.ledger.turn(Instant::now()), self.choose(&mut choices)))
                .filter(|(turn, _)| *turn != Turn::Over)
                .collect();
            if batch.is_empty() {
                return;
            }
            wire.clear();
            for (_, choice) in &batch {
                wire.extend_from_slice(&self.requests[*choice].wire);
            }
            if connection.is_none() {
                connection = self.reconnect(number).await;
            }
            let sent = Instant::now();
            let mut lost = match &mut connection {
                None => Some(Failure::Connect),
                Some(current) => current.send(&wire).await.err(),
            };
            for (turn, choice) in batch {
                let answered = match (&mut connection, lost) {
                    (Some(current), None) => self.answer(current, choice).await,
                    (_, lost) => Err(lost.unwrap_or(Failure::Closed)),
                };
                match &answered {
                    Err(failure) => lost = Some(*failure),
                    // What was sent behind an answer that closes gets none.
                    Ok((_, _, false)) => lost = Some(Failure::Closed),
                    Ok(_) => {}
                }
                let result = answered.map(|(outcome, seen, _)| (outcome, seen));
                self.ledger.record(turn, sent, sent, result);
            }
            if lost.is_some() {
                connection = None;
            }
        }
    }

    async fn open(self: Arc<Self>, number: usize, mut connection: Option<Connection>) {
        let mut choices = self.choices(number);
        while let Some(intended) = self.schedule.take().await {
            let turn = self.ledger.turn(intended);
            if turn == Turn::Over {
                self.schedule.close();
                return;
            }
            let sent = Instant::now();
            if turn == Turn::Measured {
                self.ledger.note_lag(sent.saturating_duration_since(intended));
            }
            let choice = self.choose(&mut choices);
            let result = self.request(number, choice, &mut connection).await;
            self.ledger.record(turn, intended, sent, result);
        }
    }

    /// One request on the connection given, or on a new one where the last is gone.
    async fn request(
        &self,
        number: usize,
        choice: usize,
        connection: &mut Option<Connection>,
    ) -> Result<(Outcome, Seen), Failure> {
        let mut current = match connection.take() {
            Some(current) => current,
            None => match self.reconnect(number).await {
                Some(current) => current,
                None => return Err(Failure::Connect),
            },
        };
        current.send(&self.requests[choice].wire).await?;
        let (outcome, seen, keeps_alive) = self.answer(&mut current, choice).await?;
        if keeps_alive {
            *connection = Some(current);
        }
        Ok((outcome, seen))
    }

    /// The next answer, judged; and whether the connection may carry more.
    async fn answer(
        &self,
        current: &mut Connection,
        choice: usize,
    ) -> Result<(Outcome, Seen, bool), Failure> {
        let (taken, seen) = current.answer(self.requests[choice].to_head).await?;
        let outcome = self.options.exchanges[choice].expect.judge(taken.status, current.body(&taken));
        Ok((outcome, seen, taken.keeps_alive))
    }

    async fn reconnect(&self, number: usize) -> Option<Connection> {
        let opened = Connection::open(&self.options.target, number, self.options.limit).await;
        if opened.is_err() {
            tokio::time::sleep(BACKOFF).await;
        }
        opened.ok()
    }

    fn choices(&self, number: usize) -> Seeded {
        Seeded::new(self.options.seed ^ ((number as u64 + 1) << 32))
    }

    fn choose(&self, choices: &mut Seeded) -> usize {
        if self.requests.len() == 1 {
            return 0;
        }
        let at = choices.below(self.weights);
        self.requests.partition_point(|request| request.until <= at)
    }
}

impl SteadyReport {
    /// Whether every request of the window was answered as it should be, and there was one.
    pub fn is_right(&self) -> bool {
        self.0.is_right()
    }

    /// Requests of the window.
    pub fn tally(&self) -> &Tally {
        &self.0.tally
    }

    /// A line for each request of the window, where they were asked for.
    pub fn lines(&self) -> &[Line] {
        &self.0.lines
    }

    /// Good answers a second.
    pub fn requests_per_second(&self) -> f64 {
        self.0.requests_per_second()
    }

    /// The report as `oxb-bench load` prints it.
    pub fn to_json(&self) -> Value {
        self.0.to_json()
    }
}
