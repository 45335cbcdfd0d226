//! Several requests on one connection: order, keep-alive, and which one is the last.

mod support;

use std::time::Duration;

use oxb_http::options::ServerOptions;
use oxb_http::reply::Reply;
use support::{SOON, Site, post, post_chunked};

fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

/// Requests of every kind in one write, and the statuses they are answered with.
fn mixed() -> (Vec<u8>, Vec<u16>) {
    let requests: Vec<(Vec<u8>, u16)> = vec![
        (get("/hello"), 200),
        (post("/echo", b"GET /hello?inside HTTP/1.1\r\n\r\n"), 200),
        (get("/nothing"), 404),
        (post_chunked("/echo", &[b"a", b"\r\n0\r\n\r\n", b"bc"]), 200),
        (get("/empty"), 204),
        (post("/hello", b"unread"), 405),
        (get("/unmodified"), 304),
        (get("/items/x"), 422),
        (get("/items/7"), 200),
        (post_chunked("/small", &[&[b'\n'; 600], &[b'0'; 600]]), 413),
        (get("/drop"), 500),
        (get("/panic"), 500),
        (get("/full"), 503),
        (b"\r\n".to_vec(), 0),
        (post("/echo", b""), 200),
        (get("/hello"), 200),
    ];
    let bytes = requests.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
    (bytes, requests.iter().map(|&(_, status)| status).filter(|&status| status != 0).collect())
}

#[test]
fn r05_both_pipelined_requests_are_answered_though_the_second_runs_longer_than_the_idle_timeout() {
    // Long enough to send the next requests within it, on a machine under load.
    let keep_alive_timeout = Some(Duration::from_secs(1));
    let site = Site::start(ServerOptions { keep_alive_timeout, ..ServerOptions::default() });
    let mut client = site.connect();
    assert_eq!(client.get("/hello").status, 200, "from here on it has been idle once");
    client.send([get("/hello"), get("/hold?1"), get("/hold?2")].concat());
    assert_eq!(client.answer().text(), "/hello");
    for _ in 0..2 {
        // An idle connection that became so later is closed: the time has passed for this one as well.
        let mut witness = site.connect();
        assert_eq!(witness.get("/hello").status, 200);
        witness.expect_end();
        let held = site.desk.held();
        let query = held.request.query().expect("a query was sent").to_owned();
        held.responder.reply(Reply::new(200, "text/plain", query.clone()));
        assert_eq!(client.answer().text(), query);
    }
    client.expect_end();
}

#[test]
fn r05_a_body_that_is_still_coming_is_no_idle_connection() {
    let site = Site::start(ServerOptions { keep_alive_timeout: SOON, ..ServerOptions::default() });
    let mut client = site.connect();
    assert_eq!(client.get("/hello").status, 200);
    let request = post("/echo", b"abc");
    client.send(&request[..request.len() - 1]);
    let mut witness = site.connect();
    assert_eq!(witness.get("/hello").status, 200);
    witness.expect_end();
    client.send(b"c");
    assert_eq!(client.answer().text(), "abc");
}

#[test]
fn pipelined_requests_are_answered_in_order_over_a_socket() {
    let site = Site::start(ServerOptions::default());
    let (bytes, statuses) = mixed();
    for piece_size in [bytes.len(), 1, 7, 1000] {
        let mut client = site.connect();
        for piece in bytes.chunks(piece_size) {
            client.send(piece);
        }
        let found: Vec<u16> = statuses.iter().map(|_| client.answer().status).collect();
        assert_eq!(found, statuses, "pieces of {piece_size}");
        assert_eq!(client.get("/probe").text(), "/probe");
    }
    site.finish();
}

#[cfg(feature = "harness")]
#[test]
fn pipelined_requests_are_answered_in_order_wherever_they_are_cut() {
    let (bytes, statuses) = mixed();
    let whole = support::outcome_of(&[&bytes], ServerOptions::default());
    assert_eq!((&whole.0.statuses, whole.0.is_open), (&statuses, true));
    let bodies: Vec<_> = whole.1.iter().map(|answer| answer.body.clone()).collect();
    for at in 0..bytes.len() {
        let (first, second) = bytes.split_at(at);
        let cut = support::outcome_of(&[first, second], ServerOptions::default());
        assert_eq!(cut.0, whole.0, "cut at {at}");
        assert_eq!(cut.1.iter().map(|answer| answer.body.clone()).collect::<Vec<_>>(), bodies, "cut at {at}");
    }
    let mut stray = bytes.clone();
    stray.extend_from_slice(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n\0");
    let found = support::outcome_of(&[&stray], ServerOptions::default()).0;
    assert_eq!((&found.statuses[statuses.len()..], found.is_open), (&[200, 400][..], false));
}

#[test]
fn answers_to_head_requests_have_no_body_that_the_next_answer_would_be_read_from() {
    let site = Site::start(ServerOptions::default());
    let mut client = site.connect();
    let head = |target: &str| format!("HEAD {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    client.send([head("/hello"), head("/nothing"), head("/large"), head("/items/x"), head("/drop")].concat());
    client.send(get("/hello"));
    let statuses: Vec<u16> = (0..5).map(|_| client.answer_to_head().status).collect();
    assert_eq!((statuses, client.answer().text()), (vec![200, 404, 200, 422, 500], "/hello"));
}

#[test]
fn nothing_behind_the_last_request_is_answered_and_the_last_answer_arrives() {
    let site = Site::start(ServerOptions::default());
    let last = [
        "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE ,y\r\n\r\n",
        "GET /hello HTTP/1.0\r\nHost: a\r\n\r\n",
        "GET /hello HTTP/1.0\r\n\r\n",
        "GET /hello HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n",
        // The handler closes.
        "GET /last HTTP/1.1\r\nHost: a\r\n\r\n",
        // Refused ones whose client wants no more.
        "POST /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
        "POST /small HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3000\r\n\r\nabc",
    ];
    for request in last {
        for behind in ["", "GET /hello?behind HTTP/1.1\r\nHost: a\r\n\r\n", "\0"] {
            let mut client = site.connect();
            client.send(format!("{request}{behind}"));
            let answer = client.answer();
            assert!(answer.closes(), "{request}");
            client.expect_end();
        }
    }
    assert!(!site.desk.targets().iter().any(|target| target.contains("behind")));
    // More than the server reads at once behind the last one: closing on it would reset the connection.
    let mut client = site.connect();
    client.send(get("/last"));
    for _ in 0..100 {
        if client.offer([b'x'; 10_000]).is_err() {
            break;
        }
    }
    assert_eq!(client.answer().text(), "last");
}

/// What arrives at a closed socket resets it, and that takes the answer away (RFC 9112 section 9.6).
#[cfg(feature = "harness")]
#[test]
fn r11_a_connection_the_server_ends_is_read_from_until_its_client_has_closed() {
    let close = "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".as_bytes().to_vec();
    let stray = [close.clone(), b"stray".to_vec()].concat();
    for (request, lingers) in [
        (get("/last"), true),
        (b"not HTTP\r\n\r\n".to_vec(), true),
        (stray, true),
        // The client said that it sends no more.
        (close, false),
    ] {
        let (mut hand, _) = support::ByHand::new(ServerOptions::default());
        hand.give(&request);
        assert!(!hand.is_open && hand.harness.is_shut());
        assert_eq!(hand.harness.turn(), lingers, "{}", support::show(&request));
    }
}

#[test]
fn an_http_1_0_client_that_asks_for_it_keeps_its_connection() {
    let site = Site::start(ServerOptions::default());
    let mut client = site.connect();
    for _ in 0..3 {
        client.send("GET /hello HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
        let answer = client.answer();
        assert_eq!((answer.text(), answer.header("connection")), ("/hello", Some("keep-alive")));
    }
}

#[test]
fn ten_thousand_pipelined_requests_are_all_answered() {
    const COUNT: usize = 10_000;
    let site = Site::start(ServerOptions::default());
    let mut client = site.connect();
    let mut writer = client.stream.try_clone().expect("a descriptor is free");
    let sender = std::thread::spawn(move || {
        use std::io::Write;
        for index in 0..COUNT {
            let target = if index % 3 == 0 { "/nothing" } else { "/hello" };
            writer.write_all(&get(target)).expect("the server takes what it is sent");
        }
    });
    for index in 0..COUNT {
        let status = if index % 3 == 0 { 404 } else { 200 };
        assert_eq!(client.answer().status, status, "{index}");
    }
    sender.join().expect("all was sent");
    site.finish();
}

/// Invariant 12: an answer that has come back is looked for while its thread is busy, not only when it sleeps.
#[cfg(feature = "harness")]
#[test]
fn invariant_12_an_answer_is_delivered_though_the_thread_never_sleeps() {
    let (mut hand, desk) = support::ByHand::new(ServerOptions::default());
    hand.give(&get("/hold"));
    desk.held().responder.reply(Reply::new(200, "text/plain", "held"));
    // Polls alone: the thread never parks. Nothing says that a poll has news.
    for _ in 0..64 {
        assert!(hand.harness.poll());
    }
    hand.received.extend(hand.harness.taken());
    assert!(hand.received.ends_with(b"held"), "not looked for in 64 polls");
}

#[test]
fn invariant_12_a_finished_answer_does_not_wait_for_a_slower_one_or_for_other_connections() {
    let site = Site::start(ServerOptions::default());
    let (mut slow, mut fast) = (site.connect(), site.connect());
    slow.send(get("/hold"));
    let never = site.desk.held();
    // A client that never stops asking keeps the thread busy.
    let mut flood = site.connect();
    let mut writer = flood.stream.try_clone().expect("a descriptor is free");
    let flooding = std::thread::spawn(move || {
        use std::io::Write;
        while writer.write_all(&get("/nothing").repeat(50)).is_ok() {}
    });
    let reading = std::thread::spawn(move || {
        use std::io::Read;
        let mut piece = [0; 65536];
        while flood.stream.read(&mut piece).is_ok_and(|count| count > 0) {}
    });
    for round in 0..50 {
        fast.send(get("/hold"));
        site.desk.held().responder.reply(Reply::new(200, "text/plain", round.to_string()));
        assert_eq!(fast.answer().text(), round.to_string());
    }
    drop(never);
    assert_eq!(slow.answer().status, 500);
    drop(site);
    flooding.join().expect("it ends with the connection");
    reading.join().expect("it ends with the connection");
}
