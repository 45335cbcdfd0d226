//! `cargo xtask setup`: from an interpreter to an environment in which `oxbrook` is this tree's.
//!
//! **Invariant:** a second run with nothing changed builds and installs nothing.

use std::path::PathBuf;

use lexopt::{Arg, Parser};

use crate::environment::{Build, Environment};
use crate::error::Error;
use crate::interpreter::Interpreter;

/// The text of `cargo xtask setup --help`.
pub(crate) const HELP: &str = "\
cargo xtask setup [--python PATH] [--release]

Makes a virtual environment under the target folder, installs the build tool and what the tests
need, builds the extension and installs the package from this tree. Nothing is done twice.

  --python PATH   the interpreter: any CPython >= 3.11, free-threaded ones included.
                  Default: OXB_PYTHON, else the first one on PATH that runs and has venv
  --release       build as a wheel is built (profile release), in an environment of its own
";

/// What an environment has to hold.
#[derive(Debug)]
pub(crate) struct Needs<'a> {
    /// `--python`, where it was given.
    pub(crate) python: Option<PathBuf>,
    /// How the extension is built.
    pub(crate) build: Build,
    /// Names of files under `requirements/`, without `.txt`; the build tool is always there.
    pub(crate) requirements: &'a [&'a str],
}

/// Finds the interpreter, opens its environment and brings everything in it up to date.
pub(crate) fn prepare(needs: &Needs<'_>) -> Result<Environment, Error> {
    let interpreter = Interpreter::find(needs.python.as_deref())?;
    let is_free_threaded = interpreter.free_threaded;
    let environment = Environment::open(interpreter, needs.build)?;
    environment.install(&["build"])?;
    let wanted = needs.requirements.iter().filter(|name| !(is_free_threaded && name.ends_with("-gil")));
    environment.install(&wanted.copied().collect::<Vec<_>>())?;
    environment.install_package()?;
    Ok(environment)
}

/// Runs the subcommand.
pub(crate) fn run(mut arguments: Parser) -> Result<(), Error> {
    let mut needs = Needs { python: None, build: Build::Fast, requirements: &["test", "test-gil"] };
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("python") => needs.python = Some(arguments.value()?.into()),
            Arg::Long("release") => needs.build = Build::Release,
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let environment = prepare(&needs)?;
    println!("xtask: ready: {}", environment.python().display());
    Ok(())
}
