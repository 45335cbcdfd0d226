//! Timeouts: who is closed, who gets an answer, and that an answer that comes too late finds nobody.
//!
//! Timeouts are set short; a test waits for what they do, not for the time to pass.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use oxb_http::options::ServerOptions;
use oxb_http::reply::Reply;
use support::{SOON, Site, post, show};

fn held(client: &mut support::Client<std::net::TcpStream>, target: &str) {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
}

#[test]
fn a_client_that_is_silent_or_stops_within_a_head_is_closed_without_an_answer() {
    let site = Site::start(ServerOptions { header_timeout: SOON, ..ServerOptions::default() });
    for begun in ["", "\r\n", "G", "GET /hello HTTP/1.1\r\n", "GET /hello HTTP/1.1\r\nHost: a\r\n\r"] {
        let mut client = site.connect();
        client.send(begun);
        client.expect_end();
    }
    // The next head on a connection that was used is bounded as well, whatever the idle timeout is.
    let mut client = site.connect();
    assert_eq!(client.get("/hello").status, 200);
    client.send("GET /hel");
    client.expect_end();
    site.finish();
}

#[test]
fn a_head_that_comes_byte_by_byte_is_bounded_from_its_first_byte_to_its_end() {
    let site = Site::start(ServerOptions { header_timeout: SOON, ..ServerOptions::default() });
    let mut client = site.connect();
    client.send("GET /hello HTTP/1.1\r\nX: ");
    client.stream.set_read_timeout(Some(Duration::from_millis(5))).expect("not zero");
    let mut sent = 0;
    loop {
        use std::io::Read;
        match client.stream.read(&mut [0; 16]) {
            Ok(0) => break,
            Ok(count) => panic!("{count} bytes of an answer"),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(_) if client.offer("y").is_err() => break,
            Err(_) => sent += 1,
        }
        assert!(sent < 60_000, "never closed");
    }
}

#[test]
fn an_idle_connection_is_closed_and_an_empty_line_behind_a_request_changes_nothing() {
    let options =
        ServerOptions { header_timeout: None, keep_alive_timeout: SOON, ..ServerOptions::default() };
    let site = Site::start(options);
    for behind in ["", "\r\n", "\r\n\r\n"] {
        let mut client = site.connect();
        client.send(format!("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n{behind}"));
        assert_eq!(client.answer().status, 200);
        client.expect_end();
    }
    site.finish();
}

#[test]
fn a_body_that_stalls_is_answered_408_and_never_handed_over() {
    let site = Site::start(ServerOptions { body_timeout: SOON, ..ServerOptions::default() });
    // Where the request timeout is the shorter one, that counts.
    let other = Site::start(ServerOptions { request_timeout: SOON, ..ServerOptions::default() });
    let requests = [
        post("/echo", b"abcdef"),
        b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n0\r\n\r\n"
            .to_vec(),
    ];
    for site in [site, other] {
        for request in &requests {
            for missing in [1, 3, 6] {
                let mut client = site.connect();
                client.send(&request[..request.len() - missing]);
                let answer = client.answer();
                assert_eq!((answer.status, answer.closes()), (408, true), "{}", show(request));
                assert!(answer.text().contains(r#""detail":"request body stalled""#));
                client.expect_end();
            }
        }
        assert!(site.desk.targets().is_empty());
        site.finish();
    }
}

#[test]
fn a_client_that_takes_nothing_of_its_answer_is_closed() {
    let site = Site::start(ServerOptions { write_timeout: SOON, ..ServerOptions::default() });
    let mut client = site.connect();
    held(&mut client, "/large");
    support::wait_until("the request has been answered", || site.desk.targets().len() == 1);
    // It reads nothing, so the server gives up; and nothing else tells it that.
    site.wait_until("the server has closed it", |running| running.connections() == 0);
    assert!(client.end().len() < support::LARGE);
    site.finish();
}

#[test]
fn a_request_without_an_answer_in_time_gets_504_and_the_late_answer_finds_nobody() {
    let site = Site::start(ServerOptions { request_timeout: SOON, ..ServerOptions::default() });
    let mut client = site.connect();
    for round in 0..3 {
        held(&mut client, "/hold");
        let late = site.desk.held();
        assert!(late.responder.begin(support::loop_id()));
        let answer = client.answer();
        assert_eq!(answer.status, 504);
        assert!(answer.text().contains(r#""detail":"handler did not respond in time""#));
        site.desk.wait_abandoned(late.responder.exchange());
        late.responder.reply(Reply::new(200, "text/plain", "too late"));
        assert_eq!(client.get(&format!("/items/{round}")).status, 200, "the next answer is its own");
    }
    drop(client);
    site.finish();
}

#[test]
fn a_queued_request_that_was_answered_by_a_timeout_never_runs() {
    let site = Site::start(ServerOptions { queue_timeout: SOON, ..ServerOptions::default() });
    let mut client = site.connect();
    held(&mut client, "/hold");
    let queued = site.desk.held();
    assert_eq!(client.answer().status, 503);
    assert!(!queued.responder.begin(support::loop_id()));
    assert_eq!(site.desk.abandoned_count(), 0, "no loop has it, so none is told");
    // One that was begun in time has the rest of its request timeout.
    held(&mut client, "/hold");
    let begun = site.desk.held();
    assert!(begun.responder.begin(support::loop_id()));
    let mut witness = site.connect();
    held(&mut witness, "/hold");
    assert_eq!(witness.answer().status, 503, "the queue timeout has passed");
    begun.responder.reply(Reply::new(200, "text/plain", "in time"));
    assert_eq!(client.answer().text(), "in time");
}

#[test]
fn a_queue_timeout_longer_than_the_request_timeout_does_not_put_that_off() {
    let queue_timeout = Some(Duration::from_secs(3600));
    let site =
        Site::start(ServerOptions { queue_timeout, request_timeout: SOON, ..ServerOptions::default() });
    let mut client = site.connect();
    held(&mut client, "/hold");
    assert_eq!(client.answer().status, 504);
}

#[test]
fn a_route_that_is_not_cancelled_runs_on_after_its_timeout() {
    let site = Site::start(ServerOptions { request_timeout: SOON, ..ServerOptions::default() });
    let mut client = site.connect();
    held(&mut client, "/stubborn");
    let running = site.desk.held();
    assert_eq!(client.answer().status, 504);
    assert!(running.responder.begin(support::loop_id()), "even when it was still queued");
    assert!(!running.responder.exchange().is_abandoned());
    running.responder.reply(Reply::new(200, "text/plain", "nobody reads this"));
    assert_eq!(client.get("/hello").text(), "/hello");
    assert_eq!(site.desk.abandoned_count(), 0);
}

/// Invariant 5: answered exactly once and to its own client, whatever races: answers of other threads, timeouts
/// and clients that leave.
#[test]
fn invariant_5_every_request_is_answered_once_and_to_its_own_client() {
    let request_timeout = Some(Duration::from_millis(20));
    let site = Site::start(ServerOptions { request_timeout, io_threads: 2, ..ServerOptions::default() });
    let site = Arc::new(site);
    let (is_over, answered, timed_out) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let loops: Vec<_> = (0..3u64)
        .map(|seed| {
            let (site, is_over) = (Arc::clone(&site), Arc::clone(&is_over));
            std::thread::spawn(move || {
                let mut dice = seed + 1;
                let (mut kept, mut late) = (Vec::new(), Vec::new());
                while !is_over.load(Ordering::SeqCst) || site.desk.held_count() > 0 {
                    dice =
                        dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    if let Some(one) = site.desk.held_now() {
                        // Some are answered at once, some about when their timeout fires, some long after it.
                        let is_late = one.request.query().is_some_and(|token| token.ends_with('3'));
                        if is_late { late.push(one) } else { kept.push(one) }
                    }
                    if late.len() > 5 {
                        let one: support::Held = late.remove(0);
                        one.responder.reply(Reply::new(
                            200,
                            "text/plain",
                            one.request.query().unwrap_or("").to_owned(),
                        ));
                    }
                    let is_rare = dice >> 54 == 0;
                    if kept.len() > (dice >> 60) as usize || (!kept.is_empty() && is_rare) {
                        let one = kept.swap_remove((dice >> 33) as usize % kept.len());
                        let token = one.request.query().unwrap_or("").to_owned();
                        let may_run = one.responder.begin(support::loop_id());
                        match dice >> 62 {
                            0 => drop(one.responder),
                            1 if may_run => {
                                let head = oxb_http::reply::ReplyHead::new(200).content_type("text/plain");
                                let writer = one.responder.stream(head, None);
                                let _ = writer.send(token.into());
                                writer.finish();
                            }
                            _ => one.responder.reply(Reply::new(200, "text/plain", token)),
                        }
                    }
                    std::thread::yield_now();
                }
            })
        })
        .collect();
    let clients: Vec<_> = (0..8)
        .map(|number| {
            let (site, answered, timed_out) =
                (Arc::clone(&site), Arc::clone(&answered), Arc::clone(&timed_out));
            std::thread::spawn(move || {
                let mut client = site.connect();
                for round in 0..60 {
                    let token = format!("{number}-{round}");
                    client.send(format!("GET /hold?{token} HTTP/1.1\r\nHost: a\r\n\r\n"));
                    if round % 7 == number % 7 {
                        client = site.connect();
                        continue;
                    }
                    let answer = client.answer();
                    match answer.status {
                        200 => assert_eq!(answer.text(), token),
                        status => assert!(matches!(status, 500 | 504), "{status}"),
                    }
                    timed_out.fetch_add(usize::from(answer.status == 504), Ordering::SeqCst);
                    answered.fetch_add(1, Ordering::SeqCst);
                }
                client.shut();
                client.expect_end();
            })
        })
        .collect();
    for client in clients {
        client.join().expect("every answer was the client's own");
    }
    is_over.store(true, Ordering::SeqCst);
    for one in loops {
        one.join().expect("no loop panics");
    }
    assert_eq!(site.desk.targets().len(), 8 * 60);
    assert!(answered.load(Ordering::SeqCst) >= 8 * 50 && timed_out.load(Ordering::SeqCst) > 0);
    Arc::into_inner(site).expect("all threads have ended").finish();
}
