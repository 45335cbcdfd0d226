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
    if value.first() == Some(&b'[') {
        let Some(close) = memchr::memchr(b']', value) else { return false };
        let literal = &value[1..close];
        return !literal.is_empty()
            && literal.iter().all(|&byte| is_name_byte(byte) && byte != b'%' || byte == b':')
            && is_port(&value[close + 1..]);
    }
    let end = memchr::memchr(b':', value).unwrap_or(value.len());
    end > 0 && is_registered_name(&value[..end]) && is_port(&value[end..])
}

fn is_registered_name(name: &[u8]) -> bool {
    let mut rest = name;
    while let Some((&byte, tail)) = rest.split_first() {
        if !is_name_byte(byte) {
            return false;
        }
        rest = tail;
        if byte == b'%' {
            match tail {
                [high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                    rest = after
                }
                _ => return false,
            }
        }
    }
    true
}

/// unreserved, sub-delims, and the `%` of a percent-encoded byte.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'%' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')')
        || matches!(byte, b'*' | b'+' | b',' | b';' | b'=')
}

/// Nothing, or a colon and digits, perhaps none (RFC 3986 §3.2.3).
fn is_port(value: &[u8]) -> bool {
    match value.split_first() {
        None => true,
        Some((&b':', port)) => port.iter().all(u8::is_ascii_digit),
        Some(_) => false,
    }
}
