//! The command `oxb-report`: reads saved runs, writes tables, plots and the page of figures.
//!
//! Invariant: the exit status is 0 only if everything asked for was written; 2 for a bad command line.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::{Arg, Parser, ValueExt};
use oxb_bench::report::{self, FIGURES, Saved};

const USAGE: &str = "\
oxb-report report RUN ...                 report.md, percentiles.csv and plots into each run's folder
oxb-report compare RUN RUN [--force]      which rows moved beyond the noise of their own rounds
oxb-report document FILE RUN ... [--mark] the page of figures; --mark takes runs that are not to be trusted

RUN is the folder of a run, or its result.json.
";

fn main() -> ExitCode {
    match run(Parser::from_env()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(text)) => {
            eprintln!("oxb-report: {text}\n\n{USAGE}");
            ExitCode::from(2)
        }
        Err(Failure::Other(error)) => {
            eprintln!("oxb-report: {error}");
            ExitCode::FAILURE
        }
    }
}

enum Failure {
    Usage(String),
    Other(Box<dyn Error>),
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(Box::new(error))
    }
}

fn usage(text: impl ToString) -> Failure {
    Failure::Usage(text.to_string())
}

fn run(mut arguments: Parser) -> Result<(), Failure> {
    let mut words: Vec<String> = Vec::new();
    let (mut is_forced, mut is_marked) = (false, false);
    while let Some(argument) = arguments.next().map_err(usage)? {
        match argument {
            Arg::Value(word) => words.push(word.string().map_err(usage)?),
            Arg::Long("force") => is_forced = true,
            Arg::Long("mark") => is_marked = true,
            Arg::Long("help") | Arg::Short('h') => {
                print!("{USAGE}");
                return Ok(());
            }
            other => return Err(usage(other.unexpected())),
        }
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["report", runs @ ..] if !runs.is_empty() => {
            runs.iter().try_for_each(|run| write_report(Path::new(run)))
        }
        ["compare", before, after] => {
            let found =
                report::compare(&Saved::read(before.as_ref())?, &Saved::read(after.as_ref())?, is_forced)?;
            found.iter().for_each(|one| println!("{}", one.line()));
            Ok(())
        }
        ["document", file, runs @ ..] if !runs.is_empty() => {
            let runs = runs.iter().map(|run| Saved::read(run.as_ref())).collect::<Result<Vec<_>, _>>()?;
            write(Path::new(file), &report::document(&runs, is_marked)?)
        }
        _ => Err(usage("no such command, or too few words")),
    }
}

/// Everything a run has to show, beside its result.
fn write_report(run: &Path) -> Result<(), Failure> {
    let saved = Saved::read(run)?;
    let folder: PathBuf =
        if run.is_dir() { run.to_owned() } else { run.parent().unwrap_or(Path::new(".")).to_owned() };
    let mut page = format!("# {}\n\n{}", saved.scenario, report::markdown(&saved));
    let plots = FIGURES[..2]
        .iter()
        .map(|figure| (figure.title.replace(['/', ' ', 'µ'], "-"), report::bars(&saved, figure)))
        .chain([
            ("latency".to_owned(), report::curves(&saved)),
            ("loops".to_owned(), report::scaling(&saved)),
        ]);
    for (name, plot) in plots {
        if let Some(plot) = plot {
            let file = format!("{name}.svg");
            write(&folder.join(&file), &plot)?;
            page.push_str(&format!("\n![{name}]({file})\n"));
        }
    }
    write(&folder.join("percentiles.csv"), &report::csv(&saved))?;
    write(&folder.join("report.md"), &page)
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    fs::write(file, text)
        .map_err(|error| Failure::Other(format!("cannot write {}: {error}", file.display()).into()))?;
    println!("{}", file.display());
    Ok(())
}
