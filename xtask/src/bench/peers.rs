//! `cargo xtask bench setup`: installs the servers that ours is measured beside, and says which are there.
//!
//! **Invariant:** a peer that cannot be installed is named with its reason and fails nothing.

use std::path::{Path, PathBuf};

use oxb_bench::harness::peers::{self, Catalog, Outcome, Peers, PeersError};

use crate::error::Error;
use crate::interpreter::Interpreter;
use crate::workspace;

/// Installs them on each interpreter, or on the one that `setup` would take.
pub(super) fn setup(pythons: &[PathBuf]) -> Result<(), Error> {
    let given: Vec<Option<&Path>> = match pythons {
        [] => vec![None],
        several => several.iter().map(|path| Some(path.as_path())).collect(),
    };
    for python in given {
        let found = Interpreter::find(python)?;
        install(&found).map_err(|error| Error::failed(error.to_string()))?;
    }
    Ok(())
}

/// The peers on an interpreter, installed where a row first asks for one; with names, what those servers need alone.
pub(super) fn on(found: &Interpreter, only: &[String]) -> Result<Peers, PeersError> {
    let catalog = Catalog::load(&workspace::root().join("benches/peers"))?;
    let interpreter = peers::Interpreter::ask(&found.executable)?;
    Ok(Peers::open(catalog, interpreter, &workspace::target()).only(only))
}

fn install(found: &Interpreter) -> Result<(), PeersError> {
    let peers = on(found, &[])?;
    println!("xtask: the peers on Python {}", peers.interpreter().version);
    for group in peers.catalog().groups() {
        let packages = peers.install(&group.name)?;
        let count = packages.values().filter(|outcome| matches!(outcome, Outcome::Installed(_))).count();
        println!("  group {}: {count} of {} packages", group.name, packages.len());
    }
    for (server, event_loop, app) in peers.combinations() {
        match peers.target(server, event_loop, app) {
            Ok(target) => println!("  {}", target.name),
            Err(absent) => println!("  {server}, {event_loop}, {app}: {absent}"),
        }
    }
    Ok(())
}
