//! A short load on a development build: every answer must be right, whatever the speed.
//!
//! **Invariant:** fails on a wrong, lost or missing answer and on nothing else.

use serde_json::{Value, json};

use super::error::Error;

use super::kit::Kit;
use super::options::Options;
use super::rounds::{Row, generate, measure};
use super::run::Run;
use super::server::Server;
use super::throughput::named;

/// Hello in a closed loop, requests with tokens of their own, and the mixture of good and bad clients.
pub(crate) fn run(options: &Options, kit: &Kit) -> Result<(), Error> {
    let run = Run::begin("smoke", options, kit)?;
    let mut rows = vec![Row::hello("floor: bare hyper", Server::floor(kit), 64)];
    let mut loads = Vec::new();
    for ours in &kit.ours {
        let workers = if ours.is_free_threaded { 2 } else { 1 };
        let name = named(ours, workers, "asyncio");
        rows.push(Row::hello(name.clone(), Server::ours(ours, "asyncio", workers, &[]), 64));
        let tokens = ["--requests", "5000", "--connections", "64"];
        let at_once = ["--requests", "500", "--at-once"];
        for (what, app, command, path, words) in [
            ("tokens", "native:app", "tokens", "/token/{token}", tokens.as_slice()),
            ("tokens in the query", "native:app", "tokens", "/query?token={token}", &tokens),
            ("tokens at once", "native:app", "tokens", "/token/{token}", &at_once),
            ("mixed", "mixed:app", "mixed", "/", &["--duration", "5", "--connections", "32"]),
        ] {
            let what = format!("{what}, {name}");
            let server = Server::app(ours, app, "asyncio", workers, &[]).start(kit, &run.log(&what))?;
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let report = generate(&run, command, &server, path, &words)?;
            let verdict = if report["is_right"] == true { "right" } else { "WRONG" };
            println!("xtask: {what}: {verdict}");
            loads.push(json!({ "load": what, "report": report }));
        }
    }
    let measured = measure(&run, rows, 1);
    let wrong: Vec<String> = loads
        .iter()
        .filter(|load| load["report"]["is_right"] != true)
        .map(|load| format!("{}: {}", load["load"], load["report"]))
        .collect();
    run.finish(&measured, &[], Value::Array(loads.clone()))?;
    if wrong.is_empty() { Ok(()) } else { Err(Error::failed(wrong.join("\n"))) }
}
