//! Programs that are run to their end for what they print, unless the run is interrupted.
//!
//! **Invariant:** nothing that is run for its output outlives an interrupt: it is in a process group of its own, so
//! that the terminal does not reach it, and it is killed by its id.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::error::{Context, Error};

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on an interrupt (or a request to end) is noticed by whoever waits here, and ends nothing by itself.
pub(crate) fn catch_interrupts() -> Result<(), Error> {
    if INTERRUPTED.get().is_some() {
        return Ok(());
    }
    let flag = INTERRUPTED.get_or_init(Arc::default);
    // A terminal that is closed hangs up.
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag))
            .context(|| "cannot catch signals".to_owned())?;
    }
    Ok(())
}

/// An error once the run was interrupted.
pub(crate) fn check_interrupt() -> Result<(), Error> {
    // Relaxed: the flag carries no other data.
    if INTERRUPTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
        return Err(Error::Interrupted);
    }
    Ok(())
}

/// What a program printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) output: Vec<u8>,
    pub(crate) errors: Vec<u8>,
}

/// Runs `command` to its end, or until the run is interrupted.
pub(crate) fn finish(command: &mut Command) -> Result<Finished, Error> {
    check_interrupt()?;
    let line = line(command);
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context(|| format!("cannot start `{line}`"))?;
    let (output, errors) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let status = wait(&mut child).inspect_err(|_| {
        // It may have ended meanwhile, which is as good.
        let _ = child.kill();
        let _ = child.wait();
    })?;
    let joined = |thread: std::thread::JoinHandle<Vec<u8>>| thread.join().unwrap_or_default();
    Ok(Finished { status, output: joined(output), errors: joined(errors) })
}

fn wait(child: &mut Child) -> Result<ExitStatus, Error> {
    loop {
        if let Some(status) = child.try_wait().context(|| "cannot wait for a program".to_owned())? {
            return Ok(status);
        }
        check_interrupt()?;
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads all there is on a thread of its own, so that neither pipe fills up while the other is read.
fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What came before a failure is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// The standard output of `command`; on a bad exit the error carries both streams.
pub(crate) fn output(command: &mut Command) -> Result<String, Error> {
    let finished = finish(command)?;
    let text = String::from_utf8_lossy(&finished.output).into_owned();
    if finished.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&finished.errors);
    Err(Error::failed(format!("`{}`: {}\n{text}{errors}", line(command), finished.status)))
}

/// Whether `program` is installed.
pub(crate) fn is_installed(program: &str) -> bool {
    finish(Command::new(program).arg("--version")).is_ok_and(|finished| finished.status.success())
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
