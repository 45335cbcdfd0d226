//! The command line of `oxb-bench`.
//!
//! Invariant: every option is checked here; a command that is built can be run.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::{Long, Short, Value, ValueExt};
use oxb_bench::load::{
    ArrivalKind, Arrivals, Exchange, Expectation, Extent, HoldOptions, LIMIT, MixedOptions, Mode, Pace, Plan,
    RequestSpec, Script, SteadyOptions, Target, TokenOptions,
};

pub(crate) const USAGE: &str = "\
usage: oxb-bench COMMAND --url http://HOST:PORT/PATH [options]

  load     a steady load; closed loop, open loop with --rate, or what --scenario FILE.json says
  tokens   requests with tokens of their own: `{token}` in the path, and in --body what must come back
  mixed    good and bad clients side by side, against benches/apps/mixed.py
  hold     many idle keep-alive connections
  watch    what a process tree does by itself: --pid ID --duration SECONDS
  stop     ends a process and its descendants: --pid ID, killed after --duration SECONDS (5)
  exec     -- PROGRAM ARGS: becomes that program, which is ended with its caller

  --scenario FILE     (load) requests, expectations and mode from a file, which docs/benchmarks.md describes; there the
                      URL has no path. --connections, --duration, --warmup, -n, --rate, --arrivals and --seed go first
  --unix PATH         the server's Unix socket instead of host and port of the URL
  --connections N     64; in an open loop the most requests in flight
  --duration SECONDS  8; of the measured window, of `mixed`, of the quiet time of `hold`
  --warmup SECONDS    2; 0 with -n
  -n COUNT            (load) so many requests instead of a duration
  --timeout SECONDS   (load) 30, for an answer or the next part of one
  --lines FILE        (load) a line for each request as CSV
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
    /// With a file for the lines of requests.
    Load(Plan, Option<PathBuf>),
    Tokens(TokenOptions),
    Mixed(MixedOptions),
    Hold(HoldOptions),
    Watch {
        process: u32,
        duration: Duration,
    },
    Stop {
        process: u32,
        grace: Duration,
    },
    Exec(Vec<OsString>),
}

struct Given {
    command: String,
    url: Option<String>,
    scenario: Option<PathBuf>,
    unix: Option<PathBuf>,
    lines: Option<PathBuf>,
    count: Option<u64>,
    timeout: Option<Duration>,
    connections: Option<usize>,
    duration: Option<Duration>,
    warmup: Option<Duration>,
    rate: Option<f64>,
    arrivals: Option<Arrivals>,
    seed: Option<u64>,
    request: RequestSpec,
    status: Option<u16>,
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
        scenario: None,
        unix: None,
        lines: None,
        count: None,
        timeout: None,
        connections: None,
        duration: None,
        warmup: None,
        rate: None,
        arrivals: None,
        seed: None,
        request: RequestSpec::default(),
        status: None,
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
            Long("scenario") => given.scenario = Some(words.value()?.into()),
            Long("unix") => given.unix = Some(words.value()?.into()),
            Long("lines") => given.lines = Some(words.value()?.into()),
            Short('n') => given.count = Some(words.value()?.parse()?),
            Long("timeout") => given.timeout = Some(seconds(words)?),
            Long("connections") => given.connections = Some(words.value()?.parse()?),
            Long("duration") => given.duration = Some(seconds(words)?),
            Long("warmup") => given.warmup = Some(seconds(words)?),
            Long("rate") => given.rate = Some(words.value()?.parse()?),
            Long("arrivals") => {
                given.arrivals = match words.value()?.string()?.as_str() {
                    "poisson" => Some(Arrivals::Poisson),
                    "fixed" => Some(Arrivals::Fixed),
                    other => return Err(format!("--arrivals is poisson or fixed, not {other}").into()),
                }
            }
            Long("seed") => given.seed = Some(words.value()?.parse()?),
            Long("method") => given.request.method = words.value()?.string()?,
            Long("header") => {
                let field = words.value()?.string()?;
                let (name, value) = field.split_once(':').ok_or("--header is 'Name: value'")?;
                given.request.headers.push((name.trim().to_owned(), value.trim().to_owned()));
            }
            Long("send") => given.request.body = words.value()?.string()?.into_bytes(),
            Long("status") => given.status = Some(words.value()?.parse()?),
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
    if given.connections == Some(0) || given.requests == 0 || given.count == Some(0) {
        return Err("--connections, --requests and -n are at least 1".to_owned());
    }
    if given.command == "watch" {
        let process = given.process.ok_or("watch wants --pid")?;
        return Ok(Command::Watch { process, duration: given.duration.unwrap_or(Duration::from_secs(30)) });
    }
    if given.command == "stop" {
        let process = given.process.ok_or("stop wants --pid")?;
        return Ok(Command::Stop { process, grace: given.duration.unwrap_or(Duration::from_secs(5)) });
    }
    let url = given.url.as_deref().ok_or("--url is missing")?;
    let mut target = Target::parse(url).map_err(|error| error.to_string())?;
    if let Some(socket) = &given.unix {
        target = target.over_unix(socket.clone());
    }
    let target = target.from_sources(given.sources.clone());
    let is_load = given.command == "load";
    let of_load = given.scenario.is_some() || given.lines.is_some() || given.timeout.is_some();
    if !is_load && (of_load || given.count.is_some()) {
        return Err("--scenario, --lines, --timeout and -n are for load".to_owned());
    }
    let connection_count = given.connections.unwrap_or(64);
    let duration = given.duration.unwrap_or(Duration::from_secs(8));
    let seed = given.seed.unwrap_or(1);
    match given.command.as_str() {
        "load" => match &given.scenario {
            Some(file) => from_file(&given, file, target),
            None => Ok(Command::Load(Plan::Steady(steady(&given, target)?), given.lines)),
        },
        "tokens" if !target.path().contains("{token}") => {
            Err("the path of tokens holds `{token}`".to_owned())
        }
        "tokens" => Ok(Command::Tokens(TokenOptions {
            target,
            body: given.body.unwrap_or_else(|| "{token}".to_owned()),
            request_count: given.requests,
            connection_count,
            at_once: given.at_once,
            seed,
            refusals: given.refusals,
            deadline: given.deadline,
        })),
        "mixed" => Ok(Command::Mixed(MixedOptions {
            target,
            client_count: connection_count,
            duration,
            seed,
            max_body: given.max_body,
            watched: given.process,
        })),
        "hold" => Ok(Command::Hold(HoldOptions {
            target,
            expect: expectation(&given),
            connection_count,
            quiet: duration,
            watched: given.process,
        })),
        "" => Err("a command is missing".to_owned()),
        other => Err(format!("no command `{other}`")),
    }
}

fn expectation(given: &Given) -> Expectation {
    Expectation {
        status: given.status.unwrap_or(200),
        body: given.body.clone().map(String::into_bytes),
        refusals: given.refusals.clone(),
        ..Expectation::default()
    }
}

/// One request in a loop.
fn steady(given: &Given, target: Target) -> Result<SteadyOptions, String> {
    let pace = match given.rate {
        None => Pace::Closed,
        Some(rate) if rate > 0.0 => {
            Pace::Open { rate, arrivals: given.arrivals.unwrap_or(Arrivals::Poisson) }
        }
        Some(rate) => return Err(format!("--rate is above 0, not {rate}")),
    };
    let (measured, usual_warmup) = match (given.count, given.duration) {
        (Some(_), Some(_)) => return Err("either -n or --duration".to_owned()),
        (Some(count), None) => (Extent::Count(count), 0),
        (None, duration) => (Extent::For(duration.unwrap_or(Duration::from_secs(8))), 2),
    };
    Ok(SteadyOptions {
        target,
        exchanges: vec![Exchange { request: given.request.clone(), expect: expectation(given), weight: 1 }],
        connection_count: given.connections.unwrap_or(64),
        warmup: given.warmup.unwrap_or(Duration::from_secs(usual_warmup)),
        measured,
        pace,
        seed: given.seed.unwrap_or(1),
        limit: given.timeout.unwrap_or(LIMIT),
        watched: given.process,
        keeps_lines: given.lines.is_some(),
    })
}

/// What a scenario file says, but for what was given here.
fn from_file(given: &Given, file: &std::path::Path, target: Target) -> Result<Command, String> {
    let request = &given.request;
    let says_request = !request.method.is_empty() || !request.headers.is_empty() || !request.body.is_empty();
    let says_answer = given.status.is_some() || given.body.is_some() || !given.refusals.is_empty();
    if says_request || says_answer || given.timeout.is_some() || target.path() != "/" {
        return Err("with --scenario requests, answers and time limit are those of the file".to_owned());
    }
    let mut script = Script::read(file).map_err(|error| error.to_string())?;
    let seconds = |duration: Duration| duration.as_secs_f64();
    script.connections = given.connections.or(script.connections);
    script.warmup = given.warmup.map(seconds).or(script.warmup);
    if given.count.is_some() || given.duration.is_some() {
        (script.count, script.duration) = (given.count, given.duration.map(seconds));
    }
    script.seed = given.seed.or(script.seed);
    if given.rate.is_some() {
        script.rate = given.rate;
        if script.mode == Mode::Closed {
            script.mode = Mode::Open;
        }
    }
    if let Some(arrivals) = given.arrivals {
        script.arrivals = Some(match arrivals {
            Arrivals::Poisson => ArrivalKind::Poisson,
            Arrivals::Fixed => ArrivalKind::Fixed,
        });
    }
    let plan = script.plan(target, given.process, given.lines.is_some());
    let plan = plan.map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(Command::Load(plan, given.lines.clone()))
}
