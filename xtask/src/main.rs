//! Every build, test, bench and release task of the workspace, one file a subcommand (style S3).
//!
//! **Invariant:** this file only dispatches; CI calls these subcommands and repeats none of their steps.
#![forbid(unsafe_code)]

mod bench;
mod docs;
mod environment;
mod error;
mod interpreter;
mod lint;
mod older_pyo3;
mod process;
mod serve;
mod setup;
mod test;
mod wheel;
mod workspace;

use std::process::ExitCode;

use lexopt::{Arg, Parser};

use crate::error::Error;

const HELP: &str = "\
cargo xtask COMMAND [OPTION ...]

  setup   make a virtual environment and build the package into it
  serve   set up if needed, then serve the example app
  test    set up if needed, then run all Rust and Python tests
  bench   run the benchmarks
  lint    check formats, lints, types, licences and the code map
  docs    build the documentation site
  wheel   build a wheel for common Linux servers, and try it

cargo xtask COMMAND --help tells more of one.
";

fn main() -> ExitCode {
    match dispatch() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: error: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}

fn dispatch() -> Result<(), Error> {
    let mut arguments = Parser::from_env();
    let command = match arguments.next()? {
        Some(Arg::Value(command)) => command.to_string_lossy().into_owned(),
        Some(Arg::Long("help") | Arg::Short('h')) => {
            print!("{HELP}");
            return Ok(());
        }
        Some(other) => return Err(other.unexpected().into()),
        None => return Err(Error::Usage(format!("no command given\n\n{HELP}"))),
    };
    match command.as_str() {
        "setup" => setup::run(arguments),
        "lint" => lint::run(arguments),
        "serve" => serve::run(arguments),
        "test" => test::run(arguments),
        "wheel" => wheel::run(arguments),
        "docs" => docs::run(arguments),
        "bench" => bench::run(arguments),
        other => Err(Error::Usage(format!("no command `{other}`\n\n{HELP}"))),
    }
}
