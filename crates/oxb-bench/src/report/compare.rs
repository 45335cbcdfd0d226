//! Two runs of one scenario: which rows moved beyond the noise of their own rounds.
//!
//! A figure has moved when the ranges of its rounds do not touch (every round of one run is beyond every round of the
//! other) and the medians are at least 2 % apart. With five rounds each, two samples of one and the same
//! distribution lie apart like that once in 126 times; with three, once in 10, so that fewer are not compared.

use serde_json::Value;

use super::figures::{FIGURES, Figure};
use super::result::{Row, Saved};

/// Medians nearer than this share are the same, however quiet the rounds were.
const LEAST_CHANGE: f64 = 0.02;
/// Rounds a row needs in both runs.
const LEAST_ROUNDS: usize = 3;

/// Why two runs are not compared.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// One is a quick run.
    #[error("{0} is a quick run, whose figures say nothing")]
    Quick(String),
    /// They are of two scenarios.
    #[error("{0} and {1} are two scenarios")]
    Scenarios(String, String),
    /// They were made on two machines.
    #[error("they are of two machines ({0} and {1}): --force compares them all the same")]
    Machines(String, String),
}

/// What became of one figure of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Within the noise.
    Same,
    /// Moved, for the better.
    Better,
    /// Moved, for the worse.
    Worse,
    /// Not in both, or not measured often enough.
    Unknown,
}

/// One figure of one row in both runs.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Its name.
    pub row: String,
    /// Which figure.
    pub figure: Figure,
    /// Medians, before and after.
    pub medians: Option<(f64, f64)>,
    /// What became of it.
    pub verdict: Verdict,
}

/// Compares `before` and `after`; `is_forced` also across machines.
///
/// # Errors
/// [`Refusal`].
pub fn compare(before: &Saved, after: &Saved, is_forced: bool) -> Result<Vec<Comparison>, Refusal> {
    for (saved, name) in [(before, "the first"), (after, "the second")] {
        if saved.is_quick {
            return Err(Refusal::Quick(name.to_owned()));
        }
    }
    if before.scenario != after.scenario {
        return Err(Refusal::Scenarios(before.scenario.clone(), after.scenario.clone()));
    }
    let machines = (machine(&before.machine), machine(&after.machine));
    if machines.0 != machines.1 && !is_forced {
        return Err(Refusal::Machines(machines.0, machines.1));
    }
    let mut found = Vec::new();
    let names = before.rows.iter().chain(after.rows.iter()).map(|row| &row.name);
    let mut seen: Vec<&String> = Vec::new();
    for name in names {
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        let row_of = |saved: &'_ Saved| saved.rows.iter().find(|row| row.name == *name).cloned();
        let (first, second) = (row_of(before), row_of(after));
        for figure in FIGURES {
            found.push(judge(name, figure, first.as_ref(), second.as_ref()));
        }
    }
    Ok(found)
}

fn machine(fingerprint: &Value) -> String {
    let text = |name: &str| fingerprint[name].as_str().unwrap_or("?").to_owned();
    format!("{}, {} CPUs", text("cpu"), fingerprint["cpus"])
}

fn judge(name: &str, figure: Figure, before: Option<&Row>, after: Option<&Row>) -> Comparison {
    let unknown = Comparison { row: name.to_owned(), figure, medians: None, verdict: Verdict::Unknown };
    let Some((before, after)) = before.zip(after) else { return unknown };
    let Some(medians) = before.median(&figure).zip(after.median(&figure)) else { return unknown };
    let rounds = before.values(&figure).len().min(after.values(&figure).len());
    let ranges = before.range(&figure).zip(after.range(&figure));
    let verdict = match ranges {
        Some(((low, high), (low_after, high_after))) if rounds >= LEAST_ROUNDS => {
            let is_apart = high_after < low || low_after > high;
            let is_far = (medians.1 - medians.0).abs() >= LEAST_CHANGE * medians.0.abs();
            match (is_apart && is_far, (medians.1 < medians.0) == figure.is_cost) {
                (false, _) => Verdict::Same,
                (true, true) => Verdict::Better,
                (true, false) => Verdict::Worse,
            }
        }
        _ => Verdict::Unknown,
    };
    Comparison { medians: Some(medians), verdict, ..unknown }
}

impl Comparison {
    /// As one line of text.
    #[must_use]
    pub fn line(&self) -> String {
        let what = format!("{}: {}", self.row, self.figure.title);
        let Some((before, after)) = self.medians else { return format!("{what}: not in both") };
        let change = if before == 0.0 { 0.0 } else { (after / before - 1.0) * 100.0 };
        let verdict = match self.verdict {
            Verdict::Same => "within the noise",
            Verdict::Better => "BETTER",
            Verdict::Worse => "WORSE",
            Verdict::Unknown => "too few rounds",
        };
        format!(
            "{what}: {} -> {} ({change:+.1} %): {verdict}",
            self.figure.show(before),
            self.figure.show(after)
        )
    }
}
