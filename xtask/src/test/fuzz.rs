//! The fuzz targets, each for a few seconds, on the stable toolchain and without cargo-fuzz.
//!
//! `fuzz/` is laid out as cargo-fuzz wants it. Here the targets are built with the coverage flags that
//! libFuzzer reads and no sanitizer: those need a nightly compiler, and the fuzzed crates hold no `unsafe`.
//!
//! **Invariant:** every target that `fuzz/Cargo.toml` declares is run, and none is no pass.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::error::{Context, Error};
use crate::process;
use crate::workspace;

/// What libFuzzer needs of a build: edges counted in place, comparisons traced, overflow checked.
const FLAGS: &[&str] = &[
    "--cfg",
    "fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions",
    "-Coverflow-checks",
    "-Ccodegen-units=1",
];

/// Builds and runs each target for `seconds`.
pub(super) fn run(seconds: u32) -> Result<(), Error> {
    let folder = workspace::root().join("fuzz");
    let built = workspace::target().join("fuzz");
    let host = host()?;
    let targets = targets()?;
    if targets.is_empty() {
        return Err(Error::failed("fuzz/Cargo.toml declares no target"));
    }
    let mut build = process::cargo();
    build
        // `--target` keeps the flags away from build scripts and macros.
        .args(["build", "--release", "--bins", "--target", &host, "--target-dir"])
        .arg(&built)
        .current_dir(&folder)
        .env("RUSTFLAGS", FLAGS.join(" "));
    process::run(&mut build)?;
    for target in &targets {
        // What is found is kept between runs, so that the next one starts further on.
        let corpus = built.join("corpus").join(target);
        let artifacts = built.join("artifacts").join(target);
        for made in [&corpus, &artifacts] {
            fs::create_dir_all(made).context(|| format!("cannot make {}", made.display()))?;
        }
        println!("xtask: fuzzing {target} for {seconds} s");
        let mut fuzzer = Command::new(built.join(&host).join("release").join(target));
        fuzzer
            .arg(&corpus)
            .arg(format!("-max_total_time={seconds}"))
            .args([
                "-timeout=10",
                "-rss_limit_mb=2048",
                "-max_len=4096",
                "-verbosity=0",
                "-print_final_stats=1",
            ])
            .arg(format!("-artifact_prefix={}/", artifacts.display()));
        process::run(&mut fuzzer).map_err(|error| Error::failed(format!("fuzz target {target}: {error}")))?;
    }
    Ok(())
}

/// The binaries of `fuzz/Cargo.toml`.
fn targets() -> Result<Vec<String>, Error> {
    let manifest = workspace::root().join("fuzz").join("Cargo.toml");
    let mut command = process::cargo();
    command.args(["metadata", "--format-version", "1", "--no-deps", "--manifest-path"]).arg(manifest);
    let metadata: Value = serde_json::from_str(&process::output(&mut command)?)
        .map_err(|error| Error::failed(format!("cannot read `cargo metadata` of fuzz: {error}")))?;
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let targets = packages.iter().filter_map(|package| package["targets"].as_array()).flatten();
    let is_binary = |target: &&Value| target["kind"][0] == "bin";
    Ok(targets.filter(is_binary).filter_map(|target| target["name"].as_str().map(str::to_owned)).collect())
}

/// The triple of this machine.
fn host() -> Result<String, Error> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let about = process::output(rustc.arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Error::failed("rustc -vV names no host"))
}
