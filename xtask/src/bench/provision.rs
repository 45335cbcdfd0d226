//! Builds and installs what a run needs: the generator, the floor, ours on each interpreter, the peers.
//!
//! **Invariant:** floor, generator and ours have the release profile (a smoke run measures nothing and takes the
//! development build), and the peers an environment in which ours is not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::environment::Build;
use crate::error::{Context, Error};
use crate::interpreter::Interpreter;
use crate::process;
use crate::setup::{self, Needs};
use crate::workspace;

use super::machine;
use super::options::Options;

/// The programs of a run.
#[derive(Debug)]
pub(crate) struct Kit {
    pub(crate) generator: PathBuf,
    pub(crate) floor: PathBuf,
    /// Ours, on each interpreter asked for.
    pub(crate) ours: Vec<Ours>,
    /// The interpreter of the peers' environment.
    pub(crate) peers: Option<PathBuf>,
}

/// Ours on one interpreter.
#[derive(Debug)]
pub(crate) struct Ours {
    pub(crate) python: PathBuf,
    /// `3.13.1` or `3.13.1t`.
    pub(crate) tag: String,
    pub(crate) is_free_threaded: bool,
}

impl Kit {
    /// Makes everything; `with_peers` for the scenarios that name them.
    pub(crate) fn prepare(options: &Options, with_peers: bool) -> Result<Self, Error> {
        let mut kit = Self::programs(options)?;
        let build = build_of(options);
        let given: Vec<Option<PathBuf>> = match options.pythons.as_slice() {
            [] => vec![None],
            several => several.iter().cloned().map(Some).collect(),
        };
        for python in given {
            let interpreter = Interpreter::find(python.as_deref())?;
            let python = Some(interpreter.executable.clone());
            let needs = Needs { python, build, requirements: &["test-gil"] };
            let environment = setup::prepare(&needs)?;
            if with_peers && !options.without_peers && kit.peers.is_none() {
                kit.peers = Some(peers_environment(&interpreter)?);
            }
            kit.ours.push(Ours {
                python: environment.python(),
                tag: interpreter.tag(),
                is_free_threaded: interpreter.free_threaded,
            });
        }
        Ok(kit)
    }

    /// The programs alone, for what needs no Python.
    pub(crate) fn programs(options: &Options) -> Result<Self, Error> {
        let build = build_of(options);
        build_programs(build)?;
        let folder = workspace::target().join(build.profile());
        Ok(Self {
            generator: folder.join("oxb-bench"),
            floor: folder.join("floor"),
            ours: Vec::new(),
            peers: None,
        })
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
        match process::output(Command::new(&self.python).args(["-I", "-c", question])) {
            Ok(file) => machine::hashes(&self.python, &[Path::new(file.trim())]),
            Err(_) => Value::Null,
        }
    }
}

/// A smoke run is about answers, and takes the build that the tests have made already.
fn build_of(options: &Options) -> Build {
    if options.is_smoke { Build::Fast } else { Build::Release }
}

fn build_programs(build: Build) -> Result<(), Error> {
    let mut cargo = process::cargo();
    cargo
        .args([
            "build",
            "--quiet",
            "--profile",
            build.profile(),
            "--package",
            "oxb-bench",
            "--package",
            "floor",
        ])
        .current_dir(workspace::root());
    process::run(&mut cargo)
}

/// The peers' interpreter, its packages being those of `benches/peers/requirements.txt`.
fn peers_environment(interpreter: &Interpreter) -> Result<PathBuf, Error> {
    let requirements = workspace::root().join("benches/peers/requirements.txt");
    let wanted =
        fs::read_to_string(&requirements).context(|| format!("cannot read {}", requirements.display()))?;
    let wanted = format!("{}\n{wanted}", interpreter.executable.display());
    let folder = workspace::target().join("bench").join(format!("peers-{}", interpreter.tag()));
    let python = folder.join("bin/python");
    let marker = folder.join("installed");
    if fs::read_to_string(&marker).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    println!("xtask: installing the peers for Python {}", interpreter.tag());
    process::output(Command::new(&interpreter.executable).args(["-m", "venv", "--clear"]).arg(&folder))?;
    process::output(
        Command::new(&python).args(["-m", "pip", "install", "--quiet", "-r"]).arg(&requirements),
    )?;
    fs::write(&marker, wanted).context(|| format!("cannot write {}", marker.display()))?;
    Ok(python)
}
