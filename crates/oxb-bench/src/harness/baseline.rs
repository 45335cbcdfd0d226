//! Instruction counts of small operations and of a whole request, held against those that are committed.
//!
//! A count depends on the compiler, on what valgrind makes of the processor, and on the C library: where one of them is
//! another than when the baseline was written, counts say nothing, and the commit that wrote it is measured again.
//!
//! **Invariant:** only counts of one environment are compared.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::error::{Context, Error};
use super::program;

/// Operations of the program `micro`, with how many of each are counted.
const OPERATIONS: [(&str, u64); 9] = [
    ("queue", 20_000),
    ("wake", 5_000),
    ("completion", 20_000),
    ("wheel", 20_000),
    ("topic", 10_000),
    ("head", 10_000),
    ("router", 10_000),
    ("coercion", 5_000),
    ("sse", 20_000),
];
/// Requests through the engine that are counted.
const REQUESTS: u64 = 3_000;
/// What runs before the counted part, so that buffers have their size.
const BEFORE: u64 = 500;
/// How far a count may move.
pub const TOLERANCE: f64 = 0.02;
/// Features of a processor that valgrind passes on and that code asks for.
const FEATURES: [&str; 9] = ["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "popcnt", "sse4_2", "ssse3"];

/// Instructions by operation, and what they depend on beside the code.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
pub struct Baseline {
    /// Compiler, valgrind, C library, features of the processor.
    pub environment: BTreeMap<String, String>,
    /// Instructions of one operation.
    pub instructions: BTreeMap<String, f64>,
}

/// How one operation moved.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// The operation.
    pub name: String,
    /// Its instructions in the baseline; `None` where it is new.
    pub before: Option<f64>,
    /// Its instructions now; `None` where it is gone.
    pub now: Option<f64>,
}

impl Moved {
    /// By how much it moved, as a part of what it was.
    #[must_use]
    pub fn by(&self) -> Option<f64> {
        Some(self.now? / self.before? - 1.0)
    }

    /// Whether it is within what counts may move, in either direction; what is new or gone is not.
    #[must_use]
    pub fn is_within(&self) -> bool {
        self.by().is_some_and(|by| by.abs() <= TOLERANCE)
    }
}

impl Baseline {
    /// Counts with the programs in `folder`; scratch files go to `scratch`.
    ///
    /// # Errors
    /// No valgrind, or a program that fails.
    pub fn measure(folder: &Path, scratch: &Path) -> Result<Self, Error> {
        if !program::is_installed("valgrind") {
            return Err(Error::failed(
                "valgrind is not installed, and instructions are counted by it".to_owned(),
            ));
        }
        std::fs::create_dir_all(scratch).context(|| format!("cannot make {}", scratch.display()))?;
        let mut instructions = BTreeMap::new();
        let micro = folder.join("micro");
        for (name, count) in OPERATIONS {
            let whole = |count: u64| callgrind(&micro, &[name, &count.to_string()], scratch);
            let one = per_operation(whole, count)?;
            instructions.insert(name.to_owned(), one);
        }
        let harness = folder.join("request-harness");
        let whole = |count: u64| callgrind(&harness, &["--requests", &count.to_string()], scratch);
        instructions.insert("request".to_owned(), per_operation(whole, REQUESTS)?);
        Ok(Self { environment: environment()?, instructions })
    }

    /// Reads a committed one.
    ///
    /// # Errors
    /// It is not there, or is none.
    pub fn read(file: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(file).context(|| format!("cannot read {}", file.display()))?;
        serde_json::from_str(&text).map_err(|error| Error::failed(format!("{}: {error}", file.display())))
    }

    /// Writes one to be committed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::failed(error.to_string()))?;
        std::fs::write(file, text + "\n").context(|| format!("cannot write {}", file.display()))
    }

    /// Whether counts of both compare.
    #[must_use]
    pub fn is_of_one_environment(&self, other: &Self) -> bool {
        self.environment == other.environment
    }

    /// Every operation of either.
    #[must_use]
    pub fn moved(&self, now: &Self) -> Vec<Moved> {
        let mut names: Vec<&String> = self.instructions.keys().chain(now.instructions.keys()).collect();
        names.sort();
        names.dedup();
        let of = |counts: &BTreeMap<String, f64>, name: &String| counts.get(name).copied();
        names
            .into_iter()
            .map(|name| Moved {
                name: name.clone(),
                before: of(&self.instructions, name),
                now: of(&now.instructions, name),
            })
            .collect()
    }
}

/// What counts depend on beside the code.
///
/// # Errors
/// A program that is asked for its version does not run.
pub fn environment() -> Result<BTreeMap<String, String>, Error> {
    let mut found = BTreeMap::new();
    for (name, words) in
        [("rustc", ["rustc", "-V"]), ("valgrind", ["valgrind", "--version"]), ("libc", ["ldd", "--version"])]
    {
        let finished = program::finish(Command::new(words[0]).arg(words[1]))?;
        let text = String::from_utf8_lossy(&finished.output);
        found.insert(name.to_owned(), text.lines().next().unwrap_or_default().trim().to_owned());
    }
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags")).unwrap_or_default();
    let has = |feature: &&&str| flags.split_whitespace().any(|flag| flag == **feature);
    let features: Vec<&str> = FEATURES.iter().filter(has).copied().collect();
    found.insert("cpu".to_owned(), features.join(" "));
    Ok(found)
}

/// Instructions of one operation, from two runs that differ in how many there are.
fn per_operation(whole: impl Fn(u64) -> Result<u64, Error>, count: u64) -> Result<f64, Error> {
    let (more, fewer) = (whole(BEFORE + count)?, whole(BEFORE)?);
    let one = more.saturating_sub(fewer) as f64 / count as f64;
    Ok((one * 10.0).round() / 10.0)
}

/// Instructions of a whole process.
fn callgrind(program: &Path, words: &[&str], scratch: &Path) -> Result<u64, Error> {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", scratch.join("callgrind.out").display()));
    let finished = program::finish(valgrind.arg(program).args(words))?;
    let text = String::from_utf8_lossy(&finished.errors);
    let counted = text.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    match counted {
        Some(counted) if finished.status.success() => Ok(counted),
        _ => Err(Error::failed(format!("callgrind of {}: {}: {text}", program.display(), finished.status))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, f64)]) -> Baseline {
        let instructions = of.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Baseline { environment: BTreeMap::new(), instructions }
    }

    #[test]
    fn a_count_may_move_by_two_percent_either_way_and_none_may_come_or_go_unseen() {
        let before =
            counts(&[("same", 100.0), ("more", 100.0), ("less", 100.0), ("near", 100.0), ("gone", 1.0)]);
        let now = counts(&[("same", 100.0), ("more", 102.1), ("less", 97.9), ("near", 101.9), ("new", 1.0)]);
        let outside: Vec<String> = before
            .moved(&now)
            .into_iter()
            .filter(|moved| !moved.is_within())
            .map(|moved| moved.name)
            .collect();
        assert_eq!(outside, ["gone", "less", "more", "new"]);
    }

    #[test]
    fn what_a_count_depends_on_decides_whether_two_compare() {
        let mut other = counts(&[]);
        assert!(counts(&[]).is_of_one_environment(&other));
        other.environment.insert("rustc".to_owned(), "another".to_owned());
        assert!(!counts(&[]).is_of_one_environment(&other));
    }
}
