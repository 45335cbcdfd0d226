//! The load generator: what is sent, how it is paced, and what came of it.
//!
//! Everything runs on one current-thread tokio runtime, a task for each connection, so that the generator's own CPU
//! time is one figure to set against the wall clock.
//!
//! Invariant: an answer is good only if its status and every byte of its body are the expected ones; latency of a
//! paced run counts from the moment a request was meant to be sent, not from when the generator got to it.

mod answer;
mod arrivals;
mod connection;
mod hold;
mod mixed;
mod steady;
mod tally;
mod target;
mod tokens;

pub use answer::{AnswerReader, Malformed, Taken};
pub use hold::{HoldOptions, HoldReport, hold};
pub use mixed::{MixedOptions, MixedReport, mixed};
pub use steady::{Arrivals, Pace, SteadyOptions, SteadyReport, steady};
pub use tally::{Outcome, Tally};
pub use target::{BadUrl, RequestSpec, Target};
pub use tokens::{TokenOptions, TokenReport, tokens};

/// What an answer must be to count as good.
#[derive(Debug, Clone)]
pub struct Expectation {
    /// The status every good answer has.
    pub status: u16,
    /// The exact body, or `None` where any will do.
    pub body: Option<Vec<u8>>,
    /// Statuses that are neither good nor wrong but counted apart, such as 503 under overload.
    pub refusals: Vec<u16>,
}

impl Expectation {
    fn judge(&self, status: u16, body: &[u8]) -> Outcome {
        if status == self.status {
            match &self.body {
                Some(expected) if expected != body => Outcome::WrongBody,
                _ => Outcome::Good,
            }
        } else if self.refusals.contains(&status) {
            Outcome::Refused
        } else {
            Outcome::WrongStatus(status)
        }
    }
}

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
