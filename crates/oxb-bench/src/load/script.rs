//! Scenario files of the generator: JSON that says what clients do.
//!
//! Invariant: a key that the mode of the file does not read is refused, so nothing that was asked for is left undone.

mod build;
mod entry;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use self::entry::RequestEntry;

/// A scenario file, and what the command line says instead of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// What clients do with the requests.
    #[serde(default)]
    pub mode: Mode,
    requests: Vec<RequestEntry>,
    /// Connections, subscribers, sockets: 64.
    pub connections: Option<usize>,
    /// Seconds of the measured window: 8.
    pub duration: Option<f64>,
    /// Seconds of load before it: 2.
    pub warmup: Option<f64>,
    /// So many requests instead of a duration.
    pub count: Option<u64>,
    /// Requests or messages a second.
    pub rate: Option<f64>,
    /// Of an open loop: Poisson.
    pub arrivals: Option<ArrivalKind>,
    /// Of arrivals and choices: 1.
    pub seed: Option<u64>,
    /// Seconds for an answer, an event, a message, or the next part of one: 30.
    timeout: Option<f64>,
    refusals: Option<Vec<u16>>,
    pipeline_depth: Option<usize>,
    chunk_bytes: Option<usize>,
    bytes_per_second: Option<u64>,
    slow_connections: Option<usize>,
    read_bytes_per_second: Option<u64>,
    events: Option<u64>,
    first_sequence: Option<u64>,
    sequence: Option<String>,
    sent_at: Option<String>,
    sent_at_unit: Option<Unit>,
    trigger: Option<RequestEntry>,
    message_bytes: Option<usize>,
    message_kind: Option<MessageKind>,
    #[serde(skip)]
    folder: PathBuf,
}

/// What clients do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A connection sends when it has its answer.
    #[default]
    Closed,
    /// Requests are sent at times of their own.
    Open,
    /// A connection for each request.
    Churn,
    /// Several requests in one write.
    Pipeline,
    /// Bodies that are sent piece by piece, with a Content-Length.
    Upload,
    /// The same, chunked.
    ChunkedUpload,
    /// The same as `upload`, so many bytes a second on each connection.
    SlowUpload,
    /// Clients that hardly read, beside others.
    SlowReader,
    /// Subscribers to an event stream.
    Sse,
    /// Messages that come back.
    WebsocketEcho,
    /// Messages that come to all.
    WebsocketBroadcast,
}

/// How the gaps of an open loop are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalKind {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Fixed,
}

/// Of the time in an event: since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Unit {
    S,
    Ms,
    Us,
    Ns,
}

/// Of WebSocket messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum MessageKind {
    Text,
    Binary,
}
/// Why a scenario file cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadScript(String);

impl fmt::Display for BadScript {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for BadScript {}
/// A body that is held in memory.
const MAX_BODY: u64 = 256 * 1024 * 1024;
/// A day.
const MAX_SECONDS: f64 = 86_400.0;

fn bad(text: impl Into<String>) -> BadScript {
    BadScript(text.into())
}

impl Script {
    /// Reads a file. A `body_file` in it is looked for beside it.
    ///
    /// # Errors
    /// Where it cannot be read or is no scenario.
    pub fn read(file: &Path) -> Result<Self, BadScript> {
        let text = fs::read_to_string(file).map_err(|error| bad(format!("{}: {error}", file.display())))?;
        let mut script = Self::parse(&text).map_err(|why| bad(format!("{}: {why}", file.display())))?;
        script.folder = file.parent().map(Path::to_owned).unwrap_or_default();
        Ok(script)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// Where it is no scenario.
    ///
    /// ```
    /// use oxb_bench::load::Script;
    /// assert!(Script::parse(r#"{"mode": "churn", "requests": [{"path": "/"}]}"#).is_ok());
    /// let misspelt = Script::parse(r#"{"requests": [{"pfad": "/"}]}"#).unwrap_err();
    /// assert!(misspelt.to_string().contains("pfad"));
    /// ```
    pub fn parse(text: &str) -> Result<Self, BadScript> {
        serde_json::from_str(text).map_err(|error| bad(error.to_string()))
    }

    fn refuse_unread(&self, keeps_lines: bool) -> Result<(), BadScript> {
        use Mode::*;
        let requests: &[Mode] =
            &[Closed, Open, Churn, Pipeline, Upload, ChunkedUpload, SlowUpload, SlowReader];
        let steady: &[Mode] = &[Closed, Open, Churn, Pipeline];
        let uploads: &[Mode] = &[Upload, ChunkedUpload, SlowUpload];
        let streams: &[Mode] = &[Sse, WebsocketBroadcast];
        let entries = self.requests.iter().chain(&self.trigger);
        let keys: [(&str, bool, &[Mode]); 22] = [
            (
                "count",
                self.count.is_some(),
                &[Closed, Open, Churn, Pipeline, Upload, ChunkedUpload, SlowUpload],
            ),
            ("rate", self.rate.is_some(), &[Open, WebsocketBroadcast]),
            ("arrivals", self.arrivals.is_some(), &[Open]),
            ("seed", self.seed.is_some() && self.requests.len() == 1, &[Open]),
            ("refusals", self.refusals.is_some(), requests),
            ("pipeline_depth", self.pipeline_depth.is_some(), &[Pipeline, WebsocketBroadcast]),
            ("chunk_bytes", self.chunk_bytes.is_some(), uploads),
            ("bytes_per_second", self.bytes_per_second.is_some(), &[SlowUpload]),
            ("slow_connections", self.slow_connections.is_some(), &[SlowReader, Sse]),
            ("read_bytes_per_second", self.read_bytes_per_second.is_some(), &[SlowReader, Sse]),
            ("events", self.events.is_some(), streams),
            ("first_sequence", self.first_sequence.is_some(), &[Sse]),
            ("sequence", self.sequence.is_some(), &[Sse]),
            ("sent_at", self.sent_at.is_some(), &[Sse]),
            ("sent_at_unit", self.sent_at_unit.is_some(), &[Sse]),
            ("trigger", self.trigger.is_some(), &[Sse]),
            ("message_bytes", self.message_bytes.is_some(), &[WebsocketEcho, WebsocketBroadcast]),
            ("message_kind", self.message_kind.is_some(), &[WebsocketEcho, WebsocketBroadcast]),
            ("slow", entries.clone().any(|entry| entry.slow), &[SlowReader]),
            ("warmup", self.warmup.is_some() && self.events.is_some(), &[]),
            ("duration", self.duration.is_some() && self.events.is_some(), &[]),
            ("lines of requests", keeps_lines, steady),
        ];
        for (key, is_given, modes) in keys {
            if is_given && !modes.contains(&self.mode) {
                let beside =
                    if matches!(key, "warmup" | "duration") { " with a number of events" } else { "" };
                return Err(bad(format!("`{key}` says nothing in the mode {}{beside}", self.mode)));
            }
        }
        let is_single = matches!(self.mode, Sse | WebsocketEcho | WebsocketBroadcast);
        if is_single && self.requests.len() != 1 {
            return Err(bad(format!("the mode {} wants one request", self.mode)));
        }
        for entry in entries {
            let has_body_check = entry.expect.length.is_some()
                || entry.expect.sha256.is_some()
                || entry.expect.body.is_some()
                || entry.expect.body_bytes.is_some();
            if has_body_check && (is_single || entry.slow) {
                return Err(bad(format!(
                    "{}: its body is not kept, so only `status` can be expected",
                    entry.path
                )));
            }
            if entry.weight.is_some() && (is_single || entry.slow) {
                return Err(bad(format!("{}: `weight` says nothing for it", entry.path)));
            }
        }
        Ok(())
    }
}

fn within<T: PartialOrd + fmt::Display>(key: &str, value: T, least: T, most: T) -> Result<T, BadScript> {
    if value >= least && value <= most {
        return Ok(value);
    }
    Err(bad(format!("`{key}` is from {least} to {most}, not {value}")))
}

fn above_zero(key: &str, value: f64) -> Result<f64, BadScript> {
    if value > 0.0 && value <= 1e7 {
        return Ok(value);
    }
    Err(bad(format!("`{key}` is above 0 and at most 10000000, not {value}")))
}

fn positive(key: &str, seconds: f64) -> Result<Duration, BadScript> {
    if seconds > 0.0 && seconds <= MAX_SECONDS {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(bad(format!("`{key}` is above 0 and at most {MAX_SECONDS} seconds, not {seconds}")))
}
impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::Churn => "churn",
            Self::Pipeline => "pipeline",
            Self::Upload => "upload",
            Self::ChunkedUpload => "chunked-upload",
            Self::SlowUpload => "slow-upload",
            Self::SlowReader => "slow-reader",
            Self::Sse => "sse",
            Self::WebsocketEcho => "websocket-echo",
            Self::WebsocketBroadcast => "websocket-broadcast",
        })
    }
}
