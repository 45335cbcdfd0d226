//! The generator against servers that answer wrongly, late or not at all: each must be seen for what it is.

#![cfg(feature = "load")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use oxb_bench::load::{
    Arrivals, Exchange, Expectation, Extent, HoldOptions, LIMIT, Pace, RequestSpec, SteadyOptions, Target,
    TokenOptions, hold, run, steady, tokens,
};

/// What a server does with a request.
enum Reaction {
    /// Writes these bytes, which may be none.
    Answer(Vec<u8>),
    /// Writes them and closes.
    Last(Vec<u8>),
}

type Wrong = fn() -> Reaction;

/// From the path of a request to what the server does.
type React = dyn Fn(&str) -> Reaction + Send + Sync;

/// A server with a thread for each connection; it lives as long as the test process.
fn server(react: impl Fn(&str) -> Reaction + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let react: Arc<React> = Arc::new(react);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let react = Arc::clone(&react);
            thread::spawn(move || connection(stream, &*react));
        }
    });
    format!("http://{address}")
}

fn connection(mut stream: TcpStream, react: &React) {
    let mut buf = Vec::new();
    let mut piece = [0; 4096];
    loop {
        while let Some(end) = buf.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buf[..end]).into_owned();
            buf.drain(..end + 4);
            let path = head.split(' ').nth(1).unwrap_or_default();
            let (bytes, is_last) = match react(path) {
                Reaction::Answer(bytes) => (bytes, false),
                Reaction::Last(bytes) => (bytes, true),
            };
            if stream.write_all(&bytes).is_err() || is_last {
                return;
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(count) => buf.extend_from_slice(&piece[..count]),
        }
    }
}

fn whole(status: u16, body: &str) -> Reaction {
    Reaction::Answer(
        format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes(),
    )
}

fn steady_options(url: &str) -> SteadyOptions {
    SteadyOptions {
        target: Target::parse(url).expect("the server's own address"),
        exchanges: vec![Exchange {
            request: RequestSpec::default(),
            expect: Expectation {
                body: Some(b"right".to_vec()),
                refusals: vec![503],
                ..Expectation::default()
            },
            weight: 1,
        }],
        connection_count: 4,
        warmup: Duration::from_millis(20),
        measured: Extent::For(Duration::from_millis(200)),
        pace: Pace::Closed,
        seed: 1,
        limit: LIMIT,
        watched: None,
        keeps_lines: false,
    }
}

fn token_options(url: &str) -> TokenOptions {
    TokenOptions {
        target: Target::parse(url).expect("the server's own address").at("/{token}"),
        body: "{token}".to_owned(),
        request_count: 200,
        connection_count: 8,
        at_once: false,
        seed: 1,
        refusals: vec![503],
        deadline: Duration::from_secs(2),
    }
}

#[test]
fn right_answers_are_counted_and_nothing_else_is() {
    let report = run(steady(steady_options(&server(|_| whole(200, "right"))))).unwrap().unwrap();
    assert!(report.is_right(), "{}", report.to_json());
    assert!(report.tally().good() > 10);
}

#[test]
fn an_answer_that_is_not_the_expected_one_makes_the_report_wrong() {
    // One in a hundred, as a rare race would be.
    let odd =
        |wrong: fn() -> Reaction| {
            let count = AtomicUsize::new(0);
            server(move |_| {
                if count.fetch_add(1, Ordering::Relaxed) % 100 == 50 { wrong() } else { whole(200, "right") }
            })
        };
    let cut = || Reaction::Last(b"HTTP/1.1 200 X\r\ncontent-length: 99\r\n\r\nshort".to_vec());
    let cases: [(&str, Wrong); 5] = [
        ("wrong_body", || whole(200, "wrong")),
        ("wrong_status", || whole(500, "right")),
        ("lost", || Reaction::Last(Vec::new())),
        ("lost", cut),
        ("lost", || Reaction::Answer(b"SSH-2.0-other\r\n".to_vec())),
    ];
    for (name, answer) in cases {
        let report = run(steady(steady_options(&odd(answer)))).unwrap().unwrap();
        assert!(!report.is_right(), "{name}: {}", report.to_json());
        let requests = &report.to_json()["requests"];
        let is_counted = requests[name].as_u64().is_some_and(|count| count > 0)
            || requests[name].as_object().is_some_and(|statuses| !statuses.is_empty());
        assert!(is_counted, "{name}: {requests}");
    }
}

#[test]
fn an_allowed_refusal_is_neither_good_nor_wrong() {
    let count = AtomicUsize::new(0);
    let url = server(move |_| {
        if count.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            whole(503, "")
        } else {
            whole(200, "right")
        }
    });
    let report = run(steady(steady_options(&url))).unwrap().unwrap();
    assert!(report.is_right(), "{}", report.to_json());
    assert!(report.tally().refused() > 0 && report.tally().good() > 0);
}

#[test]
fn latency_of_an_open_loop_counts_from_the_intended_time() {
    // 200 a second over one connection that takes 20 ms each: the queue grows, and only the intended time shows it.
    let url = server(|_| {
        thread::sleep(Duration::from_millis(20));
        whole(200, "right")
    });
    let pace = Pace::Open { rate: 200.0, arrivals: Arrivals::Fixed };
    let options = SteadyOptions { pace, connection_count: 1, ..steady_options(&url) };
    let report = run(steady(options)).unwrap().unwrap();
    assert!(report.tally().percentile(100.0) > Duration::from_millis(100), "{}", report.to_json());
}

#[test]
fn every_request_gets_its_own_token_back() {
    for at_once in [false, true] {
        let url = server(|path| whole(200, &path[1..]));
        let report = run(tokens(TokenOptions { at_once, ..token_options(&url) })).unwrap();
        assert!(report.is_right(), "{}", report.to_json());
        assert_eq!(report.tally.good(), 200);
    }
}

#[test]
fn the_token_of_another_request_is_told_as_wrong() {
    let last = std::sync::Mutex::new("/none".to_owned());
    let count = AtomicUsize::new(0);
    let url = server(move |path| {
        let mut last = last.lock().expect("no holder panics");
        let other = std::mem::replace(&mut *last, path.to_owned());
        let swapped = count.fetch_add(1, Ordering::Relaxed) == 99;
        whole(200, if swapped { &other[1..] } else { &path[1..] })
    });
    let report = run(tokens(token_options(&url))).unwrap();
    assert!(!report.is_right());
    assert_eq!((report.tally.good(), report.tally.bad(), report.samples.len()), (199, 1, 1));
}

#[test]
fn a_request_that_is_never_answered_is_told() {
    let url =
        server(
            |path| {
                if path.starts_with("/99-") { Reaction::Answer(Vec::new()) } else { whole(200, &path[1..]) }
            },
        );
    let options = TokenOptions { deadline: Duration::from_millis(500), ..token_options(&url) };
    let report = run(tokens(options)).unwrap();
    assert!(!report.is_right());
    assert_eq!((report.tally.good(), report.unanswered), (199, 1));
}

#[test]
fn a_held_connection_that_the_server_closes_is_not_held() {
    for (is_closed, held) in [(false, 3), (true, 0)] {
        let url = server(move |_| match whole(200, "right") {
            Reaction::Answer(bytes) if is_closed => Reaction::Last(bytes),
            other => other,
        });
        let options = HoldOptions {
            target: Target::parse(&url).unwrap(),
            expect: Expectation { body: Some(b"right".to_vec()), ..Expectation::default() },
            connection_count: 3,
            quiet: Duration::from_millis(50),
            watched: None,
        };
        let report = run(hold(options)).unwrap();
        assert_eq!((report.held, report.failed), (held, 3 - held), "{}", report.to_json());
    }
}
