//! From the keys of a scenario file to the options of a load.
//!
//! Invariant: a plan that is made can be run; every value was held against its range.

use std::time::Duration;

use super::super::broadcast::{BroadcastOptions, Sender};
use super::super::echo::EchoOptions;
use super::super::plan::Plan;
use super::super::slow_reader::SlowReaderOptions;
use super::super::subscribers::{Arrival, Place, SubscribeOptions};
use super::super::upload::{Material, Upload, UploadOptions};
use super::super::{Arrivals, Exchange, Extent, LIMIT, Pace, RequestSpec, SteadyOptions, Target};
use super::entry::RequestEntry;
use super::{
    ArrivalKind, BadScript, MAX_BODY, MAX_SECONDS, MessageKind, Mode, Script, Unit, above_zero, bad,
    positive, within,
};

const MAX_CONNECTIONS: usize = 100_000;
const MAX_PIECE: usize = 16 * 1024 * 1024;

/// What all modes have.
struct Base {
    target: Target,
    connection_count: usize,
    warmup: Duration,
    measured: Extent,
    seed: u64,
    limit: Duration,
    watched: Option<u32>,
}

impl Script {
    /// The load against `target`.
    ///
    /// # Errors
    /// A key that the mode does not read, one that it wants and is not there, or a value out of its range.
    pub fn plan(&self, target: Target, watched: Option<u32>, keeps_lines: bool) -> Result<Plan, BadScript> {
        self.refuse_unread(keeps_lines)?;
        if self.requests.is_empty() {
            return Err(bad("`requests` is empty"));
        }
        let base = Base {
            target,
            connection_count: within("connections", self.connections.unwrap_or(64), 1, MAX_CONNECTIONS)?,
            warmup: self.warmup()?,
            measured: self.extent()?,
            seed: self.seed.unwrap_or(1),
            limit: match self.timeout {
                None => LIMIT,
                Some(value) => positive("timeout", value)?,
            },
            watched,
        };
        match self.mode {
            Mode::Closed | Mode::Open | Mode::Churn | Mode::Pipeline => {
                Ok(Plan::Steady(self.steady(base, &self.requests, keeps_lines)?))
            }
            Mode::Upload | Mode::ChunkedUpload | Mode::SlowUpload => self.upload(base).map(Plan::Upload),
            Mode::SlowReader => self.slow_reader(base).map(Plan::SlowReader),
            Mode::Sse => Ok(Plan::Subscribe(Box::new(self.subscribe(base)?))),
            Mode::WebsocketEcho => self.echo(base).map(Plan::Echo),
            Mode::WebsocketBroadcast => self.broadcast(base).map(Plan::Broadcast),
        }
    }
    fn steady(
        &self,
        base: Base,
        entries: &[RequestEntry],
        keeps_lines: bool,
    ) -> Result<SteadyOptions, BadScript> {
        let pace = match self.mode {
            Mode::Churn => Pace::Churn,
            Mode::Pipeline => {
                Pace::Pipeline(within("pipeline_depth", self.pipeline_depth.unwrap_or(16), 1, 1024)?)
            }
            Mode::Open => {
                let rate = self.rate.ok_or_else(|| bad("the mode open wants a `rate`"))?;
                let arrivals = match self.arrivals {
                    None | Some(ArrivalKind::Poisson) => Arrivals::Poisson,
                    Some(ArrivalKind::Fixed) => Arrivals::Fixed,
                };
                Pace::Open { rate: above_zero("rate", rate)?, arrivals }
            }
            _ => Pace::Closed,
        };
        let mut exchanges = Vec::with_capacity(entries.len());
        for entry in entries {
            let mut request = entry.request()?;
            request.body = match entry.material(&self.folder)? {
                Material::Bytes(bytes) => bytes.to_vec(),
                Material::Repeated(count) if count > MAX_BODY => {
                    return Err(bad(format!("`body_bytes` over {MAX_BODY} is for uploads")));
                }
                Material::Repeated(count) => vec![b'x'; count as usize],
            };
            if self.mode == Mode::Churn
                && !request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("connection"))
            {
                request.headers.push(("Connection".to_owned(), "close".to_owned()));
            }
            let expect = entry.expect(self.refusals())?;
            exchanges.push(Exchange { request, expect, weight: entry.weight()? });
        }
        Ok(SteadyOptions {
            target: base.target,
            exchanges,
            connection_count: base.connection_count,
            warmup: base.warmup,
            measured: base.measured,
            pace,
            seed: base.seed,
            limit: base.limit,
            watched: base.watched,
            keeps_lines,
        })
    }

    fn upload(&self, base: Base) -> Result<UploadOptions, BadScript> {
        let bytes_per_second = match (self.mode, self.bytes_per_second) {
            (Mode::SlowUpload, None | Some(0)) => {
                return Err(bad("the mode slow-upload wants `bytes_per_second` above 0"));
            }
            (_, rate) => rate,
        };
        // Twenty pieces a second are a slow but steady trickle.
        let usual = bytes_per_second.map_or(64 * 1024, |rate| (rate / 20).clamp(1, 64 * 1024) as usize);
        let mut uploads = Vec::with_capacity(self.requests.len());
        for entry in &self.requests {
            let material = entry.material(&self.folder)?;
            if material.length() == 0 {
                return Err(bad(format!("{}: an upload wants a body", entry.path)));
            }
            let expect = entry.expect(self.refusals())?;
            uploads.push(Upload { request: entry.request()?, material, expect, weight: entry.weight()? });
        }
        Ok(UploadOptions {
            target: base.target,
            uploads,
            is_chunked: self.mode == Mode::ChunkedUpload,
            chunk_bytes: within("chunk_bytes", self.chunk_bytes.unwrap_or(usual), 1, MAX_PIECE)?,
            bytes_per_second,
            connection_count: base.connection_count,
            warmup: base.warmup,
            measured: base.measured,
            seed: base.seed,
            limit: base.limit,
            watched: base.watched,
        })
    }

    fn slow_reader(&self, base: Base) -> Result<SlowReaderOptions, BadScript> {
        let (slow, others): (Vec<_>, Vec<_>) = self.requests.iter().cloned().partition(|entry| entry.slow);
        let [slow] = slow.as_slice() else {
            return Err(bad("the mode slow-reader wants one request with `\"slow\": true`"));
        };
        let slow_count = within("slow_connections", self.slow_connections.unwrap_or(1), 1, MAX_CONNECTIONS)?;
        Ok(SlowReaderOptions {
            request: slow.whole(&self.folder)?,
            status: slow.expect.status.unwrap_or(200),
            slow_count,
            bytes_per_second: self.read_bytes_per_second.unwrap_or(0),
            // Without others beside it this is only how long the slow ones stay.
            has_others: !others.is_empty(),
            others: self.steady(base, if others.is_empty() { &self.requests } else { &others }, false)?,
        })
    }

    fn subscribe(&self, base: Base) -> Result<SubscribeOptions, BadScript> {
        let entry = &self.requests[0];
        let mut request = entry.whole(&self.folder)?;
        if !request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept")) {
            request.headers.push(("Accept".to_owned(), "text/event-stream".to_owned()));
        }
        if self.sent_at.is_none() && self.sent_at_unit.is_some() {
            return Err(bad("`sent_at_unit` says nothing without `sent_at`"));
        }
        if self.slow_connections.is_none() && self.read_bytes_per_second.is_some() {
            return Err(bad("`read_bytes_per_second` says nothing without `slow_connections`"));
        }
        let nanos_per_unit = match self.sent_at_unit.unwrap_or(Unit::Ns) {
            Unit::S => 1e9,
            Unit::Ms => 1e6,
            Unit::Us => 1e3,
            Unit::Ns => 1.0,
        };
        Ok(SubscribeOptions {
            target: base.target,
            request,
            status: entry.expect.status.unwrap_or(200),
            subscriber_count: base.connection_count,
            arrival: match self.events {
                Some(events) => Arrival::Burst { events: within("events", events, 1, 1_000_000_000)? },
                None => Arrival::Paced { warmup: base.warmup, measured: self.measured()? },
            },
            first_sequence: self.first_sequence,
            sequence: place("sequence", self.sequence.as_deref().unwrap_or("id"))?,
            sent_at: match &self.sent_at {
                None => None,
                Some(text) => Some((place("sent_at", text)?, nanos_per_unit)),
            },
            trigger: match &self.trigger {
                None => None,
                Some(entry) => Some((entry.whole(&self.folder)?, entry.expect(self.refusals())?)),
            },
            slow_count: self.slow_connections.unwrap_or(0).min(MAX_CONNECTIONS),
            read_bytes_per_second: self.read_bytes_per_second.unwrap_or(0),
            limit: base.limit,
            watched: base.watched,
        })
    }

    fn echo(&self, base: Base) -> Result<EchoOptions, BadScript> {
        Ok(EchoOptions {
            request: self.handshake()?,
            target: base.target,
            connection_count: base.connection_count,
            warmup: base.warmup,
            measured: self.measured()?,
            // The number that makes a message its own takes 20 digits.
            message_bytes: within("message_bytes", self.message_bytes.unwrap_or(64), 20, MAX_PIECE)?,
            is_binary: self.message_kind == Some(MessageKind::Binary),
            limit: base.limit,
            watched: base.watched,
        })
    }

    fn broadcast(&self, base: Base) -> Result<BroadcastOptions, BadScript> {
        let events = self.events.ok_or_else(|| bad("the mode websocket-broadcast wants `events`"))?;
        if self.rate.is_some() && self.pipeline_depth.is_some() {
            return Err(bad("`pipeline_depth` says nothing beside a `rate`"));
        }
        let sender = match self.rate {
            Some(rate) => Sender::Paced { rate: above_zero("rate", rate)? },
            None => {
                let depth = within("pipeline_depth", self.pipeline_depth.unwrap_or(1), 1, 65_536)?;
                Sender::Window { depth: depth as u64 }
            }
        };
        Ok(BroadcastOptions {
            request: self.handshake()?,
            target: base.target,
            subscriber_count: base.connection_count,
            events: within("events", events, 1, 1_000_000_000)?,
            sender,
            // Number and time of a message take 41.
            message_bytes: within("message_bytes", self.message_bytes.unwrap_or(64), 41, MAX_PIECE)?,
            is_binary: self.message_kind == Some(MessageKind::Binary),
            limit: base.limit,
            watched: base.watched,
        })
    }

    fn handshake(&self) -> Result<RequestSpec, BadScript> {
        let entry = &self.requests[0];
        let has_body = entry.body.is_some() || entry.body_file.is_some() || entry.body_bytes.is_some();
        if entry.method != "GET" || has_body || entry.expect.status.is_some_and(|status| status != 101) {
            return Err(bad("the request of a WebSocket is a GET without a body, and its status is 101"));
        }
        entry.request()
    }

    fn extent(&self) -> Result<Extent, BadScript> {
        match (self.count, self.duration) {
            (Some(_), Some(_)) => Err(bad("either a `count` or a `duration`, not both")),
            (Some(count), None) => Ok(Extent::Count(within("count", count, 1, u64::MAX)?)),
            (None, _) => Ok(Extent::For(self.measured()?)),
        }
    }

    fn measured(&self) -> Result<Duration, BadScript> {
        positive("duration", self.duration.unwrap_or(8.0))
    }

    fn warmup(&self) -> Result<Duration, BadScript> {
        let seconds = self.warmup.unwrap_or(if self.count.is_some() { 0.0 } else { 2.0 });
        if (0.0..=MAX_SECONDS).contains(&seconds) {
            Ok(Duration::from_secs_f64(seconds))
        } else {
            Err(bad(format!("`warmup` is from 0 to {MAX_SECONDS} seconds, not {seconds}")))
        }
    }

    fn refusals(&self) -> Vec<u16> {
        self.refusals.clone().unwrap_or_default()
    }
}

fn place(key: &str, text: &str) -> Result<Place, BadScript> {
    Place::parse(text)
        .ok_or_else(|| bad(format!("`{key}` is id, data or a JSON pointer into data, not {text:?}")))
}
