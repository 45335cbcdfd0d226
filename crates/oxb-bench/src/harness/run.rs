//! What a run leaves behind: a folder of its own with a JSON file, a CSV of the percentiles and the servers' output,
//! and a Markdown table on standard output.
//!
//! **Invariant:** a folder is never written twice, and a result says of itself whether it can be trusted.

use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::error::{Context, Error};

use super::kit::Kit;
use super::machine::{self, Moment};
use super::options::Options;
use super::rounds::Measured;

/// One run of one scenario.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) options: &'a Options,
    pub(crate) kit: &'a Kit,
    pub(crate) seed: u64,
    scenario: &'static str,
    folder: PathBuf,
    before: Moment,
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
    pub(crate) fn begin(scenario: &'static str, options: &'a Options, kit: &'a Kit) -> Result<Self, Error> {
        let before = Moment::now();
        let doubts = before.doubts();
        if options.is_strict && !doubts.is_empty() {
            return Err(Error::failed(format!("not measured (--strict): {}", doubts.join("; "))));
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let name = format!("{scenario}-{since}-{}", std::process::id());
        let folder = kit.target.join("bench/results").join(name);
        fs::create_dir_all(&folder).context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self { options, kit, seed: options.seed(), scenario, folder, before })
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
        let conditions = self.before.record(&Moment::now());
        let rejected: Vec<&str> =
            rows.iter().filter(|row| row.is_rejected()).map(|row| row.row.name.as_str()).collect();
        let result = json!({
            "scenario": self.scenario,
            "seed": self.seed,
            "is_smoke": self.options.is_smoke,
            "duration_s": self.options.duration(),
            "warmup_s": self.options.warmup(),
            "machine": machine::fingerprint(&self.kit.root),
            "conditions": conditions,
            "trustworthy": conditions["trustworthy"],
            "programs": self.kit.record(),
            "rows": rows.iter().map(Measured::record).collect::<Vec<_>>(),
            "bars": bars.iter().map(Bar::record).collect::<Vec<_>>(),
            "details": details,
            "rejected": rejected,
        });
        let file = self.folder.join("result.json");
        let text = format!("{result:#}\n");
        fs::write(&file, text).context(|| format!("cannot write {}", file.display()))?;
        let table = self.folder.join("percentiles.csv");
        fs::write(&table, percentiles(rows)).context(|| format!("cannot write {}", table.display()))?;
        for bar in bars {
            println!("{}", bar.line());
        }
        let trust = if conditions["trustworthy"] == true {
            "trustworthy".to_owned()
        } else {
            format!("NOT TRUSTWORTHY: {}", conditions["doubts"])
        };
        println!("\n{trust}; seed {}; {}", self.seed, file.display());
        if rejected.is_empty() {
            return Ok(());
        }
        Err(Error::failed(format!("samples rejected (see {}): {}", file.display(), rejected.join(", "))))
    }
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
