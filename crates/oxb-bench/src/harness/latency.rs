//! The scenarios about waiting: imbalance, await, order.
//!
//! **Invariant:** latency of a paced load counts from the intended send time.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::error::{Context, Error};
use super::program;

use super::kit::Kit;
use super::machine::cpus;
use super::options::Options;
use super::pinning::{self, pinning};
use super::rounds::{CPU, MEAN, Measured, P50, P90, P99, REQUESTS, Row, Shuffle, generate, measure, median};
use super::run::{Bar, Limit, Run, ratio, shown, table};
use super::server::{Running, Server};
use super::throughput::named;
use super::work::Work;

/// The path of a holder that computes, which depends on the interpreter.
const COMPUTE: &str = "computes";

/// Light requests beside handlers that hold some of the loops.
pub(crate) fn imbalance(options: &Options, kit: &Kit) -> Result<(), Error> {
    let run = Run::begin("imbalance", options, kit)?;
    let rate = if cpus() >= 4 { 2000.0 } else { 500.0 };
    let mut cases: Vec<(String, usize, &str, usize)> = vec![
        ("2 loops, nothing beside".to_owned(), 2, "", 0),
        ("2 loops, 1 holder computes 50 ms".to_owned(), 2, COMPUTE, 1),
    ];
    cases.extend(
        (1..=3).map(|holders| (format!("4 loops, {holders} holder(s) sleep 50 ms"), 4, "/sleep/50", holders)),
    );
    let mut samples: Vec<Vec<Value>> = vec![Vec::new(); cases.len() * kit.ours.len()];
    let mut shuffle = Shuffle(run.seed);
    for _ in 0..options.rounds(3) {
        for index in shuffle.order(samples.len()) {
            let ours = &kit.ours[index / cases.len()];
            let (name, workers, path, holders) = &cases[index % cases.len()];
            let server = Server::ours(ours, "asyncio", *workers, &[]);
            let server = server.start(kit, &run.log(&format!("{name} {}", ours.tag)))?;
            let path =
                if *path == COMPUTE { Work::lasting(ours, 50_000.0)?.path() } else { (*path).to_owned() };
            let holder =
                if *holders > 0 { Some(Holder::start(&run, &server, &path, *holders)?) } else { None };
            let words = paced(&run, rate, 256);
            samples[index].push(generate(&run, "load", &server, "/", &words)?);
            drop(holder);
        }
    }
    let mut measured = Vec::new();
    let mut bars = Vec::new();
    for (index, samples) in samples.into_iter().enumerate() {
        let ours = &kit.ours[index / cases.len()];
        let (name, workers, _, holders) = &cases[index % cases.len()];
        let mut row =
            Row::hello(format!("{name}, {}", ours.tag), Server::ours(ours, "asyncio", *workers, &[]), 256);
        row.rate = Some(rate);
        let row = Measured { row, samples };
        // Two loops cannot be kept apart by one interpreter lock: there it is reported only.
        let promised =
            |limit| if *holders > 0 && ours.is_free_threaded { Limit::AtMost(limit) } else { Limit::None };
        for (what, figure, limit) in [("p90", P90, 1.0), ("p99", P99, 10.0)] {
            let what = format!("{}: {what} in ms", row.row.name);
            bars.push(Bar { what, figure: row.median(figure), limit: promised(limit) });
        }
        measured.push(row);
    }
    let lines: Vec<Vec<String>> = measured
        .iter()
        .map(|row| {
            let figures = [P50, P90, P99, "/send_lag_ms/p99"];
            let shown = figures.iter().map(|figure| shown(row.median(figure), 3));
            std::iter::once(row.row.name.clone()).chain(shown).collect()
        })
        .collect();
    table(&["case", "p50 ms", "p90 ms", "p99 ms", "generator late p99 ms"], &lines);
    run.finish(&measured, &bars, json!({ "rate": rate }))
}

fn paced(run: &Run<'_>, rate: f64, connections: usize) -> Vec<String> {
    let words: [(&str, String); 6] = [
        ("--body", "Hello, world!".to_owned()),
        ("--connections", connections.to_string()),
        ("--duration", run.options.duration().to_string()),
        ("--warmup", run.options.warmup().to_string()),
        ("--rate", rate.to_string()),
        ("--seed", run.seed.to_string()),
    ];
    words.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
}

/// Requests that hold loops back to back while something else is measured.
struct Holder(Child);

impl Holder {
    fn start(run: &Run<'_>, server: &Running, path: &str, connections: usize) -> Result<Self, Error> {
        let seconds = run.options.warmup() + run.options.duration() + 30.0;
        let mut generator = run.kit.generator();
        generator
            .args(["load", "--url", &server.url(path), "--warmup", "0", "--duration", &seconds.to_string()])
            .args(["--connections", &connections.to_string()])
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let started = pinning::on(pinning().load(), || generator.spawn())?;
        Ok(Self(started.context(|| "cannot start the holders".to_owned())?))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It is our own child; where it ended by itself there is nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Handlers that wait, beside a bare loop that makes one Task a round.
pub(crate) fn awaiting(options: &Options, kit: &Kit) -> Result<(), Error> {
    let run = Run::begin("await", options, kit)?;
    let ours = kit.ours.first().ok_or_else(|| Error::failed("no interpreter"))?;
    let (mut measured, mut bars, mut lines, mut details) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for milliseconds in [1_u32, 5] {
        for connections in [16_usize, 64, 256] {
            let name = format!("{milliseconds} ms, {connections} connections");
            let waiting = Row {
                path: format!("/await/{milliseconds}"),
                body: Some("waited".to_owned()),
                ..Row::hello(
                    format!("{name}, {}", named(ours, 1, "asyncio")),
                    Server::ours(ours, "asyncio", 1, &[]),
                    connections,
                )
            };
            let rounds = options.rounds(3);
            let mut own = measure(&run, vec![waiting], rounds);
            let Some(rate) = own.first().and_then(|row| row.median(REQUESTS)) else { continue };
            let hello = Row {
                rate: Some(rate),
                ..Row::hello(
                    format!("hello at the rate of {name}"),
                    Server::ours(ours, "asyncio", 1, &[]),
                    connections,
                )
            };
            own.extend(measure(&run, vec![hello], rounds));
            let bare: Vec<Value> = (0..rounds)
                .map(|_| bare_loop(kit, &ours.python, milliseconds, connections, options.duration()))
                .collect::<Result<_, _>>()?;
            let bare_figure = |name: &str| {
                median(&bare.iter().filter_map(|report| report[name].as_f64()).collect::<Vec<_>>())
            };
            let [waiting, hello] = own.as_slice() else { continue };
            // Under half a core the bare loop waits, and latency tells; above it computes, and CPU time does.
            let is_light = bare_figure("cores").is_some_and(|cores| cores < 0.5);
            let (figure, bare_name) = if is_light { (MEAN, "mean_ms") } else { (CPU, "cpu_us_per_round") };
            let allowed = bare_figure(bare_name).zip(hello.median(figure)).map(|(bare, hello)| bare + hello);
            bars.push(Bar {
                what: format!(
                    "{name}: {} x (bare loop + our hello)",
                    if is_light { "mean latency" } else { "CPU per request" }
                ),
                figure: ratio(waiting.median(figure), allowed),
                limit: Limit::AtMost(1.1),
            });
            lines.push(vec![
                name.clone(),
                shown(waiting.median(REQUESTS), 0),
                shown(waiting.median(MEAN), 3),
                shown(bare_figure("mean_ms"), 3),
                shown(hello.median(MEAN), 3),
                shown(waiting.median(CPU), 1),
                shown(bare_figure("cpu_us_per_round"), 1),
                shown(hello.median(CPU), 1),
                shown(bare_figure("cores"), 2),
            ]);
            details.push(json!({ "case": name, "bare": bare }));
            measured.extend(own);
        }
    }
    table(
        &[
            "case",
            "req/s",
            "mean ms",
            "bare ms",
            "hello ms",
            "CPU us",
            "bare CPU us",
            "hello CPU us",
            "bare cores",
        ],
        &lines,
    );
    run.finish(&measured, &bars, Value::Array(details))
}

fn bare_loop(
    kit: &Kit,
    python: &std::path::Path,
    milliseconds: u32,
    connections: usize,
    seconds: f64,
) -> Result<Value, Error> {
    let script = kit.root.join("benches/apps/bare_await.py");
    let words = [milliseconds.to_string(), connections.to_string(), seconds.to_string()];
    let text = program::output(Command::new(python).arg(script).args(words))?;
    serde_json::from_str(&text).map_err(|error| Error::failed(format!("bare_await.py: {error}")))
}

/// In which order queued requests are answered, and how late a sleeper wakes among them.
pub(crate) fn order(options: &Options, kit: &Kit) -> Result<(), Error> {
    let run = Run::begin("order", options, kit)?;
    let mut bars = Vec::new();
    let mut details = Vec::new();
    for ours in &kit.ours {
        let log = run.log(&format!("order {}", ours.tag));
        let (mut worst, mut naps) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds(3) {
            let server = Server::ours(ours, "asyncio", 1, &[]).start(kit, &log)?;
            let words = |path: &str, body: &str, count: &str| {
                let words = ["--body", body, "--requests", count, "--at-once"];
                let words = words.map(str::to_owned).to_vec();
                generate(&run, "tokens", &server, &format!("{path}?token={{token}}"), &words)
            };
            let eight = words("/sleep/50", "slept", "8")?;
            let times: Vec<f64> = eight["first_answers_after_ms"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_f64)
                .collect();
            if times.len() != 8 {
                return Err(Error::failed(format!("not 8 answers: {eight}")));
            }
            let lateness = times.iter().enumerate().map(|(index, time)| time - 50.0 * (index + 1) as f64);
            worst.push(lateness.fold(f64::MIN, f64::max));
            let job = Work::lasting(ours, 200.0)?;
            let nap = std::thread::scope(|scope| {
                let queue = scope.spawn(|| words(&job.path(), &job.answer(), "1000"));
                // The thousand connect first; a nap that is over before they send finds no queue and proves nothing,
                // so naps go on until the queue is done and the longest counts.
                let mut longest: f64 = 0.0;
                while !queue.is_finished() {
                    let text = String::from_utf8_lossy(&server.get("/nap/10")?).into_owned();
                    longest = longest.max(text.trim().parse().unwrap_or(f64::INFINITY));
                    std::thread::sleep(Duration::from_millis(1));
                }
                let report = queue.join().map_err(|_| Error::failed("the load of the nap panicked"))??;
                if report["is_right"] != true {
                    return Err(Error::failed(format!("the queue beside the nap: {report}")));
                }
                Ok(longest)
            })?;
            naps.push(nap);
        }
        bars.push(Bar {
            what: format!("{}: worst answer of 8 x 50 ms, ms after k x 50", ours.tag),
            figure: median(&worst),
            limit: Limit::AtMost(10.0),
        });
        bars.push(Bar {
            what: format!("{}: a 10 ms sleep beside 1,000 queued jobs of 0.2 ms, ms", ours.tag),
            figure: median(&naps),
            limit: Limit::AtMost(15.0),
        });
        details.push(json!({ "python": ours.tag, "late_ms": worst, "nap_ms": naps }));
    }
    run.finish(&[], &bars, Value::Array(details))
}
