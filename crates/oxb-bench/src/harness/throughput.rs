//! The scenarios that are a table of closed loops: hello, timeout, builds, cpu.
//!
//! **Invariant:** every ratio is between medians of the same run.

use std::process::Command;

use serde_json::{Value, json};

use super::error::Error;
use super::program;

use super::kit::{Kit, Ours};
use super::machine::cpus;
use super::options::Options;
use super::rounds::{
    CPU, GENERATOR_CORES, GENERATOR_CPU, MEMORY, Measured, P50, P99, REQUESTS, Row, SERVER_CORES, measure,
};
use super::run::{Bar, Limit, Run, ratio, shown, table};
use super::server::Server;

const FLOOR: &str = "floor: bare hyper";
/// What the names of our own rows begin with.
const OURS: &str = "oxbrook";

/// Hello world beside the floor and the peers.
pub(crate) fn hello(options: &Options, kit: &Kit) -> Result<(), Error> {
    let run = Run::begin("hello", options, kit)?;
    let connections = options.connections(64);
    let mut rows = vec![Row::hello(FLOOR, Server::floor(kit), connections)];
    for ours in &kit.ours {
        for event_loop in loops(ours) {
            let server = Server::ours(ours, event_loop, 1, &[]);
            rows.push(Row::hello(named(ours, 1, event_loop), server, connections));
        }
        if ours.is_free_threaded && cpus() > 1 {
            let server = Server::ours(ours, "asyncio", cpus().min(8), &[]);
            rows.push(Row::hello(named(ours, cpus().min(8), "asyncio"), server, connections));
        }
    }
    if let Some(python) = &kit.peers {
        for event_loop in ["asyncio", "uvloop"] {
            for interface in ["rsgi", "asgi"] {
                let server = Server::granian(python, interface, event_loop);
                rows.push(Row::hello(format!("granian {interface}, {event_loop}"), server, connections));
            }
            rows.push(Row::hello(
                format!("uvicorn asgi, {event_loop}"),
                Server::uvicorn(python, event_loop),
                connections,
            ));
        }
    }
    // Latency at low load must not pay for throughput.
    if !options.is_quick {
        for few in [1, 8] {
            let name = |what: &str| format!("{what}, {few} connection(s)");
            rows.push(Row::hello(name(FLOOR), Server::floor(kit), few));
            if let Some(ours) = kit.ours.first() {
                let server = Server::ours(ours, "asyncio", 1, &[]);
                rows.push(Row::hello(name(&named(ours, 1, "asyncio")), server, few));
            }
            if let Some(python) = &kit.peers {
                rows.push(Row::hello(
                    name("granian rsgi, asyncio"),
                    Server::granian(python, "rsgi", "asyncio"),
                    few,
                ));
            }
        }
    }
    let lengths = answer_lengths(&run, &rows)?;
    let measured = measure(&run, rows, options.rounds(5));
    print_beside(&measured, FLOOR);
    let bars = kit.ours.first().map(|ours| hello_bars(&measured, ours)).unwrap_or_default();
    run.finish(&measured, &bars, json!({ "answer_bytes": lengths }))
}

/// How long each server's answer is: the floor is one for ours only while both write as many bytes.
fn answer_lengths(run: &Run<'_>, rows: &[Row]) -> Result<Value, Error> {
    let mut lengths = serde_json::Map::new();
    for row in rows.iter().filter(|row| row.name == FLOOR || row.name.starts_with(OURS)) {
        if run.options.wants(&row.name) || row.name == FLOOR {
            let server = row.server.start(run.kit, &run.log(&row.name))?;
            lengths.insert(
                row.name.clone(),
                json!(server.answer_length(row.body.as_deref().unwrap_or_default().as_bytes())?),
            );
        }
    }
    let floor = lengths.get(FLOOR).cloned();
    for (name, length) in lengths.iter().filter(|(_, length)| Some(*length) != floor.as_ref()) {
        println!(
            "xtask: {name} answers with {length} bytes and the floor with another number: no fair ratio"
        );
    }
    Ok(Value::Object(lengths))
}

fn hello_bars(measured: &[Measured], ours: &Ours) -> Vec<Bar> {
    let mut bars = Vec::new();
    for event_loop in loops(ours) {
        let own = find(measured, &named(ours, 1, event_loop));
        let beside = |name: &str, figure| ratio(of(own, figure), of(find(measured, name), figure));
        let is_bar = *event_loop == "asyncio";
        let promised = |limit| if is_bar { limit } else { Limit::None };
        bars.push(Bar {
            what: format!("CPU per request x floor, {event_loop}"),
            figure: beside(FLOOR, CPU),
            limit: promised(Limit::AtMost(1.45)),
        });
        for (interface, least) in [("rsgi", 1.6), ("asgi", 1.8)] {
            bars.push(Bar {
                what: format!("req/s x granian {interface}, both {event_loop}"),
                figure: beside(&format!("granian {interface}, {event_loop}"), REQUESTS),
                limit: promised(Limit::AtLeast(least)),
            });
        }
    }
    bars
}

/// `request_timeout` of 30 s against none.
pub(crate) fn timeout(options: &Options, kit: &Kit) -> Result<(), Error> {
    let run = Run::begin("timeout", options, kit)?;
    let connections = options.connections(64);
    let rows: Vec<Row> = kit
        .ours
        .iter()
        .flat_map(|ours| ["30", "0"].map(|seconds| (ours, seconds)))
        .map(|(ours, seconds)| {
            let server = Server::ours(ours, "asyncio", 1, &["--request-timeout", seconds]);
            Row::hello(
                format!("{}, request_timeout={seconds}", named(ours, 1, "asyncio")),
                server,
                connections,
            )
        })
        .collect();
    let measured = measure(&run, rows, options.rounds(5));
    let mut bars = Vec::new();
    for pair in measured.chunks_exact(2) {
        let [with, without] = pair else { continue };
        let paired: Vec<f64> = with
            .samples
            .iter()
            .zip(&without.samples)
            .filter_map(|(with, without)| ratio(figure(with, CPU), figure(without, CPU)))
            .collect();
        bars.push(Bar {
            what: format!(
                "{}: CPU per request x request_timeout=0, median of {} pairs",
                with.row.name,
                paired.len()
            ),
            figure: super::rounds::median(&paired),
            limit: Limit::None,
        });
    }
    print_beside(&measured, "request_timeout=0");
    let details = super::instructions::timeout(&run)?;
    bars.push(super::instructions::bar(&details));
    run.finish(&measured, &bars, details)
}

/// The same app on a GIL build and on a free-threaded one.
pub(crate) fn builds(options: &Options, kit: &Kit) -> Result<(), Error> {
    // Among all scenarios it runs on what there is, and its bars are not measured.
    if options.pythons.len() < 2 && options.into.is_none() {
        return Err(Error::Usage("builds compares interpreters: give --python twice".to_owned()));
    }
    let run = Run::begin("builds", options, kit)?;
    let connections = options.connections(64);
    let mut rows = vec![Row::hello(FLOOR, Server::floor(kit), connections)];
    for ours in &kit.ours {
        let ladder = if ours.is_free_threaded { loop_ladder() } else { vec![1] };
        for workers in ladder {
            let server = Server::ours(ours, "asyncio", workers, &[]);
            rows.push(Row::hello(named(ours, workers, "asyncio"), server, connections));
        }
    }
    let measured = measure(&run, rows, options.rounds(3));
    print_beside(&measured, FLOOR);
    let mut bars = Vec::new();
    let with_gil = kit.ours.iter().find(|ours| !ours.is_free_threaded);
    for ours in kit.ours.iter().filter(|ours| ours.is_free_threaded) {
        let one = find(&measured, &named(ours, 1, "asyncio"));
        if let Some(with_gil) = with_gil {
            bars.push(Bar {
                what: format!("req/s of one loop, {} x {}", ours.tag, with_gil.tag),
                figure: ratio(
                    of(one, REQUESTS),
                    of(find(&measured, &named(with_gil, 1, "asyncio")), REQUESTS),
                ),
                limit: Limit::AtLeast(0.9),
            });
        }
        for workers in loop_ladder().into_iter().skip(1) {
            // Generator, I/O thread and loops together outnumber the cores: a loop more cannot be a gain then.
            let crowded = workers + 2 > cpus();
            bars.push(Bar {
                what: format!("req/s of {workers} loops x one loop, {}", ours.tag),
                figure: ratio(
                    of(find(&measured, &named(ours, workers, "asyncio")), REQUESTS),
                    of(one, REQUESTS),
                ),
                limit: Limit::AtLeast(if crowded { 0.9 } else { 1.0 }),
            });
        }
    }
    run.finish(&measured, &bars, Value::Null)
}

/// Turns of the loop of `/spin`, some hundred microseconds.
const SPIN: u64 = 20_000;

/// Turns that take 5 ms on this interpreter and machine. Turns, not time by the clock: a handler that only waits for a
/// core would look as if it computed meanwhile.
fn five_milliseconds(ours: &Ours) -> Result<u64, Error> {
    let question = "import time
def spin(count):
    total = 0
    for number in range(count):
        total += number
    return total
def taken():
    begin = time.perf_counter()
    spin(20000)
    return time.perf_counter() - begin
print(int(20000 * 0.005 / min(taken() for _ in range(300))))";
    let text = program::output(Command::new(&ours.python).args(["-I", "-c", question]))?;
    text.trim().parse().map_err(|_| Error::failed(format!("not a number of turns: {text}")))
}

/// A handler that computes, one loop against several.
pub(crate) fn cpu(options: &Options, kit: &Kit) -> Result<(), Error> {
    let run = Run::begin("cpu", options, kit)?;
    let connections = options.connections(32);
    let mut rows = Vec::new();
    let mut turns = Vec::new();
    for ours in &kit.ours {
        let works = [("20,000 turns", SPIN), ("5 ms", five_milliseconds(ours)?)];
        turns.push(json!({ "python": ours.tag, "turns_of_5_ms": works[1].1 }));
        for workers in if ours.is_free_threaded { loop_ladder() } else { vec![1] } {
            for (what, turns) in works {
                rows.push(Row {
                    path: format!("/spin/{turns}"),
                    body: Some((turns * (turns - 1) / 2).to_string()),
                    ..Row::hello(
                        format!("{what}, {}", named(ours, workers, "asyncio")),
                        Server::ours(ours, "asyncio", workers, &[]),
                        connections,
                    )
                });
            }
        }
    }
    let measured = measure(&run, rows, options.rounds(3));
    print_beside(&measured, FLOOR);
    let mut bars = Vec::new();
    let mut ceilings = Vec::new();
    for ours in kit.ours.iter().filter(|ours| ours.is_free_threaded) {
        for (what, least) in [("20,000 turns", 1.7), ("5 ms", 1.9)] {
            let one = find(&measured, &format!("{what}, {}", named(ours, 1, "asyncio")));
            // All cores, divided by what one request takes of server and generator together.
            let cost = of(one, CPU).zip(of(one, GENERATOR_CPU)).map(|(server, generator)| server + generator);
            let most = ratio(Some(cpus() as f64 * 1e6), cost);
            let ceiling = ratio(most, of(one, REQUESTS));
            println!(
                "ceiling of the speed-up that server and generator leave, {what}, {}: {}",
                ours.tag,
                shown(ceiling, 2)
            );
            ceilings.push(json!({ "work": what, "python": ours.tag, "ceiling": ceiling }));
            for workers in loop_ladder().into_iter().skip(1) {
                let several = find(&measured, &format!("{what}, {}", named(ours, workers, "asyncio")));
                bars.push(Bar {
                    what: format!("speed-up of {workers} loops, {what}, {}", ours.tag),
                    figure: ratio(of(several, REQUESTS), of(one, REQUESTS)),
                    limit: if workers == 2 { Limit::AtLeast(least) } else { Limit::None },
                });
            }
        }
    }
    run.finish(&measured, &bars, json!({ "ceilings": ceilings, "turns": turns }))
}

/// The name of a row of ours.
pub(crate) fn named(ours: &Ours, workers: usize, event_loop: &str) -> String {
    format!("{OURS} {}, {workers} loop(s), {event_loop}", ours.tag)
}

/// 1, 2, 4, ... up to the CPUs.
pub(crate) fn loop_ladder() -> Vec<usize> {
    std::iter::successors(Some(1), |workers| Some(workers * 2))
        .take_while(|workers| *workers <= cpus().min(8))
        .collect()
}

/// uvloop's import turns the GIL on, so a free-threaded build is measured on asyncio alone.
fn loops(ours: &Ours) -> &'static [&'static str] {
    if ours.is_free_threaded { &["asyncio"] } else { &["asyncio", "uvloop"] }
}

fn find<'a>(measured: &'a [Measured], name: &str) -> Option<&'a Measured> {
    measured.iter().find(|row| row.row.name == name)
}

fn of(row: Option<&Measured>, figure: &str) -> Option<f64> {
    row?.median(figure)
}

fn figure(sample: &Value, figure: &str) -> Option<f64> {
    sample.pointer(figure)?.as_f64()
}

/// The table of a closed-loop scenario, with ratios to the row whose name ends in `base`, else to the first.
pub(crate) fn print_beside(measured: &[Measured], base: &str) {
    let base = measured.iter().find(|row| row.row.name.ends_with(base)).or(measured.first());
    let lines: Vec<Vec<String>> = measured
        .iter()
        .map(|row| {
            let own = Some(row);
            let spread =
                row.range(REQUESTS).map_or("-".to_owned(), |(least, most)| format!("{least:.0} - {most:.0}"));
            let mut name = row.row.name.clone();
            if row.is_generator_bound() {
                name.push_str(" (generator-bound)");
            }
            vec![
                name,
                shown(of(own, CPU), 2),
                shown(ratio(of(own, CPU), of(base, CPU)), 2),
                shown(of(own, REQUESTS), 0),
                spread,
                shown(ratio(of(own, REQUESTS), of(base, REQUESTS)), 2),
                shown(of(own, P50), 3),
                shown(of(own, P99), 3),
                shown(of(own, MEMORY).map(|bytes| bytes / 1048576.0), 1),
                shown(of(own, SERVER_CORES), 2),
                shown(of(own, GENERATOR_CORES), 2),
            ]
        })
        .collect();
    table(
        &[
            "target",
            "CPU us/req",
            "CPU x base",
            "req/s",
            "range",
            "req/s x base",
            "p50 ms",
            "p99 ms",
            "RSS MiB",
            "server cores",
            "generator cores",
        ],
        &lines,
    );
}
