//! Clients that ask and then hardly read, beside clients that do: what the slow cost the others and the server.
//!
//! Invariant: a slow client reads no faster than it was told, and its receive buffer is small, so that the server
//! feels it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::Extent;
use super::connection::Connection;
use super::outcome::Failure;
use super::steady::{SteadyOptions, SteadyReport, steady};
use super::target::{RequestSpec, Target};
use super::window::{Reading, Window};

/// Who is slow, and who is beside them.
#[derive(Debug, Clone)]
pub struct SlowReaderOptions {
    /// What the slow ones ask for.
    pub request: RequestSpec,
    /// The status they must get.
    pub status: u16,
    /// How many they are.
    pub slow_count: usize,
    /// What each reads; nothing after its head where 0.
    pub bytes_per_second: u64,
    /// The others, whose window is that of the run.
    pub others: SteadyOptions,
    /// Whether there are any.
    pub has_others: bool,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct SlowReaderReport {
    others: Option<SteadyReport>,
    window: Window,
    slow: SlowCounts,
}

/// What came of the slow ones.
#[derive(Debug, Clone, Default)]
pub(super) struct SlowCounts {
    count: usize,
    /// Bytes of bodies that they read.
    bytes: u64,
    /// Still connected at the end.
    open: usize,
    /// Closed by the server before.
    closed: usize,
    failures: Vec<Failure>,
}

/// Slow clients at work.
pub(super) struct SlowClients {
    count: usize,
    bytes: Arc<AtomicU64>,
    tasks: JoinSet<Result<(), Failure>>,
}

/// The least that Linux takes is a little more.
const RECEIVE_BUFFER: u32 = 4096;
/// How often a slow client reads.
const TICK: Duration = Duration::from_millis(50);

/// Runs slow clients and others side by side.
///
/// # Errors
/// Where a connection of the others could not be made at the start.
pub async fn slow_reader(options: SlowReaderOptions) -> std::io::Result<SlowReaderReport> {
    let SlowReaderOptions { request, status, slow_count, bytes_per_second, others, has_others } = options;
    let wire = request.bytes(&others.target);
    let slow = Slow { target: others.target.clone(), wire, status, bytes_per_second, limit: others.limit };
    let clients = SlowClients::start(slow, slow_count);
    let watched = others.watched;
    let before = Reading::now(watched);
    let others = if has_others {
        Some(steady(others).await?)
    } else {
        if let Extent::For(measured) = others.measured {
            tokio::time::sleep(others.warmup + measured).await;
        }
        None
    };
    let window = before.until(Reading::now(watched));
    Ok(SlowReaderReport { others, window, slow: clients.end() })
}

/// What a slow client does.
#[derive(Clone)]
pub(super) struct Slow {
    pub(super) target: Target,
    pub(super) wire: Vec<u8>,
    pub(super) status: u16,
    pub(super) bytes_per_second: u64,
    pub(super) limit: Duration,
}

impl SlowClients {
    pub(super) fn start(slow: Slow, count: usize) -> Self {
        let bytes = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        for number in 0..count {
            tasks.spawn(slow.clone().client(number, Arc::clone(&bytes)));
        }
        Self { count, bytes, tasks }
    }

    /// Ends them; what came of them.
    pub(super) fn end(mut self) -> SlowCounts {
        // Relaxed: all clients run on this thread.
        let bytes = self.bytes.load(Ordering::Relaxed);
        let mut counts = SlowCounts { count: self.count, bytes, ..SlowCounts::default() };
        while let Some(ended) = self.tasks.try_join_next() {
            match ended {
                Ok(Err(failure)) if failure != Failure::Reset && failure != Failure::Closed => {
                    counts.failures.push(failure);
                }
                _ => counts.closed += 1,
            }
        }
        counts.open = self.tasks.len();
        self.tasks.abort_all();
        counts
    }
}

impl Slow {
    /// Ends only when the server does.
    async fn client(self, number: usize, bytes: Arc<AtomicU64>) -> Result<(), Failure> {
        let mut connection =
            Connection::open_narrow(&self.target, number, self.limit, Some(RECEIVE_BUFFER)).await?;
        connection.send(&self.wire).await?;
        let head = loop {
            if let Some(head) = connection.reader().take_head(false).map_err(|_| Failure::Protocol)? {
                break head;
            }
            if connection.fill().await? == 0 {
                return Err(Failure::Cut);
            }
        };
        if head.status != self.status {
            return Err(Failure::Status(head.status));
        }
        let begin = Instant::now();
        let mut read = 0;
        loop {
            tokio::time::sleep(TICK).await;
            let allowed = (begin.elapsed().as_secs_f64() * self.bytes_per_second as f64) as u64;
            while read < allowed {
                let mut piece = [0; 4096];
                let count = usize::try_from(allowed - read).map_or(piece.len(), |left| left.min(piece.len()));
                match connection.try_read(&mut piece[..count]) {
                    None => break,
                    Some(0) => return Ok(()),
                    Some(count) => {
                        read += count as u64;
                        bytes.fetch_add(count as u64, Ordering::Relaxed);
                    }
                }
            }
        }
    }
}

impl SlowCounts {
    pub(super) fn is_right(&self) -> bool {
        self.failures.is_empty()
    }

    pub(super) fn to_json(&self) -> Value {
        let mut errors = serde_json::Map::new();
        for failure in &self.failures {
            let name = Failure::NAMES[failure.index()];
            let count = errors.get(name).and_then(Value::as_u64).unwrap_or(0);
            errors.insert(name.to_owned(), json!(count + 1));
        }
        json!({
            "clients": self.count,
            "bytes_read": self.bytes,
            "open_at_end": self.open,
            "closed_by_server": self.closed,
            "errors": errors,
        })
    }
}

impl SlowReaderReport {
    /// Whether the slow ones got the head they had to get, and the others all of their answers.
    pub fn is_right(&self) -> bool {
        self.slow.is_right() && self.others.as_ref().is_none_or(SteadyReport::is_right)
    }

    /// The report as `oxb-bench load` prints it.
    pub fn to_json(&self) -> Value {
        let mut report = match &self.others {
            Some(others) => others.to_json(),
            None => json!({
                "seconds": self.window.elapsed().as_secs_f64(),
                "errors": {},
                "server": self.window.server(0),
                "generator": self.window.generator(0),
            }),
        };
        report["is_right"] = json!(self.is_right());
        report["slow_reader"] = self.slow.to_json();
        report
    }
}
