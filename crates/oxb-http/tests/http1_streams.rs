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
    for status in [204, 205, 304] {
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

/// A large piece behind a small one: more than the sockets' own buffers take at once.
#[test]
fn what_a_stream_gave_before_it_broke_off_is_sent() {
    let site = Site::start(ServerOptions::default());
    let sizes: [&[usize]; 4] = [&[], &[5], &[5, 60_000], &[6 << 20]];
    for (request, declared) in [
        ("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n", None),
        ("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n", Some(1 << 30)),
        ("GET /hold HTTP/1.0\r\n\r\n", None),
    ] {
        for sizes in sizes {
            let mut client = site.connect();
            client.send(request);
            let writer = stream(begun(&site), 200, declared);
            for &size in sizes {
                let _ = writer.send(Bytes::from(vec![b'x'; size]));
            }
            writer.fail();
            let received = client.end();
            let text = support::show(&received);
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{request} {sizes:?}: {text:?}");
            let start = received.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
            let count = received[start..].iter().filter(|&&byte| byte == b'x').count();
            assert_eq!(count, sizes.iter().sum::<usize>(), "{request} {sizes:?}");
        }
    }
    site.finish();
}

#[test]
fn a_client_that_does_not_take_what_a_broken_stream_gave_is_closed_in_time() {
    for request in [REQUEST, "GET /hold HTTP/1.0\r\n\r\n"] {
        let site = Site::start(ServerOptions { write_timeout: SOON, ..ServerOptions::default() });
        let mut client = site.connect();
        client.send(request);
        let writer = stream(begun(&site), 200, None);
        let _ = writer.send(Bytes::from(vec![b'x'; 16 << 20]));
        writer.fail();
        site.wait_until("it is closed", |running| running.connections() == 0);
        site.finish();
    }
}

/// The end of the connection is the end of the body there, so a body that broke off must end in another way.
#[test]
fn a_body_that_ends_by_closing_and_broke_off_ends_in_a_reset() {
    use std::io::Read;
    type Act = fn(StreamWriter);
    let acts: [(Act, bool); 3] =
        [(|writer| writer.finish(), true), (|writer| writer.fail(), false), (drop, false)];
    let site = Site::start(ServerOptions::default());
    for size in [5, 6 << 20] {
        for (act, is_whole) in acts {
            let mut client = site.connect();
            client.send("GET /hold HTTP/1.0\r\n\r\n");
            let writer = stream(begun(&site), 200, None);
            let _ = writer.send(Bytes::from(vec![b'x'; size]));
            act(writer);
            let mut received = Vec::new();
            let outcome = client.stream.read_to_end(&mut received);
            assert_eq!(outcome.is_ok(), is_whole, "{size}: {outcome:?}");
            if let Err(error) = outcome {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
            }
            assert!(received.len() > size, "what was accepted comes first: {} of {size}", received.len());
        }
    }
    // Nor does the end of the server look like that of the body.
    let mut client = site.connect();
    client.send("GET /hold HTTP/1.0\r\n\r\n");
    let writer = stream(begun(&site), 200, None);
    let _ = writer.send(Bytes::from_static(b"first"));
    while !client.received.ends_with(b"first") {
        client.receive();
    }
    drop(site);
    assert!(client.stream.read(&mut [0]).is_err());
    drop(writer);
}

#[test]
fn a_stream_never_has_two_framings_lengths_or_dates_whatever_its_handler_says() {
    let site = Site::start(ServerOptions::default());
    let head = |fields: &[(&'static str, &'static str)]| {
        fields.iter().fold(ReplyHead::new(200), |head, (name, value)| head.header(*name, *value))
    };
    type Case = (&'static [(&'static str, &'static str)], Option<u64>, bool);
    let cases: &[Case] = &[
        (&[("Content-Length", "5")], Some(5), true),
        (&[("Content-Length", "5")], None, true),
        (&[("Content-Length", "5"), ("content-length", "5")], None, true),
        (&[("Transfer-Encoding", "chunked"), ("Connection", "keep-alive")], None, true),
        (&[("Transfer-Encoding", "gzip, chunked")], Some(5), true),
        (&[("Date", "Sun, 06 Nov 1994 08:49:37 GMT")], None, true),
        (&[("Content-Length", "6")], Some(5), false),
        (&[("Content-Length", "5"), ("content-length", "6")], None, false),
        (&[("Content-Length", "5"), ("content-length", "6")], Some(5), false),
        (&[("Content-Length", "five")], None, false),
        (&[("Date", "then"), ("date", "now")], None, false),
    ];
    let mut client = site.connect();
    for (fields, declared, is_right) in cases {
        client.send(REQUEST);
        let writer = begun(&site).responder.stream(head(fields), *declared);
        let _ = writer.send(Bytes::from_static(b"hello"));
        writer.finish();
        // `answer` panics at two framings.
        let answer = client.answer();
        let count = |name: &str| answer.headers.iter().filter(|(own, _)| own == name).count();
        let framings = (count("content-length"), count("transfer-encoding"), count("connection"));
        assert_eq!(count("date"), 1, "{fields:?}");
        if *is_right {
            let has_length = declared.is_some() || fields[0].0 == "Content-Length";
            let expected = (usize::from(has_length), usize::from(!has_length), 0);
            assert_eq!((answer.text(), framings), ("hello", expected), "{fields:?}");
        } else {
            assert_eq!((answer.status, framings), (500, (1, 0, 0)), "{fields:?}");
            assert!(answer.text().contains("bad response header"));
        }
    }
    // A whole answer has its own length, and two dates or two lengths of its handler are as wrong.
    for (fields, status) in [
        (&[("Content-Length", "6"), ("Transfer-Encoding", "chunked")][..], 200),
        (&[("Content-Length", "5"), ("content-length", "6")], 500),
        (&[("Date", "then"), ("date", "then")], 500),
    ] {
        client.send(REQUEST);
        let reply = Reply { head: head(fields), body: Bytes::from_static(b"hello") };
        begun(&site).responder.reply(reply);
        let answer = client.answer();
        let count = |name: &str| answer.headers.iter().filter(|(own, _)| own == name).count();
        assert_eq!((answer.status, count("content-length"), count("date")), (status, 1, 1), "{fields:?}");
        assert!(status == 500 || answer.text() == "hello");
    }
}
