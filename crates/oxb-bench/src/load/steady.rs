//! A steady load for a fixed time: closed loop (a connection sends when it has its answer) or open loop (requests
//! are sent at times of their own).
//!
//! Invariant: a request is counted by the measured window alone: by when its answer came in a closed loop, by when it
//! was meant to be sent in an open one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::arrivals::Schedule;
use super::connection::{Connection, Lost};
use super::tally::{Outcome, Tally, latencies, nanos};
use super::{Expectation, RequestSpec, Target};
use crate::process::{TreeUsage, own_cpu, read_tree};

/// What to send, how, and for how long.
#[derive(Debug, Clone)]
pub struct SteadyOptions {
    /// Where to.
    pub target: Target,
    /// What.
    pub request: RequestSpec,
    /// What must come back.
    pub expect: Expectation,
    /// Connections; in an open loop the most requests in flight.
    pub connection_count: usize,
    /// Load before the measured window.
    pub warmup: Duration,
    /// The measured window.
    pub measured: Duration,
    /// When requests are sent.
    pub pace: Pace,
    /// Root of the process tree whose CPU time and memory are read around the window.
    pub watched: Option<u32>,
}

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Each connection sends as soon as it has its answer.
    Closed,
    /// At times that do not depend on the answers.
    Open {
        /// Requests a second over all connections.
        rate: f64,
        /// How the gaps are spread.
        arrivals: Arrivals,
        /// Of the gaps.
        seed: u64,
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
pub struct SteadyReport {
    /// Requests of the window.
    pub tally: Tally,
    /// Requests still without an answer ten seconds after the window.
    pub unanswered: u64,
    /// Length of the window.
    pub elapsed: Duration,
    /// The watched tree before and after the window.
    pub server: Option<(TreeUsage, TreeUsage)>,
    /// CPU time of this process in the window.
    pub generator_cpu: Option<Duration>,
    /// How late requests of an open loop were sent.
    send_lag: Histogram<u64>,
}

/// With so much of its one core in use the generator may be what limits the figure.
const SATURATED: f64 = 0.90;
/// How long answers may still come after the window.
const SETTLE: Duration = Duration::from_secs(10);
/// Between attempts to reach a server that refuses connections.
const BACKOFF: Duration = Duration::from_millis(20);

struct Shared {
    options: SteadyOptions,
    wire: Vec<u8>,
    to_head: bool,
    window: (Instant, Instant),
    counts: Mutex<Counts>,
    schedule: Schedule,
}

struct Counts {
    tally: Tally,
    send_lag: Histogram<u64>,
}

/// Runs a steady load.
///
/// # Errors
/// Where not one connection could be made, or the system has no timer to give.
pub async fn steady(options: SteadyOptions) -> std::io::Result<SteadyReport> {
    let wire = options.request.bytes(&options.target);
    let to_head = options.request.method() == "HEAD";
    let mut connections = Vec::with_capacity(options.connection_count);
    for number in 0..options.connection_count {
        connections.push(Connection::open(&options.target, number).await?);
    }
    let begin = Instant::now();
    let start = begin + options.warmup;
    let end = start + options.measured;
    let send_lag = super::tally::empty();
    let shared = Arc::new(Shared {
        options,
        wire,
        to_head,
        window: (start, end),
        counts: Mutex::new(Counts { tally: Tally::new(), send_lag }),
        schedule: Schedule::new(),
    });
    let mut clients = JoinSet::new();
    for (number, connection) in connections.into_iter().enumerate() {
        match shared.options.pace {
            Pace::Closed => clients.spawn(Arc::clone(&shared).closed(number, connection)),
            Pace::Open { .. } => clients.spawn(Arc::clone(&shared).open(number, connection)),
        };
    }
    if let Pace::Open { rate, arrivals, seed } = shared.options.pace {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move { shared.schedule.run(arrivals, rate, seed, begin, end).await });
    }
    let read = || (shared.options.watched.and_then(read_tree), own_cpu(), Instant::now());
    tokio::time::sleep_until(start.into()).await;
    let before = read();
    tokio::time::sleep_until(end.into()).await;
    let after = read();
    let settled = tokio::time::sleep_until((end + SETTLE).into());
    tokio::pin!(settled);
    loop {
        tokio::select! {
            next = clients.join_next() => if next.is_none() { break },
            () = &mut settled => break,
        }
    }
    let unanswered = clients.len() as u64;
    clients.abort_all();
    let counts = shared.counts();
    Ok(SteadyReport {
        tally: counts.tally.clone(),
        unanswered,
        elapsed: after.2 - before.2,
        server: before.0.zip(after.0),
        generator_cpu: before.1.zip(after.1).map(|(before, after)| after.saturating_sub(before)),
        send_lag: counts.send_lag.clone(),
    })
}

impl Shared {
    async fn closed(self: Arc<Self>, number: usize, connection: Connection) {
        let mut connection = Some(connection);
        let mut sent = Instant::now();
        while sent < self.window.1 {
            let outcome = self.request(number, &mut connection).await;
            let done = Instant::now();
            if done >= self.window.0 && done < self.window.1 {
                self.counts().tally.record(outcome, done - sent);
            }
            sent = if outcome == Outcome::Unconnected { Instant::now() } else { done };
        }
    }

    async fn open(self: Arc<Self>, number: usize, connection: Connection) {
        let mut connection = Some(connection);
        while let Some(intended) = self.schedule.take(self.window.1).await {
            let lag = intended.elapsed();
            let outcome = self.request(number, &mut connection).await;
            if intended >= self.window.0 {
                let mut counts = self.counts();
                counts.tally.record(outcome, intended.elapsed());
                counts.send_lag.saturating_record(nanos(lag));
            }
        }
    }

    /// One request on the connection given, or on a new one where the last is gone.
    async fn request(&self, number: usize, connection: &mut Option<Connection>) -> Outcome {
        let mut current = match connection.take() {
            Some(current) => current,
            None => match Connection::open(&self.options.target, number).await {
                Ok(current) => current,
                Err(_) => {
                    tokio::time::sleep(BACKOFF).await;
                    return Outcome::Unconnected;
                }
            },
        };
        match current.exchange(&self.wire, self.to_head).await {
            Ok(taken) => {
                let outcome = self.options.expect.judge(taken.status, current.body(&taken));
                if taken.keeps_alive {
                    *connection = Some(current);
                }
                outcome
            }
            Err(Lost::Closed | Lost::Malformed) => Outcome::Lost,
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SteadyReport {
    /// Whether every request of the window was answered as it should be, and there was one.
    pub fn is_right(&self) -> bool {
        self.tally.bad() == 0 && self.unanswered == 0 && self.tally.good() > 0
    }

    /// Good answers a second.
    pub fn requests_per_second(&self) -> f64 {
        self.tally.good() as f64 / self.elapsed.as_secs_f64()
    }

    /// The report as `oxb-bench load` prints it.
    pub fn to_json(&self) -> Value {
        let seconds = self.elapsed.as_secs_f64();
        let answered = (self.tally.good() + self.tally.refused()) as f64;
        let server = self.server.map(|(before, after)| {
            let cpu = after.cpu().saturating_sub(before.cpu()).as_secs_f64();
            json!({
                "cpu_s": cpu,
                "user_s": after.user.saturating_sub(before.user).as_secs_f64(),
                "system_s": after.system.saturating_sub(before.system).as_secs_f64(),
                "cpu_us_per_request": if answered > 0.0 { json!(cpu * 1e6 / answered) } else { Value::Null },
                "cores": cpu / seconds,
                "rss_bytes": after.resident_bytes,
                "rss_growth_bytes": after.resident_bytes as i64 - before.resident_bytes as i64,
                "processes": after.process_count,
                "threads": after.thread_count,
            })
        });
        let generator = self.generator_cpu.map(|cpu| {
            let cores = cpu.as_secs_f64() / seconds;
            let per_request = cpu.as_secs_f64() * 1e6 / answered.max(1.0);
            json!({ "cpu_s": cpu.as_secs_f64(), "cores": cores, "cpu_us_per_request": per_request,
                    "is_saturated": cores >= SATURATED })
        });
        json!({
            "is_right": self.is_right(),
            "seconds": seconds,
            "requests_per_second": self.requests_per_second(),
            "requests": self.tally.to_json(),
            "unanswered": self.unanswered,
            "server": server,
            "generator": generator,
            "send_lag_ms": latencies(&self.send_lag),
        })
    }
}
