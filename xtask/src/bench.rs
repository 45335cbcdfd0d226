//! `cargo xtask bench`: makes what a scenario of the harness needs, and runs it.
//!
//! **Invariant:** nothing is measured here; what is measured was built or installed by this run's own tree.

mod baseline;
mod kit;
mod peers;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use lexopt::{Arg, Parser, ValueExt};
use oxb_bench::harness::{self, All, Needs, Options};

use crate::error::Error;
use crate::process;
use crate::workspace;

const HELP: &str = "\
cargo xtask bench SCENARIO [OPTION ...]

  hello       hello world beside bare hyper, granian and uvicorn: CPU per request, req/s, latency, memory
  quiet       the same with 1 and 8 connections: what latency costs throughput
  timeout     request_timeout 30 against 0: CPU per request, and instructions under callgrind where that is installed
  instructions  the second half of that alone, without Python
  baseline    instructions of small operations and of a request against benches/instructions.json, within 2 %;
              --update writes it; of another compiler or machine, the commit that wrote it is counted as well
  builds      one loop on each interpreter given (--python twice), N loops on a free-threaded one
  cpu         a handler that computes, one loop against several
  imbalance   latency of light requests beside handlers that hold loops
  await       handlers that wait 1 and 5 ms, beside a bare event loop
  order       in which order queued requests are answered, and how late a sleeper wakes
  memory      resident memory idle, per loop and per idle connection
  start       from the start of the process to its first answer
  generator   the load generator itself: beside wrk and oha, where those are installed
  smoke       a short load of every kind on the development build: fails on a wrong answer, never on speed
  idle        context switches of a server nobody talks to

  machine     the machine as results record it, and what would spoil a run that starts now
  provision   what a benchmark host should be set to: governor, limits, package timers; --apply sets it
  setup       installs the peers, each group in an environment of its own; a peer that cannot be is named, with why
  NAME        a scenario of benches/scenarios (NAME.toml), which may be added to
  all [NAME ...]  every scenario, or those, each into a folder of its own; with index.md and one .tar.gz

  report RUN ...                      report.md, percentiles.csv and plots (SVG) into the folder of each run
  compare RUN RUN [--force]           which rows moved beyond the noise of their own rounds
  document FILE RUN ... [--mark]      a page of figures from saved runs, as docs/performance.md is written

Builds what it needs: the release build of this tree in an environment of its own, the peers in another.
A JSON file with every sample, a CSV of the percentiles and the servers' output go to a new folder under the
target folder; a Markdown table is printed. The exit status is 1 if any answer was wrong, whatever the speed.

  --python PATH      the interpreter, as for setup; may be repeated where a scenario compares builds
  --rounds N         3 interleaved rounds in shuffled order (hello and timeout: 5)
  --duration S       8 seconds measured, after --warmup S (2)
  --connections N    64
  --seed N           of orders and arrivals; default: drawn, and recorded
  --only TEXT        rows whose name holds TEXT (and the floor)
  --no-peers         leave out all other servers
  --peers NAME,...   no other servers than these, by how their names in benches/peers/catalog.toml begin; one that
                     cannot be measured then is a failure
  --strict           refuse to measure on a machine whose figures would not be trusted
  --resume FOLDER    (all) go on where that run was left: scenarios that are done stay
  --quick            one short round on the development build, beside few peers; marked, and compared with nothing
";

/// What reads saved runs and measures nothing.
const REPORTS: [&str; 3] = ["report", "compare", "document"];

/// Runs the reporting program.
fn report(words: &[OsString]) -> Result<(), Error> {
    let mut cargo = process::cargo();
    cargo.args(["run", "--quiet", "--package", "oxb-bench", "--bin", "oxb-report", "--"]).args(words);
    process::run(cargo.current_dir(workspace::root()))
}

/// Runs the subcommand.
pub(crate) fn run(mut arguments: Parser) -> Result<(), Error> {
    if let Some(first) = arguments.try_raw_args().as_ref().and_then(lexopt::RawArgs::peek)
        && REPORTS.iter().any(|name| first == *name)
    {
        let words: Vec<OsString> = arguments.raw_args()?.collect();
        return report(&words);
    }
    let (mut scenario, mut resumed, mut is_applied, mut is_update) = (None, None, false, false);
    let mut only: Vec<String> = Vec::new();
    let mut options = Options::default();
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Value(name) if scenario.is_none() => scenario = Some(name.string()?),
            Arg::Value(name) if scenario.as_deref() == Some("all") => only.push(name.string()?),
            Arg::Long("python") => options.pythons.push(arguments.value()?.into()),
            Arg::Long("rounds") => options.rounds = Some(arguments.value()?.parse()?),
            Arg::Long("duration") => options.duration = Some(arguments.value()?.parse()?),
            Arg::Long("warmup") => options.warmup = Some(arguments.value()?.parse()?),
            Arg::Long("connections") => options.connections = Some(arguments.value()?.parse()?),
            Arg::Long("seed") => options.seed = Some(arguments.value()?.parse()?),
            Arg::Long("only") => options.only = Some(arguments.value()?.string()?),
            Arg::Long("no-peers") => options.without_peers = true,
            Arg::Long("peers") => {
                let names = arguments.value()?.string()?;
                options.peers = names.split(',').map(|name| name.trim().to_owned()).collect();
                if options.peers.iter().any(String::is_empty) {
                    return Err(Error::Usage(format!("--peers {names}: an empty name")));
                }
            }
            Arg::Long("strict") => options.is_strict = true,
            Arg::Long("apply") => is_applied = true,
            Arg::Long("update") => is_update = true,
            Arg::Long("resume") => resumed = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("quick") => options.is_quick = true,
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let Some(scenario) = scenario else { return Err(Error::Usage(format!("no scenario given\n\n{HELP}"))) };
    if scenario == "setup" {
        return peers::setup(&options.pythons);
    }
    if is_applied && scenario != "provision" {
        return Err(Error::Usage("--apply is for `bench provision`".to_owned()));
    }
    if is_update && scenario != "baseline" {
        return Err(Error::Usage("--update is for `bench baseline`".to_owned()));
    }
    if scenario == "baseline" {
        return baseline::run(is_update);
    }
    if scenario == "machine" {
        harness::describe(&workspace::root());
        return Ok(());
    }
    if scenario == "provision" {
        return Ok(harness::provision(is_applied)?);
    }
    if scenario == "all" {
        return all(&only, &options, resumed.as_deref());
    }
    if resumed.is_some() {
        return Err(Error::Usage("--resume is for `bench all`".to_owned()));
    }
    let needs = harness::needs(&workspace::root(), &scenario)?;
    options.is_quick |= scenario == "smoke";
    let kit = kit::prepare(&options, needs)?;
    Ok(harness::run(&scenario, &options, &kit)?)
}

/// Every scenario, with its report, and one archive of all.
fn all(only: &[String], options: &Options, resumed: Option<&Path>) -> Result<(), Error> {
    // The request harness is built only where valgrind is installed.
    let kit = kit::prepare(options, Needs { ours: true, peers: true, request_harness: true })?;
    let mut run = All::open(&kit, resumed)?;
    let outcome = run.run(only, options, &kit);
    if let Err(harness::Error::Interrupted | harness::Error::Usage(_)) = outcome {
        return Ok(outcome?);
    }
    for name in harness::names(&kit.root)? {
        let folder = run.folder().join(name);
        if folder.join("result.json").is_file() {
            report(&["report".into(), folder.into()])?;
        }
    }
    println!("xtask: {}", harness::archive(run.folder())?.display());
    Ok(outcome?)
}
