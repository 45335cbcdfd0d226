//! Bodies sent piece by piece: with a Content-Length or chunked, as fast as the server takes them or so many bytes a
//! second.
//!
//! Invariant: the bytes that count are those that went out in the measured window, whether or not their request ended
//! in it; a body is never held in memory more than once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::connection::Connection;
use super::ledger::{Closed, Extent, Ledger, Turn};
use super::outcome::{Expectation, Failure, Outcome};
use super::tally::Seen;
use super::target::{RequestSpec, Target};
use crate::seeded::Seeded;

/// What to send, how, and for how long.
#[derive(Debug, Clone)]
pub struct UploadOptions {
    /// Where to.
    pub target: Target,
    /// What; each is chosen as often as its weight says.
    pub uploads: Vec<Upload>,
    /// Chunked, or with a Content-Length.
    pub is_chunked: bool,
    /// The length of a piece, and of a chunk.
    pub chunk_bytes: usize,
    /// The pace of each connection; as fast as the server reads where absent.
    pub bytes_per_second: Option<u64>,
    /// Connections, each with one upload at a time.
    pub connection_count: usize,
    /// Load before the measured window.
    pub warmup: Duration,
    /// The measured window.
    pub measured: Extent,
    /// Of the choices.
    pub seed: u64,
    /// For the server to take another piece, and to answer.
    pub limit: Duration,
    /// Root of the process tree whose CPU time and memory are read around the window.
    pub watched: Option<u32>,
}

/// One upload, and what must come back.
#[derive(Debug, Clone)]
pub struct Upload {
    /// The request without its body.
    pub request: RequestSpec,
    /// The body.
    pub material: Material,
    /// What must come back.
    pub expect: Expectation,
    /// Its share of all uploads is its share of all weights. At least 1.
    pub weight: u32,
}

/// What a body is made of.
#[derive(Debug, Clone)]
pub enum Material {
    /// These bytes.
    Bytes(Arc<[u8]>),
    /// So many times `x`.
    Repeated(u64),
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct UploadReport {
    closed: Closed,
    bytes: u64,
}

/// Between attempts to reach a server that refuses connections.
const BACKOFF: Duration = Duration::from_millis(20);

struct Shared {
    options: UploadOptions,
    heads: Vec<Vec<u8>>,
    /// What repeated bodies are taken from: one piece.
    repeated: Vec<u8>,
    ledger: Ledger,
    bytes: AtomicU64,
}

impl Material {
    /// Of the whole body.
    pub fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Repeated(count) => *count,
        }
    }
}

/// Runs the uploads.
///
/// # Errors
/// Where a connection could not be made at the start.
pub async fn upload(options: UploadOptions) -> std::io::Result<UploadReport> {
    let mut connections = Vec::with_capacity(options.connection_count);
    for number in 0..options.connection_count {
        let opened = Connection::open(&options.target, number, options.limit).await;
        let why = |_| std::io::Error::other(super::steady::refused(&options.target, number));
        connections.push(opened.map_err(why)?);
    }
    let heads = options.uploads.iter().map(|upload| {
        let length = format!("Content-Length: {}\r\n", upload.material.length());
        let framing = if options.is_chunked { "Transfer-Encoding: chunked\r\n" } else { &length };
        upload.request.head(&options.target, framing)
    });
    let shared = Arc::new(Shared {
        heads: heads.collect(),
        repeated: vec![b'x'; options.chunk_bytes],
        ledger: Ledger::new(options.warmup, options.measured, false, false),
        bytes: AtomicU64::new(0),
        options,
    });
    let mut clients = JoinSet::new();
    for (number, connection) in connections.into_iter().enumerate() {
        clients.spawn(Arc::clone(&shared).client(number, connection));
    }
    let closed = shared.ledger.close(clients, shared.options.watched).await;
    // Relaxed: all clients run on this thread.
    Ok(UploadReport { closed, bytes: shared.bytes.load(Ordering::Relaxed) })
}

impl Shared {
    async fn client(self: Arc<Self>, number: usize, connection: Connection) {
        let mut connection = Some(connection);
        let weights: u64 = self.options.uploads.iter().map(|upload| u64::from(upload.weight)).sum();
        let mut choices = Seeded::new(self.options.seed ^ ((number as u64 + 1) << 32));
        loop {
            let turn = self.ledger.turn(Instant::now());
            if turn == Turn::Over {
                return;
            }
            let mut at = choices.below(weights.max(1));
            let choice = self.options.uploads.iter().position(|upload| {
                let is_it = at < u64::from(upload.weight);
                at = at.saturating_sub(u64::from(upload.weight));
                is_it
            });
            let choice = choice.unwrap_or(0);
            let opened = match connection.take() {
                Some(current) => Ok(current),
                None => Connection::open(&self.options.target, number, self.options.limit).await,
            };
            let sent = Instant::now();
            let result = match opened {
                Err(failure) => {
                    tokio::time::sleep(BACKOFF).await;
                    Err(failure)
                }
                Ok(mut current) => {
                    let answered = self.play(choice, &mut current).await;
                    answered.map(|(outcome, seen, keeps_alive)| {
                        if keeps_alive {
                            connection = Some(current);
                        }
                        (outcome, seen)
                    })
                }
            };
            self.ledger.record(turn, sent, sent, result);
        }
    }

    /// One upload and its answer; and whether the connection may carry another.
    async fn play(&self, choice: usize, current: &mut Connection) -> Result<(Outcome, Seen, bool), Failure> {
        let upload = &self.options.uploads[choice];
        let sent = match self.send(choice, current).await {
            Ok(is_whole) => Ok(is_whole),
            // It may have answered before it hung up: a body too long, for one.
            Err(failure @ Failure::Reset) => Err(failure),
            Err(other) => return Err(other),
        };
        let to_head = upload.request.method() == "HEAD";
        let (taken, seen) = current.answer(to_head).await.map_err(|failure| sent.err().unwrap_or(failure))?;
        let outcome = upload.expect.judge(taken.status, current.body(&taken));
        // What is left of a body that was cut short would be read as the next request.
        Ok((outcome, seen, taken.keeps_alive && sent == Ok(true)))
    }

    /// Sends head and body; whether all of it went out before an answer came.
    async fn send(&self, choice: usize, current: &mut Connection) -> Result<bool, Failure> {
        let material = &self.options.uploads[choice].material;
        current.send(&self.heads[choice]).await?;
        let begin = Instant::now();
        let (length, mut at) = (material.length(), 0);
        let mut framed = Vec::new();
        while at < length {
            let count = usize::try_from(length - at)
                .map_or(self.options.chunk_bytes, |left| left.min(self.options.chunk_bytes));
            let piece = match material {
                Material::Bytes(bytes) => &bytes[at as usize..at as usize + count],
                Material::Repeated(_) => &self.repeated[..count],
            };
            let wire = if self.options.is_chunked {
                framed.clear();
                framed.extend_from_slice(format!("{count:x}\r\n").as_bytes());
                framed.extend_from_slice(piece);
                framed.extend_from_slice(b"\r\n");
                &framed
            } else {
                piece
            };
            if current.send_unless_answered(wire).await? < wire.len() {
                return Ok(false);
            }
            at += count as u64;
            if self.ledger.is_within(Instant::now()) {
                // Relaxed: all clients run on this thread.
                self.bytes.fetch_add(count as u64, Ordering::Relaxed);
            }
            if let Some(rate) = self.options.bytes_per_second
                && at < length
            {
                let due = begin + Duration::from_secs_f64(at as f64 / rate as f64);
                tokio::time::sleep_until(due.into()).await;
                if current.has_answer() {
                    return Ok(false);
                }
            }
        }
        if self.options.is_chunked {
            current.send(b"0\r\n\r\n").await?;
        }
        Ok(true)
    }
}

impl UploadReport {
    /// Whether every upload of the window was answered as it should be, and there was one.
    pub fn is_right(&self) -> bool {
        self.closed.is_right()
    }

    /// The report as `oxb-bench load` prints it.
    pub fn to_json(&self) -> Value {
        let mut report = self.closed.to_json();
        let seconds = self.closed.window.elapsed().as_secs_f64();
        report["upload"] = json!({
            "bytes": self.bytes,
            "mib_per_second": self.bytes as f64 / 1_048_576.0 / seconds,
        });
        report
    }
}
