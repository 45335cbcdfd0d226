//! Instructions of one request in the engine, counted by callgrind.
//!
//! **Invariant:** two runs that are compared have the same seed and differ in the option that is measured alone; what
//! a process does before its first request is taken out by a shorter run.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::error::{Context, Error};
use super::program;

use super::kit::Kit;
use super::options::Options;
use super::run::{Bar, Limit, Run};

/// Requests that are counted, and those of the shorter run that is subtracted.
const COUNTED: u64 = 10_000;
const BEFORE: u64 = 1_000;
/// The seeds of the requests: fixed, so that figures of different days compare.
const SEEDS: [u64; 3] = [1, 2, 3];

/// The scenario by itself: no server is started and no Python is needed.
pub(crate) fn run(options: &Options, kit: &Kit) -> Result<(), Error> {
    let run = Run::begin("instructions", options, kit)?;
    let details = timeout(&run)?;
    run.finish(&[], &[bar(&details)], details)
}

/// What the engine promises of them.
pub(crate) fn bar(details: &Value) -> Bar {
    Bar {
        what: "instructions per request x request_timeout=0, in process under callgrind".to_owned(),
        figure: details["ratio"].as_f64(),
        limit: Limit::AtMost(1.01),
    }
}

/// Instructions per request with a request timeout of 30 s and with none, and their ratio; absent without callgrind.
pub(crate) fn timeout(run: &Run<'_>) -> Result<Value, Error> {
    let Some(harness) = run.kit.request_harness.as_deref().filter(|_| program::is_installed("valgrind"))
    else {
        return Ok(json!({ "ratio": null, "why": "valgrind is not installed, or this is a smoke run" }));
    };
    let mut samples = Vec::new();
    for seed in SEEDS {
        let with = per_request(run, harness, seed, 30)?;
        let without = per_request(run, harness, seed, 0)?;
        println!("xtask: seed {seed}: {with:.1} instructions per request, {without:.1} without a timeout");
        samples.push(json!({ "seed": seed, "with": with, "without": without, "ratio": with / without }));
    }
    let ratios: Vec<f64> = samples.iter().filter_map(|sample| sample["ratio"].as_f64()).collect();
    Ok(json!({ "ratio": super::rounds::median(&ratios), "samples": samples }))
}

fn per_request(run: &Run<'_>, harness: &Path, seed: u64, request_timeout: u64) -> Result<f64, Error> {
    let more = count(run, harness, seed, request_timeout, BEFORE + COUNTED)?;
    let fewer = count(run, harness, seed, request_timeout, BEFORE)?;
    Ok(more.saturating_sub(fewer) as f64 / COUNTED as f64)
}

/// Instructions of a whole run of the harness.
fn count(
    run: &Run<'_>,
    harness: &Path,
    seed: u64,
    request_timeout: u64,
    requests: u64,
) -> Result<u64, Error> {
    let file = run.log(&format!("callgrind {seed} {request_timeout} {requests}"));
    let mut valgrind = Command::new("valgrind");
    valgrind
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(harness)
        .args(["--requests", &requests.to_string(), "--seed", &seed.to_string()])
        .args(["--request-timeout", &request_timeout.to_string()])
        .stdin(Stdio::null());
    let output = valgrind.output().context(|| "cannot start valgrind".to_owned())?;
    let text = String::from_utf8_lossy(&output.stderr);
    let counted = text.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    match counted {
        Some(counted) if output.status.success() => Ok(counted),
        _ => Err(Error::failed(format!("callgrind: {}: {text}", output.status))),
    }
}
