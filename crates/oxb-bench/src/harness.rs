//! The harness: starts servers, loads them in interleaved rounds and keeps every sample.
//!
//! It is given what it runs ([`Kit`]) and builds nothing.
//!
//! **Invariant:** every figure is from the same run as what it is compared with; a sample with a wrong answer, or of
//! another process or event loop than its row names, is rejected; what was started is ended by its id.

use std::path::Path;

mod address;
mod all;
pub mod baseline;
mod capacity;
mod claim;
mod error;
mod family;
mod footprint;
mod generator;
mod host;
mod instructions;
mod kit;
mod latency;
mod machine;
mod options;
pub mod peers;
mod pinning;
mod print;
mod program;
mod promise;
mod quota;
mod rounds;
mod run;
mod scenario;
mod script;
mod server;
mod smoke;
mod table;
mod throughput;
mod work;

pub use self::all::{All, archive};
pub use self::error::Error;
pub use self::host::provision;
pub use self::kit::{Kit, Ours};
pub use self::machine::describe;
pub use self::options::Options;
pub use self::scenario::{Scenario, names};

/// What a scenario has to be given, beside generator and floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Ours on each interpreter.
    pub ours: bool,
    /// The peers' environment.
    pub peers: bool,
    /// The request harness, for counting instructions.
    pub request_harness: bool,
}

/// A measurement in code.
struct Procedure {
    name: &'static str,
    needs: Needs,
    run: fn(&Options, &Kit) -> Result<(), Error>,
}

const OURS: Needs = Needs { ours: true, peers: false, request_harness: false };

const PROCEDURES: &[Procedure] = &[
    Procedure { name: "smoke", needs: OURS, run: smoke::run },
    Procedure {
        name: "instructions",
        needs: Needs { ours: false, peers: false, request_harness: true },
        run: instructions::run,
    },
    Procedure {
        name: "generator",
        needs: Needs { ours: false, peers: false, request_harness: false },
        run: generator::run,
    },
    Procedure { name: "timeout", needs: Needs { request_harness: true, ..OURS }, run: throughput::timeout },
    Procedure { name: "builds", needs: OURS, run: throughput::builds },
    Procedure { name: "cpu", needs: OURS, run: throughput::cpu },
    Procedure { name: "imbalance", needs: OURS, run: latency::imbalance },
    Procedure { name: "await", needs: OURS, run: latency::awaiting },
    Procedure { name: "order", needs: OURS, run: latency::order },
    Procedure { name: "memory", needs: OURS, run: footprint::memory },
    Procedure { name: "quota", needs: OURS, run: quota::run },
    Procedure { name: "start", needs: OURS, run: footprint::start },
    Procedure { name: "idle", needs: OURS, run: footprint::idle },
];

/// What the scenario of that name needs.
///
/// # Errors
/// Where there is none, or its file is no scenario.
pub fn needs(root: &Path, name: &str) -> Result<Needs, Error> {
    if let Some(procedure) = procedure(name) {
        return Ok(procedure.needs);
    }
    let scenario = Scenario::read(root, name)?;
    Ok(match (&scenario.not_run, scenario.procedure.as_deref().and_then(procedure)) {
        (Some(_), _) => Needs { ours: false, peers: false, request_harness: false },
        (None, Some(procedure)) => procedure.needs,
        (None, None) => Needs { peers: true, ..OURS },
    })
}

/// Runs the scenario of that name.
///
/// # Errors
/// Where there is none, a server did not start, or an answer was wrong; never for a bar that was missed.
pub fn run(name: &str, options: &Options, kit: &Kit) -> Result<(), Error> {
    if let Some(procedure) = procedure(name) {
        return (procedure.run)(options, kit);
    }
    let scenario = Scenario::read(&kit.root, name)?;
    if let Some(why) = &scenario.not_run {
        return table::not_run(name, &scenario, why, options, kit);
    }
    match &scenario.procedure {
        Some(wanted) => match procedure(wanted) {
            Some(procedure) => (procedure.run)(options, kit),
            None => Err(Error::failed(format!("{name}: there is no procedure `{wanted}`"))),
        },
        None => table::run(name, &scenario, options, kit),
    }
}

fn procedure(name: &str) -> Option<&'static Procedure> {
    PROCEDURES.iter().find(|procedure| procedure.name == name)
}
