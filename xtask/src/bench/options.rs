//! What a benchmark run was asked for.
//!
//! **Invariant:** values only; what an option defaults to is decided once, here.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// The options of the command line, as given.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) pythons: Vec<PathBuf>,
    pub(crate) rounds: Option<usize>,
    pub(crate) duration: Option<f64>,
    pub(crate) warmup: Option<f64>,
    pub(crate) connections: Option<usize>,
    pub(crate) seed: Option<u64>,
    pub(crate) only: Option<String>,
    pub(crate) without_peers: bool,
    pub(crate) is_strict: bool,
    pub(crate) is_smoke: bool,
}

impl Options {
    /// Rounds, at least one.
    pub(crate) fn rounds(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(if self.is_smoke { 1 } else { usual }).max(1)
    }

    /// Seconds measured in each sample.
    pub(crate) fn duration(&self) -> f64 {
        self.duration.unwrap_or(if self.is_smoke { 1.0 } else { 8.0 })
    }

    /// Seconds of load before them.
    pub(crate) fn warmup(&self) -> f64 {
        self.warmup.unwrap_or(if self.is_smoke { 0.3 } else { 2.0 })
    }

    /// Client connections.
    pub(crate) fn connections(&self, usual: usize) -> usize {
        self.connections.unwrap_or(usual).max(1)
    }

    /// The seed given, or one from the clock: it is recorded, so any will do.
    pub(crate) fn seed(&self) -> u64 {
        let drawn = || {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| u64::from(since.subsec_nanos()))
        };
        self.seed.unwrap_or_else(drawn)
    }

    /// Whether a row of that name is wanted.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|text| name.contains(text.as_str()))
    }
}
