//! The scenarios of closed loops that are more than a table: timeout, builds, cpu.
//!
//! **Invariant:** every ratio is between medians of the same run.

use serde_json::{Value, json};

use super::error::Error;

use super::kit::{Kit, Ours};
use super::machine::{cpus, server_cpus};
use super::options::Options;
use super::print::print_beside;
use super::rounds::{CPU, GENERATOR_CPU, Measured, REQUESTS, Row, measure};
use super::run::{Bar, Limit, Run, ratio, shown};
use super::server::Server;
use super::work::Work;

const FLOOR: &str = "floor: bare hyper";
/// What the names of our own rows begin with.
const OURS: &str = "oxbrook";

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

/// A handler that computes, one loop against several.
pub(crate) fn cpu(options: &Options, kit: &Kit) -> Result<(), Error> {
    let run = Run::begin("cpu", options, kit)?;
    let connections = options.connections(32);
    let mut rows = Vec::new();
    let mut turns = Vec::new();
    for ours in &kit.ours {
        let works = [("20,000 turns", Work::turns(SPIN)), ("5 ms", Work::lasting(ours, 5000.0)?)];
        turns.push(json!({ "python": ours.tag, "turns_of_5_ms": works[1].1.turns }));
        for workers in if ours.is_free_threaded { loop_ladder() } else { vec![1] } {
            for (what, work) in &works {
                rows.push(Row {
                    path: work.path(),
                    body: Some(work.answer()),
                    group: (*what).to_owned(),
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
        .take_while(|workers| *workers <= server_cpus().min(8))
        .collect()
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
