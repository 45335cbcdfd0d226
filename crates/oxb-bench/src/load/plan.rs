//! A load that can be run, whatever its mode, and what came of it.
//!
//! Invariant: every mode reports as JSON, with `is_right`, `errors`, the server's cost and the generator's own.

use std::io;

use serde_json::Value;

use super::{
    BroadcastOptions, EchoOptions, Line, SlowReaderOptions, SteadyOptions, SubscribeOptions, UploadOptions,
    broadcast, echo, run, slow_reader, steady, subscribe, upload,
};

/// A load that can be run.
#[derive(Debug, Clone)]
pub enum Plan {
    /// `closed`, `open`, `churn`, `pipeline`.
    Steady(SteadyOptions),
    /// `upload`, `chunked-upload`, `slow-upload`.
    Upload(UploadOptions),
    /// `slow-reader`.
    SlowReader(SlowReaderOptions),
    /// `sse`.
    Subscribe(Box<SubscribeOptions>),
    /// `websocket-echo`.
    Echo(EchoOptions),
    /// `websocket-broadcast`.
    Broadcast(BroadcastOptions),
}

/// What came of a plan.
#[derive(Debug, Clone)]
pub struct Played {
    /// The report, as printed.
    pub report: Value,
    /// Whether everything came back as it should.
    pub is_right: bool,
    /// A line for each request, where they were asked for.
    pub lines: Vec<Line>,
}

impl Plan {
    /// Runs the load to its end on this thread.
    ///
    /// # Errors
    /// Where it could not begin: a connection that was refused at the start, for one.
    pub fn play(self) -> io::Result<Played> {
        let (report, lines) = match self {
            Self::Steady(options) => {
                let report = run(steady(options))??;
                (report.to_json(), report.lines().to_vec())
            }
            Self::Upload(options) => (run(upload(options))??.to_json(), Vec::new()),
            Self::SlowReader(options) => (run(slow_reader(options))??.to_json(), Vec::new()),
            Self::Subscribe(options) => (run(subscribe(*options))?.to_json(), Vec::new()),
            Self::Echo(options) => (run(echo(options))??.to_json(), Vec::new()),
            Self::Broadcast(options) => (run(broadcast(options))?.to_json(), Vec::new()),
        };
        Ok(Played { is_right: report["is_right"] == true, report, lines })
    }
}
