//! The head of an HTTP/1 answer as bytes, and the frames of a chunked body.
//!
//! Framing fields come from here alone: whatever a handler says of `Content-Length`, `Transfer-Encoding` or
//! `Keep-Alive` is dropped, so that an answer cannot end elsewhere than the next one begins (R07).

use crate::cors::{Cors, Stance};
use crate::problem;
use crate::reply::ReplyHead;

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyWire {
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// By closing, for HTTP/1.0.
    UntilClose,
    /// No field at all: 204, 304, and the head of a body whose length nobody knows.
    None,
}

/// What the `Connection` field says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// HTTP/1.1 that goes on: no field.
    Implied,
    /// HTTP/1.0 that goes on, as its client asked.
    KeepAlive,
    /// The last answer of this connection.
    Close,
}

/// How an answer is framed whose status has no body; None for one that has (RFC 9110 sections 15.3.5, 15.3.6
/// and 15.4.5). A 205 is one of the latter to its reader, so that it says that nothing follows.
pub(crate) fn bodyless(status: u16) -> Option<BodyWire> {
    match status {
        100..=199 | 204 | 304 => Some(BodyWire::None),
        205 => Some(BodyWire::Length(0)),
        _ => None,
    }
}

/// Whether a handler's own fields ask for the connection to be closed.
pub(crate) fn asks_to_close(head: &ReplyHead) -> bool {
    head.headers.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case("connection")
            && value
                .split(|&byte| byte == b',')
                .any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
    })
}

/// Appends status line, fields, those of `cors` among them, and the blank line.
pub(crate) fn write_head(
    out: &mut Vec<u8>,
    head: &ReplyHead,
    body: BodyWire,
    persistence: Persistence,
    cors: Option<(&Cors, Stance)>,
    date: &[u8; 29],
) {
    if head.status == 200 {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    } else {
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(itoa::Buffer::new().format(head.status).as_bytes());
        out.push(b' ');
        out.extend_from_slice(problem::title(head.status).as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if let Some(content_type) = &head.content_type {
        out.extend_from_slice(b"content-type: ");
        out.extend_from_slice(content_type.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    match body {
        BodyWire::Length(length) => {
            out.extend_from_slice(b"content-length: ");
            out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        BodyWire::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        BodyWire::UntilClose | BodyWire::None => {}
    }
    match persistence {
        Persistence::Implied => {}
        Persistence::KeepAlive => out.extend_from_slice(b"connection: keep-alive\r\n"),
        Persistence::Close => out.extend_from_slice(b"connection: close\r\n"),
    }
    let mut has_date = false;
    for (name, value) in &head.headers {
        if is_framing(name) {
            continue;
        }
        has_date |= name.eq_ignore_ascii_case("date");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    if let Some((cors, stance)) = cors {
        cors.write(stance, head, out);
    }
    if has_date {
        out.extend_from_slice(b"\r\n");
    } else {
        out.extend_from_slice(b"date: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n\r\n");
    }
}

/// Appends the size line of a chunk (RFC 9112 section 7.1); the data and a CRLF follow.
pub(crate) fn write_chunk_size(out: &mut Vec<u8>, size: usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut line = [0u8; 18];
    let mut at = line.len();
    for byte in [b'\n', b'\r'] {
        at -= 1;
        line[at] = byte;
    }
    let mut rest = size;
    loop {
        at -= 1;
        line[at] = DIGITS[rest & 15];
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&line[at..]);
}

/// The last chunk, without trailers.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Fields the server alone decides.
fn is_framing(name: &str) -> bool {
    matches!(name.len(), 10 | 14 | 17)
        && ["connection", "keep-alive", "content-length", "transfer-encoding"]
            .iter()
            .any(|own| name.eq_ignore_ascii_case(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

    fn written(head: &ReplyHead, body: BodyWire, persistence: Persistence) -> String {
        let mut out = Vec::new();
        write_head(&mut out, head, body, persistence, None, DATE);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn framing_fields_of_a_handler_are_dropped() {
        let head = ReplyHead::new(200)
            .content_type("text/plain")
            .header("Transfer-Encoding", "chunked")
            .header("content-length", "99")
            .header("Keep-Alive", "timeout=5")
            .header("connection", "close")
            .header("x-own", "kept");
        assert_eq!(
            written(&head, BodyWire::Length(2), Persistence::Close),
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\nconnection: close\r\n\
             x-own: kept\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
        );
        assert!(asks_to_close(&head));
        assert!(!asks_to_close(&ReplyHead::new(200).header("connection", "x-close")));
    }

    #[test]
    fn a_date_of_the_handler_is_the_only_one() {
        let text = written(&ReplyHead::new(204).header("Date", "then"), BodyWire::None, Persistence::Implied);
        assert_eq!(text, "HTTP/1.1 204 No Content\r\nDate: then\r\n\r\n");
    }

    #[test]
    fn chunk_sizes_are_hexadecimal_without_leading_zeros() {
        for (size, line) in [
            (1usize, "1\r\n"),
            (10, "a\r\n"),
            (16, "10\r\n"),
            (65536, "10000\r\n"),
            (usize::MAX, "ffffffffffffffff\r\n"),
        ] {
            let mut out = Vec::new();
            write_chunk_size(&mut out, size);
            assert_eq!(String::from_utf8(out).unwrap(), line);
        }
    }
}
