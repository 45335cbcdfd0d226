//! `cargo xtask serve`: sets up what is missing, then serves the example app.
//!
//! **Invariant:** the server is the process the caller started (it replaces us), so signals and the exit
//! status are its own.

use std::process::Command;

use lexopt::{Arg, Parser, ValueExt};

use crate::environment::Build;
use crate::error::Error;
use crate::setup::{self, Needs};
use crate::workspace;

const HELP: &str = "\
cargo xtask serve [--example NAME] [--python PATH] [--release] [-- OPTION ...]

Sets up what is missing (see setup) and serves an example app: open the address it prints.
What follows `--` goes to `oxbrook run`, for example `-- --port 9000 --reload`.

  --example NAME  a folder of examples/: demo (one route of each kind) unless given, or barn (an application)
  --python PATH   as for setup
  --release       serve the release build
";

/// Runs the subcommand.
pub(crate) fn run(mut arguments: Parser) -> Result<(), Error> {
    let mut needs = Needs { python: None, build: Build::Fast, requirements: &[] };
    let mut passed = Vec::new();
    let mut example = String::from("demo");
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("python") => needs.python = Some(arguments.value()?.into()),
            Arg::Long("example") => example = arguments.value()?.string()?,
            Arg::Long("release") => needs.build = Build::Release,
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(());
            }
            // Only what follows `--` is a free value here.
            Arg::Value(value) => {
                passed.push(value);
                passed.extend(arguments.raw_args()?);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let folder = workspace::root().join("examples").join(&example);
    if !folder.join("main.py").is_file() {
        return Err(Error::failed(format!("--example {example}: there is no examples/{example}/main.py")));
    }
    if folder.join("requirements.txt").is_file() {
        // What the example itself imports is among what the tests need.
        needs.requirements = &["test"];
    }
    let environment = setup::prepare(&needs)?;
    let mut server = Command::new(environment.python());
    server
        .args(["-m", "oxbrook", "run", "main:app", "--app-dir"])
        .arg(folder)
        // The page keeps a stream open, and a stop would wait for it.
        .args(["--shutdown-grace", "1"])
        .args(passed);
    become_process(&mut server)
}

#[cfg(unix)]
fn become_process(command: &mut Command) -> Result<(), Error> {
    use std::os::unix::process::CommandExt;
    Err(Error::failed(format!("cannot start the server: {}", command.exec())))
}

#[cfg(not(unix))]
fn become_process(command: &mut Command) -> Result<(), Error> {
    crate::process::run(command)
}
