//! One request after the other through the engine, without sockets: head bytes in, job out, completion, bytes out.
//!
//! Run under callgrind it counts instructions that do not depend on the machine's mood; what one option costs is the
//! difference of two runs. It guards "at most 1 % more instructions for a request with `request_timeout`".
//!
//! Invariant: the bytes fed in come from the seed alone, so two runs of one seed ask for the same work; and an answer
//! that is not the expected one ends the run, so nothing is counted that was not done.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oxb_bench::seeded::Seeded;
use oxb_core::{LoopSet, LoopSetOptions, PendingWakes, SubmitError, Worker};
use oxb_http::exchange::Responder;
use oxb_http::harness::Harness;
use oxb_http::options::ServerOptions;
use oxb_http::reply::Reply;
use oxb_http::request::Request;
use oxb_http::router::RouterBuilder;
use oxb_http::service::Service;

const USAGE: &str = "\
usage: request-harness [--requests 10000] [--seed 1] [--request-timeout 30]

  --request-timeout SECONDS   0: none
Prints how many bytes were written in all.";

/// Different requests, taken in turn: enough that no branch predictor in the model learns one by heart.
const SHAPES: usize = 64;

thread_local! {
    /// Wakes owed by the one thread that is both I/O thread and loop here.
    static OWED: RefCell<PendingWakes> = RefCell::default();
}

struct Job {
    request: Request,
    responder: Responder,
}

/// Hands requests to a loop the way the Python bridge does.
struct Dispatch(Arc<LoopSet<Job, ()>>);

impl Service for Dispatch {
    fn call(&self, request: Request, responder: Responder) {
        let job = Job { request, responder };
        OWED.with_borrow_mut(|owed| match self.0.submit_unwoken(job, owed) {
            Ok(_) => {}
            Err(SubmitError::Overloaded { job } | SubmitError::Stopping { job }) => {
                job.responder.overloaded()
            }
        });
    }

    fn is_full(&self) -> bool {
        self.0.is_full()
    }

    fn before_park(&self) {
        OWED.with_borrow_mut(|owed| self.0.wake_pending(owed));
    }
}

struct Options {
    requests: usize,
    seed: u64,
    request_timeout: Option<Duration>,
}

fn main() -> ExitCode {
    match parse(lexopt::Parser::from_env()).and_then(|options| drive(&options)) {
        Ok(written) => {
            println!("{written}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("request-harness: {message}\n{USAGE}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: lexopt::Parser) -> Result<Options, String> {
    use lexopt::prelude::{Long, ValueExt};

    let mut options = Options { requests: 10_000, seed: 1, request_timeout: Some(Duration::from_secs(30)) };
    let mut read = || -> Result<(), lexopt::Error> {
        while let Some(word) = words.next()? {
            match word {
                Long("requests") => options.requests = words.value()?.parse()?,
                Long("seed") => options.seed = words.value()?.parse()?,
                Long("request-timeout") => {
                    let seconds: u64 = words.value()?.parse()?;
                    options.request_timeout = (seconds > 0).then(|| Duration::from_secs(seconds));
                }
                other => return Err(other.unexpected()),
            }
        }
        Ok(())
    };
    read().map_err(|error| error.to_string())?;
    Ok(options)
}

fn drive(options: &Options) -> Result<usize, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let set = Arc::new(LoopSet::new(&LoopSetOptions::default()).map_err(|error| text(&error))?);
    let worker = Worker::new(&set, 0).ok_or("the loop has an owner already")?;
    let mut routes = RouterBuilder::new();
    routes.add("GET", "/", vec![]).map_err(|error| text(&error))?;
    let server = ServerOptions { request_timeout: options.request_timeout, ..ServerOptions::default() };
    let service = Arc::new(Dispatch(Arc::clone(&set)));
    let mut harness = Harness::new(routes.build(), service, server).map_err(|error| text(&error))?;
    let shapes = shapes(options.seed);
    let mut written = 0;
    for number in 0..options.requests {
        harness.feed(&shapes[number % SHAPES]);
        let is_open = harness.turn();
        serve(&worker, &set)?;
        // The second turn delivers the completion, the third writes what it made of it.
        let is_open = is_open && harness.turn() && harness.turn();
        let count = harness.forget();
        if !is_open || count == 0 {
            return Err(format!("request {number} was not answered"));
        }
        written += count;
    }
    Ok(written)
}

/// What a loop does with one wake.
fn serve(worker: &Worker<Job, ()>, set: &LoopSet<Job, ()>) -> Result<(), String> {
    worker.acknowledge_edge();
    let taken = worker.pop().ok_or("no job came to the loop")?;
    let Job { request, responder } = taken.job;
    if !responder.begin(worker.loop_id()) {
        return Err("the request was answered before its loop began it".to_owned());
    }
    worker.begin_step(oxb_core::clock::now());
    // Before its client can have the answer, and so ask again.
    set.release(taken.slot);
    responder.reply(Reply::new(200, "text/plain; charset=utf-8", Bytes::from_static(b"Hello, world!")));
    drop(request);
    worker.end_step();
    Ok(())
}

/// Requests as clients send them: a few header fields of changing number and length.
fn shapes(seed: u64) -> Vec<Vec<u8>> {
    const NAMES: [&str; 6] =
        ["Accept", "User-Agent", "Accept-Encoding", "Accept-Language", "Cookie", "X-Request-Id"];
    let mut seeded = Seeded::new(seed);
    (0..SHAPES)
        .map(|_| {
            let mut head = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n".to_owned();
            for name in &NAMES[..seeded.below(NAMES.len() as u64 + 1) as usize] {
                let length = 3 + seeded.below(40) as usize;
                head.push_str(&format!("{name}: {}\r\n", "v".repeat(length)));
            }
            head.push_str("\r\n");
            head.into_bytes()
        })
        .collect()
}
