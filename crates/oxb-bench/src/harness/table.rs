//! A scenario that is a table: every load of its file against every row it is for.
//!
//! **Invariant:** a row that cannot run is in the result with its state and why, never left out.

use serde_json::{Value, json};

use super::capacity;
use super::error::Error;
use super::kit::{Kit, Ours};
use super::machine::server_cpus;
use super::options::Options;
use super::promise;
use super::rounds::{Measured, REQUESTS, Row, measure};
use super::run::{Bar, Limit, Missing, Run, ratio};
use super::scenario::{self, Build, Load, Scenario};
use super::script::{self, Made, Script};
use super::server::{Running, Server};
use super::work::Work;

/// How much more than the highest row an upstream must be able to take, so that it is not what is measured.
const UPSTREAM: f64 = 3.0;

/// Runs the scenario `name`.
pub(crate) fn run(name: &str, scenario: &Scenario, options: &Options, kit: &Kit) -> Result<(), Error> {
    let mut run = Run::begin(name, options, kit)?;
    let upstream = if scenario.load.iter().any(|load| load.has_upstream) {
        Some(Server::program(&kit.upstream).start(kit, &run.log("upstream"))?)
    } else {
        None
    };
    let mut rows = Vec::new();
    for load in &scenario.load {
        let plan = Plan { scenario, load, options, kit, upstream: upstream.as_ref() };
        rows.extend(plan.upstream_row().map(|row| (row, None)));
        for row in scenario.row.iter().filter(|row| load.kinds.is_empty() || load.kinds.contains(&row.kind)) {
            for planned in plan.rows(row)? {
                match planned {
                    Ok(row) => rows.push((row, Some(load))),
                    Err(missing) => run.missing.push(missing),
                }
            }
        }
    }
    let rows = capacity::with_capacities(&run, rows)?;
    let measured = measure(&run, rows, options.rounds(scenario.rounds));
    super::print::print_beside(&measured, FLOOR);
    run.print_missing();
    let mut bars: Vec<Bar> = scenario.bar.iter().map(|promise| promise::bar(promise, &measured)).collect();
    bars.extend(upstream_bars(&measured));
    bars.extend(answer_lengths(&measured));
    run.finish(&measured, &bars, json!({ "about": scenario.about }))
}

const FLOOR: &str = "floor: bare hyper";
const UPSTREAM_ROW: &str = "upstream: bare hyper echo";

/// A row that can run, or one that cannot.
type Planned = Result<Row, Missing>;

/// One load of a scenario, to be put to rows.
struct Plan<'a> {
    scenario: &'a Scenario,
    load: &'a Load,
    options: &'a Options,
    kit: &'a Kit,
    upstream: Option<&'a Running>,
}

impl Plan<'_> {
    fn rows(&self, row: &scenario::Row) -> Result<Vec<Planned>, Error> {
        let shown = row.name.clone().unwrap_or_else(|| row.server.clone());
        if let Some(issue) = &row.not_built {
            return Ok(vec![self.missing(shown, "not built", issue)]);
        }
        if let Some(why) = &row.absent {
            return Ok(vec![self.missing(shown, "absent", why)]);
        }
        if self.options.is_quick && !is_quick(row) {
            return Ok(Vec::new());
        }
        match row.server.as_str() {
            "floor" => Ok(vec![self.planned(FLOOR.to_owned(), Server::floor(self.kit), None)?]),
            "ours" => self.ours(row),
            _ => self.peers(row, &shown),
        }
    }

    fn ours(&self, row: &scenario::Row) -> Result<Vec<Planned>, Error> {
        let mut all = Vec::new();
        for ours in self.kit.ours.iter().filter(|ours| is_for(row, ours)) {
            for (event_loop, workers) in shapes(row, ours, self.options) {
                let app = row.app.as_deref().unwrap_or("native:app");
                let more: Vec<&str> = row.options.iter().map(String::as_str).collect();
                let mut server = Server::app(ours, app, &event_loop, workers, &more);
                let mut name = super::throughput::named(ours, workers, &event_loop);
                if let Some(own) = &row.name {
                    name = format!("{own}, {name}");
                }
                if row.build == Some(Build::Jit) && !ours.has_jit() {
                    all.push(self.missing(name, "absent", "this interpreter was built without the JIT"));
                    continue;
                }
                for (variable, value) in &row.variables {
                    server = server.with_variable(variable, value);
                }
                if row.is_on_socket {
                    server = server.on_socket();
                }
                if row.is_beside_peers {
                    match beside_peers(self.kit, ours) {
                        Ok((packages, folder)) => {
                            server = server.with_variable("PYTHONPATH", &packages).in_folder(folder);
                        }
                        Err(why) => {
                            all.push(self.missing(name, "absent", &why));
                            continue;
                        }
                    }
                }
                all.push(self.planned(name, server, Some(ours))?);
            }
        }
        Ok(all)
    }

    fn peers(&self, row: &scenario::Row, shown: &str) -> Result<Vec<Planned>, Error> {
        let count = if self.scenario.peers_on_each_python { self.kit.ours.len() } else { 1 };
        let pythons: Vec<&Ours> = self.kit.ours.iter().take(count).filter(|ours| is_for(row, ours)).collect();
        if self.kit.ours.is_empty() {
            return Ok(vec![self.missing(shown.to_owned(), "absent", self.kit.why_no_peers())]);
        }
        let app = row.app.as_deref().unwrap_or("raw");
        let mut all = Vec::new();
        for ours in pythons {
            for event_loop in &row.loops {
                for workers in processes(row, self.options) {
                    let mut suffix = String::new();
                    if workers > 1 {
                        suffix.push_str(&format!(", {workers} processes"));
                    }
                    if count > 1 {
                        suffix.push_str(&format!(", Python {}", ours.tag));
                    }
                    let mut uses: Vec<&str> = self.load.uses.iter().map(String::as_str).collect();
                    uses.extend((workers > 1).then_some("workers"));
                    let names = [row.server.as_str(), event_loop, app];
                    all.push(match self.kit.peer(Some(ours), self.options, names, &uses) {
                        Ok(target) => {
                            let name = format!("{}{suffix}", target.name);
                            self.planned(name, Server::peer(&target, workers), None)?
                        }
                        Err(why) => {
                            let name = format!("{shown}, {event_loop}, {app}{suffix}");
                            self.missing(name, "absent", &why)
                        }
                    });
                }
                if self.options.is_quick {
                    break;
                }
            }
        }
        Ok(all)
    }

    /// The upstream under the load of the proxies, to see what it can take.
    fn upstream_row(&self) -> Option<Row> {
        if !self.load.has_upstream {
            return None;
        }
        let name = self.named(UPSTREAM_ROW);
        let row = self.row(name, Server::program(&self.kit.upstream));
        Some(Row { path: "/echo".to_owned(), ..row })
    }

    /// A row under this load; a handler of the native app that computes does so for a time on `ours`.
    fn planned(&self, name: String, mut server: Server, ours: Option<&Ours>) -> Result<Planned, Error> {
        if let Some(upstream) = self.upstream.filter(|_| self.load.has_upstream) {
            server = server.with_variable("BENCH_UPSTREAM", &upstream.url("/echo"));
        }
        let row = self.row(self.named(&name), server);
        let Some(microseconds) = self.load.compute_us else { return Ok(Ok(row)) };
        let Some(ours) = ours else {
            return Ok(self.missing(name, "absent", "only our native app computes so many turns"));
        };
        let work = Work::lasting(ours, microseconds)?;
        Ok(Ok(Row { path: work.path(), body: Some(work.answer()), ..row }))
    }

    fn row(&self, name: String, server: Server) -> Row {
        let load = self.load;
        Row {
            path: load.path.clone(),
            body: made(load).map(|made| made.answer).or_else(|| load.body.clone()),
            connections: self.options.connections(load.connections),
            rate: load.rate,
            script: told(load),
            duration: load.duration,
            warmup: load.warmup.or(self.scenario.warmup),
            group: load.name.clone().unwrap_or_default(),
            ..Row::hello(name, server, load.connections)
        }
    }

    fn named(&self, name: &str) -> String {
        self.load.name.as_ref().map_or_else(|| name.to_owned(), |load| format!("{load}, {name}"))
    }

    fn missing(&self, name: String, state: &'static str, why: &str) -> Planned {
        let load = self.load;
        Err(Missing {
            name: self.named(&name),
            group: load.name.clone().unwrap_or_default(),
            state,
            why: why.to_owned(),
            load: json!({ "mode": load.mode, "path": load.path, "connections": load.connections, "with": load.with }),
        })
    }
}

/// The body that a load asks for by its size.
fn made(load: &Load) -> Option<Made> {
    let json = load.echo_json_of.map(script::json_of);
    let urlencoded = load.urlencoded_of.map(script::urlencoded_of);
    json.or(urlencoded).or_else(|| load.multipart_of.map(script::multipart_of))
}

/// The packages of the peers on this interpreter, for an app that ours and they share; and where the app is.
fn beside_peers(kit: &Kit, ours: &Ours) -> Result<(String, std::path::PathBuf), String> {
    let peers = ours.peers.as_deref().ok_or_else(|| kit.why_no_peers().to_owned())?;
    let group = "servers";
    // On some interpreters not all of them can be had.
    for package in peers.catalog().app("oxbrook").iter().flat_map(|app| &app.packages) {
        peers.installed(group, package).map_err(|absent| absent.why)?;
    }
    let packages = peers.packages(group).map_err(|absent| absent.why)?;
    Ok((packages.to_string_lossy().into_owned(), peers.catalog().apps_folder()))
}

/// How far the upstream was from being the limit, for each load that has one.
fn upstream_bars(measured: &[Measured]) -> Vec<Bar> {
    let is_upstream = |row: &&Measured| row.row.name.ends_with(UPSTREAM_ROW);
    measured
        .iter()
        .filter(is_upstream)
        .map(|upstream| {
            let rows = measured.iter().filter(|row| row.row.group == upstream.row.group && !is_upstream(row));
            let highest = rows.filter_map(|row| row.median(REQUESTS)).reduce(f64::max);
            Bar {
                what: format!("{}: req/s of the upstream alone x the highest row", upstream.row.group),
                figure: ratio(upstream.median(REQUESTS), highest),
                limit: Limit::AtLeast(UPSTREAM),
            }
        })
        .collect()
}

/// How long our answers are beside the floor's: its CPU time is a floor for ours only while both write as many bytes.
fn answer_lengths(measured: &[Measured]) -> Option<Bar> {
    const LENGTH: &str = "/answer_bytes";
    let of = |is: &dyn Fn(&str) -> bool| {
        measured.iter().find(|row| is(&row.row.name)).and_then(|row| row.median(LENGTH))
    };
    let figure = ratio(of(&|name| name.contains("oxbrook")), of(&|name| name.contains(FLOOR)))?;
    Some(Bar {
        what: "bytes of our answer x the floor's".to_owned(),
        figure: Some(figure),
        limit: Limit::None,
    })
}

/// Whether a row is among the few of a quick run: the floor, ours, granian and uvicorn.
fn is_quick(row: &scenario::Row) -> bool {
    ["floor", "ours", "granian", "uvicorn"].iter().any(|name| row.server.starts_with(name))
}

fn is_for(row: &scenario::Row, ours: &Ours) -> bool {
    match row.build {
        Some(Build::Gil) => !ours.is_free_threaded,
        Some(Build::FreeThreaded) => ours.is_free_threaded,
        Some(Build::Jit) | None => true,
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
        let mut counts = counts(row);
        counts.retain(|workers| ours.is_free_threaded || *workers == 1);
        shapes.extend(counts.into_iter().map(|workers| (event_loop.clone(), workers)));
    }
    if options.is_quick {
        shapes.truncate(1);
    }
    shapes
}

/// Numbers of processes of another server.
fn processes(row: &scenario::Row, options: &Options) -> Vec<usize> {
    let mut counts = counts(row);
    counts.truncate(if options.is_quick { 1 } else { counts.len() });
    counts
}

fn counts(row: &scenario::Row) -> Vec<usize> {
    let mut counts: Vec<usize> = Vec::new();
    for workers in &row.workers {
        let workers = if *workers == 0 { server_cpus().min(64) } else { *workers };
        if !counts.contains(&workers) {
            counts.push(workers);
        }
    }
    counts
}

/// What the generator is told of a load.
fn told(load: &Load) -> Script {
    let mut script = Script::default();
    let mut expect = serde_json::Map::new();
    // What a WebSocket answers is not for the file to say.
    if load.status != 200 {
        expect.insert("status".to_owned(), json!(load.status));
    }
    if let Some(count) = load.body_of_x {
        expect.insert("body_bytes".to_owned(), json!(count));
    }
    let made = made(load);
    let mut headers: Vec<Value> = load
        .headers
        .iter()
        .filter_map(|field| field.split_once(':'))
        .map(|(name, value)| json!([name.trim(), value.trim()]))
        .collect();
    headers.extend(made.as_ref().map(|made| json!(["content-type", made.content_type])));
    script.request.insert("method".to_owned(), json!(load.method));
    script.request.insert("headers".to_owned(), json!(headers));
    if let Some(send) = load.send.clone().or_else(|| made.map(|made| made.body)) {
        script.request.insert("body".to_owned(), json!(send));
    }
    if let Some(bytes) = load.send_bytes {
        script.request.insert("body_bytes".to_owned(), json!(bytes));
    }
    if !expect.is_empty() {
        script.request.insert("expect".to_owned(), Value::Object(expect));
    }
    if let Some(path) = &load.slow_path {
        script.beside.push(json!({ "path": path, "slow": true }));
    }
    script.keys.insert("mode".to_owned(), json!(load.mode));
    if !load.refusals.is_empty() {
        script.keys.insert("refusals".to_owned(), json!(load.refusals));
    }
    if let Some(arrivals) = &load.arrivals {
        script.keys.insert("arrivals".to_owned(), json!(arrivals));
    }
    let with = serde_json::to_value(&load.with).unwrap_or_default();
    script.keys.extend(with.as_object().cloned().unwrap_or_default());
    script
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

#[cfg(all(test, feature = "load"))]
mod tests {
    use super::*;

    #[test]
    fn the_generator_takes_the_load_of_every_scenario() {
        use super::super::script::Sample;
        use crate::load;

        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut count = 0;
        for name in scenario::names(&root).unwrap() {
            for load in Scenario::read(&root, &name).unwrap().load {
                let sample = Sample {
                    path: &load.path,
                    body: load.body.as_deref(),
                    connections: load.connections,
                    duration: 1.0,
                    warmup: 0.0,
                    rate: load.rate.or(load.rate_x_capacity),
                    seed: 1,
                };
                let file = told(&load).file(sample).to_string();
                let target = load::Target::parse("http://127.0.0.1:9").unwrap();
                let plan = load::Script::parse(&file).and_then(|script| script.plan(target, None, false));
                assert!(plan.is_ok(), "{name}, {:?}: {:?}\n{file}", load.name, plan.err());
                count += 1;
            }
        }
        assert!(count > 20, "{count} loads");
    }
}
