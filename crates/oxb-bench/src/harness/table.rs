//! A scenario that is a table: every load of its file against every row it is for.
//!
//! **Invariant:** a row that cannot run is in the result with its state and why, never left out; a rate that is a
//! multiple of a capacity is one of a capacity that was measured in the same run.

use serde_json::{Value, json};

use super::error::Error;
use super::kit::{Kit, Ours};
use super::machine::server_cpus;
use super::options::Options;
use super::rounds::{Measured, REQUESTS, Row, measure, sample};
use super::run::{Bar, Limit, Missing, Run, ratio};
use super::scenario::{self, Load, Promise, Scenario};
use super::server::{Running, Server};
use super::work::Work;

/// What the load generator can do so far.
const MODES: &[&str] = &["closed", "open"];

/// An argument of a program has at most 128 KiB on Linux: a longer body is held to its status and framing alone.
const LONGEST_WORD: usize = 120_000;

/// Connections of the closed loop that tells the capacity of a row; with fewer in an open loop, as many.
const CAPACITY_CONNECTIONS: usize = 64;

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
        rows.extend(plan.upstream_row());
        for row in scenario.row.iter().filter(|row| load.kinds.is_empty() || load.kinds.contains(&row.kind)) {
            for planned in plan.rows(row)? {
                match planned {
                    Ok(row) => rows.push((row, load.rate_x_capacity)),
                    Err(missing) => run.missing.push(missing),
                }
            }
        }
    }
    let rows = with_capacities(&run, rows)?;
    let measured = measure(&run, rows, options.rounds(scenario.rounds));
    super::throughput::print_beside(&measured, FLOOR);
    run.print_missing();
    let mut bars: Vec<Bar> = scenario.bar.iter().map(|promise| bar(promise, &measured)).collect();
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
        if !MODES.contains(&self.load.mode.as_str()) {
            let why = format!("the load generator has no mode `{}` yet", self.load.mode);
            return Ok(vec![self.missing(shown, "not built", &why)]);
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
    fn upstream_row(&self) -> Option<(Row, Option<f64>)> {
        if !self.load.has_upstream {
            return None;
        }
        let name = self.named(UPSTREAM_ROW);
        let row = self.row(name, Server::program(&self.kit.upstream));
        Some((Row { path: "/echo".to_owned(), ..row }, None))
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
        let of_x = load.body_of_x.filter(|count| *count < LONGEST_WORD).map(|count| "x".repeat(count));
        Row {
            path: load.path.clone(),
            body: of_x.or_else(|| load.echo_json_of.map(json_of)).or_else(|| load.body.clone()),
            connections: self.options.connections(load.connections),
            rate: load.rate,
            words: words(load),
            duration: load.duration,
            warmup: self.scenario.warmup,
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

/// JSON of exactly so many bytes.
fn json_of(bytes: usize) -> String {
    const FRAME: usize = r#"{"data":""}"#.len();
    format!(r#"{{"data":"{}"}}"#, "x".repeat(bytes.saturating_sub(FRAME)))
}

/// The packages of the peers on this interpreter, for an app that ours and they share; and where the app is.
fn beside_peers(kit: &Kit, ours: &Ours) -> Result<(String, std::path::PathBuf), String> {
    let peers = ours.peers.as_deref().ok_or_else(|| kit.why_no_peers().to_owned())?;
    let packages = peers.packages("servers").map_err(|absent| absent.why)?;
    Ok((packages.to_string_lossy().into_owned(), peers.catalog().apps_folder()))
}

/// Gives each row that asks for a multiple of its capacity its rate. The capacity is that of a closed loop, measured
/// once for rows of one server and path, and without the refusals that an overload may bring.
fn with_capacities(run: &Run<'_>, rows: Vec<(Row, Option<f64>)>) -> Result<Vec<Row>, Error> {
    let mut known: Vec<(String, f64)> = Vec::new();
    let mut all = Vec::new();
    for (mut row, multiple) in rows {
        let wanted = multiple.filter(|_| run.options.wants(&row.name));
        if let Some(multiple) = wanted {
            let key = format!("{} {}", row.server.line(), row.path);
            let found = known.iter().find(|(known, _)| *known == key).map(|(_, capacity)| *capacity);
            let capacity = match found {
                Some(capacity) => capacity,
                None => {
                    let capacity = capacity(run, &row)?;
                    known.push((key, capacity));
                    capacity
                }
            };
            row.capacity = Some(capacity);
            row.rate = Some(capacity * multiple);
        }
        all.push(row);
    }
    Ok(all)
}

fn capacity(run: &Run<'_>, row: &Row) -> Result<f64, Error> {
    let mut words = row.words.clone();
    for name in ["--allow", "--arrivals"] {
        while let Some(place) = words.iter().position(|word| word == name) {
            words.drain(place..place + 2);
        }
    }
    let closed = Row {
        name: format!("{}, capacity", row.name),
        connections: row.connections.min(CAPACITY_CONNECTIONS),
        words,
        duration: None,
        ..row.clone()
    };
    let report = sample(run, &closed)?;
    let rate = report.pointer(REQUESTS).and_then(Value::as_f64).filter(|rate| *rate > 0.0);
    match rate {
        Some(rate) if report["is_right"] == true => {
            println!("bench: {}: {rate:.0} req/s", closed.name);
            Ok(rate)
        }
        _ => Err(Error::failed(format!("{} was not measured: {report}", closed.name))),
    }
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

/// What the generator is told of the requests.
fn words(load: &Load) -> Vec<String> {
    let mut words =
        vec!["--method".to_owned(), load.method.clone(), "--status".to_owned(), load.status.to_string()];
    for header in &load.headers {
        words.extend(["--header".to_owned(), header.clone()]);
    }
    if let Some(send) = load.send.clone().or_else(|| load.echo_json_of.map(json_of)) {
        words.extend(["--send".to_owned(), send]);
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
    let of = |pattern: &str| {
        let row = measured.iter().find(|row| begins(&row.row.name, pattern))?;
        row.median(&promise.figure)
    };
    let own = of(&promise.row);
    let mut figure = own;
    if let Some(beside) = &promise.beside {
        figure = ratio(own, of(beside));
    }
    if let Some(above) = &promise.above {
        figure = own.zip(of(above)).map(|(own, above)| own - above);
    }
    let limit = match (promise.at_most, promise.at_least) {
        (Some(limit), _) => Limit::AtMost(limit),
        (None, Some(limit)) => Limit::AtLeast(limit),
        (None, None) => Limit::None,
    };
    Bar { what: promise.what.clone(), figure, limit }
}

/// Whether `name` begins as `pattern` says, in which `*` stands for any text.
fn begins(name: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    parts.all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_the_beginning_of_a_name_with_any_text_at_its_stars() {
        let name = "oxbrook 3.13.15, 1 loop(s), asyncio";
        for (pattern, is_expected) in [
            ("oxbrook", true),
            ("oxbrook *, 1 loop(s), asyncio", true),
            ("oxbrook *, 2 loop(s)", false),
            ("loop", false),
            ("*asyncio", true),
            ("", true),
        ] {
            assert_eq!(begins(name, pattern), is_expected, "{pattern}");
        }
    }

    #[test]
    fn json_has_exactly_the_bytes_that_are_asked_for() {
        for bytes in [11, 12, 1036, 65_548] {
            let text = json_of(bytes);
            assert_eq!(text.len(), bytes);
            assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
        }
    }
}
