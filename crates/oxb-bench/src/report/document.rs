//! The page of figures, written from saved runs.
//!
//! **Invariant:** every number on it stands in a result file that is named beside it; a scenario without one is listed
//! as not measured.

use std::fmt::Write;

use super::result::Saved;
use super::table::markdown;

/// Every scenario there is, and what it shows.
const SCENARIOS: [(&str, &str); 12] = [
    ("hello", "hello world beside bare hyper, granian and uvicorn"),
    ("builds", "one loop on a GIL build and on a free-threaded one, and several loops"),
    ("cpu", "a handler that computes, one loop against several"),
    ("imbalance", "light requests beside handlers that hold loops"),
    ("await", "handlers that wait 1 and 5 ms, beside a bare event loop"),
    ("order", "in which order queued requests are answered"),
    ("timeout", "what a request timeout costs"),
    ("memory", "resident memory idle, per loop and per idle connection"),
    ("start", "from the start of the process to the first answer"),
    ("idle", "context switches of a server nobody talks to"),
    ("overload", "twice as many requests as can be served"),
    ("app", "a FastAPI app on each server, and the same app written natively"),
];

/// What cannot be measured where the project is developed.
const NEVER: [&str; 5] = [
    "more than 8 loops, and loops on more than two cores",
    "free-threaded CPython 3.14 and 3.15: the figures of free-threaded builds are of 3.13t",
    "a real network card: client and server share a machine and its cores",
    "a published container port",
    "macOS",
];

/// Why a run is not published.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFit {
    /// It is a quick run.
    #[error("the run of {0} is a quick one, whose figures say nothing")]
    Quick(String),
    /// It says of itself that it cannot be trusted.
    #[error("the run of {0} is not to be trusted ({1}): --mark publishes it with that mark")]
    Doubtful(String, String),
}

/// The page, from the given runs in their order; `is_marked` also takes runs that are not to be trusted, and says so.
///
/// # Errors
/// [`NotFit`].
pub fn document(runs: &[Saved], is_marked: bool) -> Result<String, NotFit> {
    let mut out = "# Performance\n\nWritten by `cargo xtask bench document` from saved runs; edit the runs, not this page. Ratios hold inside\n\
                   one run only. CPU is user and system time of the server's whole process tree, for each request.\n"
        .to_owned();
    for run in runs {
        if run.is_quick {
            return Err(NotFit::Quick(run.scenario.clone()));
        }
        if !run.doubts.is_empty() && !is_marked {
            return Err(NotFit::Doubtful(run.scenario.clone(), run.doubts.join("; ")));
        }
        let about = SCENARIOS.iter().find(|(name, _)| *name == run.scenario).map_or("", |(_, about)| about);
        let _ = write!(out, "\n## {}\n\n{}\n\n", run.scenario, sentence(about));
        if !run.doubts.is_empty() {
            let _ = write!(out, "**Not trustworthy**: {}.\n\n", run.doubts.join("; "));
        }
        out.push_str(&markdown(run));
        let _ = write!(
            out,
            "\n{}, {} CPUs, {}; commit {}; seed {}; {} s a round; load before {}, after {}.\n",
            run.machine["cpu"].as_str().unwrap_or("unknown CPU"),
            run.machine["cpus"],
            system(run.machine["system"].as_str().unwrap_or_default()),
            run.machine["commit"].as_str().map_or("unknown", |commit| commit.get(..12).unwrap_or(commit)),
            run.seed,
            run.duration,
            run.conditions["load_before"],
            run.conditions["load_after"],
        );
    }
    out.push_str("\n## Not measured\n\n");
    for (name, about) in SCENARIOS.iter().filter(|(name, _)| runs.iter().all(|run| run.scenario != *name)) {
        let _ = writeln!(out, "- `{name}`: {about}");
    }
    for what in NEVER {
        let _ = writeln!(out, "- {what}");
    }
    Ok(out)
}

/// The kernel's kind and the processor's, without the build of the kernel.
fn system(uname: &str) -> String {
    let words: Vec<&str> = uname.split(' ').collect();
    match words.as_slice() {
        [kind, .., processor] => format!("{kind} {processor}"),
        _ => "unknown system".to_owned(),
    }
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}
