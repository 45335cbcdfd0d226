//! Request bodies: `Expect`, limits, bodies nobody reads, and the one budget for all of them.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oxb_http::options::ServerOptions;
use support::{SMALL, Site, post, post_chunked};

const EXPECTING: &str = "Host: a\r\nExpect: 100-continue\r\n";

#[test]
fn r10_a_client_that_waits_is_told_to_continue_when_its_body_is_wanted() {
    let site = Site::start(ServerOptions::default());
    let body = vec![b'x'; 2 << 20];
    let chunked = post_chunked("/echo", &[&body[..1 << 20], &body[..1 << 20]]);
    let framings = [
        (format!("Content-Length: {}", body.len()), body.clone()),
        (
            "Transfer-Encoding: chunked".to_owned(),
            chunked[chunked.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4..].to_vec(),
        ),
    ];
    let mut client = site.connect();
    for expectation in ["Expect: 100-continue", "expect: 100-Continue"] {
        for (framing, wire) in &framings {
            client.send(format!("POST /echo HTTP/1.1\r\nHost: a\r\n{expectation}\r\n{framing}\r\n\r\n"));
            // Nothing of the body is sent before this comes.
            assert_eq!(client.answer().status, 100);
            let mut writer = client.stream.try_clone().expect("a descriptor is free");
            let wire = wire.clone();
            let sender = std::thread::spawn(move || std::io::Write::write_all(&mut writer, &wire));
            assert!(client.answer().body == body);
            sender.join().expect("no panic").expect("all was taken");
        }
    }
}

#[test]
fn r10_a_request_that_is_refused_gets_its_status_alone_and_the_body_is_not_awaited() {
    let site = Site::start(ServerOptions::default());
    for (line, status) in [
        ("POST /nothing HTTP/1.1", 404),
        ("POST /hello HTTP/1.1", 405),
        ("POST /items/x HTTP/1.1", 422),
        ("POST /small HTTP/1.1", 413),
    ] {
        let mut client = site.connect();
        client.send(format!("{line}\r\n{EXPECTING}Content-Length: 2000000\r\n\r\n"));
        let answer = client.answer();
        // Whether the body follows is for the client to say, so this connection ends.
        assert_eq!((answer.status, answer.closes()), (status, true));
        client.expect_end();
    }
}

#[test]
fn r10_nobody_is_told_to_continue_who_did_not_ask_or_has_nothing_to_send() {
    let site = Site::start(ServerOptions::default());
    for request in [
        format!("POST /echo HTTP/1.1\r\n{EXPECTING}Content-Length: 0\r\n\r\n"),
        format!("GET /hello HTTP/1.1\r\n{EXPECTING}\r\n"),
        "POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc".to_owned(),
        // It did not wait: its body is here.
        format!("POST /echo HTTP/1.1\r\n{EXPECTING}Content-Length: 3\r\n\r\nabc"),
    ] {
        let mut client = site.connect();
        client.send(&request);
        assert_eq!(client.answer().status, 200, "{request}");
    }
}

#[test]
fn r11_a_client_always_gets_the_status_of_a_refused_body() {
    let site = Site::start(ServerOptions::default());
    let large = vec![b'x'; 5 << 20];
    let pieces: Vec<&[u8]> = large.chunks(100_000).collect();
    for (request, status) in [
        (post("/nothing", &large), 404),
        (post("/hello", &large), 405),
        (post("/small", &large), 413),
        (post_chunked("/nothing", &pieces), 404),
        (post_chunked("/small", &pieces), 413),
    ] {
        let mut client = site.connect();
        // A plain client: it writes all of it and then reads. On a slow machine the server may stop reading
        // before the end; the status still arrives.
        let outcome = client.offer(&request);
        let answer = client.answer();
        assert_eq!(answer.status, status);
        if outcome.is_ok() && !answer.closes() {
            client.send("GET /probe HTTP/1.1\r\nHost: a\r\n\r\n");
            if let Some(next) = client.next_answer(false) {
                assert_eq!(next.text(), "/probe");
            }
        }
        assert_eq!(site.connect().get("/hello").status, 200);
    }
    site.finish();
}

/// Without a clock: however long the body is, the connection is usable behind it.
#[cfg(feature = "harness")]
#[test]
fn r11_behind_a_refused_body_the_next_request_is_read_where_it_begins() {
    let large = vec![b'G'; 300_000];
    let pieces: Vec<&[u8]> = large.chunks(999).collect();
    for (request, status) in [
        (post("/nothing", &large), 404),
        (post("/small", &large), 413),
        (post_chunked("/small", &pieces), 413),
        (post_chunked("/hello", &pieces), 405),
    ] {
        for piece_size in [1000, 4096, 65_536] {
            let bytes = [request.clone(), b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()].concat();
            let pieces: Vec<&[u8]> = bytes.chunks(piece_size).collect();
            let found = support::outcome_of(&pieces, ServerOptions::default()).0;
            assert_eq!((found.statuses, found.is_open), (vec![status, 200], true));
            assert_eq!(found.targets, ["/hello"]);
        }
    }
}

#[test]
fn a_body_of_just_the_limit_is_taken_and_one_byte_more_is_not() {
    let site = Site::start(ServerOptions::default());
    let limit = usize::try_from(SMALL).expect("it is small");
    let (fits, over) = (vec![b'x'; limit], vec![b'x'; limit + 1]);
    let mut client = site.connect();
    for _ in 0..2 {
        for (request, status) in [
            (post("/small", &fits), 200),
            (post("/small", &over), 413),
            (post_chunked("/small", &[&fits[1..], b"x"]), 200),
            (post_chunked("/small", &[&fits, b"x"]), 413),
        ] {
            client.send(request);
            let answer = client.answer();
            assert_eq!(answer.status, status);
            assert!(status == 200 || !answer.text().contains("detail"));
        }
    }
    assert!(site.desk.bodies().iter().all(|body| body.len() == limit));
}

#[test]
fn a_body_that_ends_early_is_never_handed_over_and_costs_no_budget() {
    let site = Site::start(ServerOptions::default());
    for request in [post("/echo", b"abcdef"), post_chunked("/echo", &[b"abc", b"def"])] {
        let start = request.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
        for end in start..request.len() {
            let mut client = site.connect();
            client.send(&request[..end]);
            client.shut();
            let answer = client.answer();
            assert_eq!((answer.status, answer.closes()), (400, true));
            assert!(answer.text().contains(r#""detail":"bad body""#));
            client.expect_end();
        }
    }
    // A client that is gone altogether.
    let mut client = site.connect();
    client.send(&post("/echo", &[b'x'; 100_000])[..50_000]);
    site.wait_until("the body is arriving", |running| running.buffered() > 0);
    drop(client);
    site.wait_until("it was given back", |running| running.buffered() == 0);
    assert!(site.desk.targets().is_empty());
    site.finish();
}

#[test]
fn invariant_10_a_body_counts_against_the_budget_until_its_request_has_ended() {
    let site = Site::start(ServerOptions::default());
    let mut client = site.connect();
    client.send(post("/hold", &[b'x'; 5000]));
    let held = site.desk.held();
    assert_eq!(site.running.buffered(), 5000);
    held.responder.overloaded();
    assert_eq!(client.answer().status, 503);
    assert_eq!(site.running.buffered(), 0);
    client.send(post_chunked("/hold", &[b"abc", b"defg"]));
    let held = site.desk.held();
    assert_eq!(site.running.buffered(), 7, "frames do not count");
    drop(client);
    site.wait_until("it was given back", |running| running.buffered() == 0);
    drop(held);
}

/// The frames of small chunks are many times their data; they must not have to fit the budget.
#[test]
fn a_body_in_many_small_chunks_fits_a_budget_of_its_size() {
    let size = 20_000;
    let site = Site::start(ServerOptions { max_body: size, max_buffered: 1, ..ServerOptions::default() });
    let data = vec![b'x'; usize::try_from(size).expect("it is small")];
    let pieces: Vec<&[u8]> = data.chunks(1).collect();
    let mut client = site.connect();
    for _ in 0..2 {
        client.send(post_chunked("/echo", &pieces));
        let answer = client.answer();
        assert_eq!((answer.status, answer.body.len()), (200, data.len()));
    }
}

#[test]
fn invariant_10_a_body_that_does_not_fit_waits_until_others_have_ended() {
    let options = ServerOptions { max_body: 100_000, max_buffered: 100_000, ..ServerOptions::default() };
    let site = Site::start(options);
    let (mut first, mut second) = (site.connect(), site.connect());
    first.send(post("/hold", &[b'x'; 80_000]));
    let held = site.desk.held();
    // Small ones still fit beside it, whatever the frames of their chunks add.
    let data = vec![b'x'; 15_000];
    let pieces: Vec<&[u8]> = data.chunks(1).collect();
    let mut third = site.connect();
    for request in [post("/echo", &data), post_chunked("/echo", &pieces)] {
        third.send(request);
        assert_eq!(third.answer().body.len(), data.len());
    }
    second.send(post("/echo", &[b'y'; 80_000]));
    assert_eq!(site.connect().get("/hello").status, 200, "what has no body waits for nothing");
    assert!(site.running.buffered() <= 100_000);
    held.responder.overloaded();
    assert_eq!((first.answer().status, second.answer().body.len()), (503, 80_000));
}

#[test]
fn invariant_10_a_body_that_never_fits_is_refused_after_the_body_timeout() {
    let options = ServerOptions {
        max_body: 100_000,
        max_buffered: 100_000,
        body_timeout: support::SOON,
        ..ServerOptions::default()
    };
    let site = Site::start(options);
    let (mut first, mut second) = (site.connect(), site.connect());
    first.send(post("/hold", &[b'x'; 100_000]));
    let held = site.desk.held();
    second.send(post("/echo", b"abc"));
    let answer = second.answer();
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    held.responder.overloaded();
    assert_eq!(first.answer().status, 503);
    drop((first, second));
    site.finish();
}

#[test]
fn invariant_10_bodies_that_would_wait_for_each_other_for_ever_do_not() {
    let options = ServerOptions {
        max_body: 100_000,
        max_buffered: 100_000,
        body_timeout: None,
        request_timeout: None,
        ..ServerOptions::default()
    };
    let site = Site::start(options);
    let mut clients = [site.connect(), site.connect()];
    let whole = post("/echo", &[b'x'; 60_000]);
    let cut = whole.len() - 10_000;
    for client in &mut clients {
        client.send(&whole[..cut]);
    }
    site.wait_until("both are half there", |running| running.buffered() == 100_000);
    for client in &mut clients {
        client.send(&whole[cut..]);
    }
    // Neither timeout is set: one is refused because both would wait, and the other goes on.
    let mut statuses = clients.each_mut().map(|client| client.answer().status);
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 503]);
    drop(clients);
    site.finish();
}

/// What one body gives up is a piece for the next, which waits again for the rest: that must not put off its end.
/// A client that sends a byte now and then keeps the wait from being a circle.
#[test]
fn invariant_10_uploads_wait_for_the_body_timeout_in_all_however_often_a_piece_of_theirs_fits() {
    const CLIENTS: usize = 16;
    let body_timeout = Duration::from_secs(1);
    let options = ServerOptions {
        max_body: 1_000_000,
        max_buffered: 1_000_000,
        body_timeout: Some(body_timeout),
        ..ServerOptions::default()
    };
    let site = Site::start(options);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut trickling = site.connect();
    let trickler = {
        let is_over = Arc::clone(&is_over);
        std::thread::spawn(move || {
            let whole = post_chunked("/echo", &[&[b'x'; 900_000]]);
            trickling.send(&whole[..1000]);
            for byte in &whole[1000..] {
                if is_over.load(Ordering::SeqCst) || trickling.offer([*byte]).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        })
    };
    let whole = post("/echo", &[b'x'; 950_000]);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| site.connect()).collect();
    for client in &mut clients {
        client.send(&whole[..60_000]);
    }
    let all_there = 59_000 * u64::try_from(CLIENTS).expect("it is small");
    site.wait_until("a little of each is there", |running| running.buffered() > all_there);
    let began = std::time::Instant::now();
    let waiting: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            let rest = whole[60_000..].to_vec();
            std::thread::spawn(move || {
                // A server that refuses it need not take it all.
                let _ = client.offer(rest);
                (client.answer().status, began.elapsed())
            })
        })
        .collect();
    let answers: Vec<_> = waiting.into_iter().map(|one| one.join().expect("it is answered")).collect();
    is_over.store(true, Ordering::SeqCst);
    trickler.join().expect("no panic");
    assert!(answers.iter().all(|(status, _)| matches!(status, 200 | 503)), "{answers:?}");
    assert!(answers.iter().all(|(_, took)| *took < body_timeout * 5 / 2), "{answers:?}");
}

#[test]
fn invariant_10_five_hundred_clients_that_trickle_stay_within_the_budget() {
    const CLIENTS: usize = 500;
    const BODY: usize = 256 * 1024;
    let limit = 8 << 20;
    let options = ServerOptions {
        max_body: 1 << 20,
        max_buffered: limit,
        body_timeout: Some(Duration::from_secs(1)),
        io_threads: 2,
        ..ServerOptions::default()
    };
    let site = Arc::new(Site::start(options));
    let is_over = Arc::new(AtomicBool::new(false));
    let watcher = {
        let (site, is_over) = (Arc::clone(&site), Arc::clone(&is_over));
        std::thread::spawn(move || {
            let mut most = 0;
            while !is_over.load(Ordering::SeqCst) {
                most = most.max(site.running.buffered());
                std::thread::yield_now();
            }
            most
        })
    };
    let senders: Vec<_> = (0..10)
        .map(|_| {
            let site = Arc::clone(&site);
            std::thread::spawn(move || {
                let mut clients: Vec<_> = (0..CLIENTS / 10).map(|_| site.connect()).collect();
                for client in &mut clients {
                    client.stream.set_nonblocking(true).expect("it is a socket");
                    let head = format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {BODY}\r\n\r\n");
                    client.send(head);
                }
                let mut left = vec![BODY; clients.len()];
                for _ in 0..400 {
                    for (client, left) in clients.iter_mut().zip(&mut left) {
                        let piece = [b'x'; 2048];
                        let count = piece.len().min(*left);
                        // A full socket is what the server wants: it reads no more.
                        if let Ok(count) = std::io::Write::write(&mut client.stream, &piece[..count]) {
                            *left -= count;
                        }
                    }
                }
                let mut statuses = Vec::new();
                for mut client in clients {
                    client.stream.set_nonblocking(false).expect("it is a socket");
                    statuses.push(client.answer().status);
                }
                statuses
            })
        })
        .collect();
    let statuses: Vec<u16> =
        senders.into_iter().flat_map(|sender| sender.join().expect("every client is answered")).collect();
    is_over.store(true, Ordering::SeqCst);
    let most = watcher.join().expect("no panic");
    assert!(most <= limit && most > limit / 2, "{most} bytes of {limit}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 408 | 503)), "{statuses:?}");
    Arc::into_inner(site).expect("all threads have ended").finish();
}
