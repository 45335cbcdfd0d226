//! The scenarios about what a server takes before it is asked for anything: memory, start, idle.
//!
//! **Invariant:** memory and switches are those of the whole process tree.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::error::{Context, Error};
use super::program;

use super::address::Address;
use super::kit::Kit;
use super::options::Options;
use super::rounds::{Shuffle, generate, median};
use super::run::{Bar, Limit, Run, shown, table};
use super::server::{Running, Server, as_installed};

const MIB: f64 = 1_048_576.0;

/// Resident memory idle, for each further loop, and for each idle keep-alive connection.
pub(crate) fn memory(options: &Options, kit: &Kit) -> Result<(), Error> {
    let run = Run::begin("memory", options, kit)?;
    let connections = options.connections(if options.is_quick { 200 } else { 10_000 });
    let limit = (connections + 1000).to_string();
    let mut names = vec!["floor: bare hyper".to_owned()];
    let mut servers = vec![Server::floor(kit)];
    for ours in &kit.ours {
        for workers in [1, 2, 4] {
            names.push(format!("oxbrook {}, {workers} loop(s)", ours.tag));
            servers.push(Server::ours(ours, "asyncio", workers, &["--max-connections", &limit]));
        }
    }
    let mut idle: Vec<Vec<f64>> = vec![Vec::new(); servers.len()];
    let mut held: Vec<Vec<f64>> = vec![Vec::new(); servers.len()];
    let mut details = Vec::new();
    let mut shuffle = Shuffle(run.seed);
    for _ in 0..options.rounds(3) {
        for index in shuffle.order(servers.len()) {
            let name = &names[index];
            let server = servers[index].start(kit, &run.log(name))?;
            server.get("/")?;
            let quiet = watch(&run, &server, 1.0)?;
            idle[index].extend(quiet["rss_bytes"].as_f64());
            let mut report = Value::Null;
            // What a connection costs does not depend on the loops.
            if !name.contains("2 loop") && !name.contains("4 loop") {
                let words: Vec<String> = [
                    "--body",
                    "Hello, world!",
                    "--connections",
                    &connections.to_string(),
                    "--duration",
                    "2",
                    // Two local addresses, should the ports of one run short.
                    "--source",
                    "127.0.0.1",
                    "--source",
                    "127.0.0.2",
                ]
                .map(str::to_owned)
                .to_vec();
                report = generate(&run, "hold", &server, "/", &words)?;
                if report["is_right"] != true {
                    return Err(Error::failed(format!("{name}: connections were not held: {report}")));
                }
                held[index].extend(report["server"]["bytes_per_connection"].as_f64());
            }
            details.push(json!({ "row": name, "idle": quiet, "held": report }));
        }
    }
    let lines: Vec<Vec<String>> = (0..servers.len())
        .map(|index| {
            let memory = shown(median(&idle[index]).map(|bytes| bytes / MIB), 1);
            vec![names[index].clone(), memory, shown(median(&held[index]), 0)]
        })
        .collect();
    table(&["target", "idle RSS MiB", "bytes per idle connection"], &lines);
    let mut bars = Vec::new();
    for (number, ours) in kit.ours.iter().enumerate() {
        let first = 1 + number * 3;
        let one = median(&idle[first]);
        let further = median(&idle[first + 2]).zip(one).map(|(four, one)| (four - one) / 3.0 / MIB);
        let beside = median(&held[first]).zip(median(&held[0])).map(|(own, floor)| own / floor);
        bars.extend([
            Bar {
                what: format!("{}: idle MB, one loop", ours.tag),
                figure: one.map(|bytes| bytes / 1e6),
                limit: Limit::AtMost(40.0),
            },
            Bar {
                what: format!("{}: MB for each further loop", ours.tag),
                figure: further.map(|mib| mib * MIB / 1e6),
                limit: Limit::AtMost(3.0),
            },
            Bar {
                what: format!("{}: bytes per idle connection x floor ({connections} held)", ours.tag),
                figure: beside,
                limit: Limit::AtMost(1.3),
            },
        ]);
    }
    run.finish(&[], &bars, Value::Array(details))
}

/// From the start of the process to its first answer, beside an interpreter that imports asyncio.
pub(crate) fn start(options: &Options, kit: &Kit) -> Result<(), Error> {
    let run = Run::begin("start", options, kit)?;
    let rounds = options.rounds(if options.is_quick { 3 } else { 20 });
    let mut bars = Vec::new();
    let mut details = Vec::new();
    let mut lines = Vec::new();
    for ours in &kit.ours {
        let server = Server::ours(ours, "asyncio", 1, &[]);
        let log = run.log(&format!("start {}", ours.tag));
        let (mut answers, mut imports) = (Vec::new(), Vec::new());
        // The first pair compiles byte code and fills the page cache; it is not counted.
        for round in 0..=rounds {
            let import = import_time(ours, kit)?;
            let answer = first_answer(kit, &server, &log)?;
            if round > 0 {
                imports.push(import);
                answers.push(answer);
            }
        }
        let (answer, import) = (median(&answers), median(&imports));
        let difference = answer.zip(import).map(|(answer, import)| answer - import);
        lines.push(vec![ours.tag.clone(), shown(answer, 1), shown(import, 1), shown(difference, 1)]);
        bars.push(Bar {
            what: format!(
                "{}: first answer, ms after `import asyncio` would be done (median of {rounds})",
                ours.tag
            ),
            figure: difference,
            limit: Limit::AtMost(120.0),
        });
        details.push(json!({ "python": ours.tag, "first_answer_ms": answers, "import_asyncio_ms": imports }));
    }
    table(&["python", "first answer ms", "import asyncio ms", "difference ms"], &lines);
    run.finish(&[], &bars, Value::Array(details))
}

/// A start under the same wrapper as the server's, so that only the program differs.
fn import_time(ours: &super::kit::Ours, kit: &Kit) -> Result<f64, Error> {
    let mut import = Command::new(&kit.generator);
    import.arg("exec").arg("--").arg(&ours.python).args(["-c", "import asyncio"]);
    as_installed(&mut import, kit);
    let begin = Instant::now();
    let output = import.output().context(|| "cannot start an interpreter".to_owned())?;
    if !output.status.success() {
        return Err(Error::failed(format!("import asyncio: {}", output.status)));
    }
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

fn first_answer(kit: &Kit, server: &Server, log: &std::path::Path) -> Result<f64, Error> {
    let address = Address::port()?;
    let mut command = server.command(kit, &address, log)?;
    let begin = Instant::now();
    let child = command.spawn().context(|| format!("cannot start {}", server.line()))?;
    let running = Running::unchecked(child, address.clone(), kit);
    while address.get("/").is_err() {
        program::check_interrupt()?;
        if begin.elapsed() > Duration::from_secs(30) {
            return Err(Error::failed(format!("no answer within 30 s; see {}", log.display())));
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    let taken = begin.elapsed().as_secs_f64() * 1e3;
    drop(running);
    Ok(taken)
}

/// Context switches of a server without connections.
pub(crate) fn idle(options: &Options, kit: &Kit) -> Result<(), Error> {
    let run = Run::begin("idle", options, kit)?;
    let seconds = if options.is_quick { 3.0 } else { options.duration.unwrap_or(30.0) };
    let mut bars = Vec::new();
    let mut details = Vec::new();
    for ours in &kit.ours {
        let server =
            Server::ours(ours, "asyncio", 1, &[]).start(kit, &run.log(&format!("idle {}", ours.tag)))?;
        // One answer first: what happens once after the first request is not the idle state.
        server.get("/")?;
        std::thread::sleep(Duration::from_secs(2));
        let report = watch(&run, &server, seconds)?;
        println!("{}: {report}", ours.tag);
        bars.push(Bar {
            what: format!("{}: voluntary context switches in {seconds} s, all threads", ours.tag),
            figure: report["voluntary_switches"].as_f64(),
            limit: Limit::AtMost(5.0),
        });
        details.push(json!({ "python": ours.tag, "report": report }));
    }
    run.finish(&[], &bars, Value::Array(details))
}

fn watch(run: &Run<'_>, server: &Running, seconds: f64) -> Result<Value, Error> {
    let mut generator = run.kit.generator();
    generator
        .args(["watch", "--pid", &server.id().to_string(), "--duration", &seconds.to_string()])
        .stderr(Stdio::inherit());
    let text = program::output(&mut generator)?;
    serde_json::from_str(&text).map_err(|error| Error::failed(format!("oxb-bench watch: {error}")))
}
