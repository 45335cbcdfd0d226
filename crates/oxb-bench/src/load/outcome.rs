//! How one request ended, and what it must have been to be good.
//!
//! Invariant: an answer is good only if everything that the caller expects of it was compared.

use std::io;

use sha2::{Digest, Sha256};

/// How one request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The expected status, length and bytes.
    Good,
    /// A status that the caller allows as a refusal.
    Refused,
    /// Anything else.
    Failed(Failure),
}

/// Why a request is neither good nor refused. Each kind is counted under its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No connection could be made.
    Connect,
    /// The peer closed before the first byte of an answer.
    Closed,
    /// The peer closed within an answer.
    Cut,
    /// The peer reset the connection.
    Reset,
    /// No answer, or no event, within the time limit.
    Timeout,
    /// Another status than the expected one.
    Status(u16),
    /// A body of another length.
    Length,
    /// A body or message of the right length with other bytes.
    Body,
    /// What came is not HTTP, an event stream or a WebSocket.
    Protocol,
}

impl Outcome {
    /// `good`, `refused`, or the name of the failure.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Refused => "refused",
            Self::Failed(failure) => Failure::NAMES[failure.index()],
        }
    }
}

impl Failure {
    /// The names under which failures are counted, in the order of [`index`](Self::index).
    pub(super) const NAMES: [&str; 9] =
        ["connect", "closed", "cut", "reset", "timeout", "status", "length", "body", "protocol"];

    /// Its place in [`NAMES`](Self::NAMES).
    pub(super) fn index(self) -> usize {
        match self {
            Self::Connect => 0,
            Self::Closed => 1,
            Self::Cut => 2,
            Self::Reset => 3,
            Self::Timeout => 4,
            Self::Status(_) => 5,
            Self::Length => 6,
            Self::Body => 7,
            Self::Protocol => 8,
        }
    }

    /// The kind of an error of a connection that was open.
    pub(super) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Cut,
            io::ErrorKind::TimedOut => Self::Timeout,
            // BrokenPipe, ConnectionReset, ConnectionAborted: the peer is gone without an end.
            _ => Self::Reset,
        }
    }
}

/// What an answer must be to count as good.
#[derive(Debug, Clone)]
pub struct Expectation {
    /// The status every good answer has.
    pub status: u16,
    /// The exact body, or `None` where any will do.
    pub body: Option<Vec<u8>>,
    /// The length of the body.
    pub length: Option<usize>,
    /// The SHA-256 of the body.
    pub sha256: Option<[u8; 32]>,
    /// Statuses that are neither good nor wrong but counted apart, such as 503 under overload.
    pub refusals: Vec<u16>,
}

impl Default for Expectation {
    fn default() -> Self {
        Self { status: 200, body: None, length: None, sha256: None, refusals: Vec::new() }
    }
}

impl Expectation {
    /// Compares an answer with what it must be.
    ///
    /// ```
    /// use oxb_bench::load::{Expectation, Failure, Outcome};
    /// let expect = Expectation { body: Some(b"hi".to_vec()), ..Expectation::default() };
    /// assert_eq!(expect.judge(200, b"hi"), Outcome::Good);
    /// assert_eq!(expect.judge(200, b"ho"), Outcome::Failed(Failure::Body));
    /// assert_eq!(expect.judge(404, b"hi"), Outcome::Failed(Failure::Status(404)));
    /// ```
    pub fn judge(&self, status: u16, body: &[u8]) -> Outcome {
        match self.judge_status(status) {
            Outcome::Good => {}
            other => return other,
        }
        let length = self.length.or(self.body.as_ref().map(Vec::len));
        if length.is_some_and(|length| length != body.len()) {
            return Outcome::Failed(Failure::Length);
        }
        let is_other = self.body.as_ref().is_some_and(|expected| expected != body)
            || self.sha256.is_some_and(|expected| Sha256::digest(body)[..] != expected);
        if is_other { Outcome::Failed(Failure::Body) } else { Outcome::Good }
    }

    /// The same for an answer whose body is not looked at.
    pub fn judge_status(&self, status: u16) -> Outcome {
        if status == self.status {
            Outcome::Good
        } else if self.refusals.contains(&status) {
            Outcome::Refused
        } else {
            Outcome::Failed(Failure::Status(status))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_name_of_its_own() {
        let all = [
            (Failure::Connect, "connect"),
            (Failure::Closed, "closed"),
            (Failure::Cut, "cut"),
            (Failure::Reset, "reset"),
            (Failure::Timeout, "timeout"),
            (Failure::Status(500), "status"),
            (Failure::Length, "length"),
            (Failure::Body, "body"),
            (Failure::Protocol, "protocol"),
        ];
        assert_eq!(all.len(), Failure::NAMES.len());
        for (failure, name) in all {
            assert_eq!(Failure::NAMES[failure.index()], name);
        }
    }

    #[test]
    fn a_hash_tells_bodies_of_one_length_apart() {
        let sha256 = Some(Sha256::digest(b"right").into());
        let expect = Expectation { sha256, length: Some(5), ..Expectation::default() };
        assert_eq!(expect.judge(200, b"right"), Outcome::Good);
        assert_eq!(expect.judge(200, b"wrong"), Outcome::Failed(Failure::Body));
        assert_eq!(expect.judge(200, b"righ"), Outcome::Failed(Failure::Length));
    }
}
