//! The harness: starts servers, loads them in interleaved rounds and keeps every sample.
//!
//! It is given what it runs ([`Kit`]) and builds nothing.
//!
//! **Invariant:** every figure is from the same run as what it is compared with; a sample with a wrong answer, or of
//! another process or event loop than its row names, is rejected; what was started is ended by its id.

mod error;
mod footprint;
mod instructions;
mod kit;
mod latency;
mod machine;
mod options;
mod program;
mod rounds;
mod run;
mod server;
mod smoke;
mod throughput;

pub use self::error::Error;
pub use self::kit::{Kit, Ours};
pub use self::options::Options;

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

/// One scenario of the harness.
struct Scenario {
    name: &'static str,
    needs: Needs,
    run: fn(&Options, &Kit) -> Result<(), Error>,
}

const OURS: Needs = Needs { ours: true, peers: false, request_harness: false };

const SCENARIOS: &[Scenario] = &[
    Scenario { name: "smoke", needs: OURS, run: smoke::run },
    Scenario { name: "hello", needs: Needs { peers: true, ..OURS }, run: throughput::hello },
    Scenario {
        name: "instructions",
        needs: Needs { ours: false, peers: false, request_harness: true },
        run: instructions::run,
    },
    Scenario { name: "timeout", needs: Needs { request_harness: true, ..OURS }, run: throughput::timeout },
    Scenario { name: "builds", needs: OURS, run: throughput::builds },
    Scenario { name: "cpu", needs: OURS, run: throughput::cpu },
    Scenario { name: "imbalance", needs: OURS, run: latency::imbalance },
    Scenario { name: "await", needs: OURS, run: latency::awaiting },
    Scenario { name: "order", needs: OURS, run: latency::order },
    Scenario { name: "memory", needs: OURS, run: footprint::memory },
    Scenario { name: "start", needs: OURS, run: footprint::start },
    Scenario { name: "idle", needs: OURS, run: footprint::idle },
];

/// What the scenario of that name needs, or `None` where there is none.
pub fn needs(scenario: &str) -> Option<Needs> {
    find(scenario).map(|scenario| scenario.needs)
}

/// Runs the scenario of that name.
///
/// # Errors
/// Where there is none, a server did not start, or an answer was wrong; never for a bar that was missed.
pub fn run(scenario: &str, options: &Options, kit: &Kit) -> Result<(), Error> {
    let found = find(scenario).ok_or_else(|| Error::Usage(format!("no scenario `{scenario}`")))?;
    (found.run)(options, kit)
}

fn find(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}
