//! Answers that come piece by piece: framing, backpressure, and clients that leave.

mod support;

use bytes::Bytes;
use oxb_http::exchange::{Sent, StreamWriter};
use oxb_http::options::ServerOptions;
use oxb_http::reply::{Reply, ReplyHead};
use support::{Held, SOON, Site};

const REQUEST: &str = "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n";

fn begun(site: &Site) -> Held {
    let held = site.desk.held();
    assert!(held.responder.begin(support::loop_id()));
    held
}

fn stream(held: Held, status: u16, declared: Option<u64>) -> StreamWriter {
    held.responder.stream(ReplyHead::new(status).content_type("text/plain"), declared)
}

#[test]
fn r07_a_stream_with_a_bodyless_status_sends_no_body_and_its_source_is_closed() {
    let site = Site::start(ServerOptions::default());
    let mut client = site.connect();
    for status in [204, 304] {
        for declared in [None, Some(5)] {
            client.send(REQUEST.repeat(2));
            let held = begun(&site);
            let exchange = std::sync::Arc::clone(held.responder.exchange());
            let writer = stream(held, status, declared);
            let _ = writer.send(Bytes::from_static(b"hello"));
            site.desk.wait_abandoned(&exchange);
            assert_eq!(writer.send(Bytes::from_static(b"x")), Sent::Gone);
            writer.finish();
            site.desk.held().responder.reply(Reply::new(200, "text/plain", "next"));
            // A bodyless answer with framing fields makes `answer` panic.
            assert_eq!((client.answer().status, client.answer().text()), (status, "next"));
        }
    }
}

#[test]
fn a_stream_is_framed_as_its_client_understands_it() {
    let site = Site::start(ServerOptions::default());
    let cases = [
        ("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n", None, false),
        ("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n", Some(11), false),
        ("GET /hold HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", None, true),
        ("GET /hold HTTP/1.0\r\n\r\n", None, true),
        ("GET /hold HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", None, true),
        ("GET /hold HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", Some(11), false),
    ];
    for (request, declared, closes) in cases {
        let mut client = site.connect();
        client.send(request);
        let writer = stream(begun(&site), 200, declared);
        for piece in ["hello", "", " ", "world"] {
            assert_eq!(writer.send(Bytes::from(piece)), Sent::Room);
        }
        writer.finish();
        let answer = client.answer();
        assert_eq!((answer.text(), answer.closes()), ("hello world", closes), "{request}");
        if closes {
            client.expect_end();
        } else {
            assert_eq!(client.get("/hello").status, 200);
        }
    }
    site.finish();
}

#[test]
fn a_head_request_to_a_stream_gets_its_head_and_closes_the_source() {
    let site = Site::start(ServerOptions::default());
    let mut client = site.connect();
    for (declared, length) in [(None, None), (Some(11), Some("11"))] {
        client.send(REQUEST.replacen("GET", "HEAD", 1));
        let held = begun(&site);
        let exchange = std::sync::Arc::clone(held.responder.exchange());
        let writer = stream(held, 200, declared);
        let answer = client.answer_to_head();
        assert_eq!((answer.header("content-length"), answer.header("transfer-encoding")), (length, None));
        site.desk.wait_abandoned(&exchange);
        drop(writer);
        assert_eq!(client.get("/hello").text(), "/hello");
    }
}

#[test]
fn a_broken_stream_never_looks_complete() {
    let site = Site::start(ServerOptions::default());
    type Act = fn(StreamWriter);
    let acts: [(Option<u64>, Act); 5] = [
        (None, |writer| writer.fail()),
        (None, drop),
        (Some(10), |writer| writer.finish()),
        (Some(10), |writer| writer.fail()),
        (Some(10), |writer| {
            let _ = writer.send(Bytes::from_static(b"more than declared"));
        }),
    ];
    for (declared, act) in acts {
        let mut client = site.connect();
        client.send(REQUEST);
        let writer = stream(begun(&site), 200, declared);
        let _ = writer.send(Bytes::from_static(b"half"));
        act(writer);
        let received = client.end();
        assert!(support::parse_answer(&received, false, false).is_none(), "{}", support::show(&received));
        assert!(!received.ends_with(b"0\r\n\r\n"));
    }
    site.finish();
}

/// R19 and invariant 10: what waits for a client is one bounded piece, however much its source has.
#[test]
fn r19_a_source_waits_for_its_client_whatever_the_size_of_its_pieces() {
    let site = Site::start(ServerOptions::default());
    for piece_size in [100, 5_000, 65_536] {
        let mut client = site.connect();
        client.send(REQUEST);
        let held = begun(&site);
        let exchange = std::sync::Arc::clone(held.responder.exchange());
        let writer = stream(held, 200, None);
        let piece = Bytes::from(vec![b'x'; piece_size]);
        let (mut sent, total) = (0, 16 << 20);
        let reader = std::thread::spawn(move || (client.answer().body.len(), client));
        while sent < total {
            sent += piece_size;
            match writer.send(piece.clone()) {
                Sent::Room => {}
                Sent::Full => site.desk.wait_room(&exchange),
                Sent::Gone => panic!("the client is there"),
            }
            assert!(exchange.unsent() <= 64 * 1024 + piece_size, "{} unsent", exchange.unsent());
        }
        writer.finish();
        let (received, mut client) = reader.join().expect("the reader got it whole");
        assert_eq!((received, client.get("/hello").status), (sent, 200));
    }
    site.finish();
}

#[test]
fn r19_a_client_that_stops_reading_is_timed_out_and_its_source_told() {
    let site = Site::start(ServerOptions { write_timeout: SOON, ..ServerOptions::default() });
    let mut client = site.connect();
    client.send(REQUEST);
    let held = begun(&site);
    let exchange = std::sync::Arc::clone(held.responder.exchange());
    let writer = stream(held, 200, None);
    let mut sent = 0;
    // The sockets' own buffers come first.
    loop {
        sent += 65_536;
        match writer.send(Bytes::from(vec![b'x'; 65_536])) {
            Sent::Room => {}
            Sent::Full => {
                let is_told = || exchange.is_abandoned() || site.desk.has_room_notice(&exchange);
                support::wait_until("the source is told to go on or to end", is_told);
            }
            Sent::Gone => break,
        }
        assert!(sent < 1 << 30, "a client that reads nothing took 1 GiB");
    }
    site.desk.wait_abandoned(&exchange);
    drop(writer);
    drop(client);
    site.finish();
}

#[test]
fn r16_a_running_handler_is_told_when_its_client_leaves() {
    let site = Site::start(ServerOptions::default());
    for is_reset in [false, true] {
        for is_streaming in [false, true] {
            let mut client = site.connect();
            client.send(REQUEST);
            let held = begun(&site);
            let exchange = std::sync::Arc::clone(held.responder.exchange());
            let mut unanswered = Some(held.responder);
            let writer = if is_streaming { unanswered.take() } else { None }.map(|responder| {
                let writer = responder.stream(ReplyHead::new(200), None);
                let _ = writer.send(Bytes::from_static(b"first"));
                writer
            });
            if is_reset {
                // Closing with a byte unread resets the connection.
                if !is_streaming {
                    client.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
                } else {
                    client.receive();
                }
            }
            drop(client);
            site.desk.wait_abandoned(&exchange);
            if let Some(writer) = writer {
                assert_eq!(writer.send(Bytes::from_static(b"second")), Sent::Gone);
            }
        }
    }
    site.finish();
}

#[test]
fn r16_a_queued_request_whose_client_left_never_runs() {
    let site = Site::start(ServerOptions::default());
    let mut client = site.connect();
    client.send(REQUEST);
    let queued = site.desk.held();
    drop(client);
    site.wait_until("the server has noticed", |running| running.connections() == 0);
    assert!(!queued.responder.begin(support::loop_id()));
    site.finish();
}

/// The source of a route that is not cancelled must not wait for room that no socket will make.
#[test]
fn a_stream_of_a_route_that_is_not_cancelled_ends_when_its_client_has_left() {
    let site = Site::start(ServerOptions::default());
    let mut client = site.connect();
    client.send(REQUEST.replacen("/hold", "/stubborn", 1));
    let held = begun(&site);
    let exchange = std::sync::Arc::clone(held.responder.exchange());
    drop(client);
    site.wait_until("the server has noticed", |running| running.connections() == 0);
    assert!(!exchange.is_abandoned(), "its handler runs on");
    let writer = stream(held, 200, None);
    let mut outcome = Sent::Room;
    for _ in 0..100 {
        outcome = writer.send(Bytes::from(vec![b'x'; 65_536]));
        if outcome == Sent::Full {
            site.desk.wait_room(&exchange);
        }
    }
    assert_eq!(outcome, Sent::Gone);
}

#[test]
fn a_stream_that_nobody_feeds_outlives_every_timeout_of_its_connection() {
    let options = ServerOptions {
        request_timeout: SOON,
        keep_alive_timeout: SOON,
        header_timeout: SOON,
        body_timeout: SOON,
        write_timeout: SOON,
        ..ServerOptions::default()
    };
    let site = Site::start(options);
    let mut client = site.connect();
    client.send(REQUEST);
    let writer = stream(begun(&site), 200, None);
    let _ = writer.send(Bytes::from_static(b"first"));
    let mut witness = site.connect();
    assert_eq!(witness.get("/hello").status, 200);
    witness.expect_end();
    let _ = writer.send(Bytes::from_static(b", second"));
    writer.finish();
    assert_eq!(client.answer().text(), "first, second");
}
