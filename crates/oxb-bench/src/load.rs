//! The load generator: what is sent, how it is paced, and what came of it.
//!
//! Everything runs on one current-thread tokio runtime, a task for each connection, so that the generator's own CPU
//! time is one figure to set against the wall clock.
//!
//! Invariant: an answer is good only if its status and every byte of its body are the expected ones; latency of a
//! paced run counts from the moment a request was meant to be sent, not from when the generator got to it.

#[cfg_attr(not(feature = "scenarios"), allow(dead_code, reason = "parts that scenario files use"))]
mod answer;
mod arrivals;
#[cfg_attr(not(feature = "scenarios"), allow(dead_code, reason = "parts that scenario files use"))]
mod body;
#[cfg_attr(not(feature = "scenarios"), allow(dead_code, reason = "parts that scenario files use"))]
mod connection;
mod hold;
mod ledger;
mod mixed;
mod outcome;
mod steady;
mod tally;
#[cfg_attr(not(feature = "scenarios"), allow(dead_code, reason = "parts that scenario files use"))]
mod target;
mod tokens;
mod transport;
#[cfg_attr(not(feature = "scenarios"), allow(dead_code, reason = "parts that scenario files use"))]
mod window;

#[cfg(feature = "scenarios")]
mod broadcast;
#[cfg(feature = "scenarios")]
mod deliveries;
#[cfg(feature = "scenarios")]
mod echo;
#[cfg(feature = "scenarios")]
mod event_stream;
#[cfg(feature = "scenarios")]
mod plan;
#[cfg(feature = "scenarios")]
mod script;
#[cfg(feature = "scenarios")]
mod sequence;
#[cfg(feature = "scenarios")]
mod slow_reader;
#[cfg(feature = "scenarios")]
mod subscribers;
#[cfg(feature = "scenarios")]
mod upload;
#[cfg(feature = "scenarios")]
mod websocket;

pub use answer::{AnswerReader, Malformed, Taken};
pub use hold::{HoldOptions, HoldReport, hold};
pub use ledger::{Extent, Line};
pub use mixed::{MixedOptions, MixedReport, mixed};
pub use outcome::{Expectation, Failure, Outcome};
pub use steady::{Arrivals, Exchange, Pace, SteadyOptions, SteadyReport, steady};
pub use tally::{Seen, Tally};
pub use target::{BadUrl, RequestSpec, Target};
pub use tokens::{TokenOptions, TokenReport, tokens};

#[cfg(feature = "scenarios")]
pub use broadcast::{BroadcastOptions, BroadcastReport, Sender, broadcast};
#[cfg(feature = "scenarios")]
pub use echo::{EchoOptions, EchoReport, echo};
#[cfg(feature = "scenarios")]
pub use event_stream::{Event, EventStream};
#[cfg(feature = "scenarios")]
pub use plan::{Plan, Played};
#[cfg(feature = "scenarios")]
pub use script::{ArrivalKind, BadScript, Mode, Script};
#[cfg(feature = "scenarios")]
pub use slow_reader::{SlowReaderOptions, SlowReaderReport, slow_reader};
#[cfg(feature = "scenarios")]
pub use subscribers::{Arrival, Place, SubscribeOptions, SubscribeReport, subscribe};
#[cfg(feature = "scenarios")]
pub use upload::{Material, Upload, UploadOptions, UploadReport, upload};

/// For an answer, or the next part of one, where nothing else was said.
pub const LIMIT: std::time::Duration = connection::LIMIT;

/// Runs one kind of load to its end on this thread.
///
/// # Errors
/// Where the runtime cannot be made.
pub fn run<T>(load: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(load);
    // Connections still open belong to tasks nobody waits for any more.
    runtime.shutdown_background();
    Ok(result)
}
