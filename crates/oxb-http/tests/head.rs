//! Heads of requests: what is accepted and how it reads, what is refused and with which status.
//!
//! Each input is given whole, cut at every byte, and followed by stray bytes.

use bytes::Bytes;
use oxb_http::head::{Head, HeadError, HeadLimits, HeadScan};
use proptest::prelude::*;

/// Scans `pieces` as a connection would see them arrive, then parses; `None` when the head has not ended.
fn read(pieces: &[&[u8]], limits: &HeadLimits) -> Result<Option<Head>, HeadError> {
    let mut scan = HeadScan::new();
    let mut buf = Vec::new();
    for piece in pieces {
        buf.extend_from_slice(piece);
        if let Some(len) = scan.advance(&buf, limits)? {
            buf.truncate(len);
            return Head::parse(Bytes::from(buf), limits).map(Some);
        }
    }
    Ok(None)
}

fn describe(result: &Result<Option<Head>, HeadError>) -> String {
    match result {
        Err(error) => format!("{} {}", error.status(), error.detail()),
        Ok(None) => "unfinished".to_owned(),
        Ok(Some(head)) => {
            let framing = head.framing();
            let flags: String = [
                (framing.keep_alive, " keep"),
                (framing.expects_continue, " continue"),
                (framing.upgrade, " upgrade"),
            ]
            .iter()
            .filter(|(is_set, _)| *is_set)
            .map(|(_, name)| *name)
            .collect();
            let query = head.query().map(|query| format!(" ?{query}")).unwrap_or_default();
            format!("{} {}{query} {:?}{flags}", head.method(), head.path(), framing.body)
        }
    }
}

fn check(input: &[u8], expected: &str, limits: &HeadLimits) {
    let whole = describe(&read(&[input], limits));
    assert_eq!(whole, expected, "{:?}", String::from_utf8_lossy(input));
    for cut in 0..=input.len() {
        let (one, other) = input.split_at(cut);
        assert_eq!(describe(&read(&[one, other], limits)), expected, "{:?}", String::from_utf8_lossy(one));
    }
    let bytewise: Vec<&[u8]> = input.chunks(1).collect();
    assert_eq!(describe(&read(&bytewise, limits)), expected, "byte by byte");
    if expected == "unfinished" {
        return;
    }
    for stray in [
        &b"GET / HTTP/1.1\r\nHost: stray\r\n\r\n"[..],
        b"\r\n\r\n",
        b"\n",
        b"\0",
        b" folded\r\n",
        b"\xff\xff\xff",
    ] {
        let followed = [input, stray].concat();
        assert_eq!(describe(&read(&[&followed], limits)), expected, "followed by {stray:?}");
    }
}

#[test]
fn a_head_that_keeps_the_rules_reads_as_it_was_meant() {
    const HEADS: &[(&str, &str)] = &[
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / None keep"),
        ("GET / HTTP/1.1\r\nHOST:a\r\n\r\n", "GET / None keep"),
        ("GET /a/b?c=d?e HTTP/1.1\r\nHost: a:80\r\n\r\n", "GET /a/b ?c=d?e None keep"),
        ("GET /? HTTP/1.1\r\nHost: a\r\n\r\n", "GET / ? None keep"),
        ("GET //a/../b%2F|{} HTTP/1.1\r\nHost: a\r\n\r\n", "GET //a/../b%2F|{} None keep"),
        ("get / HTTP/1.1\r\nHost: a\r\n\r\n", "get / None keep"),
        ("PURGE-ALL / HTTP/1.1\r\nHost: a\r\n\r\n", "PURGE-ALL / None keep"),
        ("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / None keep"),
        // Hosts.
        ("GET / HTTP/1.1\r\nHost: [::1]:8000\r\n\r\n", "GET / None keep"),
        ("GET / HTTP/1.1\r\nHost: a.b-c_d~e:\r\n\r\n", "GET / None keep"),
        ("GET / HTTP/1.1\r\nHost: caf%C3%A9\r\n\r\n", "GET / None keep"),
        ("GET / HTTP/1.1\r\nHost: %41b%42:1\r\n\r\n", "GET / None keep"),
        ("GET / HTTP/1.1\r\nHost: \t a \t\r\n\r\n", "GET / None keep"),
        ("GET / HTTP/1.0\r\n\r\n", "GET / None"),
        // Targets (RFC 9112 §3.2).
        ("GET http://b:1/x?y HTTP/1.1\r\nHost: a\r\n\r\n", "GET /x ?y None keep"),
        ("GET HTTPS://b HTTP/1.1\r\nHost: a\r\n\r\n", "GET / None keep"),
        ("GET http://b?y HTTP/1.1\r\nHost: a\r\n\r\n", "GET / ?y None keep"),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * None keep"),
        // §3.2: the Host of a target without an authority.
        ("GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET / None keep"),
        ("GET / HTTP/1.1\r\nHost: \t \r\n\r\n", "GET / None keep"),
        // Bodies.
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "POST / Length(0) keep"),
        ("POST / HTTP/1.1\r\nHost: a\r\ncontent-length:\t007 \r\n\r\n", "POST / Length(7) keep"),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551615\r\n\r\n",
            "POST / Length(18446744073709551615) keep",
        ),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n", "POST / Chunked keep"),
        // Connections (RFC 9112 §9.3).
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "GET / None"),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: te , ClOsE\r\n\r\n", "GET / None"),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: closed\r\n\r\n", "GET / None keep"),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", "GET / None"),
        ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET / None keep"),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n",
            "GET / None keep upgrade",
        ),
        ("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n", "GET / None keep"),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n\r\n", "GET / None keep"),
        ("GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", "GET / None"),
        // Expectations (RFC 9110 §10.1.1).
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-Continue\r\n\r\n",
            "POST / Length(1) keep continue",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n",
            "POST / Length(0) keep",
        ),
        ("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", "GET / None keep"),
        ("POST / HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n", "POST / Length(1)"),
        // Values of any field: empty, bytes above ASCII.
        ("GET / HTTP/1.1\r\nHost: a\r\nX:\r\nY: \r\nZ: \u{e9}\r\n\r\n", "GET / None keep"),
        ("GET / HTTP/1.1\r\nHost: a\r", "unfinished"),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r", "unfinished"),
        ("\r\n", "unfinished"),
    ];
    for (head, expected) in HEADS {
        check(head.as_bytes(), expected, &HeadLimits::default());
    }
}

#[test]
fn a_head_that_breaks_a_rule_is_refused_with_its_status() {
    const HEADS: &[(&str, &str)] = &[
        // R01: two framings at once.
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
            "400 Content-Length beside Transfer-Encoding",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
            "400 Content-Length beside Transfer-Encoding",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\n",
            "400 more than one Content-Length",
        ),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4, 4\r\n\r\n", "400 bad Content-Length"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", "400 bad Content-Length"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +4\r\n\r\n", "400 bad Content-Length"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", "400 bad Content-Length"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x4\r\n\r\n", "400 bad Content-Length"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4 4\r\n\r\n", "400 bad Content-Length"),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n",
            "400 bad Content-Length",
        ),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", "400 bad Transfer-Encoding"),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
            "400 bad Transfer-Encoding",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
            "400 bad Transfer-Encoding",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "400 bad Transfer-Encoding",
        ),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,\r\n\r\n", "400 bad Transfer-Encoding"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n", "400 bad Transfer-Encoding"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", "400 bad Transfer-Encoding"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", "400 bad Transfer-Encoding"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", "400 bad Transfer-Encoding"),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "501 unknown transfer coding",
        ),
        ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "400 Transfer-Encoding in HTTP/1.0"),
        // R04: Host.
        ("GET / HTTP/1.1\r\n\r\n", "400 no Host field"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400 more than one Host field"),
        ("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", "400 more than one Host field"),
        ("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", "400 more than one Host field"),
        ("GET / HTTP/1.1\r\nHost: :80\r\n\r\n", "400 bad Host field"),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "400 bad Host field"),
        ("GET / HTTP/1.1\r\nHost: user@a\r\n\r\n", "400 bad Host field"),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "400 bad Host field"),
        ("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", "400 bad Host field"),
        ("GET / HTTP/1.1\r\nHost: :80\r\n\r\n", "400 bad Host field"),
        ("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", "400 bad Host field"),
        ("GET / HTTP/1.1\r\nHost: []\r\n\r\n", "400 bad Host field"),
        ("GET / HTTP/1.1\r\nHost: a%4\r\n\r\n", "400 bad Host field"),
        ("GET / HTTP/1.1\r\nHost: a%4g\r\n\r\n", "400 bad Host field"),
        ("GET / HTTP/1.1\r\nHost: [a%41]\r\n\r\n", "400 bad Host field"),
        ("GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n", "400 bad Host field"),
        ("GET / HTTP/1.1\r\nHost: a:1:2\r\n\r\n", "400 bad Host field"),
        // Line ends, folding, control characters.
        ("GET / HTTP/1.1\nHost: a\r\n\r\n", "400 bare LF in head"),
        ("GET / HTTP/1.1\r\nHost: a\n\r\n", "400 bare LF in head"),
        ("GET / HTTP/1.1\r\nHost: a\r\n\n", "400 bare LF in head"),
        ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "400 bare LF in head"),
        ("GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", "400 bare CR in head"),
        ("GET / HTTP/1.1\r\rHost: a\r\n\r\n", "400 bare CR in head"),
        ("GET / HTTP/1.1\r\nHost: a\0\r\n\r\n", "400 NUL in head"),
        ("G\0", "400 NUL in head"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", "400 obsolete line folding in head"),
        ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", "400 obsolete line folding in head"),
        ("GET / HTTP/1.1\r\nHost: a\r\n\tX: b\r\n\r\n", "400 obsolete line folding in head"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n", "400 bad field name"),
        ("GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", "400 bad field name"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", "400 bad field name"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX\u{e9}: b\r\n\r\n", "400 bad field name"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\u{1}c\r\n\r\n", "400 bad field value"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\u{7f}\r\n\r\n", "400 bad field value"),
        // Request lines.
        ("\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "400 empty lines before the request line"),
        ("GET /\r\n\r\n", "400 bad request line"),
        ("GET\r\n\r\n", "400 bad request line"),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "400 bad request line"),
        ("GET / x HTTP/1.1\r\nHost: a\r\n\r\n", "400 bad request line"),
        (" GET / HTTP/1.1\r\nHost: a\r\n\r\n", "400 bad request line"),
        ("G(T / HTTP/1.1\r\nHost: a\r\n\r\n", "400 bad request line"),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", "400 bad line end in head"),
        ("GET / http/1.1\r\nHost: a\r\n\r\n", "400 bad request line"),
        ("GET / HTTP/1\r\nHost: a\r\n\r\n", "400 bad request line"),
        ("GET / HTTP/11.1\r\nHost: a\r\n\r\n", "400 bad request line"),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", "505 HTTP version not supported"),
        ("GET / HTTP/0.9\r\nHost: a\r\n\r\n", "505 HTTP version not supported"),
        ("PRI * HTTP/2.0\r\n\r\n", "505 HTTP version not supported"),
        // Targets.
        ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", "400 bad request target"),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", "400 bad request target"),
        ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", "400 bad request target"),
        ("GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", "400 bad request target"),
        ("GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n", "400 bad request target"),
        ("GET http://u@b/a HTTP/1.1\r\nHost: a\r\n\r\n", "400 bad request target"),
        ("GET ftp://b/a HTTP/1.1\r\nHost: a\r\n\r\n", "400 bad request target"),
        ("GET b:80 HTTP/1.1\r\nHost: a\r\n\r\n", "400 bad request target"),
        ("GET ?a HTTP/1.1\r\nHost: a\r\n\r\n", "400 bad request target"),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", "501 CONNECT is not implemented"),
        // Expectations.
        ("POST / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n", "417 unknown expectation"),
        ("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue, x\r\n\r\n", "417 unknown expectation"),
    ];
    for (head, expected) in HEADS {
        check(head.as_bytes(), expected, &HeadLimits::default());
    }
    check(b"GET / HTTP/1.1\r\nHost: a\xff\r\n\r\n", "400 bad Host field", &HeadLimits::default());
    check(b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", "400 bad request line", &HeadLimits::default());
}

#[test]
fn a_head_at_its_limits_passes_and_one_byte_or_field_more_does_not() {
    let limits = HeadLimits { section: 40, fields: 3 };
    let line = |len: usize| format!("GET /{} HTTP/1.1\r\n", "x".repeat(len - 14));
    let field = |len: usize| format!("Host: a\r\nX: {}\r\n", "y".repeat(len - 9 - 5));
    let cases = [
        (format!("{}Host: a\r\n\r\n", line(40)), "GET /xxxxxxxxxxxxxxxxxxxxxxxxxx None keep"),
        (format!("{}Host: a\r\n\r\n", line(41)), "414 request line too long"),
        (line(41).trim_end().to_owned(), "414 request line too long"),
        (format!("GET / HTTP/1.1\r\n{}\r\n", field(40)), "GET / None keep"),
        (format!("GET / HTTP/1.1\r\n{}\r\n", field(41)), "431 header section too large"),
        (format!("GET / HTTP/1.1\r\n{}", "z".repeat(41)), "431 header section too large"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX:\r\nY:\r\n\r\n".to_owned(), "GET / None keep"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX:\r\nY:\r\nZ:\r\n".to_owned(), "431 too many header fields"),
    ];
    for (head, expected) in cases {
        check(head.as_bytes(), expected, &limits);
    }
}

#[test]
fn a_hundred_fields_of_64_kib_pass_by_default_and_a_hundred_and_one_do_not() {
    let limits = HeadLimits::default();
    let head = |count: usize, extra: usize| {
        let fields: String = (1..count).map(|index| format!("x-{index}: {index}\r\n")).collect();
        let rest = 65536 - fields.len() - "host: a".len() - 2 + extra;
        format!("GET / HTTP/1.1\r\nhost: a{}\r\n{fields}\r\n", "a".repeat(rest))
    };
    let full = head(100, 0);
    let parsed = read(&[full.as_bytes()], &limits).unwrap().unwrap();
    assert_eq!(parsed.headers().len(), 100);
    let (name, value) = parsed.headers().last().unwrap();
    assert_eq!((name, value), ("x-99", &b"99"[..]));
    assert_eq!(parsed.header("X-50"), Some(&b"50"[..]));
    assert_eq!(describe(&read(&[head(100, 1).as_bytes()], &limits)), "431 header section too large");
    assert_eq!(describe(&read(&[head(101, 0).as_bytes()], &limits)), "431 too many header fields");
}

#[test]
fn fields_are_given_in_order_and_without_the_space_around_them() {
    let raw =
        "GET / HTTP/1.1\r\nHost: a\r\nX-One:  1 \t\r\nx-one:2\r\nEmpty:\r\nBlank: \t \r\nLast: z\r\n\r\n";
    let head = read(&[raw.as_bytes()], &HeadLimits::default()).unwrap().unwrap();
    let fields: Vec<(&str, &[u8])> = head.headers().collect();
    let expected: [(&str, &[u8]); 6] =
        [("Host", b"a"), ("X-One", b"1"), ("x-one", b"2"), ("Empty", b""), ("Blank", b""), ("Last", b"z")];
    assert_eq!(fields, expected);
    assert_eq!(head.header("X-ONE"), Some(&b"1"[..]), "the first of several");
    assert_eq!(head.header("missing"), None);
    assert_eq!((head.target(), head.authority()), ("/", Some("a")));
}

#[test]
fn the_host_of_a_target_in_absolute_form_takes_the_place_of_the_one_sent() {
    type Fields = &'static [(&'static str, &'static [u8])];
    let cases: [(&str, &str, Fields); 4] = [
        ("GET http://b:1/ HTTP/1.1\r\nX: y\r\nHOST: a\r\n\r\n", "b:1", &[("X", b"y"), ("HOST", b"b:1")]),
        ("GET http://b HTTP/1.1\r\nHost:\r\n\r\n", "b", &[("Host", b"b")]),
        ("GET http://b/ HTTP/1.0\r\nX: y\r\n\r\n", "b", &[("host", b"b"), ("X", b"y")]),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "a", &[("Host", b"a")]),
    ];
    for (raw, host, fields) in cases {
        let head = read(&[raw.as_bytes()], &HeadLimits::default()).unwrap().unwrap();
        assert_eq!((head.authority(), head.header("host")), (Some(host), Some(host.as_bytes())), "{raw}");
        assert_eq!(
            (head.headers().collect::<Vec<_>>(), head.headers().len()),
            (fields.to_vec(), fields.len())
        );
    }
}

#[test]
fn a_head_that_was_never_scanned_is_held_to_the_same_line_ends() {
    let limits = HeadLimits::default();
    for raw in [
        &b"GET / HTTP/1.1\nHost: a\r\n\r\n"[..],
        b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\n",
        b"GET / HTTP/1.1\r\nHost: a\n\r\n",
        b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.0\n\r\n",
    ] {
        assert_eq!(Head::parse(Bytes::from_static(raw), &limits).unwrap_err().status(), 400, "{raw:?}");
    }
    let stray = Bytes::from_static(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nX\r\n\r\n");
    assert_eq!(Head::parse(stray, &limits).unwrap_err().detail(), "bytes after the head");
    assert_eq!(
        Head::parse(Bytes::from_static(b"GET / HT"), &limits).unwrap_err().detail(),
        "incomplete head"
    );
    assert_eq!(Head::parse(Bytes::new(), &limits).unwrap_err().status(), 400);
}

#[test]
fn a_scan_says_whether_a_request_has_begun_and_can_start_again() {
    let limits = HeadLimits::default();
    let mut scan = HeadScan::new();
    assert!(!scan.has_begun());
    scan.advance(b"\r", &limits).unwrap();
    scan.advance(b"\r\n", &limits).unwrap();
    assert!(!scan.has_begun(), "empty lines are no request");
    scan.advance(b"\r\nG", &limits).unwrap();
    assert!(scan.has_begun());
    scan.reset();
    assert!(!scan.has_begun());
    assert_eq!(scan.advance(b"GET / HTTP/1.0\r\n\r\n", &limits), Ok(Some(18)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// The model: the first CRLF CRLF, if nothing before it is a stray control character.
    #[test]
    fn a_scan_ends_where_a_naive_search_ends(
        lines in prop::collection::vec("[a-z:\r\n ]{0,12}", 1..6),
        cut in 0_usize..80,
    ) {
        let input = lines.join("\r\n").into_bytes();
        let limits = HeadLimits::default();
        let lead = input.chunks_exact(2).take_while(|pair| *pair == b"\r\n").count() * 2;
        let end = input[lead..].windows(4).position(|bytes| bytes == b"\r\n\r\n").map(|at| lead + at + 4);
        let before = &input[..end.unwrap_or(input.len())];
        let is_stray = |index: usize| match before[index] {
            b'\n' => index == 0 || before[index - 1] != b'\r',
            b'\r' => index + 1 < before.len() && before[index + 1] != b'\n',
            _ => false,
        };
        let expected = if lead > 8 || (0..before.len()).any(is_stray) { Err(()) } else { Ok(end) };
        let cut = cut.min(input.len());
        let mut scan = HeadScan::new();
        let first = scan.advance(&input[..cut], &limits);
        let verdict = match first {
            Ok(None) => scan.advance(&input, &limits),
            other => other,
        };
        prop_assert_eq!(verdict.map_err(|_| ()), expected);
    }

    #[test]
    fn no_bytes_make_a_head_panic(input in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&[&input], &HeadLimits::default());
        let _ = Head::parse(Bytes::from(input), &HeadLimits::default());
    }
}
