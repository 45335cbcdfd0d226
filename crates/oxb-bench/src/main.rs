//! The command `oxb-bench`: one load per run, a JSON report on standard output.
//!
//! Invariant: the exit status is 0 only if every answer was right; 1 if one was not; 2 for a bad command line.

#![forbid(unsafe_code)]

mod arguments;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use oxb_bench::load::{self, Line};
use oxb_bench::process::{end_tree, read_tree};
use serde_json::{Value, json};

use crate::arguments::{Command, USAGE, parse};

fn main() -> ExitCode {
    let command = match parse(lexopt::Parser::from_env()) {
        Ok(command) => command,
        Err(message) => {
            eprintln!("oxb-bench: {message}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    raise_descriptor_limit();
    match execute(command) {
        Ok((report, is_right)) => {
            match report {
                Value::String(text) => println!("{text}"),
                report => println!("{report}"),
            }
            if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(message) => {
            eprintln!("oxb-bench: {message}");
            ExitCode::FAILURE
        }
    }
}

fn execute(command: Command) -> Result<(Value, bool), String> {
    let text = |error: std::io::Error| error.to_string();
    match command {
        Command::Help => Ok((Value::String(USAGE.to_owned()), true)),
        Command::Load(plan, lines) => {
            let played = plan.play().map_err(text)?;
            if let Some(file) = lines {
                write_lines(&file, &played.lines).map_err(|error| format!("{}: {error}", file.display()))?;
            }
            Ok((played.report, played.is_right))
        }
        Command::Tokens(options) => {
            let report = load::run(load::tokens(options)).map_err(text)?;
            Ok((report.to_json(), report.is_right()))
        }
        Command::Mixed(options) => {
            let report = load::run(load::mixed(options)).map_err(text)?;
            Ok((report.to_json(), report.is_right()))
        }
        Command::Hold(options) => {
            let report = load::run(load::hold(options)).map_err(text)?;
            let json = report.to_json();
            let is_right = json["is_right"] == true;
            Ok((json, is_right))
        }
        Command::Watch { process, duration } => watch(process, duration),
        Command::Stop { process, grace } => {
            let is_graceful = end_tree(process, grace);
            Ok((json!({ "is_graceful": is_graceful }), is_graceful))
        }
        Command::Exec(words) => Err(replace_self(&words)),
    }
}

/// A line for each request: milliseconds from the start of the window to its sending, and from then on.
fn write_lines(file: &Path, lines: &[Line]) -> std::io::Result<()> {
    let milliseconds = |duration: Duration| format!("{:.4}", duration.as_secs_f64() * 1e3);
    let mut text = "sent_ms,outcome,head_ms,first_byte_ms,end_ms\n".to_owned();
    for line in lines {
        let (head, first_byte, end) = match line.parts {
            None => Default::default(),
            Some((head, first_byte, end)) => {
                let first_byte = first_byte.map(milliseconds).unwrap_or_default();
                (milliseconds(head), first_byte, milliseconds(end))
            }
        };
        let outcome = line.outcome.name();
        text.push_str(&format!("{},{outcome},{head},{first_byte},{end}\n", milliseconds(line.sent)));
    }
    std::fs::write(file, text)
}

/// What a process tree does when nobody asks it for anything.
fn watch(process: u32, duration: Duration) -> Result<(Value, bool), String> {
    let gone = || format!("process {process} is not there");
    let before = read_tree(process).ok_or_else(gone)?;
    std::thread::sleep(duration);
    let after = read_tree(process).ok_or_else(gone)?;
    let report = json!({
        "seconds": duration.as_secs_f64(),
        "voluntary_switches": after.voluntary_switches.saturating_sub(before.voluntary_switches),
        "cpu_s": after.cpu().saturating_sub(before.cpu()).as_secs_f64(),
        "rss_bytes": after.resident_bytes,
        "threads": after.thread_count,
        "processes": after.process_count,
    });
    Ok((report, true))
}

/// Becomes the given program, which the system ends when the caller ends, however that comes about.
fn replace_self(words: &[std::ffi::OsString]) -> String {
    use std::os::unix::process::CommandExt;

    #[cfg(target_os = "linux")]
    {
        let signal = Some(rustix::process::Signal::TERM);
        if let Err(error) = rustix::process::set_parent_process_death_signal(signal) {
            return error.to_string();
        }
    }
    let Some((program, rest)) = words.split_first() else { return "exec wants a program".to_owned() };
    let error = std::process::Command::new(program).args(rest).exec();
    format!("{}: {error}", program.to_string_lossy())
}

fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};

    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Refused: the limit stays, and connections that do not fit are reported as unconnected.
    let _ = setrlimit(Resource::Nofile, limit);
}
