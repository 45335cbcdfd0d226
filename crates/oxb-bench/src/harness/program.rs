//! Programs that are run to their end for what they print.
//!
//! **Invariant:** nothing runs through a shell, so a path with a space stays one argument.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use super::error::{Context, Error};

/// The standard output of `command`; on a bad exit the error carries both streams.
pub(crate) fn output(command: &mut Command) -> Result<String, Error> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
    let output = command.stdin(Stdio::null()).output().context(|| format!("cannot start `{line}`"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(Error::failed(format!("`{line}`: {}\n{text}{errors}", output.status)))
}

/// Whether `program` is installed.
pub(crate) fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
