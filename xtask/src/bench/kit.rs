//! Builds and installs what a run needs: the generator, the floor, ours on each interpreter, the peers.
//!
//! **Invariant:** floor, generator and ours have the release profile (a quick run measures nothing and takes the
//! development build), and the peers an environment in which ours is not.

use std::path::PathBuf;
use std::sync::Arc;

use oxb_bench::harness::{Kit, Needs, Options, Ours};

use crate::environment::Build;
use crate::error::Error;
use crate::interpreter::Interpreter;
use crate::process;
use crate::setup;
use crate::workspace;

/// Makes everything a scenario needs.
pub(super) fn prepare(options: &Options, needs: Needs) -> Result<Kit, Error> {
    // A quick run is about answers, and takes the build that the tests have made already.
    let build = if options.is_quick { Build::Fast } else { Build::Release };
    let words = ["--package", "oxb-bench", "--package", "floor"];
    let folder = build_programs(build, &words)?;
    let mut kit = Kit {
        root: workspace::root(),
        target: workspace::target(),
        generator: folder.join("oxb-bench"),
        floor: folder.join("floor"),
        upstream: folder.join("echo"),
        request_harness: None,
        ours: Vec::new(),
        why_no_peers: None,
    };
    if needs.request_harness && !options.is_quick && process::answers_version("valgrind", &[]) {
        let words = ["--package", "oxb-bench", "--features", "request-harness", "--bin", "request-harness"];
        kit.request_harness = Some(build_programs(build, &words)?.join("request-harness"));
    }
    if !needs.ours {
        return Ok(kit);
    }
    let given: Vec<Option<PathBuf>> = match options.pythons.as_slice() {
        [] => vec![None],
        several => several.iter().cloned().map(Some).collect(),
    };
    for python in given {
        let interpreter = Interpreter::find(python.as_deref())?;
        let python = Some(interpreter.executable.clone());
        let environment = setup::prepare(&setup::Needs { python, build, requirements: &["test-gil"] })?;
        let mut peers = None;
        if needs.peers && !options.without_peers {
            match super::peers::on(&interpreter, &options.peers) {
                Ok(there) => peers = Some(Arc::new(there)),
                Err(why) => kit.why_no_peers = Some(format!("cannot be installed: {why}")),
            }
        }
        kit.ours.push(Ours {
            python: environment.python(),
            tag: interpreter.tag(),
            is_free_threaded: interpreter.free_threaded,
            peers,
        });
    }
    Ok(kit)
}

/// Builds programs of this tree; the folder they are in.
fn build_programs(build: Build, words: &[&str]) -> Result<PathBuf, Error> {
    let mut cargo = process::cargo();
    cargo.args(["build", "--quiet", "--profile", build.profile()]).args(words);
    process::run(cargo.current_dir(workspace::root()))?;
    Ok(workspace::target().join(build.profile()))
}
