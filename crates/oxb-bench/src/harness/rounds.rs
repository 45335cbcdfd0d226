//! Rows measured in interleaved rounds: each round takes every row once, in an order of its own.
//!
//! **Invariant:** a row's figures come from servers started for that sample alone; a rejected sample is kept with its
//! reason and is in no median.

use serde_json::{Value, json};

use super::error::Error;
use super::family::{Family, MemoryWatch};
use super::pinning::{self, pinning};
use super::program;

use super::run::{Run, write_whole};
use super::script::{Sample, Script};
use super::server::{Running, Server};

/// One line of a table: a server under one load.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) server: Server,
    pub(crate) path: String,
    /// The body every answer must have; any where absent.
    pub(crate) body: Option<String>,
    pub(crate) connections: usize,
    /// Requests a second of an open loop; a closed loop where absent.
    pub(crate) rate: Option<f64>,
    /// What that rate is a multiple of: requests a second of a closed loop in this run.
    pub(crate) capacity: Option<f64>,
    /// What else the generator is told.
    pub(crate) script: Script,
    /// Seconds measured, where not those of the command line.
    pub(crate) duration: Option<f64>,
    /// Seconds of load before them, likewise.
    pub(crate) warmup: Option<f64>,
    /// Rows that belong together in a table: those under one load.
    pub(crate) group: String,
}

/// A row with what was measured of it.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    pub(crate) row: Row,
    pub(crate) samples: Vec<Value>,
}

/// Figures of a sample, by their place in the generator's report.
pub(crate) const REQUESTS: &str = "/requests_per_second";
pub(crate) const CPU: &str = "/server/cpu_us_per_request";
pub(crate) const P50: &str = "/requests/latency_ms/p50";
pub(crate) const P90: &str = "/requests/latency_ms/p90";
pub(crate) const P99: &str = "/requests/latency_ms/p99";
pub(crate) const MEAN: &str = "/requests/latency_ms/mean";
pub(crate) const MEMORY: &str = "/server/rss_bytes";
/// The most memory each process of the server held, summed.
pub(crate) const PEAK: &str = "/server/peak_rss_bytes";
/// How much more it held at the end of a sample than before.
pub(crate) const GROWTH: &str = "/memory/growth_bytes";
pub(crate) const REFUSED: &str = "/requests/refused";
pub(crate) const REFUSED_P99: &str = "/requests/refused_latency_ms/p99";
/// Events that came to subscribers, a second.
pub(crate) const DELIVERIES: &str = "/stream/deliveries_per_second";
pub(crate) const SERVER_CORES: &str = "/server/cores";
pub(crate) const GENERATOR_CORES: &str = "/generator/cores";
pub(crate) const GENERATOR_CPU: &str = "/generator/cpu_us_per_request";

impl Row {
    /// Hello world in a closed loop.
    pub(crate) fn hello(name: impl Into<String>, server: Server, connections: usize) -> Self {
        Self {
            name: name.into(),
            server,
            path: "/".to_owned(),
            body: Some("Hello, world!".to_owned()),
            connections,
            rate: None,
            capacity: None,
            script: Script::default(),
            duration: None,
            warmup: None,
            group: String::new(),
        }
    }
}

impl Measured {
    /// The median over the samples that were not rejected.
    pub(crate) fn median(&self, figure: &str) -> Option<f64> {
        median(&self.values(figure))
    }

    /// The least and the greatest.
    pub(crate) fn range(&self, figure: &str) -> Option<(f64, f64)> {
        let values = self.values(figure);
        let least = values.iter().copied().reduce(f64::min)?;
        Some((least, values.iter().copied().reduce(f64::max)?))
    }

    /// Whether a sample was rejected.
    pub(crate) fn is_rejected(&self) -> bool {
        self.samples.iter().any(|sample| !is_good(sample))
    }

    /// Whether the generator may have been the limit in any sample.
    pub(crate) fn is_generator_bound(&self) -> bool {
        self.samples.iter().any(|sample| sample["generator"]["is_saturated"] == true)
    }

    /// The row for the result file.
    pub(crate) fn record(&self) -> Value {
        let info = self.samples.iter().find_map(|sample| sample.get("info")).unwrap_or(&Value::Null);
        json!({
            "name": self.row.name,
            "group": self.row.group,
            "is_floor": self.row.name.starts_with("floor"),
            "state": if self.samples.iter().any(is_good) { "measured" } else { "rejected" },
            "why": self.samples.iter().find_map(|sample| sample["error"].as_str()),
            "command": self.row.server.line(),
            "path": self.row.path,
            "connections": self.row.connections,
            "rate": self.row.rate,
            "capacity": self.row.capacity,
            "workers": self.row.server.workers(),
            "loop": self.row.server.event_loop(),
            "loop_class": info["loop"],
            "gil": info["gil"],
            "version": self.row.server.version(),
            "python": self.row.server.python_path(),
            "peak_rss_bytes": self.range(PEAK).map(|(_, most)| most),
            "samples": self.samples,
        })
    }

    fn values(&self, figure: &str) -> Vec<f64> {
        self.samples
            .iter()
            .filter(|sample| is_good(sample))
            .filter_map(|sample| sample.pointer(figure)?.as_f64())
            .collect()
    }
}

fn is_good(sample: &Value) -> bool {
    sample["is_right"] == true
}

/// The middle of `values`, or the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { (sorted[middle - 1] + upper) / 2.0 })
}

/// Measures all rows, `rounds` times each.
pub(crate) fn measure(run: &Run<'_>, rows: Vec<Row>, rounds: usize) -> Vec<Measured> {
    let mut measured: Vec<Measured> = rows
        .into_iter()
        .filter(|row| row.name.contains("floor") || run.options.wants(&row.name))
        .map(|row| Measured { row, samples: Vec::new() })
        .collect();
    let mut shuffle = Shuffle(run.seed);
    for round in 1..=rounds {
        for index in shuffle.order(measured.len()) {
            // What is left is not begun; `Run::finish` says so.
            if program::check_interrupt().is_err() {
                return measured;
            }
            let row = &measured[index].row;
            let sample = match sample(run, row) {
                Err(Error::Interrupted) => return measured,
                sample => sample.unwrap_or_else(|error| json!({ "error": error.to_string() })),
            };
            let figure = |figure: &str| sample.pointer(figure).and_then(Value::as_f64);
            let said = match (figure(REQUESTS), figure(DELIVERIES)) {
                _ if !is_good(&sample) => format!("REJECTED: {sample}"),
                (Some(rate), _) => format!("{rate:.0} req/s"),
                (None, Some(rate)) => format!("{rate:.0} deliveries/s"),
                (None, None) => "right".to_owned(),
            };
            println!("bench: {round} of {rounds}: {}: {said}", row.name);
            measured[index].samples.push(sample);
        }
    }
    measured
}

/// One sample of a row. An error where its server did not stay what it was.
pub(crate) fn sample(run: &Run<'_>, row: &Row) -> Result<Value, Error> {
    let mut server = row.server.start(run.kit, &run.log(&row.name))?;
    let family = Family::settled(server.id())?;
    let answer = match (&row.body, row.path.as_str(), row.script.mode()) {
        (Some(body), "/", "closed") => Some(server.answer_length(body.as_bytes())?),
        _ => None,
    };
    // A quick run shortens what it can and lengthens nothing.
    let of = |own: Option<f64>, usual: f64| match own {
        Some(own) if run.options.is_quick => own.min(usual),
        own => own.unwrap_or(usual),
    };
    let duration = of(row.duration, run.options.duration());
    let warmup = of(row.warmup, run.options.warmup());
    let file = row.script.file(Sample {
        path: &row.path,
        body: row.body.as_deref(),
        connections: row.connections,
        duration,
        warmup,
        rate: row.rate,
        seed: run.seed,
    });
    let script = run.log(&row.name).with_extension("json");
    write_whole(&script, &format!("{file:#}\n"))?;
    let memory = MemoryWatch::begin(server.id());
    // The paths are in the file.
    let words = ["--scenario".to_owned(), script.to_string_lossy().into_owned()];
    let mut report = generate(run, "load", &server, "", &words)?;
    let memory = memory.finish(warmup + duration);
    if !server.is_alive() {
        return Err(Error::failed("the server ended during the sample"));
    }
    let gone = family.gone();
    if !gone.is_empty() {
        return Err(Error::failed(format!("processes of the server ended during the sample: {gone:?}")));
    }
    let after = Family::now(server.id());
    if let Some(cpus) = pinning().servers() {
        after.check_affinity(cpus)?;
    }
    report["memory"] = memory;
    report["processes"] = json!([family.count(), after.count()]);
    // Asked again: an import in mid-run may have turned the GIL on.
    report["info"] = server.check()?;
    report["answer_bytes"] = json!(answer);
    Ok(report)
}

/// Runs the generator against a server; its report, right or wrong.
pub(crate) fn generate(
    run: &Run<'_>,
    command: &str,
    server: &Running,
    path: &str,
    words: &[String],
) -> Result<Value, Error> {
    let mut generator = run.kit.generator();
    generator.arg(command).args(server.words(path)).args(["--pid", &server.id().to_string()]).args(words);
    let finished = pinning::on(pinning().load(), || program::finish(&mut generator))??;
    serde_json::from_slice(&finished.output).map_err(|error| {
        Error::failed(format!("oxb-bench: {error}: {}", String::from_utf8_lossy(&finished.errors)))
    })
}

/// Orders of rounds from a seed (SplitMix64, as in `oxb_bench::seeded`; nothing here may depend on that crate).
#[derive(Debug)]
pub(crate) struct Shuffle(pub(crate) u64);

impl Shuffle {
    /// `0..count` in a new order.
    pub(crate) fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for index in (1..count).rev() {
            order.swap(index, (self.next() % (index as u64 + 1)) as usize);
        }
        order
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffled_round_holds_every_row_once_and_a_seed_repeats_it() {
        let first = Shuffle(5).order(20);
        assert_eq!(first, Shuffle(5).order(20));
        assert_ne!(first, Shuffle(6).order(20));
        let mut sorted = first;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn the_median_is_the_middle_one_or_the_mean_of_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
