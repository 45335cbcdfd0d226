//! Good and bad clients side by side, for a soak: fast, slow, blocking, uploading, pipelining, leaving at every point,
//! and sending bodies over the limit.
//!
//! The server runs `benches/apps/mixed.py`. Invariant: a client that stays for its answer judges it by its own token
//! or size; only the kinds that leave on purpose are not judged.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::connection::{Connection, LIMIT};
use super::tally::{Seen, Tally};
use super::{Failure, Outcome, RequestSpec, Taken, Target};
use crate::process::read_tree;
use crate::seeded::Seeded;

/// Against whom, how hard, and for how long.
#[derive(Debug, Clone)]
pub struct MixedOptions {
    /// The server; the path is not used.
    pub target: Target,
    /// Clients at work at the same time.
    pub client_count: usize,
    /// For how long new requests are begun.
    pub duration: Duration,
    /// Of every choice.
    pub seed: u64,
    /// The server's `max_body`: what is over it must get 413.
    pub max_body: u64,
    /// Root of the server's process tree, whose memory is sampled.
    pub watched: Option<u32>,
}

/// What came of it, by kind of client.
#[derive(Debug, Clone)]
pub struct MixedReport {
    tallies: BTreeMap<&'static str, Tally>,
    left: BTreeMap<&'static str, u64>,
    samples: Vec<String>,
    unanswered: u64,
    memory: Vec<(f64, u64)>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Fast,
    Slow,
    Blocking,
    Upload,
    Stream,
    Pipelined,
    OversizeDeclared,
    OversizeChunked,
    LeaveWhileRunning,
    LeaveInHead,
    LeaveInBody,
    LeaveInStream,
}

/// Each as often as it is here.
const KINDS: [Kind; 24] = [
    Kind::Fast,
    Kind::Fast,
    Kind::Fast,
    Kind::Fast,
    Kind::Fast,
    Kind::Fast,
    Kind::Slow,
    Kind::Slow,
    Kind::Slow,
    Kind::Blocking,
    Kind::Blocking,
    Kind::Upload,
    Kind::Upload,
    Kind::Stream,
    Kind::Stream,
    Kind::Pipelined,
    Kind::Pipelined,
    Kind::OversizeDeclared,
    Kind::OversizeChunked,
    Kind::LeaveWhileRunning,
    Kind::LeaveWhileRunning,
    Kind::LeaveInHead,
    Kind::LeaveInBody,
    Kind::LeaveInStream,
];

const SETTLE: Duration = Duration::from_secs(30);
const SAMPLES: usize = 20;
/// What `benches/apps/mixed.py` sends for each chunk of `/stream`.
const STREAM_CHUNK: usize = 1024;

struct Shared {
    options: MixedOptions,
    end: Instant,
    report: Mutex<MixedReport>,
}

/// Runs the mixture.
pub async fn mixed(options: MixedOptions) -> MixedReport {
    let begin = Instant::now();
    let shared = Arc::new(Shared {
        end: begin + options.duration,
        options,
        report: Mutex::new(MixedReport {
            tallies: BTreeMap::new(),
            left: BTreeMap::new(),
            samples: Vec::new(),
            unanswered: 0,
            memory: Vec::new(),
        }),
    });
    let mut clients = JoinSet::new();
    for number in 0..shared.options.client_count {
        clients.spawn(Arc::clone(&shared).client(number));
    }
    while Instant::now() < shared.end {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if let Some(usage) = shared.options.watched.and_then(read_tree) {
            shared.report().memory.push((begin.elapsed().as_secs_f64(), usage.resident_bytes));
        }
    }
    // An error here means that some clients still wait; they are counted below.
    let _ = tokio::time::timeout(SETTLE, async { while clients.join_next().await.is_some() {} }).await;
    let mut report = shared.report().clone();
    report.unanswered = clients.len() as u64;
    clients.abort_all();
    report
}

impl Shared {
    async fn client(self: Arc<Self>, number: usize) {
        let mut seeded = Seeded::new(self.options.seed ^ ((number as u64) << 32));
        let mut connection = None;
        while Instant::now() < self.end {
            let kind = KINDS[seeded.below(KINDS.len() as u64) as usize];
            let mut current = match connection.take() {
                Some(current) => current,
                None => match Connection::open(&self.options.target, number, LIMIT).await {
                    Ok(current) => current,
                    Err(failure) => {
                        self.record(kind, Outcome::Failed(failure), Duration::ZERO, "not connected");
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        continue;
                    }
                },
            };
            if self.play(kind, &mut seeded, &mut current).await {
                connection = Some(current);
            } else {
                current.leave().await;
            }
        }
    }

    /// Plays one kind of client; whether the connection is good for another.
    async fn play(&self, kind: Kind, seeded: &mut Seeded, current: &mut Connection) -> bool {
        let token = format!("{:016x}", seeded.next_u64());
        match kind {
            Kind::Fast => self.expect(kind, current, &format!("/token/{token}"), &[], &token).await,
            Kind::Slow => self.expect(kind, current, &format!("/slow/{token}"), &[], &token).await,
            Kind::Blocking => self.expect(kind, current, &format!("/block/{token}"), &[], &token).await,
            Kind::Upload => {
                let body = vec![b'u'; 1 + seeded.below(100_000) as usize];
                let length = body.len().to_string();
                self.expect(kind, current, "/upload", &body, &length).await
            }
            Kind::Stream => {
                let chunks = 1 + seeded.below(50) as usize;
                let body = "s".repeat(chunks * STREAM_CHUNK);
                self.expect(kind, current, &format!("/stream/{chunks}"), &[], &body).await
            }
            Kind::Pipelined => self.pipeline(kind, seeded, current).await,
            Kind::OversizeDeclared => {
                let head = format!(
                    "POST /upload HTTP/1.1\r\nHost: soak\r\nContent-Length: {}\r\n\r\n",
                    self.options.max_body + 1
                );
                self.oversize(kind, current, head.as_bytes(), &[]).await
            }
            Kind::OversizeChunked => {
                let head = b"POST /upload HTTP/1.1\r\nHost: soak\r\nTransfer-Encoding: chunked\r\n\r\n";
                let chunk = [b"10000\r\n".as_slice(), &[b'o'; 0x1_0000], b"\r\n"].concat();
                self.oversize(kind, current, head, &chunk).await
            }
            Kind::LeaveWhileRunning => {
                let sent = current.send(b"GET /hang HTTP/1.1\r\nHost: soak\r\n\r\n").await;
                self.leave(kind, sent, Duration::from_micros(seeded.below(30_000))).await
            }
            Kind::LeaveInHead => {
                let head = b"GET /token/x HTTP/1.1\r\nHost: soak\r\nX-Field: a\r\n\r\n";
                let sent = current.send(&head[..1 + seeded.below(head.len() as u64 - 2) as usize]).await;
                self.leave(kind, sent, Duration::from_micros(seeded.below(5_000))).await
            }
            Kind::LeaveInBody => {
                let mut wire =
                    b"POST /upload HTTP/1.1\r\nHost: soak\r\nContent-Length: 50000\r\n\r\n".to_vec();
                wire.resize(wire.len() + seeded.below(49_999) as usize, b'l');
                let sent = current.send(&wire).await;
                self.leave(kind, sent, Duration::from_micros(seeded.below(5_000))).await
            }
            Kind::LeaveInStream => {
                let sent = current.send(b"GET /stream/100000 HTTP/1.1\r\nHost: soak\r\n\r\n").await;
                self.leave(kind, sent, Duration::from_micros(seeded.below(20_000))).await
            }
        }
    }

    /// A request that stays for its answer.
    async fn expect(
        &self,
        kind: Kind,
        current: &mut Connection,
        path: &str,
        body: &[u8],
        expected: &str,
    ) -> bool {
        let method = if body.is_empty() { "GET" } else { "POST" };
        let spec = RequestSpec { method: method.to_owned(), body: body.to_vec(), ..RequestSpec::default() };
        let begin = Instant::now();
        let answer = current.exchange(&spec.bytes(&self.options.target.at(path)), false).await;
        self.judge(kind, current, answer, 200, Some(expected), begin)
    }

    /// Five requests in one write; the answers must come in their order.
    async fn pipeline(&self, kind: Kind, seeded: &mut Seeded, current: &mut Connection) -> bool {
        let tokens: Vec<String> = (0..5).map(|_| format!("{:016x}", seeded.next_u64())).collect();
        let mut wire = Vec::new();
        for (index, token) in tokens.iter().enumerate() {
            // A slow one among fast ones, so that later answers are ready first.
            let path = if index == 1 { format!("/slow/{token}") } else { format!("/token/{token}") };
            wire.extend(RequestSpec::default().bytes(&self.options.target.at(&path)));
        }
        let begin = Instant::now();
        let sent = current.send(&wire).await;
        for token in &tokens {
            let answer = match sent {
                Ok(()) => current.answer(false).await,
                Err(failure) => Err(failure),
            };
            if !self.judge(kind, current, answer, 200, Some(token), begin) {
                return false;
            }
        }
        true
    }

    /// A body over the limit: announced by `head`, or sent in chunks until the server has had enough.
    async fn oversize(&self, kind: Kind, current: &mut Connection, head: &[u8], chunk: &[u8]) -> bool {
        let begin = Instant::now();
        let mut sent = current.send(head).await;
        if !chunk.is_empty() {
            let chunks = self.options.max_body / 0x1_0000 + 2;
            for _ in 0..chunks {
                if sent.is_err() || current.has_answer() {
                    break;
                }
                sent = current.send(chunk).await;
            }
        }
        // A failed send does not mean that no answer waits: the server may have answered and closed.
        let answer = current.answer(false).await;
        self.judge(kind, current, answer, 413, None, begin);
        false
    }

    async fn leave(&self, kind: Kind, sent: Result<(), Failure>, after: Duration) -> bool {
        tokio::time::sleep(after).await;
        let name = if sent.is_ok() { kind.name() } else { "cut before it could leave" };
        *self.report().left.entry(name).or_default() += 1;
        false
    }

    fn judge(
        &self,
        kind: Kind,
        current: &Connection,
        answer: Result<(Taken, Seen), Failure>,
        status: u16,
        expected: Option<&str>,
        begin: Instant,
    ) -> bool {
        let (outcome, what, keeps_alive) = match &answer {
            Err(failure) => (Outcome::Failed(*failure), String::new(), false),
            Ok((taken, _)) => {
                let body = current.body(taken);
                let outcome = if taken.status == 503 {
                    Outcome::Refused
                } else if taken.status != status {
                    Outcome::Failed(Failure::Status(taken.status))
                } else if expected.is_some_and(|expected| expected.as_bytes() != body) {
                    Outcome::Failed(Failure::Body)
                } else {
                    Outcome::Good
                };
                let start = String::from_utf8_lossy(&body[..body.len().min(160)]).into_owned();
                (outcome, format!("{} {start:?}", taken.status), taken.keeps_alive)
            }
        };
        self.record(kind, outcome, begin.elapsed(), &what);
        keeps_alive
    }

    fn record(&self, kind: Kind, outcome: Outcome, latency: Duration, what: &str) {
        let mut report = self.report();
        report.tallies.entry(kind.name()).or_default().record(outcome, latency);
        if !matches!(outcome, Outcome::Good | Outcome::Refused) && report.samples.len() < SAMPLES {
            report.samples.push(format!("{}: {outcome:?}: {what}", kind.name()));
        }
    }

    fn report(&self) -> MutexGuard<'_, MixedReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Fast => "fast",
            Kind::Slow => "slow",
            Kind::Blocking => "blocking",
            Kind::Upload => "upload",
            Kind::Stream => "stream",
            Kind::Pipelined => "pipelined",
            Kind::OversizeDeclared => "oversize, declared",
            Kind::OversizeChunked => "oversize, chunked",
            Kind::LeaveWhileRunning => "left while its handler ran",
            Kind::LeaveInHead => "left inside its head",
            Kind::LeaveInBody => "left inside its body",
            Kind::LeaveInStream => "left inside the answer",
        }
    }
}

impl MixedReport {
    /// Whether every client that stayed got its own answer or a 503.
    pub fn is_right(&self) -> bool {
        self.unanswered == 0
            && !self.tallies.is_empty()
            && self.tallies.values().all(|tally| tally.bad() == 0)
    }

    /// Growth of the server's memory in bytes a second over the last four fifths of the run, by least squares.
    pub fn memory_slope(&self) -> Option<f64> {
        slope(self.memory.get(self.memory.len() / 5..)?)
    }

    /// The report as `oxb-bench mixed` prints it.
    pub fn to_json(&self) -> Value {
        let kinds: serde_json::Map<String, Value> =
            self.tallies.iter().map(|(name, tally)| ((*name).to_owned(), tally.to_json())).collect();
        let window = self.memory.get(self.memory.len() / 5..).unwrap_or(&[]);
        let seconds = window.last().zip(window.first()).map_or(0.0, |(last, first)| last.0 - first.0);
        json!({
            "is_right": self.is_right(),
            "kinds": kinds,
            "left": self.left,
            "unanswered": self.unanswered,
            "samples": self.samples,
            "rss_first_bytes": self.memory.first().map(|sample| sample.1),
            "rss_last_bytes": self.memory.last().map(|sample| sample.1),
            "rss_slope_bytes_per_s": self.memory_slope(),
            "rss_slope_window_s": seconds,
            "rss_slope_growth_bytes": self.memory_slope().map(|slope| slope * seconds),
        })
    }
}

fn slope(samples: &[(f64, u64)]) -> Option<f64> {
    let count = samples.len() as f64;
    let mean_time = samples.iter().map(|sample| sample.0).sum::<f64>() / count;
    let mean_bytes = samples.iter().map(|sample| sample.1 as f64).sum::<f64>() / count;
    let spread: f64 = samples.iter().map(|sample| (sample.0 - mean_time).powi(2)).sum();
    let joint: f64 =
        samples.iter().map(|sample| (sample.0 - mean_time) * (sample.1 as f64 - mean_bytes)).sum();
    (samples.len() > 2 && spread > 0.0).then(|| joint / spread)
}

#[cfg(test)]
mod tests {
    use super::slope;

    #[test]
    fn the_slope_is_that_of_the_best_line() {
        let samples: Vec<(f64, u64)> =
            (0..10).map(|second| (f64::from(second), 1000 + 7 * second as u64)).collect();
        assert!((slope(&samples).unwrap() - 7.0).abs() < 1e-9);
        assert_eq!(slope(&samples[..1]), None);
    }
}
