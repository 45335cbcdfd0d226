//! The request target in its forms (RFC 9112 §3.2).
//!
//! Invariant: the spans of a [`Target`] lie in ASCII, and a path is empty (absolute form without one), `*`, or
//! begins with a slash.

use super::Span;
use super::error::HeadError;

#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) path: Span,
    pub(super) query: Option<Span>,
    /// Of the absolute form only.
    pub(super) authority: Option<Span>,
}

impl Target {
    pub(super) fn is_path_empty(&self) -> bool {
        self.path.start == self.path.end
    }
}

/// Takes `target` apart, which begins at byte `offset` of the head.
pub(super) fn parse(method: &str, target: &str, offset: u32) -> Result<Target, HeadError> {
    // RFC 9110 §9.3.6: after CONNECT the connection would be a tunnel; an origin server has nowhere to lead it.
    if method == "CONNECT" {
        return Err(HeadError::NotImplemented("CONNECT is not implemented"));
    }
    let bytes = target.as_bytes();
    // httparse left control characters and spaces out. RFC 3986 has neither bytes above ASCII nor, in a
    // request target, a fragment; other characters it excludes (`|`, `^`, `{`) are sent by browsers in queries.
    let mut question = bytes.len();
    for (index, &byte) in bytes.iter().enumerate() {
        if byte == b'#' || !byte.is_ascii() {
            return Err(HeadError::Malformed("bad request target"));
        }
        if byte == b'?' && question == bytes.len() {
            question = index;
        }
    }
    let span = |start: usize, end: usize| Span {
        start: offset + super::narrow(start),
        end: offset + super::narrow(end),
    };
    let query = (question < bytes.len()).then(|| span(question + 1, bytes.len()));
    if bytes.first() == Some(&b'/') {
        return Ok(Target { path: span(0, question), query, authority: None });
    }
    // §3.2.4: the asterisk form is for OPTIONS alone.
    if bytes == b"*" && method == "OPTIONS" {
        return Ok(Target { path: span(0, 1), query: None, authority: None });
    }
    let start = authority_start(bytes).ok_or(HeadError::Malformed("bad request target"))?;
    let hierarchy = bytes.get(start..question).unwrap_or_default();
    let end = start + memchr::memchr(b'/', hierarchy).unwrap_or(hierarchy.len());
    if !is_host(&bytes[start..end]) {
        return Err(HeadError::Malformed("bad request target"));
    }
    Ok(Target { path: span(end, question), query, authority: Some(span(start, end)) })
}

fn authority_start(target: &[u8]) -> Option<usize> {
    [&b"http://"[..], b"https://"].into_iter().find_map(|scheme| {
        target
            .get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            .then_some(scheme.len())
    })
}

/// Whether this is `uri-host [ ":" port ]` (RFC 3986 §3.2.2) with a host that is not empty.
pub(super) fn is_host(value: &[u8]) -> bool {
    match value {
        [] | [b':', ..] => return false,
        [b'[', rest @ ..] => {
            let Some(close) = memchr::memchr(b']', rest) else { return false };
            let literal = &rest[..close];
            let is_literal = literal.iter().all(|&byte| byte == b':' || IS_NAME_BYTE[usize::from(byte)]);
            return !literal.is_empty() && is_literal && is_port(&rest[close + 1..]);
        }
        _ => {}
    }
    let mut rest = value;
    loop {
        let plain_len = rest.iter().position(|&byte| !IS_NAME_BYTE[usize::from(byte)]).unwrap_or(rest.len());
        rest = match &rest[plain_len..] {
            [b'%', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => after,
            port => return is_port(port),
        };
    }
}

/// unreserved and sub-delims. A table: this is asked for every byte of every Host field.
static IS_NAME_BYTE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let others = b"-._~!$&'()*+,;=";
    let mut index = 0;
    while index < others.len() {
        table[others[index] as usize] = true;
        index += 1;
    }
    table
};

/// Nothing, or a colon and digits, perhaps none (RFC 3986 §3.2.3).
fn is_port(value: &[u8]) -> bool {
    match value {
        [] => true,
        [b':', port @ ..] => port.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}
