//! `bench provision`: what a Linux host should be set to before it measures, and setting it.
//!
//! **Invariant:** nothing is changed without `--apply`, and each change is told with what was there before.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{Context, Error};
use super::program;

/// Package timers that work in the background of a measurement.
const TIMERS: &[&str] =
    &["apt-daily.timer", "apt-daily-upgrade.timer", "dnf-makecache.timer", "man-db.timer"];
/// Descriptors that 10,000 connections and a server need.
pub(crate) const DESCRIPTORS: u64 = 16_384;

/// One thing to set.
#[derive(Debug, PartialEq)]
enum Step {
    /// A file below `/sys` or `/proc` that holds `before` and should hold `after`.
    File { path: PathBuf, before: String, after: String },
    /// A timer to be stopped until the next start of the system.
    Timer(String),
    /// Something only the person who logs in can set.
    Advice(String),
}

/// Prints what this host lacks and, with `apply`, sets it.
///
/// # Errors
/// Where something could not be set.
pub fn provision(apply: bool) -> Result<(), Error> {
    let steps = steps(Path::new("/"), super::machine::descriptor_limits());
    if steps.is_empty() {
        println!("bench: nothing to change");
    }
    for step in &steps {
        match step {
            Step::File { path, before, after } => {
                let verb = if apply { "changed" } else { "would change" };
                if apply {
                    fs::write(path, after).context(|| format!("cannot write {}", path.display()))?;
                }
                println!("bench: {verb} {}: `{before}` to `{after}`", path.display());
            }
            Step::Timer(name) => {
                if apply {
                    program::output(Command::new("systemctl").args(["stop", name]))?;
                }
                println!("bench: {} {name}", if apply { "stopped" } else { "would stop" });
            }
            Step::Advice(text) => println!("bench: by hand: {text}"),
        }
    }
    if !apply && !steps.is_empty() {
        println!("bench: nothing was changed; --apply does it");
    }
    Ok(())
}

/// What differs from what it should be on the system below `root`.
fn steps(root: &Path, limits: Option<(u64, u64)>) -> Vec<Step> {
    let mut steps = Vec::new();
    let cpus = root.join("sys/devices/system/cpu");
    let mut names: Vec<_> =
        fs::read_dir(&cpus).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    names.sort();
    for cpu in names {
        let path = cpu.join("cpufreq/scaling_governor");
        let Ok(before) = fs::read_to_string(&path) else { continue };
        let before = before.trim().to_owned();
        if before != "performance" {
            steps.push(Step::File { path, before, after: "performance".to_owned() });
        }
    }
    if let Some((_, hard)) = limits.filter(|(_, hard)| *hard < DESCRIPTORS) {
        steps.push(Step::Advice(format!(
            "raise the hard limit of descriptors from {hard} to {DESCRIPTORS} or more"
        )));
    }
    for timer in TIMERS {
        if is_active(timer) {
            steps.push(Step::Timer((*timer).to_owned()));
        }
    }
    steps
}

fn is_active(timer: &str) -> bool {
    program::finish(Command::new("systemctl").args(["is-active", "--quiet", timer]))
        .is_ok_and(|finished| finished.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_governor_that_saves_power_and_a_low_limit_are_found_and_nothing_else() {
        let root = std::env::temp_dir().join(format!("oxb-host-{}", std::process::id()));
        for (cpu, governor) in [("cpu0", "powersave\n"), ("cpu1", "performance\n")] {
            let folder = root.join("sys/devices/system/cpu").join(cpu).join("cpufreq");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("scaling_governor"), governor).unwrap();
        }
        let found: Vec<Step> = steps(&root, Some((1024, 4096)))
            .into_iter()
            .filter(|step| !matches!(step, Step::Timer(_)))
            .collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(matches!(&found[0], Step::File { before, .. } if before == "powersave"));
        assert!(matches!(&found[1], Step::Advice(text) if text.contains("4096")));
        fs::remove_dir_all(root).unwrap();
    }
}
