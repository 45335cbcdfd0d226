//! `cargo xtask test`: sets up what is missing, then runs every Rust and Python test.
//!
//! **Invariant:** the Python tests import the installed package, built so that a broken invariant 1 aborts;
//! nothing of them reads `python/` of the tree.

mod fuzz;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use lexopt::{Arg, Parser, ValueExt};

use crate::environment::Build;
use crate::error::Error;
use crate::process;
use crate::setup::{self, Needs};
use crate::workspace;

const HELP: &str = "\
cargo xtask test [--python PATH] [--rust-only | --python-only] [-- PYTEST-OPTION ...]

Sets up what is missing (see setup), then runs
  all Rust tests        unit, integration and documentation tests of every crate
  the loom models       oxb-core again under --cfg loom: every interleaving of its protocols
  all Python tests      pytest in parallel, against the installed package
What follows `--` goes to pytest, for example `-- -k drain -n 0`.

  --python PATH   as for setup
  --release       test the release build of the extension
  --rust-only     leave out the Python tests (needs no Python)
  --python-only   leave out the Rust tests
  --jobs N        pytest processes; default: two for each CPU, at most 8

  --fuzz SECONDS  in place of the tests: each fuzz target for that long
  --benches       in place of the tests: each criterion benchmark once, to see that it runs
";

#[derive(Debug)]
struct Options {
    python: Option<PathBuf>,
    build: Build,
    is_rust_wanted: bool,
    is_python_wanted: bool,
    jobs: Option<usize>,
    instead: Instead,
    passed: Vec<OsString>,
}

/// What runs in place of the tests.
#[derive(Debug)]
enum Instead {
    Nothing,
    Fuzz { seconds: u32 },
    Benches,
}

/// Runs the subcommand.
pub(crate) fn run(mut arguments: Parser) -> Result<(), Error> {
    let mut options = Options {
        python: None,
        build: Build::Fast,
        is_rust_wanted: true,
        is_python_wanted: true,
        jobs: None,
        instead: Instead::Nothing,
        passed: Vec::new(),
    };
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("python") => options.python = Some(arguments.value()?.into()),
            Arg::Long("release") => options.build = Build::Release,
            Arg::Long("rust-only") => options.is_python_wanted = false,
            Arg::Long("python-only") => options.is_rust_wanted = false,
            Arg::Long("jobs") => options.jobs = Some(arguments.value()?.parse()?),
            Arg::Long("fuzz") => options.instead = Instead::Fuzz { seconds: arguments.value()?.parse()? },
            Arg::Long("benches") => options.instead = Instead::Benches,
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(());
            }
            Arg::Value(value) => {
                options.passed.push(value);
                options.passed.extend(arguments.raw_args()?);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if !options.is_rust_wanted && !options.is_python_wanted {
        return Err(Error::Usage("--rust-only and --python-only leave nothing to test".to_owned()));
    }
    match options.instead {
        Instead::Fuzz { seconds } => return timed("fuzz targets", || fuzz::run(seconds)),
        Instead::Benches => return timed("benchmarks, once each", benches_once),
        Instead::Nothing => {}
    }
    // Before the Rust tests: a missing interpreter is told at once, not after minutes.
    let environment = if options.is_python_wanted {
        let python = options.python.clone();
        let requirements = &["test", "test-gil"];
        Some(setup::prepare(&Needs { python, build: options.build, requirements })?)
    } else {
        None
    };
    if options.is_rust_wanted {
        timed("Rust tests", plain_tests)?;
        timed("loom models", loom_models)?;
    }
    if let Some(environment) = environment {
        let mut pytest = Command::new(environment.python());
        let jobs = options.jobs.unwrap_or_else(default_jobs);
        pytest
            .args(["-m", "pytest", "-n", &jobs.to_string()])
            .args(&options.passed)
            .current_dir(workspace::root())
            // Bytecode of the tests differs by interpreter and needs no place in the tree.
            .env("PYTHONDONTWRITEBYTECODE", "1");
        timed("Python tests", || process::run(&mut pytest))?;
    }
    Ok(())
}

fn plain_tests() -> Result<(), Error> {
    // oxb-py is tested through Python: as an extension it links no libpython.
    let mut cargo = process::cargo();
    process::run(cargo.args(["test", "--workspace", "--exclude", "oxb-py"]).current_dir(workspace::root()))
}

fn loom_models() -> Result<(), Error> {
    let flags = format!("{} --cfg loom", std::env::var("RUSTFLAGS").unwrap_or_default());
    let mut cargo = process::cargo();
    cargo
        // Optimised: an exploration runs a model many thousand times.
        .args(["test", "--profile", "fast", "--package", "oxb-core", "--lib", "--tests", "--target-dir"])
        .arg(workspace::target().join("loom"))
        .current_dir(workspace::root())
        .env("RUSTFLAGS", flags.trim());
    process::run(&mut cargo)
}

fn benches_once() -> Result<(), Error> {
    let mut cargo = process::cargo();
    // As tests, criterion runs each once; in the profile of the tests, so that little is left to compile.
    cargo.args(["test", "--workspace", "--exclude", "oxb-py", "--bench", "*"]).current_dir(workspace::root());
    process::run(&mut cargo)
}

/// Most tests wait for sockets and processes, not for a CPU.
fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(2, |cpus| (cpus.get() * 2).min(8))
}

fn timed(what: &str, step: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    let start = Instant::now();
    step().map_err(|error| Error::failed(format!("{what}: {error}")))?;
    println!("xtask: {what} passed in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
