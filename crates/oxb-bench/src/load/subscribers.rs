//! Subscribers to an event stream: deliveries, what is missing or out of order, and how long an event took to arrive.
//!
//! Invariant: each subscriber is judged by the numbers of its own events, and every way in which its stream can end
//! too early is an error with a name.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::body::BodyReader;
use super::connection::Connection;
use super::deliveries::Deliveries;
use super::event_stream::{Event, EventStream};
use super::ledger::join;
use super::outcome::{Expectation, Failure, Outcome};
use super::sequence::Sequence;
use super::slow_reader::{Slow, SlowClients, SlowCounts};
use super::target::{RequestSpec, Target};
use super::window::{Reading, Window};

/// Who subscribes to what, and what must come.
#[derive(Debug, Clone)]
pub struct SubscribeOptions {
    /// Where to.
    pub target: Target,
    /// What a subscriber sends.
    pub request: RequestSpec,
    /// The status it must get.
    pub status: u16,
    /// Subscribers.
    pub subscriber_count: usize,
    /// How the events come.
    pub arrival: Arrival,
    /// The number of the first event; in a burst 0 where absent, else that of whichever comes first.
    pub first_sequence: Option<u64>,
    /// Where an event has its number.
    pub sequence: Place,
    /// Where it has the time at which it was made, and nanoseconds in a unit of that.
    pub sent_at: Option<(Place, f64)>,
    /// What makes the server begin, sent once all have subscribed.
    pub trigger: Option<(RequestSpec, Expectation)>,
    /// Subscribers besides that hardly read.
    pub slow_count: usize,
    /// What each of those reads.
    pub read_bytes_per_second: u64,
    /// For the next part of a stream.
    pub limit: Duration,
    /// Root of the process tree whose CPU time and memory are read around the window.
    pub watched: Option<u32>,
}

/// How the events come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// So many to each subscriber; the window lasts until the last one came.
    Burst {
        /// Events for each.
        events: u64,
    },
    /// At the server's pace; those of a window count.
    Paced {
        /// Events before the window.
        warmup: Duration,
        /// The window.
        measured: Duration,
    },
}

/// Where in an event a number is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// It is the id.
    Id,
    /// It is the data.
    Data,
    /// It is in the data, which is JSON.
    Pointer(String),
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct SubscribeReport {
    deliveries: Deliveries,
    window: Window,
    slow: Option<SlowCounts>,
    trigger: Result<(), String>,
}

/// Subscribers that connect at the same time.
pub(super) const DOORS: usize = 64;

struct Shared {
    options: SubscribeOptions,
    wire: Vec<u8>,
    /// One permit for each subscriber whose stream has begun, or will not.
    ready: Semaphore,
    /// A permit to connect: a thousand at the same moment overflow the backlog of a server, which costs a second.
    doors: Semaphore,
    state: Mutex<State>,
}

struct State {
    deliveries: Deliveries,
    /// The window of a paced run.
    span: Option<(Instant, Instant)>,
}

/// A subscriber's own account.
struct Account {
    sequence: Sequence,
    last: Option<Instant>,
    arrivals: Vec<Duration>,
}

impl Place {
    /// `id`, `data`, or a JSON pointer into the data.
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "id" => Some(Self::Id),
            "data" => Some(Self::Data),
            pointer if pointer.starts_with('/') => Some(Self::Pointer(pointer.to_owned())),
            _ => None,
        }
    }

    fn read(&self, event: &Event<'_>, data: Option<&Value>) -> Option<f64> {
        let text = match self {
            Self::Id => event.id?,
            Self::Data => event.data,
            Self::Pointer(pointer) => return data?.pointer(pointer)?.as_f64(),
        };
        std::str::from_utf8(text).ok()?.trim().parse().ok()
    }

    fn read_integer(&self, event: &Event<'_>, data: Option<&Value>) -> Option<u64> {
        let text = match self {
            Self::Id => event.id?,
            Self::Data => event.data,
            Self::Pointer(pointer) => return data?.pointer(pointer)?.as_u64(),
        };
        std::str::from_utf8(text).ok()?.trim().parse().ok()
    }
}

/// Subscribes, waits for the events and judges them. A server that is not there is an error of each subscriber.
pub async fn subscribe(options: SubscribeOptions) -> SubscribeReport {
    let wire = options.request.bytes(&options.target);
    let watched = options.watched;
    let slow = (options.slow_count > 0).then(|| {
        let slow = Slow {
            target: options.target.clone(),
            wire: wire.clone(),
            status: options.status,
            bytes_per_second: options.read_bytes_per_second,
            limit: options.limit,
        };
        SlowClients::start(slow, options.slow_count)
    });
    let count = options.subscriber_count;
    let shared = Arc::new(Shared {
        wire,
        ready: Semaphore::new(0),
        doors: Semaphore::new(DOORS),
        state: Mutex::new(State { deliveries: Deliveries::new(count), span: None }),
        options,
    });
    let mut before = Reading::now(watched);
    let mut subscribers = JoinSet::new();
    for number in 0..count {
        subscribers.spawn(Arc::clone(&shared).subscriber(number));
    }
    // Each of them has a time limit for its head; the permits are never closed.
    let _ = shared.ready.acquire_many(u32::try_from(count).unwrap_or(u32::MAX)).await;
    let mut trigger = Ok(());
    if let Some((request, expect)) = &shared.options.trigger {
        before = Reading::now(watched);
        trigger = pull(&shared.options, request, expect).await;
    }
    let after = match shared.options.arrival {
        Arrival::Burst { .. } if trigger.is_err() => Reading::now(watched),
        Arrival::Burst { .. } => {
            join(&mut subscribers).await;
            Reading::now(watched)
        }
        Arrival::Paced { warmup, measured } => {
            tokio::time::sleep(warmup).await;
            before = Reading::now(watched);
            let start = Instant::now();
            shared.state().span = Some((start, start + measured));
            tokio::time::sleep(measured).await;
            let after = Reading::now(watched);
            // Each ends with the first bytes after the window, or with its time limit.
            join(&mut subscribers).await;
            after
        }
    };
    subscribers.abort_all();
    let deliveries = shared.state().deliveries.clone();
    SubscribeReport { deliveries, window: before.until(after), slow: slow.map(SlowClients::end), trigger }
}

/// Sends what makes the server begin.
async fn pull(options: &SubscribeOptions, request: &RequestSpec, expect: &Expectation) -> Result<(), String> {
    let failed = |failure: Failure| format!("the trigger: {}", Failure::NAMES[failure.index()]);
    let mut connection = Connection::open(&options.target, 0, options.limit).await.map_err(failed)?;
    let wire = request.bytes(&options.target);
    let (taken, _) = connection.exchange(&wire, request.method() == "HEAD").await.map_err(failed)?;
    match expect.judge(taken.status, connection.body(&taken)) {
        Outcome::Good => Ok(()),
        other => Err(format!("the trigger was answered with {}: {other:?}", taken.status)),
    }
}

impl Shared {
    async fn subscriber(self: Arc<Self>, number: usize) {
        let first = match self.options.arrival {
            Arrival::Burst { .. } => Some(self.options.first_sequence.unwrap_or(0)),
            Arrival::Paced { .. } => self.options.first_sequence,
        };
        let mut account = Account { sequence: Sequence::new(first), last: None, arrivals: Vec::new() };
        let mut is_ready = false;
        let ended = self.follow(number, &mut account, &mut is_ready).await;
        if !is_ready {
            self.ready.add_permits(1);
        }
        let end = match self.options.arrival {
            Arrival::Burst { events } => Some(first.unwrap_or(0).saturating_add(events)),
            Arrival::Paced { .. } => None,
        };
        self.state().deliveries.close(&account.sequence, end, ended.err());
    }

    /// Follows one stream to its end, which is an error unless every event came or the window is over.
    async fn follow(&self, number: usize, account: &mut Account, is_ready: &mut bool) -> Result<(), Failure> {
        let options = &self.options;
        let door = self.doors.acquire().await;
        let mut connection = Connection::open(&options.target, number, options.limit).await?;
        drop(door);
        connection.send(&self.wire).await?;
        let head = loop {
            if let Some(head) = connection.reader().take_head(false).map_err(|_| Failure::Protocol)? {
                break head;
            }
            if connection.fill().await? == 0 {
                return Err(Failure::Closed);
            }
        };
        if head.status != options.status {
            return Err(Failure::Status(head.status));
        }
        if !head.is_event_stream {
            return Err(Failure::Protocol);
        }
        self.ready.add_permits(1);
        *is_ready = true;
        let mut body = BodyReader::new(head.framing);
        let mut stream = EventStream::new();
        let mut last_event = Instant::now();
        loop {
            let now = Instant::now();
            let mut is_understood = true;
            while !body.is_ended() && !connection.reader().rest().is_empty() {
                let step = body.next(connection.reader().rest()).map_err(|_| Failure::Protocol)?;
                let take = |event: Event<'_>| is_understood &= self.take(&event, now, account);
                stream.feed(step.piece, take).map_err(|_| Failure::Protocol)?;
                let taken = step.taken;
                connection.reader().skip(taken);
            }
            if !is_understood {
                return Err(Failure::Protocol);
            }
            if account.last.is_some() {
                last_event = now;
            }
            self.note(account);
            match options.arrival {
                Arrival::Burst { events } if account.sequence.count >= events => return Ok(()),
                // Comments keep the connection alive, and are no events.
                Arrival::Burst { .. } if now - last_event > options.limit => return Err(Failure::Timeout),
                Arrival::Paced { .. } if self.is_over(now) => return Ok(()),
                _ => {}
            }
            if body.is_ended() {
                return Err(Failure::Closed);
            }
            if connection.fill().await? == 0 {
                return Err(if body.ends_at_close() { Failure::Closed } else { Failure::Cut });
            }
        }
    }

    /// Takes one event; whether it has the number, and the time, that it must have.
    fn take(&self, event: &Event<'_>, now: Instant, account: &mut Account) -> bool {
        let options = &self.options;
        let is_json = matches!(options.sequence, Place::Pointer(_))
            || matches!(options.sent_at, Some((Place::Pointer(_), _)));
        let data: Option<Value> = if is_json { serde_json::from_slice(event.data).ok() } else { None };
        let Some(number) = options.sequence.read_integer(event, data.as_ref()) else { return false };
        account.sequence.add(number);
        account.last = Some(now);
        if let Some((place, nanos_per_unit)) = &options.sent_at {
            let Some(sent_at) = place.read(event, data.as_ref()) else { return false };
            let arrived = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as f64;
            // A clock that was set meanwhile may make it negative; nothing is faster than at once.
            account.arrivals.push(Duration::from_nanos((arrived - sent_at * nanos_per_unit).max(0.0) as u64));
        } else {
            account.arrivals.push(Duration::ZERO);
        }
        true
    }

    /// Hands what came with one read to the common account.
    fn note(&self, account: &mut Account) {
        let Some(at) = account.last.take() else { return };
        let mut state = self.state();
        let is_counted = match (self.options.arrival, state.span) {
            (Arrival::Burst { .. }, _) => true,
            (Arrival::Paced { .. }, Some((start, end))) => at >= start && at < end,
            (Arrival::Paced { .. }, None) => false,
        };
        if is_counted {
            state.deliveries.note(at, &account.arrivals, self.options.sent_at.is_some());
        }
        account.arrivals.clear();
    }

    fn is_over(&self, at: Instant) -> bool {
        self.state().span.is_some_and(|(_, end)| at >= end)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SubscribeReport {
    /// Whether every subscriber got every event, once and in order.
    pub fn is_right(&self) -> bool {
        self.trigger.is_ok()
            && self.deliveries.is_right()
            && self.slow.as_ref().is_none_or(SlowCounts::is_right)
    }

    /// The report as `oxb-bench load` prints it.
    pub fn to_json(&self) -> Value {
        let mut report = self.deliveries.to_json(&self.window);
        report["is_right"] = json!(self.is_right());
        if let Err(why) = &self.trigger {
            report["error"] = json!(why);
        }
        if let Some(slow) = &self.slow {
            report["slow_reader"] = slow.to_json();
        }
        report
    }
}
