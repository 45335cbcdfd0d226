//! The end of a server: what is closed at once, what is finished, and what is cut off (R28).

mod support;

use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use oxb_http::exchange::Sent;
use oxb_http::options::ServerOptions;
use oxb_http::reply::{Reply, ReplyHead};
use support::{DEADLINE, Site, post};

#[test]
fn r28_silent_and_idle_connections_are_closed_at_once_and_running_ones_finish() {
    // No timeout could do it in place of the drain.
    let options =
        ServerOptions { header_timeout: None, keep_alive_timeout: None, ..ServerOptions::default() };
    let mut site = Site::start(options);
    let mut silent = site.connect();
    let mut idle = site.connect();
    assert_eq!(idle.get("/hello").status, 200);
    let mut stray = site.connect();
    stray.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n\r\n");
    assert_eq!(stray.answer().status, 200);
    let mut running = site.connect();
    running.send("GET /hold?running HTTP/1.1\r\nHost: a\r\n\r\n");
    let held = site.desk.held();
    let mut uploading = site.connect();
    let request = post("/echo", b"whole");
    uploading.send(&request[..request.len() - 1]);
    site.wait_until("the upload has begun", |running| running.buffered() > 0);
    site.wait_until("all are accepted", |running| running.connections() == 5);

    let address = site.address();
    site.running.drain();
    silent.expect_end();
    idle.expect_end();
    stray.expect_end();
    support::wait_until("nobody listens any more", || TcpStream::connect(address).is_err());
    assert!(!site.running.wait_closed(Duration::ZERO), "two are in progress");
    held.responder.reply(Reply::new(200, "text/plain", "finished"));
    uploading.send("e");
    for (client, text) in [(&mut running, "finished"), (&mut uploading, "whole")] {
        let answer = client.answer();
        assert_eq!((answer.text(), answer.closes()), (text, true));
        client.expect_end();
    }
    drop((running, uploading));
    site.wait_clean();
    site.running.close();
}

#[test]
fn r28_a_stream_that_does_not_end_is_cut_off_with_the_grace() {
    let mut site = Site::start(ServerOptions::default());
    let mut client = site.connect();
    client.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    let held = site.desk.held();
    assert!(held.responder.begin(support::loop_id()));
    let exchange = std::sync::Arc::clone(held.responder.exchange());
    let writer = held.responder.stream(ReplyHead::new(200), None);
    let _ = writer.send(Bytes::from_static(b"event"));
    client.receive();
    site.running.drain();
    assert!(!site.running.wait_closed(Duration::from_millis(20)));
    assert_eq!(site.running.in_flight(), 1);
    assert_eq!(writer.send(Bytes::from_static(b"more")), Sent::Room, "it lives until the grace is over");
    site.running.close();
    site.desk.wait_abandoned(&exchange);
    assert_eq!(writer.send(Bytes::from_static(b"late")), Sent::Gone);
    assert!(!client.end().ends_with(b"0\r\n\r\n"), "a stream that was cut off does not look complete");
    assert_eq!((site.running.connections(), site.running.in_flight()), (0, 0));
}

#[test]
fn a_request_that_had_arrived_before_the_drain_is_answered() {
    for _ in 0..50 {
        let mut site = Site::start(ServerOptions::default());
        let mut client = site.connect();
        assert_eq!(client.get("/hello").status, 200);
        client.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
        site.running.drain();
        let answer = client.answer();
        assert_eq!((answer.status, answer.text()), (200, "/hello"));
        client.expect_end();
        site.wait_clean();
    }
}

#[test]
fn a_stream_that_began_before_the_drain_keeps_its_connection_until_it_ends_and_no_longer() {
    let mut site = Site::start(ServerOptions::default());
    let mut client = site.connect();
    client.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    let writer = site.desk.held().responder.stream(ReplyHead::new(200), None);
    let _ = writer.send(Bytes::from_static(b"first"));
    client.receive();
    site.running.drain();
    let _ = writer.send(Bytes::from_static(b", last"));
    writer.finish();
    assert_eq!(client.answer().text(), "first, last");
    client.expect_end();
    site.wait_clean();
}

#[test]
fn start_and_stop_under_load_a_hundred_times_leaves_nothing_behind() {
    for round in 0..100 {
        let mut site = Site::start(ServerOptions { io_threads: 1 + round % 2, ..ServerOptions::default() });
        let address = site.address();
        let clients: Vec<_> = (0..3)
            .map(|_| {
                std::thread::spawn(move || {
                    let mut answered = 0;
                    // Refused once nobody listens.
                    while let Ok(stream) = TcpStream::connect(address) {
                        stream.set_read_timeout(Some(DEADLINE)).expect("not zero");
                        let mut client = support::Client::new(stream);
                        while client.offer("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").is_ok() {
                            match client.next_answer(false) {
                                Some(answer) => assert_eq!(answer.text(), "/hello"),
                                None => break,
                            }
                            answered += 1;
                        }
                    }
                    answered
                })
            })
            .collect();
        site.desk.wait_count(5);
        site.running.drain();
        let answered: usize = clients.into_iter().map(|client| client.join().expect("no panic")).sum();
        assert!(answered >= 4, "{answered} answers in round {round}");
        site.wait_clean();
        site.running.close();
    }
}

#[test]
fn a_server_that_is_dropped_closes_everything() {
    let site = Site::start(ServerOptions { io_threads: 2, ..ServerOptions::default() });
    let mut clients: Vec<_> = (0..4).map(|_| site.connect()).collect();
    for client in &mut clients {
        client.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    site.desk.wait_held_count(4);
    drop(site);
    for client in &mut clients {
        client.expect_end();
    }
}

#[test]
fn what_was_answered_before_the_server_is_closed_is_written() {
    for round in 0..20 {
        let mut site = Site::start(ServerOptions { io_threads: 1 + round % 2, ..ServerOptions::default() });
        let mut clients: Vec<_> = (0..100).map(|_| site.connect()).collect();
        for client in &mut clients {
            client.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        site.desk.wait_held_count(100);
        let held: Vec<_> = std::iter::from_fn(|| site.desk.held_now()).collect();
        site.running.drain();
        for held in held {
            held.responder.overloaded();
        }
        site.running.close();
        for client in &mut clients {
            assert_eq!(client.answer().status, 503);
            client.expect_end();
        }
    }
}
