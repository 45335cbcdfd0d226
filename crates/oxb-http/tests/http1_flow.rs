//! Bodies that flow to a handler which runs already: read when it asks, bounded, cut short, left unread.

mod support;

use std::io::Write;
use std::time::Duration;

use oxb_http::exchange::Responder;
use oxb_http::inflow::{BodyFailure, BodyReader, Next};
use oxb_http::options::ServerOptions;
use oxb_http::reply::{Reply, ReplyHead};
use support::{SMALL, SOON, Site, post, post_chunked};

/// A request whose body flows, begun.
struct Flow<'a> {
    site: &'a Site,
    reader: Box<BodyReader>,
    responder: Responder,
}

impl Flow<'_> {
    fn begun(site: &Site) -> Flow<'_> {
        let mut held = site.desk.held();
        assert!(held.responder.begin(support::loop_id()));
        let reader = held.request.take_reader().expect("a body that flows");
        Flow { site, reader, responder: held.responder }
    }

    /// The next piece, the end or a failure, however long it takes.
    fn next(&self) -> Next {
        loop {
            match self.reader.next() {
                Next::Later => self.site.desk.wait_body(self.reader.exchange()),
                next => return next,
            }
        }
    }

    /// What is left, and how it ended.
    fn rest(&self) -> (Vec<u8>, Next) {
        let mut body = Vec::new();
        loop {
            match self.next() {
                Next::Piece(piece) => body.extend_from_slice(&piece),
                end => return (body, end),
            }
        }
    }

    fn answer(self, status: u16) {
        self.responder.reply(Reply::new(status, "text/plain", "done"));
    }
}

fn expecting(target: &str, length: usize) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n")
}

#[test]
fn a_body_flows_whole_in_both_framings_and_the_next_request_is_read_behind_it() {
    let site = Site::start(ServerOptions::default());
    let data: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let pieces: Vec<&[u8]> = data.chunks(70_001).collect();
    let mut client = site.connect();
    for request in [post("/flow", &data), post_chunked("/flow", &pieces), post_chunked("/flow", &[])] {
        let expected = if request.len() > 1000 { &data[..] } else { b"" };
        let mut writer = client.stream.try_clone().expect("a descriptor is free");
        let sender = std::thread::spawn(move || writer.write_all(&request));
        let flow = Flow::begun(&site);
        let (body, end) = flow.rest();
        assert!(body == expected && end == Next::End);
        assert_eq!(flow.next(), Next::End, "so every later read finds");
        flow.answer(200);
        assert_eq!(client.answer().status, 200);
        assert_eq!(client.get("/hello").text(), "/hello");
        sender.join().expect("no panic").expect("all was taken");
    }
    // No body at all: there is nothing to flow.
    client.send("POST /flow HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut held = site.desk.held();
    assert!(held.request.take_reader().is_none());
    held.responder.reply(Reply::new(200, "text/plain", ""));
    assert_eq!(client.answer().status, 200);
    site.finish();
}

#[test]
fn r10_the_client_is_told_to_continue_when_its_body_is_asked_for_and_not_before() {
    let site = Site::start(ServerOptions::default());
    let mut client = site.connect();
    client.send(expecting("/flow", 5));
    let flow = Flow::begun(&site);
    assert_eq!(flow.reader.next(), Next::Later);
    assert_eq!(client.answer().status, 100);
    client.send("hello");
    assert_eq!(flow.rest(), (b"hello".to_vec(), Next::End));
    flow.answer(200);
    assert_eq!(client.answer().status, 200);
    // Answered without reading: the status alone, and the body is not awaited.
    client.send(expecting("/flow", 5));
    Flow::begun(&site).answer(403);
    let answer = client.answer();
    assert_eq!((answer.status, answer.closes()), (403, true));
    client.expect_end();
    // The same with an answer in pieces.
    let mut client = site.connect();
    client.send(expecting("/flow", 5));
    let flow = Flow::begun(&site);
    let writer = flow.responder.stream(ReplyHead::new(200), None);
    writer.finish();
    assert!(client.answer().closes());
    client.expect_end();
    // It did not wait: its body is here, nobody is told anything.
    let mut client = site.connect();
    client.send(expecting("/flow", 5) + "hello");
    let flow = Flow::begun(&site);
    assert_eq!(flow.rest(), (b"hello".to_vec(), Next::End));
    flow.answer(200);
    assert_eq!((client.answer().status, client.get("/hello").status), (200, 200));
    site.finish();
}

#[test]
fn invariant_10_what_waits_for_a_reader_is_bounded_however_much_is_sent() {
    let size = 32 << 20;
    for max_buffered in [256 << 20, 1] {
        let options = ServerOptions { max_body: u64::MAX, max_buffered, ..ServerOptions::default() };
        // `max_buffered` is at least the largest body, which takes the second case back to what it says.
        let options =
            if max_buffered == 1 { ServerOptions { max_body: 1 << 17, ..options } } else { options };
        let site = Site::start(options);
        let body = vec![b'x'; if max_buffered == 1 { 1 << 17 } else { size }];
        let client = site.connect();
        let mut writer = client.stream.try_clone().expect("a descriptor is free");
        let (request, length) = (post("/flow", &body), body.len());
        let sender = std::thread::spawn(move || writer.write_all(&request));
        let flow = Flow::begun(&site);
        let mut seen = 0;
        loop {
            let buffered = site.running.buffered();
            assert!(buffered <= (1 << 20) + (1 << 18), "{buffered} bytes wait");
            match flow.next() {
                Next::Piece(piece) => seen += piece.len(),
                end => {
                    assert_eq!((end, seen), (Next::End, length));
                    break;
                }
            }
        }
        sender.join().expect("no panic").expect("all was taken");
        flow.answer(200);
        let mut client = client;
        assert_eq!(client.answer().status, 200);
        site.finish();
    }
}

#[test]
fn a_client_that_sends_byte_by_byte_costs_no_buffer_for_each() {
    let site = Site::start(ServerOptions::default());
    let data = vec![b'x'; 20_000];
    let mut client = site.connect();
    client.send(post_chunked("/flow", &data.chunks(1).collect::<Vec<_>>()));
    let flow = Flow::begun(&site);
    let (mut seen, mut pieces) = (0, 0);
    while let Next::Piece(piece) = flow.next() {
        seen += piece.len();
        pieces += 1;
    }
    assert!(seen == data.len() && pieces < 100, "{pieces} pieces");
    flow.answer(200);
    assert_eq!(client.answer().status, 200);
}

#[test]
fn a_body_over_the_limit_fails_at_once_where_it_says_so_and_is_read_away() {
    let site = Site::start(ServerOptions::default());
    let limit = usize::try_from(SMALL).expect("it is small");
    let over = vec![b'x'; limit + 1];
    let failure = BodyFailure::TooLarge(SMALL);
    assert_eq!(
        (failure.status(), failure.to_string().as_str()),
        (413, "request body larger than 1000 bytes")
    );
    let mut client = site.connect();
    // Declared: the reader need not wait for it, and a client that asks is not told to send it.
    client.send(expecting("/flow/small", limit + 1));
    let flow = Flow::begun(&site);
    assert_eq!(flow.reader.next(), Next::Failed(failure));
    flow.answer(413);
    let answer = client.answer();
    assert_eq!((answer.status, answer.closes()), (413, true));
    client.expect_end();
    let mut client = site.connect();
    for request in [post("/flow/small", &over), post_chunked("/flow/small", &[&over[1..], b"xx", b"more"])] {
        client.send(request);
        let flow = Flow::begun(&site);
        let (body, end) = flow.rest();
        assert!(body.len() <= limit);
        assert_eq!((end, flow.next()), (Next::Failed(failure), Next::Failed(failure)));
        flow.answer(413);
        assert_eq!(client.answer().status, 413);
        assert_eq!(client.get("/hello").text(), "/hello");
    }
    // Just the limit.
    client.send(post_chunked("/flow/small", &[&over[1..]]));
    let flow = Flow::begun(&site);
    assert_eq!(flow.rest().1, Next::End);
    flow.answer(200);
    assert_eq!(client.answer().status, 200);
    site.finish();
}

#[test]
fn r11_an_answer_before_the_body_is_read_arrives_and_the_next_request_works() {
    let site = Site::start(ServerOptions::default());
    let large = vec![b'x'; 5 << 20];
    for status in [200, 413] {
        let mut client = site.connect();
        let mut writer = client.stream.try_clone().expect("a descriptor is free");
        let request = post("/flow", &large);
        let sender = std::thread::spawn(move || writer.write_all(&request));
        Flow::begun(&site).answer(status);
        assert_eq!(client.answer().status, status);
        // Read away in time or not, which is the machine's to say; another connection works in any case.
        if sender.join().expect("no panic").is_ok() {
            client.send("GET /probe HTTP/1.1\r\nHost: a\r\n\r\n");
            if let Some(next) = client.next_answer(false) {
                assert_eq!(next.text(), "/probe");
            }
        }
        assert_eq!(site.connect().get("/hello").status, 200);
    }
    // A reader that is left behind by its answer learns it, waiting or not.
    let mut client = site.connect();
    client.send(&post("/flow", b"hello")[..post("/flow", b"hello").len() - 1]);
    let flow = Flow::begun(&site);
    assert_eq!(flow.next(), Next::Piece(b"hell".to_vec()));
    assert_eq!(flow.reader.next(), Next::Later);
    let Flow { reader, responder, .. } = flow;
    responder.reply(Reply::new(200, "text/plain", "done"));
    site.desk.wait_body(reader.exchange());
    assert_eq!(reader.next(), Next::Failed(BodyFailure::EndedEarly));
    assert_eq!(client.answer().status, 200);
    client.send("o");
    assert_eq!(client.get("/hello").text(), "/hello");
    site.finish();
}

#[test]
fn a_body_that_ends_early_fails_its_reader_which_may_answer() {
    let site = Site::start(ServerOptions::default());
    for request in [post("/flow", b"hello"), post_chunked("/flow", &[b"he", b"llo"])] {
        let mut client = site.connect();
        client.send(&request[..request.len() - 1]);
        client.shut();
        let flow = Flow::begun(&site);
        let (body, end) = flow.rest();
        assert!(body.len() >= 4);
        assert_eq!(end, Next::Failed(BodyFailure::EndedEarly));
        // Known to it, so it is not cancelled, however long it takes to answer.
        std::thread::sleep(Duration::from_millis(600));
        assert_eq!(site.desk.abandoned_count(), 0);
        flow.answer(400);
        let answer = client.answer();
        assert_eq!((answer.status, answer.closes()), (400, true));
        client.expect_end();
    }
    site.finish();
}

#[test]
fn a_handler_that_does_not_read_on_is_cancelled_when_its_client_leaves() {
    let site = Site::start(ServerOptions::default());
    for pieces in [0, 1] {
        let mut client = site.connect();
        client.send(&post("/flow", b"hello")[..post("/flow", b"hello").len() - 1]);
        let flow = Flow::begun(&site);
        for _ in 0..pieces {
            assert!(matches!(flow.next(), Next::Piece(_)));
        }
        drop(client);
        site.desk.wait_abandoned(flow.reader.exchange());
        assert_eq!(flow.rest().1, Next::Failed(BodyFailure::EndedEarly));
    }
    site.wait_until("both are gone", |running| running.connections() == 0);
    site.finish();
}

#[test]
fn broken_framing_fails_the_reader_and_ends_the_connection() {
    let site = Site::start(ServerOptions::default());
    let mut client = site.connect();
    client.send("POST /flow HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n");
    let flow = Flow::begun(&site);
    let (body, end) = flow.rest();
    assert!(body.len() <= 4);
    assert_eq!(end, Next::Failed(BodyFailure::Broken));
    flow.answer(400);
    let answer = client.answer();
    assert_eq!((answer.status, answer.closes()), (400, true));
    client.expect_end();
    site.finish();
}

#[test]
fn a_client_that_sends_nothing_fails_the_reader_and_not_the_handler() {
    // The shorter of the two, whichever that is.
    for options in [
        ServerOptions { body_timeout: SOON, ..ServerOptions::default() },
        ServerOptions { request_timeout: SOON, ..ServerOptions::default() },
    ] {
        let site = Site::start(options);
        let mut client = site.connect();
        client.send(&post("/flow", b"hello")[..post("/flow", b"hello").len() - 1]);
        let flow = Flow::begun(&site);
        assert_eq!(flow.rest(), (b"hell".to_vec(), Next::Failed(BodyFailure::Stalled)));
        flow.answer(408);
        let answer = client.answer();
        assert_eq!((answer.status, answer.closes()), (408, true));
        client.expect_end();
        site.finish();
    }
}

#[test]
fn the_time_of_a_handler_stands_still_while_it_waits_for_its_client() {
    let timeout = Duration::from_millis(400);
    let site = Site::start(ServerOptions { request_timeout: Some(timeout), ..ServerOptions::default() });
    let mut client = site.connect();
    let request = post("/flow", &[b'x'; 8]);
    let (head, body) = request.split_at(request.len() - 8);
    client.send(head);
    let flow = Flow::begun(&site);
    for byte in body {
        // Longer in sum than the timeout, never in one wait.
        assert_eq!(flow.reader.next(), Next::Later);
        std::thread::sleep(timeout / 4);
        client.send([*byte]);
        assert_eq!(flow.next(), Next::Piece(vec![*byte]));
    }
    // All is there: now it is the handler that keeps its client waiting.
    assert_eq!(flow.next(), Next::End);
    assert_eq!(client.answer().status, 504);
    site.desk.wait_abandoned(flow.reader.exchange());
    // One that never asks for the body is late as any.
    client.send(post("/flow", b"hello"));
    let flow = Flow::begun(&site);
    assert_eq!(client.answer().status, 504);
    site.desk.wait_abandoned(flow.reader.exchange());
    assert_eq!(flow.next(), Next::Failed(BodyFailure::EndedEarly));
    assert_eq!(client.get("/hello").text(), "/hello");
    site.finish();
}

#[test]
fn a_body_flows_while_its_answer_does() {
    let site = Site::start(ServerOptions::default());
    let mut client = site.connect();
    client.send(&post("/flow", b"abcdef")[..post("/flow", b"abcdef").len() - 3]);
    let flow = Flow::begun(&site);
    assert_eq!(flow.next(), Next::Piece(b"abc".to_vec()));
    let Flow { site, reader, responder } = flow;
    let writer = responder.stream(ReplyHead::new(200), None);
    assert_eq!(reader.next(), Next::Later);
    client.send("def");
    site.desk.wait_body(reader.exchange());
    assert_eq!(reader.next(), Next::Piece(b"def".to_vec()));
    let _ = writer.send("whole".into());
    writer.finish();
    assert_eq!((client.answer().text(), client.get("/hello").text()), ("whole", "/hello"));
    // A client that leaves in the middle of both: the source is told.
    client.send(&post("/flow", b"abcdef")[..post("/flow", b"abcdef").len() - 3]);
    let flow = Flow::begun(site);
    assert_eq!(flow.next(), Next::Piece(b"abc".to_vec()));
    let Flow { reader, responder, .. } = flow;
    let writer = responder.stream(ReplyHead::new(200), None);
    assert_eq!(reader.next(), Next::Later);
    drop(client);
    site.desk.wait_abandoned(reader.exchange());
    assert_eq!(reader.next(), Next::Failed(BodyFailure::EndedEarly));
    drop(writer);
    site.wait_until("it is gone", |running| running.connections() == 0);
}
