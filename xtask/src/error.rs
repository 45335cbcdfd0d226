//! What a subcommand reports when it stops: one line a person can act on.
//!
//! **Invariant:** the text says what failed and, where there is one, what to do; the exit status is
//! 2 for a wrong command line and 1 for everything else.

use std::fmt;

/// Why a subcommand stopped.
#[derive(Debug)]
pub(crate) enum Error {
    /// The command line was wrong: exit status 2.
    Usage(String),
    /// A step failed: exit status 1.
    Failed(String),
    /// A person asked for the end: exit status 130, as a shell reports that signal.
    Interrupted(String),
}

impl Error {
    /// A failed step, in words.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// The exit status of the process.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Failed(_) => 1,
            Self::Interrupted(_) => 130,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Failed(text) | Self::Interrupted(text) => formatter.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

impl From<lexopt::Error> for Error {
    fn from(error: lexopt::Error) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<oxb_bench::harness::Error> for Error {
    fn from(error: oxb_bench::harness::Error) -> Self {
        let text = error.to_string();
        match error {
            oxb_bench::harness::Error::Interrupted => Self::Interrupted(text),
            oxb_bench::harness::Error::Usage(text) => Self::Usage(text),
            oxb_bench::harness::Error::Failed(text) => Self::Failed(text),
        }
    }
}

/// Names what was being done when an I/O call failed.
pub(crate) trait Context<T> {
    /// Puts `doing` in front of the system's text.
    fn context(self, doing: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Context<T> for std::io::Result<T> {
    fn context(self, doing: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|error| Error::Failed(format!("{}: {error}", doing())))
    }
}
