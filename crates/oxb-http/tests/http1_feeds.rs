//! Answers whose body an I/O thread reads by itself, as event streams of a topic are.

mod support;

use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use oxb_core::{Policy, SubscriptionOptions, Topic, TopicOptions};
use oxb_http::exchange::Feed;
use oxb_http::options::ServerOptions;
use oxb_http::reply::ReplyHead;
use support::Site;

const REQUEST: &str = "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n";

fn topic_of(maxsize: usize, policy: Policy) -> Topic<Bytes> {
    Topic::new("t", TopicOptions { maxsize, policy, keep: 0 }).expect("there is room")
}

fn head() -> ReplyHead {
    ReplyHead::new(200).content_type("text/event-stream")
}

/// Answers the next request on `/hold` from a subscription of `topic`.
fn follow(site: &Site, topic: &Topic<Bytes>) {
    let held = site.desk.held();
    assert!(held.responder.begin(support::loop_id()));
    let subscription = topic.subscribe(SubscriptionOptions::default()).expect("there is room");
    held.responder.feed(head(), Feed::new(subscription));
}

#[test]
fn every_message_of_a_topic_reaches_every_client_in_order() {
    const CLIENTS: usize = 20;
    const MESSAGES: usize = 2_000;
    let site = Site::start(ServerOptions::default());
    let topic = topic_of(16, Policy::Block);
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = site.connect();
        client.send(REQUEST);
        follow(&site, &topic);
        clients.push(std::thread::spawn(move || (client.answer(), client)));
    }
    let expected: String = (0..MESSAGES).map(|number| format!("{number};")).collect();
    for number in 0..MESSAGES {
        assert_eq!(topic.emit(Bytes::from(format!("{number};"))).wait(), Ok(CLIENTS));
    }
    topic.close();
    for client in clients {
        let (answer, mut client) = client.join().expect("the client got it whole");
        assert_eq!(answer.text(), expected);
        assert_eq!(client.get("/hello").status, 200, "the connection goes on");
    }
    assert_eq!(site.desk.abandoned_count(), 0, "no handler is told of the end of a feed");
    site.finish();
}

#[test]
fn a_feed_is_framed_as_its_client_understands_it_and_its_connection_goes_on_where_it_can() {
    let site = Site::start(ServerOptions::default());
    for (request, closes) in [
        (REQUEST, false),
        ("GET /hold HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", true),
        ("GET /hold HTTP/1.0\r\n\r\n", true),
    ] {
        let topic = topic_of(8, Policy::Block);
        let mut client = site.connect();
        client.send(request);
        follow(&site, &topic);
        for piece in ["hello", "", " ", "world"] {
            topic.emit_nowait(Bytes::from(piece)).unwrap();
        }
        topic.close();
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
fn a_feed_is_dropped_when_its_client_leaves_or_wants_its_head_alone() {
    let site = Site::start(ServerOptions::default());
    let topic = topic_of(8, Policy::DropOldest);
    let mut client = site.connect();
    client.send("HEAD /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    follow(&site, &topic);
    assert_eq!(client.answer_to_head().status, 200);
    support::wait_until("nobody follows", || topic.subscriber_count() == 0);
    client.send(REQUEST);
    follow(&site, &topic);
    topic.emit_nowait(Bytes::from_static(b"x")).unwrap();
    assert_eq!(topic.subscriber_count(), 1);
    drop(client);
    support::wait_until("nobody follows", || topic.subscriber_count() == 0);
    site.wait_clean();
    site.finish();
}

/// A lossless subscriber that takes nothing holds emitters up for the write timeout, and no longer.
#[test]
fn r19_a_client_that_takes_nothing_is_closed_and_whoever_waited_for_it_goes_on() {
    const PIECE: usize = 64 * 1024;
    // Long enough for the other one on any machine.
    let write_timeout = Some(Duration::from_secs(3));
    let site = Site::start(ServerOptions { write_timeout, ..ServerOptions::default() });
    let topic = topic_of(2, Policy::Block);
    let mut stuck = site.connect();
    stuck.send(REQUEST);
    follow(&site, &topic);
    let mut reading = site.connect();
    reading.send(REQUEST.replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1));
    follow(&site, &topic);
    let reader = std::thread::spawn(move || {
        let mut received = Vec::new();
        reading
            .stream
            .read_to_end(&mut received)
            .map(|_| received.iter().filter(|byte| **byte == b'x').count())
    });
    // More than the sockets' own buffers take.
    let count = 1_024;
    for _ in 0..count {
        topic.emit(Bytes::from(vec![b'x'; PIECE])).wait().unwrap();
    }
    assert_eq!(topic.subscriber_count(), 1, "the one that takes nothing is gone");
    topic.close();
    let received = reader.join().expect("it reads without panic").expect("its connection ends well");
    let in_head = "text".matches('x').count();
    assert_eq!(received - in_head, count * PIECE, "the other missed nothing");
    drop(stuck);
    site.finish();
}

#[test]
fn something_is_sent_when_nothing_was_for_a_while() {
    let site = Site::start(ServerOptions::default());
    let topic = topic_of(8, Policy::Block);
    let mut client = site.connect();
    client.send("GET /hold HTTP/1.0\r\n\r\n");
    let held = site.desk.held();
    assert!(held.responder.begin(support::loop_id()));
    let subscription = topic.subscribe(SubscriptionOptions::default()).unwrap();
    let ping = Bytes::from_static(b": ping\n\n");
    held.responder.feed(head(), Feed::new(subscription).when_idle(Duration::from_millis(20), ping));
    let mut pings = 0;
    while pings < 3 {
        client.receive();
        pings = String::from_utf8_lossy(&client.received).matches(": ping").count();
    }
    topic.emit_nowait(Bytes::from_static(b"event")).unwrap();
    topic.close();
    assert!(client.answer().text().ends_with("event"));
    site.finish();
}

#[test]
fn a_feed_ends_whole_when_its_server_closes() {
    let mut site = Site::start(ServerOptions::default());
    let topic = topic_of(8, Policy::Block);
    let mut client = site.connect();
    client.send(REQUEST);
    follow(&site, &topic);
    topic.emit_nowait(Bytes::from_static(b"first")).unwrap();
    client.receive();
    site.running.drain();
    site.running.close();
    assert_eq!(client.answer().text(), "first");
    client.expect_end();
    assert_eq!(topic.subscriber_count(), 0);
}
