//! Limits: the size of a head, the number of connections, and what happens when every loop is full.

mod support;

use oxb_http::options::ServerOptions;
use oxb_http::reply::Reply;
use support::{Answer, Site, post, post_chunked};

fn with_fields(fields: &str) -> Vec<u8> {
    format!("GET /hello HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes()
}

fn heads() -> Vec<(Vec<u8>, u16)> {
    let field = |size: usize| format!("X: {}\r\n", "v".repeat(size));
    let many = |count: usize| (0..count).map(|index| format!("X-{index}: y\r\n")).collect::<String>();
    let target =
        |size: usize| format!("GET /hello?{} HTTP/1.1\r\nHost: a\r\n\r\n", "q".repeat(size)).into_bytes();
    vec![
        (with_fields(&field(60_000)), 200),
        (with_fields(&field(65_600)), 431),
        (with_fields(&field(30_000).repeat(3)), 431),
        (with_fields(&many(99)), 200),
        (with_fields(&many(100)), 431),
        (with_fields(&many(5000)), 431),
        (target(60_000), 200),
        (target(65_600), 414),
        (vec![b'G'; 70_000], 414),
    ]
}

#[test]
fn r13_a_head_over_the_limit_is_refused_and_one_at_the_limit_is_served() {
    let site = Site::start(ServerOptions::default());
    for (head, status) in heads() {
        for piece_size in [head.len(), 10_000] {
            let mut client = site.connect();
            for piece in head.chunks(piece_size) {
                if client.offer(piece).is_err() {
                    break;
                }
            }
            let answer = client.answer();
            assert_eq!((answer.status, answer.closes()), (status, status != 200));
        }
    }
    site.finish();
}

#[cfg(feature = "harness")]
#[test]
fn r13_a_head_in_single_bytes_gets_the_same_verdict_as_a_whole_one() {
    for (head, status) in heads() {
        let bytes: Vec<&[u8]> = head.chunks(1).collect();
        let found = support::outcome_of(&bytes, ServerOptions::default()).0;
        assert_eq!((found.statuses, found.is_open), (vec![status], status == 200));
    }
}

#[test]
fn r13_a_client_that_sends_a_huge_head_keeps_nobody_else_waiting() {
    let site = Site::start(ServerOptions::default());
    let mut huge = site.connect();
    let mut writer = huge.stream.try_clone().expect("a descriptor is free");
    let sender = std::thread::spawn(move || {
        use std::io::Write;
        let start = "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX: ";
        let mut outcome = writer.write_all(start.as_bytes());
        for _ in 0..320 {
            outcome = outcome.and_then(|()| writer.write_all(&[b'v'; 65_536]));
        }
        outcome
    });
    let mut other = site.connect();
    for _ in 0..200 {
        assert_eq!(other.get("/hello").status, 200);
    }
    let answer = huge.answer();
    assert_eq!((answer.status, answer.closes()), (431, true));
    // The server closes a second later, whether or not all was sent.
    drop(sender.join().expect("the sender does not panic"));
    site.finish();
}

#[test]
fn over_the_connection_limit_clients_wait_until_one_leaves() {
    let site = Site::start(ServerOptions { max_connections: 2, ..ServerOptions::default() });
    let (mut first, mut second) = (site.connect(), site.connect());
    assert_eq!((first.get("/hello").status, second.get("/hello").status), (200, 200));
    let mut third = site.connect();
    third.send("GET /hello?third HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((first.get("/hello").status, site.running.connections()), (200, 2));
    assert!(!site.desk.targets().contains(&"/hello?third".to_owned()), "not accepted yet");
    drop(second);
    assert_eq!(third.answer().status, 200);
    drop((first, third));
    site.finish();
}

#[test]
fn connections_over_two_io_threads_share_one_limit() {
    let site = Site::start(ServerOptions { max_connections: 3, io_threads: 2, ..ServerOptions::default() });
    for _ in 0..30 {
        let mut clients: Vec<_> = (0..5).map(|_| site.connect()).collect();
        while let Some(mut client) = (!clients.is_empty()).then(|| clients.remove(0)) {
            assert_eq!(client.get("/hello").status, 200);
            assert!(site.running.connections() <= 3);
        }
    }
    site.finish();
}

fn is_overloaded(answer: &Answer) -> bool {
    (answer.status, answer.header("retry-after")) == (503, Some("1"))
        && answer.text().contains(r#""detail":"server overloaded""#)
}

#[test]
fn while_every_loop_is_full_a_large_body_is_refused_before_it_is_read_and_the_connection_goes_on() {
    let site = Site::start(ServerOptions::default());
    let mut client = site.connect();
    site.desk.set_full(true);
    client.send(post("/echo", &[b'x'; 65_537]));
    assert!(is_overloaded(&client.answer()));
    client.send(post("/echo", &[b'x'; 65_536]));
    assert_eq!(
        client.answer().body.len(),
        65_536,
        "small ones are handed over, which may refuse them as well"
    );
    client.send(post("/full", b"abc"));
    assert!(is_overloaded(&client.answer()));
    // The client waits for `100 Continue` and gets the verdict alone, so it never sends the body.
    client.send("POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 100000\r\n\r\n");
    let answer = client.answer();
    assert!(is_overloaded(&answer) && answer.closes());
    client.expect_end();
}

#[test]
fn a_service_that_panics_or_forgets_its_request_costs_that_request_alone() {
    let site = Site::start(ServerOptions::default());
    let mut client = site.connect();
    for target in ["/panic", "/drop"] {
        let answer = client.get(target);
        assert_eq!(answer.status, 500);
        assert!(answer.text().contains("handler finished without responding"));
    }
    assert_eq!(client.get("/hello").status, 200);
    drop(client);
    site.finish();
}

#[test]
fn a_service_that_panics_while_taking_a_notice_leaves_no_connection_behind() {
    let site = Site::start(ServerOptions::default());
    site.desk.panic_on_notices();
    for _ in 0..3 {
        let mut client = site.connect();
        client.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
        let held = site.desk.held();
        assert!(held.responder.begin(support::loop_id()));
        drop(client);
        site.wait_until("it has closed", |running| running.connections() == 0);
    }
    assert_eq!(site.connect().get("/hello").status, 200);
    site.finish();
}

#[test]
fn an_answer_whose_head_http_forbids_is_never_sent() {
    let site = Site::start(ServerOptions::default());
    let mut client = site.connect();
    for (name, value) in [("x", "a\r\nSet-Cookie: b"), ("a b", "x"), ("", "x"), ("x", "\0")] {
        client.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
        let Reply { head, body } = Reply::new(200, "text/plain", "secret");
        site.desk.held().responder.reply(Reply { head: head.header(name, value.as_bytes()), body });
        let answer = client.answer();
        assert_eq!((answer.status, answer.headers.len()), (500, 3), "{answer:?}");
        assert!(answer.text().contains("bad response header"));
    }
    client.send(post_chunked("/echo", &[b"still usable"]));
    assert_eq!(client.answer().text(), "still usable");
}
