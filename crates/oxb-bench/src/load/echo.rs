//! Messages that must come back as they were sent, one under way on each connection.
//!
//! Invariant: no two messages of a run are the same, so an echo cannot be that of another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::ledger::{Closed, Extent, Ledger, Turn};
use super::outcome::{Failure, Outcome};
use super::tally::Seen;
use super::target::{RequestSpec, Target};
use super::websocket::{self, Socket};

/// Against whom, how, and for how long.
#[derive(Debug, Clone)]
pub struct EchoOptions {
    /// Where to.
    pub target: Target,
    /// Path and header fields of the handshake.
    pub request: RequestSpec,
    /// Connections, each with one message under way.
    pub connection_count: usize,
    /// Load before the measured window.
    pub warmup: Duration,
    /// The measured window.
    pub measured: Duration,
    /// The length of a message, 20 at least.
    pub message_bytes: usize,
    /// Binary messages, or text.
    pub is_binary: bool,
    /// For a message to come back, and for the handshake.
    pub limit: Duration,
    /// Root of the process tree whose CPU time and memory are read around the window.
    pub watched: Option<u32>,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct EchoReport(Closed);

/// Between attempts to reach a server that refuses connections.
const BACKOFF: Duration = Duration::from_millis(20);

struct Shared {
    options: EchoOptions,
    ledger: Ledger,
}

/// Runs the echoes.
///
/// # Errors
/// Where the handshake of a connection failed at the start.
pub async fn echo(options: EchoOptions) -> std::io::Result<EchoReport> {
    let mut sockets = Vec::with_capacity(options.connection_count);
    for number in 0..options.connection_count {
        let opened = websocket::open(&options.target, number, &options.request, options.limit).await;
        sockets.push(opened.map_err(|failure| {
            let kind = Failure::NAMES[failure.index()];
            std::io::Error::other(format!(
                "WebSocket {} could not be opened: {kind}: {failure:?}",
                number + 1
            ))
        })?);
    }
    let ledger = Ledger::new(options.warmup, Extent::For(options.measured), false, false);
    let shared = Arc::new(Shared { options, ledger });
    let mut clients = JoinSet::new();
    for (number, socket) in sockets.into_iter().enumerate() {
        clients.spawn(Arc::clone(&shared).client(number, socket));
    }
    Ok(EchoReport(shared.ledger.close(clients, shared.options.watched).await))
}

impl Shared {
    async fn client(self: Arc<Self>, number: usize, socket: Socket) {
        let options = &self.options;
        let mut socket = Some(socket);
        let mut count: u64 = 0;
        loop {
            let turn = self.ledger.turn(Instant::now());
            if turn == Turn::Over {
                return;
            }
            let opened = match socket.take() {
                Some(current) => Ok(current),
                None => websocket::open(&options.target, number, &options.request, options.limit).await,
            };
            let sent = Instant::now();
            let result = match opened {
                Err(failure) => {
                    tokio::time::sleep(BACKOFF).await;
                    Err(failure)
                }
                Ok(mut current) => {
                    // Numbers of one connection are its own modulo the number of connections.
                    let message = count * options.connection_count as u64 + number as u64;
                    count += 1;
                    let trip =
                        tokio::time::timeout(options.limit, self.round_trip(&mut current, message)).await;
                    let trip = trip.unwrap_or(Err(Failure::Timeout));
                    if trip.is_ok() {
                        socket = Some(current);
                    }
                    trip
                }
            };
            let end = Instant::now();
            let seen = Seen { head: end, first_byte: None, end };
            self.ledger.record(turn, sent, sent, result.map(|()| (Outcome::Good, seen)));
        }
    }

    async fn round_trip(&self, socket: &mut Socket, number: u64) -> Result<(), Failure> {
        let message =
            websocket::message(&format!("{number:020}"), self.options.message_bytes, self.options.is_binary);
        websocket::send(socket, message.clone()).await?;
        let answer = websocket::next(socket).await?;
        if answer.len() != message.len() {
            return Err(Failure::Length);
        }
        if answer == message { Ok(()) } else { Err(Failure::Body) }
    }
}

impl EchoReport {
    /// Whether every message of the window came back, and there was one.
    pub fn is_right(&self) -> bool {
        self.0.is_right()
    }

    /// The report as `oxb-bench load` prints it.
    pub fn to_json(&self) -> Value {
        let mut report = self.0.to_json();
        let count = self.0.tally.good();
        let cpu = self.0.window.server_cpu().filter(|_| count > 0);
        report["websocket"] = json!({
            "round_trips_per_second": self.0.requests_per_second(),
            "cpu_ms_per_1000": cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / count as f64),
            "latency_ms": report["requests"]["latency_ms"],
        });
        // A message has no head.
        report["requests"]["head_ms"] = Value::Null;
        report
    }
}
