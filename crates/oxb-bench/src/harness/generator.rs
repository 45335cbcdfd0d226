//! The scenario about the generator: against the floor, beside wrk and oha in the same rounds.
//!
//! **Invariant:** each generator runs alone against the same server, and a ratio is of two runs that followed each
//! other.

use std::process::Command;

use serde_json::{Value, json};

use super::error::Error;
use super::kit::Kit;
use super::options::Options;
use super::program;
use super::rounds::{Shuffle, median};
use super::run::{Bar, Limit, Missing, Run, ratio, shown, table};
use super::server::{Running, Server};
use crate::process::read_tree;

const BODY: &str = "Hello, world!";
/// At what share of the capacity latencies are compared.
const LIGHT: f64 = 0.2;

/// What a generator said of one run, and what it took.
struct Sample {
    requests_per_second: f64,
    cpu_us_per_request: Option<f64>,
    p50_ms: f64,
    p99_ms: f64,
}

type Figure = fn(&Sample) -> Option<f64>;

/// Who is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Own,
    Wrk,
    Oha,
    /// With latencies counted from when a request was meant to be sent, as ours are.
    OhaCorrected,
}

impl Who {
    fn name(self) -> &'static str {
        match self {
            Self::Own => "oxb-bench",
            Self::Wrk => "wrk",
            Self::Oha => "oha",
            Self::OhaCorrected => "oha --latency-correction",
        }
    }
}

/// The generator beside others.
pub(crate) fn run(options: &Options, kit: &Kit) -> Result<(), Error> {
    let mut run = Run::begin("generator", options, kit)?;
    // wrk has no way to ask for its version that succeeds.
    let has_wrk = program::finish(Command::new("wrk").arg("--version")).is_ok();
    let has_oha = program::is_installed("oha");
    for (has_it, name) in [(has_wrk, "wrk"), (has_oha, "oha")] {
        if !has_it {
            run.missing.push(Missing::absent(name.to_owned(), "not installed, or not on the PATH"));
        }
    }
    let server = Server::floor(kit).start(kit, &run.log("floor"))?;
    let mut shuffle = Shuffle(run.seed);
    let closed = if has_wrk { vec![Who::Own, Who::Wrk] } else { vec![Who::Own] };
    let fast = rounds(&run, &server, &mut shuffle, &closed, None)?;
    let capacity = median(&of(&fast, Who::Own, |sample| Some(sample.requests_per_second)));
    let rate = (capacity.unwrap_or(0.0) * LIGHT).round().max(1.0);
    let open = if has_oha { vec![Who::Own, Who::OhaCorrected, Who::Oha] } else { vec![Who::Own] };
    let light = rounds(&run, &server, &mut shuffle, &open, Some(rate))?;
    print(&fast, "closed loop");
    print(&light, &format!("{rate} requests a second"));
    run.print_missing();
    let beside = |rounds: &Rounds, other: Who, figure: Figure| {
        let (own, other) = (of(rounds, Who::Own, figure), of(rounds, other, figure));
        let paired: Vec<f64> =
            own.into_iter().zip(other).filter_map(|(own, other)| ratio(Some(own), Some(other))).collect();
        median(&paired)
    };
    let percentiles: [(&str, Figure, f64); 2] =
        [("p50", |sample| Some(sample.p50_ms), 1.1), ("p99", |sample| Some(sample.p99_ms), 1.25)];
    let mut bars = vec![
        Bar {
            what: "requests a second x wrk".to_owned(),
            figure: beside(&fast, Who::Wrk, |sample| Some(sample.requests_per_second)),
            limit: Limit::AtLeast(0.97),
        },
        Bar {
            what: "CPU of the generator per request x wrk".to_owned(),
            figure: beside(&fast, Who::Wrk, |sample| sample.cpu_us_per_request),
            limit: Limit::AtMost(1.3),
        },
    ];
    for (name, figure, limit) in percentiles {
        for (other, limit) in [(Who::OhaCorrected, Limit::AtMost(limit)), (Who::Oha, Limit::None)] {
            bars.push(Bar {
                what: format!("{name} at {rate}/s x {}", other.name()),
                figure: beside(&light, other, figure),
                limit,
            });
        }
    }
    let details = json!({ "rate": rate, "closed": record(&fast), "open": record(&light) });
    run.finish(&[], &bars, details)
}

/// The samples of each round, in the order of the generators.
type Rounds = Vec<Vec<(Who, Sample)>>;

fn rounds(
    run: &Run<'_>,
    server: &Running,
    shuffle: &mut Shuffle,
    who: &[Who],
    rate: Option<f64>,
) -> Result<Rounds, Error> {
    let count = run.options.rounds(5);
    let mut rounds = Vec::with_capacity(count);
    for round in 1..=count {
        let mut samples = Vec::with_capacity(who.len());
        for index in shuffle.order(who.len()) {
            let who = who[index];
            let sample = measure(run, server, who, rate)?;
            println!(
                "bench: {round} of {count}: {}: {:.0} req/s, p99 {:.3} ms",
                who.name(),
                sample.requests_per_second,
                sample.p99_ms
            );
            samples.push((who, sample));
        }
        rounds.push(samples);
    }
    Ok(rounds)
}

/// Runs one generator against the server.
fn measure(run: &Run<'_>, server: &Running, who: Who, rate: Option<f64>) -> Result<Sample, Error> {
    let (url, connections) = (server.url("/"), run.options.connections(64).to_string());
    let seconds = run.options.duration();
    let mut command = Command::new(&run.kit.generator);
    command.args(["exec", "--"]);
    match who {
        Who::Own => {
            command.arg(&run.kit.generator).args(["load", "--url", &url, "--body", BODY, "--warmup", "0"]);
            command.args(["--connections", &connections, "--duration", &seconds.to_string()]);
            if let Some(rate) = rate {
                command.args(["--rate", &rate.to_string(), "--arrivals", "fixed"]);
            }
        }
        Who::Wrk => {
            // It takes whole seconds.
            let seconds = format!("{}s", seconds.ceil().max(1.0));
            command.args(["wrk", "--threads", "1", "--connections", &connections, "--duration", &seconds]);
            command.args(["--latency", &url]);
        }
        Who::Oha | Who::OhaCorrected => {
            let milliseconds = format!("{}ms", (seconds * 1e3).round());
            command.args(["oha", "-z", &milliseconds, "-c", &connections, "--no-tui"]);
            command.args(["--output-format", "json"]);
            if let Some(rate) = rate {
                command.args(["-q", &rate.to_string()]);
            }
            if who == Who::OhaCorrected {
                command.arg("--latency-correction");
            }
            command.arg(&url);
        }
    }
    // What this process and its ended children took, but for the server, which is a child as well.
    let children = || {
        let all = read_tree(std::process::id())?.cpu();
        Some(all.saturating_sub(read_tree(server.id())?.cpu()))
    };
    let before = children();
    let text = program::output(&mut command)?;
    let cpu = before.zip(children()).map(|(before, after)| after.saturating_sub(before).as_secs_f64());
    let read = match who {
        Who::Own => read_own(&text),
        Who::Wrk => read_wrk(&text),
        Who::Oha | Who::OhaCorrected => read_oha(&text),
    };
    let (count, mut sample) =
        read.ok_or_else(|| Error::failed(format!("{}: not understood: {text}", who.name())))?;
    sample.cpu_us_per_request = cpu.filter(|_| count > 0.0).map(|cpu| cpu * 1e6 / count);
    Ok(sample)
}

/// The number of requests, and the figures of a report of ours.
fn read_own(text: &str) -> Option<(f64, Sample)> {
    let report: Value = serde_json::from_str(text).ok()?;
    let figure = |pointer: &str| report.pointer(pointer)?.as_f64();
    let sample = Sample {
        requests_per_second: figure("/requests_per_second")?,
        cpu_us_per_request: None,
        p50_ms: figure("/requests/latency_ms/p50")?,
        p99_ms: figure("/requests/latency_ms/p99")?,
    };
    Some((figure("/requests/good")?, sample))
}

/// The same of what wrk prints; none where an answer was wrong.
fn read_wrk(text: &str) -> Option<(f64, Sample)> {
    if text.contains("Non-2xx") || text.contains("Socket errors") {
        return None;
    }
    let after = |name: &str| {
        let mut rests = text.lines().filter_map(|line| line.trim_start().strip_prefix(name));
        rests.next()?.split_ascii_whitespace().next()
    };
    let count = text.split(" requests in ").next()?.split_ascii_whitespace().last()?.parse().ok()?;
    let sample = Sample {
        requests_per_second: after("Requests/sec:")?.parse().ok()?,
        cpu_us_per_request: None,
        p50_ms: milliseconds(after("50%")?)?,
        p99_ms: milliseconds(after("99%")?)?,
    };
    Some((count, sample))
}

/// `1.23ms`, `45.00us` or `1.02s`.
fn milliseconds(text: &str) -> Option<f64> {
    let unit = text.find(|letter: char| letter.is_ascii_alphabetic())?;
    let value: f64 = text[..unit].parse().ok()?;
    match &text[unit..] {
        "us" => Some(value / 1e3),
        "ms" => Some(value),
        "s" => Some(value * 1e3),
        _ => None,
    }
}

/// The same of oha's report, whose times are seconds; none where an answer was wrong.
fn read_oha(text: &str) -> Option<(f64, Sample)> {
    let report: Value = serde_json::from_str(text).ok()?;
    let statuses = report["statusCodeDistribution"].as_object()?;
    let good = statuses.get("200")?.as_f64()?;
    // Requests under way at the end are cut off, and are no errors.
    let errors = report["errorDistribution"].as_object()?;
    if statuses.len() > 1 || errors.keys().any(|kind| kind != "aborted due to deadline") {
        return None;
    }
    let seconds = |name: &str| report["latencyPercentiles"][name].as_f64().map(|seconds| seconds * 1e3);
    let sample = Sample {
        requests_per_second: report["summary"]["requestsPerSec"].as_f64()?,
        cpu_us_per_request: None,
        p50_ms: seconds("p50")?,
        p99_ms: seconds("p99")?,
    };
    Some((good, sample))
}

/// A figure of one generator in each round that has it.
fn of(rounds: &Rounds, who: Who, figure: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
    let own = rounds.iter().flatten().filter(|(other, _)| *other == who);
    own.filter_map(|(_, sample)| figure(sample)).collect()
}

fn print(rounds: &Rounds, what: &str) {
    let mut lines = Vec::new();
    for who in [Who::Own, Who::Wrk, Who::Oha, Who::OhaCorrected] {
        let middle = |figure: Figure, digits| shown(median(&of(rounds, who, figure)), digits);
        if rounds.iter().flatten().any(|(other, _)| *other == who) {
            lines.push(vec![
                who.name().to_owned(),
                middle(|sample| Some(sample.requests_per_second), 0),
                middle(|sample| sample.cpu_us_per_request, 2),
                middle(|sample| Some(sample.p50_ms), 3),
                middle(|sample| Some(sample.p99_ms), 3),
            ]);
        }
    }
    table(&[what, "req/s", "CPU us/req", "p50 ms", "p99 ms"], &lines);
}

fn record(rounds: &Rounds) -> Value {
    rounds
        .iter()
        .map(|samples| {
            samples
                .iter()
                .map(|(who, sample)| {
                    json!({
                        "generator": who.name(),
                        "requests_per_second": sample.requests_per_second,
                        "cpu_us_per_request": sample.cpu_us_per_request,
                        "p50_ms": sample.p50_ms,
                        "p99_ms": sample.p99_ms,
                    })
                })
                .collect::<Value>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRK: &str = "Running 3s test @ http://127.0.0.1:1/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   548.29us  200.11us   9.21ms   93.99%
    Req/Sec   117.28k     5.57k  125.45k    66.67%
  Latency Distribution
     50%  521.00us
     75%  588.00us
     90%  661.00us
     99%    1.20ms
  350146 requests in 3.01s, 42.08MB read
Requests/sec: 116443.32
Transfer/sec:     13.99MB
";

    #[test]
    fn the_figures_of_other_generators_are_read_and_their_errors_are_none() {
        let (count, sample) = read_wrk(WRK).unwrap();
        let figures = (count, sample.requests_per_second, sample.p50_ms, sample.p99_ms);
        assert_eq!(figures, (350_146.0, 116_443.32, 0.521, 1.2));
        assert!(read_wrk(&WRK.replace("Transfer", "  Non-2xx or 3xx responses: 5\nTransfer")).is_none());
        let oha = json!({
            "summary": { "requestsPerSec": 1999.5 },
            "latencyPercentiles": { "p50": 0.0005, "p99": 0.002 },
            "statusCodeDistribution": { "200": 6000 },
            "errorDistribution": { "aborted due to deadline": 3 },
        });
        let (count, sample) = read_oha(&oha.to_string()).unwrap();
        assert_eq!(
            (count, sample.requests_per_second, sample.p50_ms, sample.p99_ms),
            (6000.0, 1999.5, 0.5, 2.0)
        );
        assert!(
            read_oha(&oha.to_string().replace("aborted due to deadline", "connection refused")).is_none()
        );
        assert!(read_oha(&oha.to_string().replace("\"200\"", "\"500\"")).is_none());
    }
}
