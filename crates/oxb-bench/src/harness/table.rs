//! A scenario that is a table: every load of its file against every row it is for.
//!
//! **Invariant:** a row that cannot run is in the result with its state and why, never left out.

use serde_json::{Value, json};

use super::error::Error;
use super::kit::{Kit, Ours};
use super::machine::cpus;
use super::options::Options;
use super::peers;
use super::rounds::{Measured, Row, measure};
use super::run::{Bar, Limit, Missing, Run, ratio};
use super::scenario::{self, Load, Promise, Scenario};
use super::server::Server;

/// What the load generator can do so far.
const MODES: &[&str] = &["closed", "open"];

/// An argument of a program has at most 128 KiB on Linux: a longer body is held to its status and framing alone.
const LONGEST_WORD: usize = 120_000;

/// Runs the scenario `name`.
pub(crate) fn run(name: &str, scenario: &Scenario, options: &Options, kit: &Kit) -> Result<(), Error> {
    let mut run = Run::begin(name, options, kit)?;
    let mut rows = Vec::new();
    for load in &scenario.load {
        for row in scenario.row.iter().filter(|row| load.kinds.is_empty() || load.kinds.contains(&row.kind)) {
            for planned in planned(load, row, options, kit)? {
                match planned {
                    Ok(row) => rows.push(row),
                    Err(missing) => run.missing.push(missing),
                }
            }
        }
    }
    let measured = measure(&run, rows, options.rounds(scenario.rounds));
    super::throughput::print_beside(&measured, "floor: bare hyper");
    run.print_missing();
    let bars: Vec<Bar> = scenario.bar.iter().map(|promise| bar(promise, &measured)).collect();
    run.finish(&measured, &bars, json!({ "about": scenario.about }))
}

/// A row that can run, or one that cannot.
type Planned = Result<Row, Missing>;

fn planned(load: &Load, row: &scenario::Row, options: &Options, kit: &Kit) -> Result<Vec<Planned>, Error> {
    let prefix = load.name.as_ref().map(|name| format!("{name}, ")).unwrap_or_default();
    let shown = row.name.clone().unwrap_or_else(|| row.server.clone());
    let missing = |name: String, state: &'static str, why: &str| {
        Err(Missing {
            name: format!("{prefix}{name}"),
            group: row.kind.clone(),
            state,
            why: why.to_owned(),
            load: json!({ "mode": load.mode, "path": load.path, "connections": load.connections, "with": load.with }),
        })
    };
    if let Some(issue) = &row.not_built {
        return Ok(vec![missing(shown, "not built", issue)]);
    }
    if let Some(why) = &row.absent {
        return Ok(vec![missing(shown, "absent", why)]);
    }
    if !MODES.contains(&load.mode.as_str()) {
        let why = format!("the load generator has no mode `{}` yet", load.mode);
        return Ok(vec![missing(shown, "not built", &why)]);
    }
    if options.is_quick && !is_quick(row) {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    let made = |name: String, server: Server| Row {
        path: load.path.clone(),
        body: load
            .body_of_x
            .filter(|count| *count < LONGEST_WORD)
            .map(|count| "x".repeat(count))
            .or_else(|| load.body.clone()),
        connections: options.connections(load.connections),
        rate: load.rate,
        words: words(load),
        duration: load.duration,
        group: row.kind.clone(),
        ..Row::hello(format!("{prefix}{name}"), server, load.connections)
    };
    match row.server.as_str() {
        "floor" => all.push(Ok(made("floor: bare hyper".to_owned(), Server::floor(kit)))),
        "ours" => {
            for ours in kit.ours.iter().filter(|ours| is_for(row, ours)) {
                for (event_loop, workers) in shapes(row, ours, options) {
                    let app = row.app.as_deref().unwrap_or("native:app");
                    let more: Vec<&str> = row.options.iter().map(String::as_str).collect();
                    let server = Server::app(ours, app, &event_loop, workers, &more);
                    let mut name = super::throughput::named(ours, workers, &event_loop);
                    if let Some(own) = &row.name {
                        name = format!("{own}, {name}");
                    }
                    all.push(Ok(made(name, server)));
                }
            }
        }
        "granian rsgi" | "granian asgi" | "uvicorn" if row.app.is_none() => {
            for event_loop in &row.loops {
                let name = format!("{shown}, {event_loop}");
                let Some(python) = &kit.peers else {
                    all.push(missing(name, "absent", kit.why_no_peers()));
                    continue;
                };
                let server = match row.server.as_str() {
                    "uvicorn" => Server::uvicorn(python, event_loop),
                    other => Server::granian(python, &other["granian ".len()..], event_loop),
                };
                all.push(Ok(made(name, server)));
                if options.is_quick {
                    break;
                }
            }
        }
        other => {
            for event_loop in &row.loops {
                let app = row.app.as_deref().unwrap_or("raw");
                let name = format!("{shown}, {event_loop}, {app}");
                all.push(match peer(other, event_loop, app, options, kit) {
                    Ok(target) => Ok(made(target.name.clone(), Server::peer(&target, 1))),
                    Err(why) => missing(name, "absent", &why),
                });
            }
        }
    }
    Ok(all)
}

/// A server of the catalogue, installed for the first interpreter; or why it is absent.
fn peer(
    server: &str,
    event_loop: &str,
    app: &str,
    options: &Options,
    kit: &Kit,
) -> Result<peers::Target, String> {
    let Some(ours) = kit.ours.first().filter(|_| !options.without_peers) else {
        return Err(kit.why_no_peers().to_owned());
    };
    let catalog = peers::Catalog::load(&kit.root.join("benches/peers")).map_err(|error| error.to_string())?;
    let interpreter = peers::Interpreter::ask(&ours.python).map_err(|error| error.to_string())?;
    let all = peers::Peers::open(catalog, interpreter, &kit.target);
    all.target(server, event_loop, app).map_err(|absent| absent.why)
}

/// Whether a row is among the few of a quick run.
fn is_quick(row: &scenario::Row) -> bool {
    matches!(row.server.as_str(), "floor" | "ours" | "granian rsgi" | "uvicorn" | "uvicorn httptools")
}

fn is_for(row: &scenario::Row, ours: &Ours) -> bool {
    match row.build.as_deref() {
        Some("gil") => !ours.is_free_threaded,
        Some("free-threaded") => ours.is_free_threaded,
        _ => true,
    }
}

/// Event loops and numbers of loops of a row on one interpreter.
fn shapes(row: &scenario::Row, ours: &Ours, options: &Options) -> Vec<(String, usize)> {
    let mut shapes = Vec::new();
    for event_loop in &row.loops {
        // uvloop's import turns the GIL on.
        if ours.is_free_threaded && event_loop != "asyncio" {
            continue;
        }
        let mut counts: Vec<usize> = row
            .workers
            .iter()
            .map(|workers| if *workers == 0 { cpus().min(64) } else { *workers })
            .filter(|workers| ours.is_free_threaded || *workers == 1)
            .collect();
        counts.dedup();
        shapes.extend(counts.into_iter().map(|workers| (event_loop.clone(), workers)));
    }
    if options.is_quick {
        shapes.truncate(1);
    }
    shapes
}

/// What the generator is told of the requests.
fn words(load: &Load) -> Vec<String> {
    let mut words =
        vec!["--method".to_owned(), load.method.clone(), "--status".to_owned(), load.status.to_string()];
    for header in &load.headers {
        words.extend(["--header".to_owned(), header.clone()]);
    }
    if let Some(send) = &load.send {
        words.extend(["--send".to_owned(), send.clone()]);
    }
    for status in &load.refusals {
        words.extend(["--allow".to_owned(), status.to_string()]);
    }
    if let Some(arrivals) = &load.arrivals {
        words.extend(["--arrivals".to_owned(), arrivals.clone()]);
    }
    words
}

fn bar(promise: &Promise, measured: &[Measured]) -> Bar {
    let of = |name: &str| {
        let row = measured.iter().find(|row| row.row.name.starts_with(name))?;
        row.median(&promise.figure)
    };
    let own = of(&promise.row);
    let figure = match &promise.beside {
        Some(beside) => ratio(own, of(beside)),
        None => own,
    };
    let limit = match (promise.at_most, promise.at_least) {
        (Some(limit), _) => Limit::AtMost(limit),
        (None, Some(limit)) => Limit::AtLeast(limit),
        (None, None) => Limit::None,
    };
    Bar { what: promise.what.clone(), figure, limit }
}

/// A scenario that is on paper only: its rows and why.
pub(crate) fn not_run(
    name: &str,
    scenario: &Scenario,
    why: &str,
    options: &Options,
    kit: &Kit,
) -> Result<(), Error> {
    let mut run = Run::begin(name, options, kit)?;
    for row in &scenario.row {
        let shown = row.name.clone().unwrap_or_else(|| row.server.clone());
        run.missing.push(Missing::absent(shown, why));
    }
    run.print_missing();
    println!("xtask: {name} is not run here: {why}");
    run.finish(&[], &[], Value::Null)
}
