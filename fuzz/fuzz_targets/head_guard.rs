//! Heads: the verdict does not depend on where the input was cut; a head that was accepted holds no byte that could end
//! it sooner for another reader, and says the same when it is written out plainly.
//!
//! The input is edited into one of a few good heads, so that a run of seconds gets past the request line.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use oxb_http::head::{Head, HeadError, HeadLimits, HeadScan, Version};

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

fn verdict(result: &Result<Option<Head>, HeadError>) -> Result<Option<&Bytes>, HeadError> {
    match result {
        Ok(head) => Ok(head.as_ref().map(Head::raw)),
        Err(error) => Err(*error),
    }
}

const HEADS: [&str; 4] = [
    "",
    "GET /a?b HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n",
    "POST http://a:1/b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close, upgrade\r\nUpgrade: x\r\n\r\n",
    "\r\nPUT / HTTP/1.0\r\nContent-Length: 12\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n\r\n",
];

/// One of the heads with some of its bytes replaced by the rest of the input.
fn edit(choice: u8, at: u8, removed: u8, inserted: &[u8]) -> Vec<u8> {
    let head = HEADS[usize::from(choice) % HEADS.len()].as_bytes();
    let start = usize::from(at).min(head.len());
    let end = start.saturating_add(usize::from(removed % 16)).min(head.len());
    [&head[..start], inserted, &head[end..]].concat()
}

fuzz_target!(|input: &[u8]| {
    let [cut, choice, at, removed, inserted @ ..] = input else { return };
    let wire = &edit(*choice, *at, *removed, inserted)[..];
    // Small enough that the fuzzer meets them.
    let limits = HeadLimits { section: 512, fields: 8 };
    let whole = read(&[wire], &limits);
    let (one, other) = wire.split_at(usize::from(*cut).min(wire.len()));
    assert_eq!(verdict(&read(&[one, other], &limits)), verdict(&whole));
    let bytewise: Vec<&[u8]> = wire.chunks(1).collect();
    assert_eq!(verdict(&read(&bytewise, &limits)), verdict(&whole));
    // Unscanned bytes are no danger either.
    let unscanned = Head::parse(Bytes::copy_from_slice(wire), &limits);
    let Ok(Some(head)) = whole else { return };
    assert!(unscanned.is_err() || unscanned.is_ok_and(|other| other.raw() == head.raw()));

    assert!(head.target().bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#'));
    assert!(matches!(head.path().as_bytes(), [b'/', ..] | b"*"));
    let version = if head.version() == Version::Http10 { "HTTP/1.0" } else { "HTTP/1.1" };
    let mut plain = format!("{} {} {version}\r\n", head.method(), head.target()).into_bytes();
    for (name, value) in head.headers() {
        assert!(!name.is_empty() && value.iter().all(|byte| !matches!(byte, b'\r' | b'\n' | 0)));
        assert!(head.header(&name.to_ascii_uppercase()).is_some());
        plain.extend_from_slice(name.as_bytes());
        plain.extend_from_slice(b": ");
        plain.extend_from_slice(value);
        plain.extend_from_slice(b"\r\n");
    }
    plain.extend_from_slice(b"\r\n");
    // One space a field was perhaps added, and a target in absolute form gives its authority as `host` once more.
    let host = "host: \r\n".len() + head.authority().map_or(0, str::len);
    let wider = HeadLimits { section: limits.section + limits.fields + 1 + host, fields: limits.fields + 1 };
    let again = read(&[&plain], &wider).expect("a plain head is as good").expect("it is whole");
    assert_eq!(again.framing(), head.framing());
    assert_eq!(
        (again.path(), again.query(), again.authority()),
        (head.path(), head.query(), head.authority())
    );
    assert!(again.headers().eq(head.headers()));
});
