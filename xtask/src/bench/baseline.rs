//! `cargo xtask bench baseline`: instruction counts against those that are committed in `benches/instructions.json`.
//!
//! **Invariant:** counts of another environment are never compared: there, the commit that wrote the file is built and
//! counted too.

use std::path::{Path, PathBuf};
use std::process::Command;

use oxb_bench::harness::baseline::{Baseline, Moved, TOLERANCE, environment};

use crate::environment::Build;
use crate::error::Error;
use crate::process;
use crate::workspace;

const FILE: &str = "benches/instructions.json";

/// Counts, and compares or, with `is_update`, writes.
pub(super) fn run(is_update: bool) -> Result<(), Error> {
    if !process::answers_version("valgrind", &[]) {
        return Err(Error::failed("valgrind counts the instructions, and is not installed"));
    }
    let root = workspace::root();
    let file = root.join(FILE);
    let scratch = workspace::target().join("bench").join("baseline");
    let now = Baseline::measure(&build(&root, &workspace::target())?, &scratch)?;
    if is_update {
        now.write(&file)?;
        println!("xtask: wrote {FILE}");
        return Ok(());
    }
    let mut before = Baseline::read(&file)?;
    if !before.is_of_one_environment(&now) {
        println!("xtask: {FILE} is of another environment than this one:");
        for (name, here) in environment()? {
            println!(
                "xtask:   {name}: {here}; there: {}",
                before.environment.get(&name).map_or("-", String::as_str)
            );
        }
        before = of_base(&root, &scratch)?;
    }
    report(&before.moved(&now))
}

/// The programs that are counted, built of the tree at `root`; the folder they are in.
fn build(root: &Path, target: &Path) -> Result<PathBuf, Error> {
    let mut cargo = process::cargo();
    cargo.args(["build", "--quiet", "--profile", Build::Release.profile(), "--package", "oxb-bench"]);
    cargo.args([
        "--no-default-features",
        "--features",
        "request-harness",
        "--bin",
        "micro",
        "--bin",
        "request-harness",
    ]);
    process::run(cargo.env("CARGO_TARGET_DIR", target).current_dir(root))?;
    Ok(target.join(Build::Release.profile()))
}

/// Counts of the commit that wrote the file, made here and now.
fn of_base(root: &Path, scratch: &Path) -> Result<Baseline, Error> {
    let commit = process::output(
        Command::new("git").args(["log", "-1", "--format=%H", "--", FILE]).current_dir(root),
    )?;
    let commit = commit.trim();
    if commit.is_empty() {
        return Err(Error::failed(format!("{FILE} was never committed: `--update` writes it")));
    }
    println!("xtask: counting its commit {commit} instead");
    let tree = scratch.join("tree");
    let remove = || {
        let mut git = Command::new("git");
        git.args(["worktree", "remove", "--force"]).arg(&tree).current_dir(root);
        // There is none the first time.
        drop(process::output(&mut git));
    };
    remove();
    process::output(
        Command::new("git")
            .args(["worktree", "add", "--force", "--detach"])
            .arg(&tree)
            .arg(commit)
            .current_dir(root),
    )?;
    let counted =
        build(&tree, &scratch.join("target")).and_then(|folder| Ok(Baseline::measure(&folder, scratch)?));
    remove();
    counted
}

/// Prints what moved; an error when something did by more than is tolerated.
fn report(moved: &[Moved]) -> Result<(), Error> {
    println!("\n| operation | instructions before | now | moved |\n|---|---:|---:|---:|");
    for one in moved {
        let count = |count: Option<f64>| count.map_or_else(|| "-".to_owned(), |count| format!("{count:.1}"));
        let by = one.by().map_or_else(|| "-".to_owned(), |by| format!("{:+.2} %", by * 100.0));
        let mark = if one.is_within() { "" } else { " !" };
        println!("| {} | {} | {} | {by}{mark} |", one.name, count(one.before), count(one.now));
    }
    let outside: Vec<&str> =
        moved.iter().filter(|one| !one.is_within()).map(|one| one.name.as_str()).collect();
    if outside.is_empty() {
        return Ok(());
    }
    Err(Error::failed(format!(
        "moved by more than {} %: {}; where that is meant, `cargo xtask bench baseline --update` and say why in the commit",
        TOLERANCE * 100.0,
        outside.join(", ")
    )))
}
