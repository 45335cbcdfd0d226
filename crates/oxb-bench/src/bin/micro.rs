//! One small operation of the crates, so many times over, for instruction counts.
//!
//! Each is the smallest of those that criterion times (`crates/*/benches`), with fixed input: counts of two commits
//! compare, whatever the machine does beside them.
//!
//! Invariant: an operation that fails ends the run, so nothing is counted that was not done.

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use oxb_core::{
    DeadlineWheel, LoopSet, LoopSetOptions, Micros, PendingWakes, ReturnQueue, Topic, TopicOptions, Worker,
};
use oxb_http::head::{Head, HeadLimits, HeadScan};
use oxb_http::params::{Limits, ParamKind, ParamSpec, Presence, Source, coerce};
use oxb_http::router::{Found, Router, RouterBuilder};
use oxb_http::sse::Event;

const HEAD: &[u8] =
    b"GET /users/7?limit=10 HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nUser-Agent: load/1.0\r\nAccept: */*\r\n\r\n";

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;
type Outcome = Fallible<()>;
type Job = [u64; 4];
type Set = Arc<LoopSet<Job, ()>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (Some(name), Some(count)) = (words.first(), words.get(1).and_then(|count| count.parse().ok())) else {
        eprintln!("usage: micro OPERATION COUNT");
        return ExitCode::FAILURE;
    };
    match run(name, count) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("micro: {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(name: &str, count: u64) -> Outcome {
    match name {
        "queue" => queue(count),
        "wake" => wake(count),
        "completion" => completion(count),
        "wheel" => wheel(count),
        "topic" => topic(count),
        "head" => head(count),
        "router" => router(count),
        "coercion" => coercion(count),
        "sse" => sse(count),
        _ => Err("there is no such operation".into()),
    }
}

fn set_and_worker() -> Fallible<(Set, Worker<Job, ()>)> {
    let set = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    let worker = Worker::new(&set, 0).ok_or("the loop has an owner already")?;
    Ok((set, worker))
}

/// A job there and back, with no wake.
fn queue(count: u64) -> Outcome {
    let (set, worker) = set_and_worker()?;
    let mut pending = PendingWakes::new();
    for number in 0..count {
        set.submit_unwoken(black_box([number; 4]), &mut pending).map_err(|_| "there is no room")?;
        let taken = worker.pop().ok_or("no job came")?;
        black_box(taken.job);
        set.release(taken.slot);
        set.wake_pending(&mut pending);
    }
    Ok(())
}

/// The same, with a wake of a loop that sleeps.
fn wake(count: u64) -> Outcome {
    let (set, worker) = set_and_worker()?;
    for number in 0..count {
        set.submit(black_box([number; 4])).map_err(|_| "there is no room")?;
        worker.acknowledge();
        let taken = worker.pop().ok_or("no job came")?;
        set.release(taken.slot);
    }
    Ok(())
}

/// A completion on its way back.
fn completion(count: u64) -> Outcome {
    let queue = ReturnQueue::new()?;
    for number in 0..count {
        queue.push(black_box([number; 4]));
        black_box(queue.pop()).ok_or("no completion came")?;
    }
    Ok(())
}

/// A deadline that does not fire.
fn wheel(count: u64) -> Outcome {
    let mut wheel = DeadlineWheel::starting_at(Micros(0));
    let keys: Vec<_> = (0..64).map(|_| wheel.insert()).collect();
    for now in 0..count {
        let key = keys[now as usize % 64];
        wheel.arm(black_box(key), Micros(now + 30_000_000));
        wheel.disarm(black_box(key));
    }
    Ok(())
}

/// A message to one subscriber, and its delivery.
fn topic(count: u64) -> Outcome {
    let topic: Topic<Bytes> = Topic::new("micro", TopicOptions::default())?;
    let subscription = topic.subscribe(oxb_core::SubscriptionOptions::default())?;
    for _ in 0..count {
        topic.emit(black_box(Bytes::from_static(b"message"))).wait()?;
        black_box(subscription.try_next()).ok_or("no message came")?;
    }
    Ok(())
}

/// A head found and read.
fn head(count: u64) -> Outcome {
    let limits = HeadLimits::default();
    let raw = Bytes::from_static(HEAD);
    for _ in 0..count {
        let length = HeadScan::new().advance(black_box(&raw), &limits).map_err(|_| "a bad head")?;
        length.ok_or("half a head")?;
        black_box(Head::parse(black_box(&raw).clone(), &limits)).map_err(|_| "a bad head")?;
    }
    Ok(())
}

fn spec(name: &str, source: Source, kind: ParamKind) -> ParamSpec {
    ParamSpec {
        name: name.to_owned(),
        source,
        kind,
        presence: Presence::Required,
        is_list: false,
        limits: Limits::default(),
    }
}

fn table() -> Fallible<Router> {
    let mut builder = RouterBuilder::new();
    builder.add("GET", "/", Vec::new())?;
    let params = vec![spec("id", Source::Path, ParamKind::Int), spec("limit", Source::Query, ParamKind::Int)];
    builder.add("GET", "/users/{id}", params)?;
    for index in 0..100 {
        builder.add("GET", &format!("/section-{index}/{{id}}/detail"), Vec::new())?;
    }
    Ok(builder.build())
}

/// A route found, and its two parameters coerced.
fn router(count: u64) -> Outcome {
    let router = table()?;
    for _ in 0..count {
        let Found::Route { id, values, .. } = router.find(black_box("GET"), black_box("/users/1234567"))
        else {
            return Err("no route was found".into());
        };
        black_box(router.coerce(id, &values, Some("limit=10"), None)).map_err(|_| "a bad parameter")?;
    }
    Ok(())
}

/// One text of each kind.
fn coercion(count: u64) -> Outcome {
    let texts = [
        (ParamKind::Str, "text"),
        (ParamKind::Int, "1234567"),
        (ParamKind::Float, "1234.5678"),
        (ParamKind::Bool, "true"),
        (ParamKind::Uuid, "0b8e6b7e-3f0e-4a8e-9a51-0c8a5a7c9d11"),
        (ParamKind::Date, "2024-02-29"),
        (ParamKind::DateTime, "2024-02-29T12:34:56.789+02:00"),
        (ParamKind::Decimal, "1234.5678"),
    ];
    for _ in 0..count {
        for (kind, text) in &texts {
            black_box(coerce(kind, Cow::Borrowed(black_box(text)))).ok_or("a bad text")?;
        }
    }
    Ok(())
}

/// An event as bytes.
fn sse(count: u64) -> Outcome {
    let mut out = Vec::with_capacity(256);
    for _ in 0..count {
        out.clear();
        let event = Event {
            data: black_box(b"{\"price\":1.25}\nnext"),
            event: Some("price"),
            id: Some("7"),
            retry: None,
        };
        event.write(&mut out)?;
        black_box(&out);
    }
    Ok(())
}
