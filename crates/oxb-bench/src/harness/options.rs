//! What a benchmark run was asked for.
//!
//! **Invariant:** values only; what an option defaults to is decided once, here.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// The options of the command line, as given.
#[derive(Debug, Default, Clone)]
pub struct Options {
    /// Interpreters; the default one where there are none.
    pub pythons: Vec<PathBuf>,
    /// Interleaved rounds.
    pub rounds: Option<usize>,
    /// Seconds measured in each sample.
    pub duration: Option<f64>,
    /// Seconds of load before them.
    pub warmup: Option<f64>,
    /// Client connections.
    pub connections: Option<usize>,
    /// Seed of orders and arrivals.
    pub seed: Option<u64>,
    /// Rows whose name holds this text, and the floor.
    pub only: Option<String>,
    /// Whether other servers are left out.
    pub without_peers: bool,
    /// The only other servers that are measured, by what their names begin with; all where there are none.
    pub peers: Vec<String>,
    /// Whether a machine whose figures would not be trusted is refused.
    pub is_strict: bool,
    /// The folder of a run of all scenarios, in which each has one of its own.
    pub into: Option<PathBuf>,
    /// Whether this is a short run of the development build, which measures nothing.
    pub is_quick: bool,
}

impl Options {
    /// Rounds, at least one.
    pub(crate) fn rounds(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(if self.is_quick { 1 } else { usual }).max(1)
    }

    /// Seconds measured in each sample.
    pub(crate) fn duration(&self) -> f64 {
        self.duration.unwrap_or(if self.is_quick { 1.0 } else { 8.0 })
    }

    /// Seconds of load before them.
    pub(crate) fn warmup(&self) -> f64 {
        self.warmup.unwrap_or(if self.is_quick { 0.3 } else { 2.0 })
    }

    /// Client connections.
    pub(crate) fn connections(&self, usual: usize) -> usize {
        self.connections.unwrap_or(usual).max(1)
    }

    /// The seed given, the usual one, or one from the clock: it is recorded, so any will do.
    pub(crate) fn seed(&self, usual: Option<u64>) -> u64 {
        let drawn = || {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| u64::from(since.subsec_nanos()))
        };
        self.seed.or(usual).unwrap_or_else(drawn)
    }

    /// Whether rows of that server of the catalogue are wanted.
    pub(crate) fn wants_peer(&self, server: &str) -> bool {
        self.peers.is_empty() || self.peers.iter().any(|name| server.starts_with(name.as_str()))
    }

    /// Whether a row of that name is wanted.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|text| name.contains(text.as_str()))
    }
}
