//! Messages that one client sends and all subscribers must get.
//!
//! Invariant: the first message that counts is sent when every subscriber has shown that it hears the sender.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use super::deliveries::Deliveries;
use super::ledger::join;
use super::outcome::Failure;
use super::sequence::Sequence;
use super::subscribers::DOORS;
use super::target::{RequestSpec, Target};
use super::websocket;
use super::window::{Reading, Window};

/// Against whom, how much, and how fast.
#[derive(Debug, Clone)]
pub struct BroadcastOptions {
    /// Where to.
    pub target: Target,
    /// Path and header fields of the handshake.
    pub request: RequestSpec,
    /// Connections that must get every message. The sender is one more.
    pub subscriber_count: usize,
    /// Messages.
    pub events: u64,
    /// When they are sent.
    pub sender: Sender,
    /// The length of a message, 41 at least.
    pub message_bytes: usize,
    /// Binary messages, or text.
    pub is_binary: bool,
    /// For the next message, and for the handshake.
    pub limit: Duration,
    /// Root of the process tree whose CPU time and memory are read around the window.
    pub watched: Option<u32>,
}

/// When messages are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sender {
    /// So many a second.
    Paced {
        /// Messages a second.
        rate: f64,
    },
    /// As soon as all but so many have come to everybody.
    Window {
        /// Messages under way.
        depth: u64,
    },
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct BroadcastReport {
    deliveries: Deliveries,
    window: Window,
}

/// What is sent before the first message, until all have heard it.
const HELLO: &str = "hello";
/// How often.
const HELLO_AGAIN: Duration = Duration::from_millis(50);

struct Shared {
    options: BroadcastOptions,
    doors: Semaphore,
    state: Mutex<State>,
    progress: Notify,
}

struct State {
    deliveries: Deliveries,
    delivered: u64,
    /// Subscribers that heard the sender, or fell out.
    ready: usize,
}

/// Connects everybody, sends the messages and judges what came.
pub async fn broadcast(options: BroadcastOptions) -> BroadcastReport {
    let watched = options.watched;
    let subscriber_count = options.subscriber_count;
    let deliveries = Deliveries::new(subscriber_count);
    let shared = Arc::new(Shared {
        options,
        doors: Semaphore::new(DOORS),
        state: Mutex::new(State { deliveries, delivered: 0, ready: 0 }),
        progress: Notify::new(),
    });
    let mut subscribers = JoinSet::new();
    for number in 0..subscriber_count {
        subscribers.spawn(Arc::clone(&shared).subscriber(number));
    }
    let mut before = Reading::now(watched);
    if let Err(failure) = shared.send_all(&mut before).await {
        shared.state().deliveries.fail(failure);
    }
    // Each ends with the last message or its time limit.
    join(&mut subscribers).await;
    let after = Reading::now(watched);
    let deliveries = shared.state().deliveries.clone();
    BroadcastReport { deliveries, window: before.until(after) }
}

impl Shared {
    async fn send_all(&self, before: &mut Reading) -> Result<(), Failure> {
        let options = &self.options;
        let number = options.subscriber_count;
        let socket = websocket::open(&options.target, number, &options.request, options.limit).await?;
        let (mut sink, mut source) = socket.split();
        // A server that sends to everybody sends to the sender as well, and must not wait for it.
        let drain = tokio::spawn(async move { while let Some(Ok(_)) = source.next().await {} });
        let sent = async {
            let begin = Instant::now();
            while self.state().ready < options.subscriber_count {
                if begin.elapsed() > options.limit {
                    return Err(Failure::Timeout);
                }
                let hello = websocket::message(HELLO, options.message_bytes, options.is_binary);
                websocket::send(&mut sink, hello).await?;
                tokio::time::sleep(HELLO_AGAIN).await;
            }
            *before = Reading::now(options.watched);
            let begin = Instant::now();
            for number in 0..options.events {
                match options.sender {
                    Sender::Paced { rate } => {
                        let due = begin + Duration::from_secs_f64(number as f64 / rate);
                        tokio::time::sleep_until(due.into()).await;
                    }
                    Sender::Window { depth } => self.wait_for(number.saturating_sub(depth - 1)).await?,
                }
                let text = format!("{number:020} {:020}", now());
                let message = websocket::message(&text, options.message_bytes, options.is_binary);
                let sending = websocket::send(&mut sink, message);
                tokio::time::timeout(options.limit, sending).await.unwrap_or(Err(Failure::Timeout))?;
            }
            Ok(())
        };
        let result = sent.await;
        drain.abort();
        result
    }

    /// Waits until that many messages have come to everybody.
    async fn wait_for(&self, count: u64) -> Result<(), Failure> {
        let wanted = count.saturating_mul(self.options.subscriber_count as u64);
        loop {
            let progress = self.progress.notified();
            if self.state().delivered >= wanted {
                return Ok(());
            }
            if tokio::time::timeout(self.options.limit, progress).await.is_err() {
                return Err(Failure::Timeout);
            }
        }
    }

    async fn subscriber(self: Arc<Self>, number: usize) {
        let mut sequence = Sequence::new(Some(0));
        let mut is_ready = false;
        let ended = self.follow(number, &mut sequence, &mut is_ready).await;
        let mut state = self.state();
        if !is_ready {
            state.ready += 1;
        }
        state.deliveries.close(&sequence, Some(self.options.events), ended.err());
    }

    async fn follow(
        &self,
        number: usize,
        sequence: &mut Sequence,
        is_ready: &mut bool,
    ) -> Result<(), Failure> {
        let options = &self.options;
        let door = self.doors.acquire().await;
        let mut socket = websocket::open(&options.target, number, &options.request, options.limit).await?;
        drop(door);
        while sequence.count < options.events {
            let next = tokio::time::timeout(options.limit, websocket::next(&mut socket)).await;
            let message = next.unwrap_or(Err(Failure::Timeout))?;
            if message.len() != options.message_bytes {
                return Err(Failure::Length);
            }
            let text = match &message {
                Message::Text(text) => text.as_str(),
                other => std::str::from_utf8(match other {
                    Message::Binary(bytes) => bytes,
                    _ => &[],
                })
                .map_err(|_| Failure::Body)?,
            };
            if text.starts_with(HELLO) {
                if !std::mem::replace(is_ready, true) {
                    self.state().ready += 1;
                }
                continue;
            }
            let (event, sent_at) = read(text).ok_or(Failure::Body)?;
            sequence.add(event);
            let under_way = Duration::from_nanos(now().saturating_sub(sent_at));
            let mut state = self.state();
            state.deliveries.note(Instant::now(), &[under_way], true);
            state.delivered += 1;
            if state.delivered.is_multiple_of(options.subscriber_count as u64) {
                self.progress.notify_one();
            }
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number and time of a message.
fn read(text: &str) -> Option<(u64, u64)> {
    let (number, rest) = text.split_once(' ')?;
    Some((number.parse().ok()?, rest.get(..20)?.parse().ok()?))
}

/// Nanoseconds since the epoch.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl BroadcastReport {
    /// Whether every subscriber got every message, once and in order.
    pub fn is_right(&self) -> bool {
        self.deliveries.is_right()
    }

    /// The report as `oxb-bench load` prints it.
    pub fn to_json(&self) -> Value {
        let mut report = self.deliveries.to_json(&self.window);
        report["is_right"] = json!(self.is_right());
        report
    }
}
