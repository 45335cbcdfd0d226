//! Runs other programs: shows what is run, and turns a bad exit into an error.
//!
//! **Invariant:** nothing runs through a shell, so a path with a space stays one argument.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::error::{Context, Error};

/// Runs `command` with our own output streams; prints its line first.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    println!("xtask: {}", line(command));
    let status = command.status().context(|| format!("cannot start `{}`", program(command)))?;
    if status.success() { Ok(()) } else { Err(Error::failed(format!("`{}`: {status}", line(command)))) }
}

/// Runs `command` quietly and gives its standard output; on a bad exit the error carries both streams.
pub(crate) fn output(command: &mut Command) -> Result<String, Error> {
    let output =
        command.stdin(Stdio::null()).output().context(|| format!("cannot start `{}`", program(command)))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(Error::failed(format!("`{}`: {}\n{text}{errors}", line(command), output.status)))
}

/// Whether `program` can be started with `--version`.
pub(crate) fn answers_version(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What `cargo run` set for us would make the inner cargo rebuild what it had, or find the wrong manifest.
    for name in ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_PKG_NAME", "RUSTUP_TOOLCHAIN_SOURCE"] {
        command.env_remove(name);
    }
    command
}

fn program(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
