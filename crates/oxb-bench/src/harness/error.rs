//! Why a run stopped: one line a person can act on.
//!
//! **Invariant:** a wrong command line and a failed step are told apart; the text says what failed.

/// Why a run stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line asked for something that is not there.
    #[error("{0}")]
    Usage(String),
    /// A step failed.
    #[error("{0}")]
    Failed(String),
    /// A person or the system asked for the end.
    #[error("interrupted: what was started is ended, and the scenario under way is not kept")]
    Interrupted,
}

impl Error {
    /// A failed step, in words.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
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
