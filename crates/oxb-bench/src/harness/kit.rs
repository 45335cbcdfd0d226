//! What a run is given: programs, interpreters and folders that somebody else has made ready.
//!
//! **Invariant:** nothing here builds or installs, so that whoever starts a run decides what is measured.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};

use super::machine;
use super::options::Options;
use super::peers::{Peers, Target};
use super::pinning::{self, pinning};
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
    /// A bare hyper server that gives every body back: what is behind the proxies of the scenario `app`.
    pub upstream: PathBuf,
    /// `request-harness`, where instructions are to be counted.
    pub request_harness: Option<PathBuf>,
    /// Ours, on each interpreter asked for.
    pub ours: Vec<Ours>,
    /// Why no peer is measured, where none is.
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
    /// The other servers on this interpreter, where they are to be measured.
    pub peers: Option<Arc<Peers>>,
}

impl Kit {
    /// The generator, which the system ends when this process ends, however that comes about.
    pub(crate) fn generator(&self) -> Command {
        let mut command = Command::new(&self.generator);
        command.args(["exec", "--"]).arg(&self.generator);
        command
    }

    /// Why no peer is measured.
    pub(crate) fn why_no_peers(&self) -> &str {
        self.why_no_peers.as_deref().unwrap_or("left out (--no-peers)")
    }

    /// A server of the catalogue on the interpreter of `ours`, or why it is absent: not installed there, or without
    /// something that its load `uses`.
    pub(crate) fn peer(
        &self,
        ours: Option<&Ours>,
        options: &Options,
        [server, event_loop, app]: [&str; 3],
        uses: &[&str],
    ) -> Result<Target, String> {
        if !options.wants_peer(server) {
            return Err(format!("left out (--peers {})", options.peers.join(",")));
        }
        let peers =
            ours.and_then(|ours| ours.peers.as_deref()).ok_or_else(|| self.why_no_peers().to_owned())?;
        let known = peers.catalog().server(server);
        if let Some(why) = known.and_then(|server| uses.iter().find_map(|word| server.without.get(*word))) {
            return Err(why.clone());
        }
        peers.target(server, event_loop, app).map_err(|absent| absent.why)
    }

    /// Versions and hashes of everything, for the record.
    pub(crate) fn record(&self) -> Value {
        let interpreters: Vec<Value> = self
            .ours
            .iter()
            .map(|ours| {
                let peers: Vec<Value> = ours.peers.iter().flat_map(|peers| peers.environments()).map(|python| machine::interpreter(&python)).collect();
                json!({ "python": ours.tag, "is": machine::interpreter(&ours.python), "extension": ours.extension(), "peers": peers })
            })
            .collect();
        let hashes =
            self.ours.first().map(|ours| machine::hashes(&ours.python, &[&self.generator, &self.floor]));
        json!({
            "programs": hashes,
            "ours": interpreters,
        })
    }
}

impl Ours {
    /// Whether the JIT of CPython was built in; from 3.14 on that can be asked.
    pub(crate) fn has_jit(&self) -> bool {
        machine::interpreter(&self.python)["jit"]["is_available"] == true
    }

    /// What its loop detection makes of this machine, with each of its probes; within the control group whose members
    /// that file lists.
    pub(crate) fn detection(&self, members: Option<&Path>) -> Value {
        let question = "import json; from oxbrook import _workers; print(json.dumps(_workers.describe()))";
        let mut python = Command::new("sh");
        python.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(members.unwrap_or(Path::new("/dev/null")));
        python.arg(&self.python).args(["-I", "-c", question]);
        // As a server is started: where its CPUs are its own, detection heeds them.
        let said = pinning::on(pinning().servers(), || program::output(&mut python)).and_then(|said| said);
        said.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null)
    }

    /// The compiled extension and its hash.
    fn extension(&self) -> Value {
        let question = "import oxbrook._core as core; print(core.__file__)";
        match program::output(Command::new(&self.python).args(["-I", "-c", question])) {
            Ok(file) => machine::hashes(&self.python, &[Path::new(file.trim())]),
            Err(_) => Value::Null,
        }
    }
}
