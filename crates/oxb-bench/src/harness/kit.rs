//! What a run is given: programs, interpreters and folders that somebody else has made ready.
//!
//! **Invariant:** nothing here builds or installs, so that whoever starts a run decides what is measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::machine;
use super::program;

/// The programs of a run.
#[derive(Debug)]
pub struct Kit {
    /// The root of the workspace: apps and scenario files are read below it.
    pub root: PathBuf,
    /// The target folder: results and byte code go below it.
    pub target: PathBuf,
    /// `oxb-bench`.
    pub generator: PathBuf,
    /// The bare server every figure is a multiple of.
    pub floor: PathBuf,
    /// `request-harness`, where instructions are to be counted.
    pub request_harness: Option<PathBuf>,
    /// Ours, on each interpreter asked for.
    pub ours: Vec<Ours>,
    /// The interpreter of the peers' environment.
    pub peers: Option<PathBuf>,
    /// Why there is none.
    pub why_no_peers: Option<String>,
}

/// Ours on one interpreter.
#[derive(Debug, Clone)]
pub struct Ours {
    /// The interpreter of an environment in which the package is installed.
    pub python: PathBuf,
    /// `3.13.1` or `3.13.1t`.
    pub tag: String,
    /// Whether it is a free-threaded build.
    pub is_free_threaded: bool,
}

impl Kit {
    /// Why a peer is not measured.
    pub(crate) fn why_no_peers(&self) -> &str {
        self.why_no_peers.as_deref().unwrap_or("left out (--no-peers)")
    }

    /// Versions and hashes of everything, for the record.
    pub(crate) fn record(&self) -> Value {
        let interpreters: Vec<Value> = self
            .ours
            .iter()
            .map(|ours| json!({ "python": ours.tag, "is": machine::interpreter(&ours.python), "extension": ours.extension() }))
            .collect();
        let hashes =
            self.ours.first().map(|ours| machine::hashes(&ours.python, &[&self.generator, &self.floor]));
        json!({
            "programs": hashes,
            "ours": interpreters,
            "peers": self.peers.as_deref().map(machine::interpreter),
        })
    }
}

impl Ours {
    /// The compiled extension and its hash.
    fn extension(&self) -> Value {
        let question = "import oxbrook._core as core; print(core.__file__)";
        match program::output(Command::new(&self.python).args(["-I", "-c", question])) {
            Ok(file) => machine::hashes(&self.python, &[Path::new(file.trim())]),
            Err(_) => Value::Null,
        }
    }
}
