//! The command line of `oxb-bench`.
//!
//! Invariant: every option is checked here; a command that is built can be run.

use std::ffi::OsString;
use std::net::IpAddr;
use std::time::Duration;

use lexopt::prelude::{Long, Short, Value, ValueExt};
use oxb_bench::load::{
    Arrivals, Exchange, Expectation, Extent, HoldOptions, LIMIT, MixedOptions, Pace, RequestSpec,
    SteadyOptions, Target, TokenOptions,
};

pub(crate) const USAGE: &str = "\
usage: oxb-bench COMMAND --url http://HOST:PORT/PATH [options]

  load     a steady load for a fixed time; closed loop, or open loop with --rate
  tokens   requests with tokens of their own: `{token}` in the path, and in --body what must come back
  mixed    good and bad clients side by side, against benches/apps/mixed.py
  hold     many idle keep-alive connections
  watch    what a process tree does by itself: --pid ID --duration SECONDS
  stop     ends a process and its descendants: --pid ID, killed after --duration SECONDS (5)
  exec     -- PROGRAM ARGS: becomes that program, which is ended with its caller

  --connections N     64; in an open loop the most requests in flight
  --duration SECONDS  8; of the measured window, of `mixed`, of the quiet time of `hold`
  --warmup SECONDS    2
  --rate N            open loop: requests a second, timed from when they were meant to be sent
  --arrivals KIND     poisson (default) or fixed
  --seed N            1
  --method M, --header 'Name: value', --send TEXT     the request
  --status N          200; --body TEXT: the answer must be exactly this
  --allow N           a status that is counted apart as a refusal; may be repeated
  --pid ID            process whose tree's CPU time and memory are read
  --source ADDRESS    local address of connections; may be repeated, they take turns
  --requests N        5000 (tokens); --at-once: a connection for each, then all at the same moment
  --deadline SECONDS  60 (tokens)
  --max-body BYTES    16777216 (mixed)

Prints JSON. Exit status 1 if any answer was not what it had to be.";

#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Load(SteadyOptions),
    Tokens(TokenOptions),
    Mixed(MixedOptions),
    Hold(HoldOptions),
    Watch { process: u32, duration: Duration },
    Stop { process: u32, grace: Duration },
    Exec(Vec<OsString>),
}

struct Given {
    command: String,
    url: Option<String>,
    connections: usize,
    duration: Option<Duration>,
    warmup: Duration,
    rate: Option<f64>,
    arrivals: Arrivals,
    seed: u64,
    request: RequestSpec,
    status: u16,
    body: Option<String>,
    refusals: Vec<u16>,
    process: Option<u32>,
    sources: Vec<IpAddr>,
    requests: usize,
    at_once: bool,
    deadline: Duration,
    max_body: u64,
}

pub(crate) fn parse(mut words: lexopt::Parser) -> Result<Command, String> {
    match read(&mut words).map_err(|error| error.to_string())? {
        Read::Command(command) => Ok(command),
        Read::Given(given) => build(given),
    }
}

enum Read {
    Command(Command),
    Given(Given),
}

fn read(words: &mut lexopt::Parser) -> Result<Read, lexopt::Error> {
    let mut given = Given {
        command: String::new(),
        url: None,
        connections: 64,
        duration: None,
        warmup: Duration::from_secs(2),
        rate: None,
        arrivals: Arrivals::Poisson,
        seed: 1,
        request: RequestSpec::default(),
        status: 200,
        body: None,
        refusals: Vec::new(),
        process: None,
        sources: Vec::new(),
        requests: 5000,
        at_once: false,
        deadline: Duration::from_secs(60),
        max_body: 16_777_216,
    };
    while let Some(word) = words.next()? {
        match word {
            Value(command) if given.command.is_empty() => {
                given.command = command.string()?;
                if given.command == "exec" {
                    let mut rest: Vec<OsString> = words.raw_args()?.collect();
                    if rest.first().is_some_and(|word| word == "--") {
                        rest.remove(0);
                    }
                    return Ok(Read::Command(Command::Exec(rest)));
                }
            }
            Long("url") => given.url = Some(words.value()?.string()?),
            Long("connections") => given.connections = words.value()?.parse()?,
            Long("duration") => given.duration = Some(seconds(words)?),
            Long("warmup") => given.warmup = seconds(words)?,
            Long("rate") => given.rate = Some(words.value()?.parse()?),
            Long("arrivals") => {
                given.arrivals = match words.value()?.string()?.as_str() {
                    "poisson" => Arrivals::Poisson,
                    "fixed" => Arrivals::Fixed,
                    other => return Err(format!("--arrivals is poisson or fixed, not {other}").into()),
                }
            }
            Long("seed") => given.seed = words.value()?.parse()?,
            Long("method") => given.request.method = words.value()?.string()?,
            Long("header") => {
                let field = words.value()?.string()?;
                let (name, value) = field.split_once(':').ok_or("--header is 'Name: value'")?;
                given.request.headers.push((name.trim().to_owned(), value.trim().to_owned()));
            }
            Long("send") => given.request.body = words.value()?.string()?.into_bytes(),
            Long("status") => given.status = words.value()?.parse()?,
            Long("body") => given.body = Some(words.value()?.string()?),
            Long("allow") => given.refusals.push(words.value()?.parse()?),
            Long("pid") => given.process = Some(words.value()?.parse()?),
            Long("source") => given.sources.push(words.value()?.parse()?),
            Long("requests") => given.requests = words.value()?.parse()?,
            Long("at-once") => given.at_once = true,
            Long("deadline") => given.deadline = seconds(words)?,
            Long("max-body") => given.max_body = words.value()?.parse()?,
            Long("help") | Short('h') => return Ok(Read::Command(Command::Help)),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Read::Given(given))
}

fn seconds(words: &mut lexopt::Parser) -> Result<Duration, lexopt::Error> {
    let value: f64 = words.value()?.parse()?;
    Duration::try_from_secs_f64(value).map_err(|_| format!("{value} is no duration").into())
}

fn build(given: Given) -> Result<Command, String> {
    if given.connections == 0 || given.requests == 0 {
        return Err("--connections and --requests are at least 1".to_owned());
    }
    if given.command == "watch" {
        let process = given.process.ok_or("watch wants --pid")?;
        return Ok(Command::Watch { process, duration: given.duration.unwrap_or(Duration::from_secs(30)) });
    }
    if given.command == "stop" {
        let process = given.process.ok_or("stop wants --pid")?;
        return Ok(Command::Stop { process, grace: given.duration.unwrap_or(Duration::from_secs(5)) });
    }
    let url = given.url.ok_or("--url is missing")?;
    let target = Target::parse(&url).map_err(|error| error.to_string())?.from_sources(given.sources);
    let duration = given.duration.unwrap_or(Duration::from_secs(8));
    let expect = Expectation {
        status: given.status,
        body: given.body.clone().map(String::into_bytes),
        refusals: given.refusals.clone(),
        ..Expectation::default()
    };
    match given.command.as_str() {
        "load" => {
            let pace = match given.rate {
                None => Pace::Closed,
                Some(rate) if rate > 0.0 => Pace::Open { rate, arrivals: given.arrivals },
                Some(rate) => return Err(format!("--rate is above 0, not {rate}")),
            };
            Ok(Command::Load(SteadyOptions {
                target,
                exchanges: vec![Exchange { request: given.request, expect, weight: 1 }],
                connection_count: given.connections,
                warmup: given.warmup,
                measured: Extent::For(duration),
                pace,
                seed: given.seed,
                limit: LIMIT,
                watched: given.process,
                keeps_lines: false,
            }))
        }
        "tokens" if !target.path().contains("{token}") => {
            Err("the path of tokens holds `{token}`".to_owned())
        }
        "tokens" => Ok(Command::Tokens(TokenOptions {
            target,
            body: given.body.unwrap_or_else(|| "{token}".to_owned()),
            request_count: given.requests,
            connection_count: given.connections,
            at_once: given.at_once,
            seed: given.seed,
            refusals: given.refusals,
            deadline: given.deadline,
        })),
        "mixed" => Ok(Command::Mixed(MixedOptions {
            target,
            client_count: given.connections,
            duration,
            seed: given.seed,
            max_body: given.max_body,
            watched: given.process,
        })),
        "hold" => Ok(Command::Hold(HoldOptions {
            target,
            expect,
            connection_count: given.connections,
            quiet: duration,
            watched: given.process,
        })),
        "" => Err("a command is missing".to_owned()),
        other => Err(format!("no command `{other}`")),
    }
}
