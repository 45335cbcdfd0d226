//! What a run leaves behind: a folder of its own with a JSON file, a CSV of the percentiles and the servers' output,
//! and a Markdown table on standard output.
//!
//! **Invariant:** a folder is never written twice, and a result says of itself whether it can be trusted.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::error::{Context, Error};

use super::kit::Kit;
use super::machine::{self, Moment};
use super::options::Options;
use super::program;
use super::rounds::{self, Measured};
use super::scenario::Scenario;

/// One run of one scenario.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) options: &'a Options,
    pub(crate) kit: &'a Kit,
    pub(crate) seed: u64,
    /// Rows without figures.
    pub(crate) missing: Vec<Missing>,
    scenario: String,
    about: Option<Scenario>,
    folder: PathBuf,
    before: Moment,
    begin: Instant,
}

/// A row that could not be measured.
#[derive(Debug, Clone)]
pub(crate) struct Missing {
    pub(crate) name: String,
    pub(crate) group: String,
    /// `absent` or `not built`.
    pub(crate) state: &'static str,
    pub(crate) why: String,
    /// What its load would be.
    pub(crate) load: Value,
}

/// A promise of performance.md, and whether this run kept it.
#[derive(Debug)]
pub(crate) struct Bar {
    pub(crate) what: String,
    pub(crate) figure: Option<f64>,
    pub(crate) limit: Limit,
}

/// On which side of the limit the figure must be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
    /// Reported without a promise.
    None,
}

impl<'a> Run<'a> {
    /// Begins a run: makes its folder and looks at the machine.
    ///
    /// # Errors
    /// With `--strict`, a machine whose figures would not be trusted.
    pub(crate) fn begin(scenario: &str, options: &'a Options, kit: &'a Kit) -> Result<Self, Error> {
        program::catch_interrupts()?;
        let before = Moment::now();
        let doubts = before.doubts();
        if options.is_strict && !doubts.is_empty() {
            return Err(Error::failed(format!("not measured (--strict): {}", doubts.join("; "))));
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let name = format!("{scenario}-{since}-{}", std::process::id());
        let folder = match &options.into {
            Some(into) => into.join(scenario),
            None => kit.target.join("bench/results").join(name),
        };
        fs::create_dir_all(&folder).context(|| format!("cannot make {}", folder.display()))?;
        let about = Scenario::read(&kit.root, scenario).ok();
        Ok(Self {
            options,
            kit,
            seed: options.seed(about.as_ref().and_then(|about| about.seed)),
            missing: Vec::new(),
            begin: Instant::now(),
            scenario: scenario.to_owned(),
            about,
            folder,
            before,
        })
    }

    /// Prints the rows that have no figures, and why.
    pub(crate) fn print_missing(&self) {
        for missing in &self.missing {
            println!("- {}: {}: {}", missing.name, missing.state, missing.why);
        }
    }

    /// Where the output of the servers of a row goes.
    pub(crate) fn log(&self, row: &str) -> PathBuf {
        let name: String =
            row.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '-' }).collect();
        self.folder.join(format!("{name}.log"))
    }

    /// Writes the files and prints the verdicts.
    ///
    /// # Errors
    /// Where an answer was wrong or a row has no figure; never for a bar that was missed.
    pub(crate) fn finish(&self, rows: &[Measured], bars: &[Bar], details: Value) -> Result<(), Error> {
        program::check_interrupt()?;
        let conditions = self.before.record(&Moment::now());
        let rejected: Vec<&str> =
            rows.iter().filter(|row| row.is_rejected()).map(|row| row.row.name.as_str()).collect();
        let result = json!({
            "format": 2,
            "scenario": self.scenario,
            "title": self.about.as_ref().map(|about| &about.title),
            "plot": self.about.as_ref().and_then(|about| about.plot.as_ref()),
            "columns": columns(),
            "rounds": rows.iter().map(|row| row.samples.len()).max(),
            "seed": self.seed,
            "is_quick": self.options.is_quick,
            "duration_s": self.options.duration(),
            "warmup_s": self.options.warmup(),
            "took_s": self.begin.elapsed().as_secs_f64(),
            "machine": machine::fingerprint(&self.kit.root),
            "loop_detection": self.kit.ours.iter().map(|ours| json!({ "python": ours.tag, "found": ours.detection(None) })).collect::<Vec<_>>(),
            "conditions": conditions,
            "trustworthy": conditions["trustworthy"],
            "programs": self.kit.record(),
            "rows": rows.iter().map(Measured::record).chain(self.missing.iter().map(Missing::record)).collect::<Vec<_>>(),
            "bars": bars.iter().map(Bar::record).collect::<Vec<_>>(),
            "details": details,
            "rejected": rejected,
        });
        let file = self.folder.join("result.json");
        write_whole(&self.folder.join("percentiles.csv"), &percentiles(rows))?;
        write_whole(&file, &format!("{result:#}\n"))?;
        for bar in bars {
            println!("{}", bar.line());
        }
        let trust = if conditions["trustworthy"] == true {
            "trustworthy".to_owned()
        } else {
            format!("NOT TRUSTWORTHY: {}", conditions["doubts"])
        };
        println!("\n{trust}; seed {}; {}", self.seed, file.display());
        self.check_peers(rows)?;
        if rejected.is_empty() {
            return Ok(());
        }
        Err(Error::failed(format!("samples rejected (see {}): {}", file.display(), rejected.join(", "))))
    }
}

impl Run<'_> {
    /// An error where a peer that was asked for by name has no figures at all.
    fn check_peers(&self, rows: &[Measured]) -> Result<(), Error> {
        for name in &self.options.peers {
            let why = self.missing.iter().find(|missing| missing.name.contains(name.as_str()));
            let is_measured = rows.iter().any(|row| row.row.name.contains(name.as_str()));
            if let Some(missing) = why.filter(|_| !is_measured) {
                return Err(Error::failed(format!("--peers {name}: {}: {}", missing.name, missing.why)));
            }
        }
        Ok(())
    }
}

impl Missing {
    /// A row that cannot be measured on this machine.
    pub(crate) fn absent(name: String, why: &str) -> Self {
        Self { name, group: String::new(), state: "absent", why: why.to_owned(), load: Value::Null }
    }

    fn record(&self) -> Value {
        json!({
            "name": self.name,
            "group": self.group,
            "is_floor": false,
            "state": self.state,
            "why": self.why,
            "load": self.load,
            "samples": [],
        })
    }
}

/// The figures a report shows of a row, by their place in a sample.
fn columns() -> Value {
    let column = |key: &str, title: &str, unit: &str, digits: usize, better: &str, pointer: &str| json!({ "key": key, "title": title, "unit": unit, "digits": digits, "better": better, "pointer": pointer });
    json!([
        column("cpu", "CPU per request", "µs", 2, "lower", rounds::CPU),
        column("requests", "requests per second", "1/s", 0, "higher", rounds::REQUESTS),
        column("p50", "p50", "ms", 3, "lower", rounds::P50),
        column("p99", "p99", "ms", 3, "lower", rounds::P99),
        column("memory", "resident memory", "bytes", 0, "lower", rounds::MEMORY),
        column("peak", "peak of resident memory", "bytes", 0, "lower", rounds::PEAK),
    ])
}

/// Writes a file under another name first: what has the name of a result is whole.
///
/// # Errors
/// A full disk, among others; nothing is left then.
pub(crate) fn write_whole(file: &Path, text: &str) -> Result<(), Error> {
    let half = file.with_extension("half");
    let written = fs::write(&half, text).and_then(|()| fs::rename(&half, file));
    written
        .inspect_err(|_| drop(fs::remove_file(&half)))
        .context(|| format!("cannot write {}", file.display()))
}

impl Bar {
    fn is_kept(&self) -> Option<bool> {
        match self.limit {
            Limit::AtMost(limit) => self.figure.map(|figure| figure <= limit),
            Limit::AtLeast(limit) => self.figure.map(|figure| figure >= limit),
            Limit::None => None,
        }
    }

    fn line(&self) -> String {
        let figure = self.figure.map_or("not measured".to_owned(), |figure| format!("{figure:.3}"));
        let limit = match self.limit {
            Limit::AtMost(limit) => format!(" (at most {limit})"),
            Limit::AtLeast(limit) => format!(" (at least {limit})"),
            Limit::None => String::new(),
        };
        let verdict = match self.is_kept() {
            Some(true) => ": kept",
            Some(false) => ": MISSED",
            None => "",
        };
        format!("- {}: {figure}{limit}{verdict}", self.what)
    }

    fn record(&self) -> Value {
        let limit = match self.limit {
            Limit::AtMost(limit) => json!({ "at_most": limit }),
            Limit::AtLeast(limit) => json!({ "at_least": limit }),
            Limit::None => Value::Null,
        };
        json!({ "what": self.what, "figure": self.figure, "limit": limit, "is_kept": self.is_kept() })
    }
}

/// Prints a Markdown table.
pub(crate) fn table(head: &[&str], lines: &[Vec<String>]) {
    println!("\n| {} |", head.join(" | "));
    println!("|---|{}", "---:|".repeat(head.len().saturating_sub(1)));
    for line in lines {
        println!("| {} |", line.join(" | "));
    }
    println!();
}

/// A figure for a table, or a dash.
pub(crate) fn shown(figure: Option<f64>, digits: usize) -> String {
    figure.map_or("-".to_owned(), |figure| format!("{figure:.digits$}"))
}

/// `a / b` where both are known.
pub(crate) fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).filter(|(_, b)| *b > 0.0).map(|(a, b)| a / b)
}

fn percentiles(rows: &[Measured]) -> String {
    let mut text = "row,sample,percentile,milliseconds\n".to_owned();
    for row in rows {
        for (number, sample) in row.samples.iter().enumerate() {
            for (name, value) in sample["requests"]["latency_ms"].as_object().into_iter().flatten() {
                text.push_str(&format!("\"{}\",{},{name},{value}\n", row.row.name, number + 1));
            }
        }
    }
    text
}
