//! Where a request ends: framing fields, chunks, Host, upgrades and bodyless answers, over a real socket.
//!
//! Every case is sent whole, followed by stray bytes and cut at every byte. A case says which answers come,
//! whether the connection can be used afterwards, and what the service was given.

mod support;

use oxb_http::options::ServerOptions;
use support::{Outcome, Site, post, post_chunked, show};

struct Case {
    input: Vec<u8>,
    statuses: &'static [u16],
    is_open: bool,
    targets: &'static [&'static str],
}

impl Case {
    fn outcome(&self) -> Outcome {
        Outcome {
            statuses: self.statuses.to_vec(),
            is_open: self.is_open,
            targets: self.targets.iter().map(|&target| target.to_owned()).collect(),
        }
    }
}

fn refused(status: &'static [u16], input: impl AsRef<[u8]>) -> Case {
    Case { input: input.as_ref().to_vec(), statuses: status, is_open: false, targets: &[] }
}

/// Runs every case whole, with stray bytes behind it, and cut.
fn check(cases: &[Case]) {
    let site = Site::start(ServerOptions::default());
    for case in cases {
        over_socket(&site, case, &[&case.input]);
        // As text it is no request, and as the rest of one it is no field either.
        let mut with_stray = case.input.clone();
        with_stray.extend_from_slice(b"\0stray bytes\xff\r\n\r\n");
        if case.is_open {
            let mut statuses = case.statuses.to_vec();
            statuses.push(400);
            let expected = Outcome { statuses, is_open: false, ..case.outcome() };
            assert_eq!(answers_of(&site, &[&with_stray], false), expected, "{}", show(&with_stray));
        } else {
            over_socket(&site, case, &[&with_stray]);
        }
        for at in (1..case.input.len()).step_by(5) {
            let (first, second) = case.input.split_at(at);
            over_socket(&site, case, &[first, second]);
        }
        at_every_byte(case);
    }
    site.finish();
}

fn over_socket(site: &Site, case: &Case, pieces: &[&[u8]]) {
    let found = answers_of(site, pieces, case.is_open);
    assert_eq!(
        found,
        case.outcome(),
        "{}",
        pieces.iter().map(|piece| show(piece)).collect::<Vec<_>>().join(" | ")
    );
}

/// What comes of `pieces`, written one by one. An open connection proves it with one more request.
fn answers_of(site: &Site, pieces: &[&[u8]], is_open: bool) -> Outcome {
    let before = site.desk.targets().len();
    let mut client = site.connect();
    for piece in pieces {
        // A refused request may be answered, and its connection closed, before its last byte is sent.
        if client.offer(piece).is_err() {
            break;
        }
    }
    if is_open {
        client.send("GET /probe HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let mut statuses = Vec::new();
    let mut is_alive = false;
    while let Some(answer) = client.next_answer(false) {
        if answer.text() == "/probe" {
            is_alive = true;
            break;
        }
        statuses.push(answer.status);
    }
    let mut targets = site.desk.targets().split_off(before);
    targets.retain(|target| target != "/probe");
    Outcome { statuses, is_open: is_alive, targets }
}

#[cfg(feature = "harness")]
fn at_every_byte(case: &Case) {
    for at in 0..case.input.len() {
        let (first, second) = case.input.split_at(at);
        let found = support::outcome_of(&[first, second], ServerOptions::default()).0;
        assert_eq!(found, case.outcome(), "cut at {at}: {} | {}", show(first), show(second));
    }
    let bytes: Vec<&[u8]> = case.input.chunks(1).collect();
    let found = support::outcome_of(&bytes, ServerOptions::default()).0;
    assert_eq!(found, case.outcome(), "byte by byte: {}", show(&case.input));
}

#[cfg(not(feature = "harness"))]
fn at_every_byte(_: &Case) {}

/// A body that is one by its chunks, another by its length, and behind it a request that nobody made.
fn smuggling(framing: &str) -> String {
    format!(
        "POST /echo HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n0\r\n\r\nGET /hello?smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
    )
}

#[test]
fn r01_a_body_with_two_framings_or_an_unclear_one_is_refused_and_nothing_behind_it_is_read() {
    let bad_requests = [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "transfer-encoding: CHUNKED\r\nCONTENT-LENGTH: 5",
        "Content-Length: 0\r\nTransfer-Encoding: chunked",
        "Content-Length: 4\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5, 5",
        "Content-Length: 5,",
        "Content-Length: +5",
        "Content-Length: -5",
        "Content-Length: 0x5",
        "Content-Length: 5 5",
        "Content-Length:",
        "Content-Length: five",
        "Content-Length: 18446744073709551616",
        "Content-Length: 99999999999999999999999",
        "Content-Length : 5",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunkedx",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: ,chunked",
        "Transfer-Encoding:",
        "Transfer-Encoding: \x0bchunked",
        "Transfer-Encoding:\r\n chunked",
        "X: y\r\n Content-Length: 4",
    ];
    let mut cases: Vec<Case> =
        bad_requests.iter().map(|framing| refused(&[400], smuggling(framing))).collect();
    cases.push(refused(&[501], smuggling("Transfer-Encoding: gzip, chunked")));
    cases.push(refused(&[400], smuggling("Transfer-Encoding: chunked").replacen("HTTP/1.1", "HTTP/1.0", 1)));
    // Bare line feeds and carriage returns are line ends to some and text to others.
    let clear = smuggling("Content-Length: 5");
    cases.push(refused(&[400], clear.replacen("a\r\n", "a\n", 1)));
    cases.push(refused(&[400], clear.replacen("Host: a\r\n", "Host: a\rX: y\r\n", 1)));
    cases.push(refused(&[400], clear.replacen("HTTP/1.1\r\n", "HTTP/1.1\n", 1)));
    cases.push(refused(&[400], clear.replacen("5\r\n\r\n", "5\n\n", 1)));
    cases.push(refused(&[400], clear.replacen("Host: a", "Host: a\r\nX: \0", 1)));
    check(&cases);
}

#[test]
fn r02_a_chunk_whose_size_is_not_that_of_its_data_is_refused_at_once() {
    let body = |chunks: &str| {
        let head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        refused(&[400], format!("{head}{chunks}"))
    };
    check(&[
        body("4\r\nHello\r\n0\r\n\r\n"),
        body("6\r\nHello\r\n0\r\n\r\n"),
        body("5\r\nHello0\r\n\r\n"),
        body("5\r\nHello\n0\r\n\r\n"),
        body("5\nHello\r\n0\r\n\r\n"),
        body("5\r\nHello\r\n0\n\r\n"),
        body("5\r\nHello\r\n0\r\n\n"),
        body("g\r\nHello\r\n0\r\n\r\n"),
        body("-5\r\nHello\r\n0\r\n\r\n"),
        body("0x5\r\nHello\r\n0\r\n\r\n"),
        body(" 5\r\nHello\r\n0\r\n\r\n"),
        body("5 \r\nHello\r\n0\r\n\r\n"),
        body("\r\nHello\r\n0\r\n\r\n"),
        body("10000000000000000\r\nHello\r\n0\r\n\r\n"),
        body("5;a=\"b\n\"\r\nHello\r\n0\r\n\r\n"),
        body("5\r\nHello\r\n0\r\nbad trailer\r\n\r\n"),
        body("5\r\nHello\r\n0\r\n: none\r\n\r\n"),
        body("5\r\nHello\r\n0\r\n folded: x\r\n\r\n"),
    ]);
}

#[test]
fn r02_a_chunked_body_that_is_right_arrives_whole_and_the_connection_goes_on() {
    let site = Site::start(ServerOptions::default());
    let head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (chunks, body) in [
        ("5\r\nHello\r\n0\r\n\r\n", "Hello"),
        ("2\r\nHe\r\n03\r\nllo\r\n000\r\n\r\n", "Hello"),
        ("5;a=b;c=\"d;e\"\r\nHello\r\n0;f\r\n\r\n", "Hello"),
        ("5\r\nHello\r\n0\r\nX: y\r\nContent-Length: 3\r\n\r\n", "Hello"),
        ("7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", "\r\n0\r\n\r\n"),
        ("A\r\n0123456789\r\n0\r\n\r\n", "0123456789"),
        ("0\r\n\r\n", ""),
    ] {
        let mut client = site.connect();
        client.send(format!("{head}{chunks}"));
        assert_eq!((client.answer().text(), client.get("/hello").status), (body, 200), "{chunks:?}");
    }
}

#[test]
fn r04_a_request_with_no_host_or_two_or_a_bad_one_is_refused() {
    let with = |lines: &str| {
        let head = format!("POST /echo HTTP/1.1\r\n{lines}Content-Length: 2\r\n\r\nhi");
        refused(&[400], head)
    };
    check(&[
        with(""),
        with("Host: a\r\nHost: b\r\n"),
        with("Host: a\r\nHost: a\r\n"),
        with("Host: a\r\nX: y\r\nhOST: a\r\n"),
        with("Host: :80\r\n"),
        with("Host:\r\nHost:\r\n"),
        with("Host: a b\r\n"),
        with("Host: a/b\r\n"),
        with("Host: user@a\r\n"),
        with("Host: a:port\r\n"),
        with("Host: [::1\r\n"),
        with("Host: a?b\r\n"),
        with("Host : a\r\n"),
        refused(&[400], "GET http:///hello HTTP/1.1\r\nHost: a\r\n\r\n"),
        refused(&[400], "GET http://a/hello HTTP/1.1\r\n\r\n"),
    ]);
}

#[test]
fn r04_a_request_with_one_host_is_served_in_every_form_of_its_target() {
    let open = |input: &str, targets: &'static [&'static str]| Case {
        input: input.into(),
        statuses: &[200],
        is_open: true,
        targets,
    };
    check(&[
        open("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", &["/hello"]),
        open("GET /hello HTTP/1.1\r\nHost:\r\n\r\n", &["/hello"]),
        open("GET /hello HTTP/1.1\r\nhost:\ta.b:80 \r\n\r\n", &["/hello"]),
        open("GET /hello HTTP/1.1\r\nHost: [::1]:8000\r\n\r\n", &["/hello"]),
        open("GET http://b/hello?x HTTP/1.1\r\nHost: a\r\n\r\n", &["http://b/hello?x"]),
        open("\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n", &["/hello"]),
        open("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &["/hello"]),
        open("GET /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", &["/hello"]),
        open("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", &["/echo"]),
        open("GET /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nGET", &["/hello"]),
    ]);
}

#[test]
fn what_is_no_http_1_request_is_refused_and_the_connection_closed() {
    check(&[
        refused(&[400], "GET  /hello HTTP/1.1\r\nHost: a\r\n\r\n"),
        refused(&[400], "GET /hello\r\nHost: a\r\n\r\n"),
        refused(&[400], "GET /hel lo HTTP/1.1\r\nHost: a\r\n\r\n"),
        refused(&[400], "GET hello HTTP/1.1\r\nHost: a\r\n\r\n"),
        refused(&[400], "GET /hello#x HTTP/1.1\r\nHost: a\r\n\r\n"),
        refused(&[400], "GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
        refused(&[400], "G\x01T /hello HTTP/1.1\r\nHost: a\r\n\r\n"),
        refused(&[400], " GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"),
        refused(&[400], "\r\n\r\n\r\n\r\n\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n"),
        refused(&[400], "GET /hello HTTP/1.1\r\nHost: a\r\nX Y: z\r\n\r\n"),
        refused(&[400], "GET /hello HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n"),
        refused(&[400], "GET /hello HTTP/1.1\r\nHost: a\r\n: z\r\n\r\n"),
        refused(&[400], "GET /hello HTTP/1.1\r\nHost: a\r\nX: \x7f\r\n\r\n"),
        refused(&[400], "GET /hello HTTP/1.1\r\n X: y\r\nHost: a\r\n\r\n"),
        refused(&[400], b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
        refused(&[501], "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n"),
        refused(&[505], "GET /hello HTTP/2.0\r\nHost: a\r\n\r\n"),
        refused(&[505], "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        refused(&[417], "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\nx"),
    ]);
}

#[test]
fn answers_that_need_no_service_leave_the_connection_usable_with_and_without_a_body() {
    let open =
        |statuses: &'static [u16], input: Vec<u8>| Case { input, statuses, is_open: true, targets: &[] };
    check(&[
        open(&[404], b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
        open(&[404], post("/nothing", b"GET /hello HTTP/1.1\r\n\r\n")),
        open(&[404], post_chunked("/nothing", &[b"GET /hello HTTP/1.1", b"\r\n\r\n"])),
        open(&[405], post("/hello", b"GET /hello HTTP/1.1\r\n\r\n")),
        open(&[405], post_chunked("/hello", &[b"0\r\n\r\n"])),
        open(&[422], post("/items/x", b"GET /hello HTTP/1.1\r\n\r\n")),
        open(&[413], post("/small", &[b'x'; 1001])),
        open(&[413], post_chunked("/small", &[&[b'x'; 600], &[b'\r'; 600]])),
        open(&[204], b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
        open(&[204], b"OPTIONS * HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc".to_vec()),
        open(&[405], b"OPTIONS /hello HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
    ]);
}

#[test]
fn options_of_the_server_lists_the_methods_of_all_routes_and_its_own() {
    let site = Site::start(ServerOptions::default());
    let mut client = site.connect();
    client.send("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = client.answer();
    assert_eq!((answer.status, answer.header("allow")), (204, Some("GET, HEAD, OPTIONS, POST")));
    assert_eq!(client.get("/hello").status, 200);
}

#[test]
fn r04_a_service_sees_the_host_that_its_target_names() {
    let site = Site::start(ServerOptions::default());
    for (target, host) in [("http://b:1/hold", "b:1"), ("/hold", "a")] {
        let mut client = site.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let held = site.desk.held();
        assert_eq!(held.request.header("Host"), Some(host.as_bytes()));
        let all: Vec<_> = held.request.headers().collect();
        assert_eq!(all, [("Host", host.as_bytes())]);
        held.responder.overloaded();
        assert_eq!(client.answer().status, 503);
    }
}

#[test]
fn r08_an_upgrade_nobody_speaks_is_ignored_and_the_body_arrives() {
    let site = Site::start(ServerOptions::default());
    let offers = [
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
        "Connection: upgrade\r\nUpgrade: h2c\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
        "Connection: keep-alive, Upgrade\r\nUpgrade: foo/2, TLS/1.0\r\n",
        "Upgrade: h2c\r\n",
    ];
    for offer in offers {
        let framings =
            [("Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\n\r\n"), ("Content-Length: 3", "abc")];
        for (framing, body) in framings {
            let head = format!("POST /echo HTTP/1.1\r\nHost: a\r\n{offer}{framing}\r\n\r\n");
            let whole = format!("{head}{body}");
            check(&[Case { input: whole.into(), statuses: &[200], is_open: true, targets: &["/echo"] }]);
            // The body in a later packet: the head has been read when its answer to `Expect` comes.
            let mut client = site.connect();
            client.send(head.replacen("Host: a", "Host: a\r\nExpect: 100-continue", 1));
            assert_eq!(client.answer().status, 100);
            client.send(body);
            assert_eq!((client.answer().text(), client.get("/hello").status), ("abc", 200), "{offer}");
        }
    }
}

#[test]
fn r07_a_bodyless_answer_has_no_framing_and_no_body_and_the_next_one_parses() {
    let site = Site::start(ServerOptions::default());
    let mut client = site.connect();
    for _ in 0..2 {
        // `parse_answer` refuses framing fields that these statuses must not have.
        for (target, status) in [("/empty", 204), ("/unmodified", 304), ("/hello", 200)] {
            assert_eq!(client.get(target).status, status);
        }
        // RFC 9110 section 15.3.6: no content, and its reader is told so.
        let answer = client.get("/reset");
        assert_eq!((answer.status, answer.header("content-length"), answer.text()), (205, Some("0"), ""));
    }
    client.send("HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.answer_to_head();
    assert_eq!((head.status, head.header("content-length")), (200, Some("6")));
    client.send("HEAD /nothing HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer_to_head().status, 404);
    assert_eq!(client.get("/hello").text(), "/hello");
}
