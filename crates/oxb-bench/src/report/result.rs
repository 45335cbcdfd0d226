//! A saved run as its result file tells it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::figures::{Figure, median};

/// Why a file is no result.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not JSON, or lacks what a result has.
    #[error("{} is no result of a run: {what}", path.display())]
    Shape {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// One run of one scenario.
#[derive(Clone, Debug)]
pub struct Saved {
    /// Which scenario.
    pub scenario: String,
    /// Whether it was a short run of the development build, whose figures say nothing.
    pub is_quick: bool,
    /// Why it is not to be trusted; empty when it is.
    pub doubts: Vec<String>,
    /// The machine: CPU, number of CPUs, system.
    pub machine: Value,
    /// Load and stolen time.
    pub conditions: Value,
    /// The seed of orders and arrivals.
    pub seed: u64,
    /// Seconds measured in each round.
    pub duration: f64,
    /// The rows, in the order of the file.
    pub rows: Vec<Row>,
    /// The promises and whether they were kept.
    pub bars: Vec<Bar>,
}

/// One row: a server under one load.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Why there are no figures, where there are none.
    pub why: Option<String>,
    /// The samples that were not rejected, as the generator reported them.
    pub samples: Vec<Value>,
    /// How many were rejected.
    pub rejected: usize,
}

/// One promise.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What was promised.
    pub what: String,
    /// What was measured.
    pub figure: Option<f64>,
    /// `at most 1.45`, or nothing where there is no promise.
    pub limit: Option<String>,
    /// Whether it was kept.
    pub is_kept: Option<bool>,
}

impl Saved {
    /// Reads a result file, or the one of a run's folder.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub fn read(path: &Path) -> Result<Self, Unreadable> {
        let path = if path.is_dir() { path.join("result.json") } else { path.to_owned() };
        let text = std::fs::read_to_string(&path)
            .map_err(|source| Unreadable::File { path: path.clone(), source })?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|error| Unreadable::Shape { path: path.clone(), what: error.to_string() })?;
        Self::from_json(&value).map_err(|what| Unreadable::Shape { path, what })
    }

    /// What a parsed result file says.
    ///
    /// # Errors
    /// What it lacks.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        let rows = value["rows"].as_array().ok_or("it has no `rows`")?;
        let texts = |list: &Value| -> Vec<String> {
            list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut doubts = texts(&value["conditions"]["doubts"]);
        if value["trustworthy"] != true && doubts.is_empty() {
            doubts.push("the run does not say that it can be trusted".to_owned());
        }
        Ok(Self {
            scenario: value["scenario"].as_str().ok_or("it has no `scenario`")?.to_owned(),
            is_quick: value["is_smoke"] == true || value["is_quick"] == true,
            doubts,
            machine: value["machine"].clone(),
            conditions: value["conditions"].clone(),
            seed: value["seed"].as_u64().unwrap_or(0),
            duration: value["duration_s"].as_f64().unwrap_or(0.0),
            rows: rows.iter().map(Row::from_json).collect(),
            bars: value["bars"].as_array().into_iter().flatten().map(Bar::from_json).collect(),
        })
    }

    /// The row of the bare server that everything is compared with.
    #[must_use]
    pub fn floor(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.is_floor() && !row.name.contains("connection(s)"))
    }
}

impl Row {
    fn from_json(value: &Value) -> Self {
        let all = value["samples"].as_array().map(Vec::as_slice).unwrap_or_default();
        let samples: Vec<Value> = all.iter().filter(|sample| sample["is_right"] == true).cloned().collect();
        let why = match value["state"].as_str() {
            Some("measured") | None => (samples.is_empty()).then(|| "every sample was rejected".to_owned()),
            Some(state) => {
                let why = value["why"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
                Some(format!("{state}{why}"))
            }
        };
        Self {
            name: value["name"].as_str().unwrap_or("?").to_owned(),
            why,
            rejected: all.len() - samples.len(),
            samples,
        }
    }

    /// Whether it is one of ours.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.name.contains("oxbrook")
    }

    /// Whether it is the bare server.
    #[must_use]
    pub fn is_floor(&self) -> bool {
        self.name.starts_with("floor")
    }

    /// How many loops its name says it ran.
    #[must_use]
    pub fn loops(&self) -> Option<u32> {
        let before = self.name.split(" loop(s)").next().filter(|before| before.len() < self.name.len())?;
        before.rsplit(' ').next()?.parse().ok()
    }

    /// The figure in each sample.
    #[must_use]
    pub fn values(&self, figure: &Figure) -> Vec<f64> {
        self.samples.iter().filter_map(|sample| sample.pointer(figure.pointer)?.as_f64()).collect()
    }

    /// The median over the samples.
    #[must_use]
    pub fn median(&self, figure: &Figure) -> Option<f64> {
        median(&self.values(figure))
    }

    /// The least and the greatest.
    #[must_use]
    pub fn range(&self, figure: &Figure) -> Option<(f64, f64)> {
        let values = self.values(figure);
        let least = values.iter().copied().reduce(f64::min)?;
        Some((least, values.iter().copied().reduce(f64::max)?))
    }

    /// Whether the generator may have been what limited it.
    #[must_use]
    pub fn is_generator_bound(&self) -> bool {
        self.samples.iter().any(|sample| sample["generator"]["is_saturated"] == true)
    }
}

impl Bar {
    fn from_json(value: &Value) -> Self {
        let limit = value["limit"].as_object().and_then(|limit| {
            let (side, number) = limit.iter().next()?;
            Some(format!("{} {number}", side.replace('_', " ")))
        });
        Self {
            what: value["what"].as_str().unwrap_or("?").to_owned(),
            figure: value["figure"].as_f64(),
            limit,
            is_kept: value["is_kept"].as_bool(),
        }
    }
}
