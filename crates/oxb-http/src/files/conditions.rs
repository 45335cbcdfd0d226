//! What of a file a request gets: all of it, a part, or the word that nothing changed (RFC 9110 sections 13 and 14).
//!
//! Only the fields that api.md 10.1 names are heeded, in the order of RFC 9110 section 13.2.2. `If-Match` and
//! `If-Unmodified-Since`, which guard changes, are not: nothing here changes a file, and 412 is no answer of api.md.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::head::Head;

/// The fields of a request that an answer with a file depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asking {
    /// `GET` or `HEAD`; for other methods the fields mean something else.
    is_reading: bool,
    pub(super) is_head: bool,
    if_none_match: Option<Bytes>,
    if_modified_since: Option<Bytes>,
    range: Option<Bytes>,
    if_range: Option<Bytes>,
    pub(super) accept_encoding: Option<Bytes>,
    pub(super) accepts_html: bool,
}

/// What of a file is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    /// `start` and how many bytes from there, at least one.
    Part {
        start: u64,
        length: u64,
    },
    /// 304.
    Unchanged,
    /// 416.
    Unsatisfiable,
}

impl Asking {
    pub(crate) fn of(head: &Head) -> Self {
        let accepts_html = head.headers().filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
        Self {
            is_reading: matches!(head.method(), "GET" | "HEAD"),
            is_head: head.method() == "HEAD",
            if_none_match: joined(head, "if-none-match"),
            if_modified_since: head.header("if-modified-since").map(Bytes::copy_from_slice),
            range: joined(head, "range"),
            if_range: head.header("if-range").map(Bytes::copy_from_slice),
            accept_encoding: joined(head, "accept-encoding"),
            accepts_html: accepts_html
                .flat_map(|(_, value)| value.windows(9))
                .any(|part| part.eq_ignore_ascii_case(b"text/html")),
        }
    }

    /// What of a file with this tag, time of change and length is sent.
    pub(super) fn extent(&self, etag: &[u8], modified: u64, length: u64) -> Extent {
        if !self.is_reading {
            return Extent::Whole;
        }
        let is_unchanged = match (&self.if_none_match, &self.if_modified_since) {
            (Some(tags), _) => lists_tag(tags, etag),
            (None, Some(since)) => unix_seconds(since).is_some_and(|since| modified <= since),
            (None, None) => false,
        };
        if is_unchanged {
            return Extent::Unchanged;
        }
        let Some(range) = &self.range else { return Extent::Whole };
        let is_current = self.if_range.as_ref().is_none_or(|validator| {
            // Exactly what was sent; api.md allows the weak tag that RFC 9110 section 13.1.5 would not.
            **validator == *etag || unix_seconds(validator).is_some_and(|time| time == modified)
        });
        if is_current { single_range(range, length) } else { Extent::Whole }
    }
}

/// All lines of a field as one list (RFC 9110 section 5.3).
fn joined(head: &Head, name: &str) -> Option<Bytes> {
    let mut lines =
        head.headers().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    let mut all = lines.next()?.to_vec();
    for line in lines {
        all.extend_from_slice(b", ");
        all.extend_from_slice(line);
    }
    Some(all.into())
}

/// Whether a list of tags holds this one by weak comparison (RFC 9110 section 8.8.3.2), or is the star.
fn lists_tag(list: &[u8], etag: &[u8]) -> bool {
    let opaque = |tag: &[u8]| tag.strip_prefix(b"W/").unwrap_or(tag).to_vec();
    let wanted = opaque(etag);
    if list.trim_ascii() == b"*" {
        return true;
    }
    // A tag may hold commas, so the list is walked from quote to quote.
    let mut rest = list;
    loop {
        while let [b' ' | b'\t' | b',', tail @ ..] = rest {
            rest = tail;
        }
        rest = rest.strip_prefix(b"W/").unwrap_or(rest);
        let Some(tail) = rest.strip_prefix(b"\"") else { return false };
        let Some(end) = memchr::memchr(b'"', tail) else { return false };
        if rest[..end + 2] == wanted[..] {
            return true;
        }
        rest = &tail[end + 1..];
    }
}

/// The time of a date in any of the three forms of RFC 9110 section 5.6.7.
fn unix_seconds(date: &[u8]) -> Option<u64> {
    let time = httpdate::parse_http_date(std::str::from_utf8(date).ok()?).ok()?;
    Some(seconds_of(time))
}

/// Whole seconds since 1970; what is before that is 1970.
pub(super) fn seconds_of(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs())
}

/// What a `Range` field asks of `length` bytes (RFC 9110 section 14.1.2): several ranges, another unit and what is no
/// range at all ask for the whole.
pub(crate) fn single_range(field: &[u8], length: u64) -> Extent {
    let Some((unit, set)) = std::str::from_utf8(field).ok().and_then(|text| text.split_once('=')) else {
        return Extent::Whole;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Extent::Whole;
    }
    let Some((first, last)) = set.trim_matches([' ', '\t']).split_once('-') else { return Extent::Whole };
    match (position(first), position(last)) {
        (Position::Absent, Position::At(suffix)) => {
            let count = suffix.min(length);
            if count == 0 {
                Extent::Unsatisfiable
            } else {
                Extent::Part { start: length - count, length: count }
            }
        }
        (Position::At(start), Position::Absent) if start < length => {
            Extent::Part { start, length: length - start }
        }
        (Position::At(start), Position::At(end)) if start <= end && start < length => {
            Extent::Part { start, length: end.min(length - 1) - start + 1 }
        }
        (Position::At(start), Position::At(end)) if start > end => Extent::Whole,
        (Position::At(_), Position::Absent | Position::At(_)) => Extent::Unsatisfiable,
        (Position::Absent, Position::Absent) | (Position::Bad, _) | (_, Position::Bad) => Extent::Whole,
    }
}

enum Position {
    Absent,
    At(u64),
    Bad,
}

fn position(text: &str) -> Position {
    if text.is_empty() {
        return Position::Absent;
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Position::Bad;
    }
    // Only digits: what does not fit is beyond the end of any file.
    Position::At(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETAG: &[u8] = b"W/\"a-1\"";
    const MODIFIED: u64 = 784_111_777;
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn part(start: u64, length: u64) -> Extent {
        Extent::Part { start, length }
    }

    #[test]
    fn one_range_of_bytes_is_a_part_or_cannot_be() {
        let cases: &[(&str, u64, Extent)] = &[
            ("bytes=0-0", 10, part(0, 1)),
            ("bytes=2-4", 10, part(2, 3)),
            ("bytes=2-", 10, part(2, 8)),
            ("bytes=-3", 10, part(7, 3)),
            ("bytes=-30", 10, part(0, 10)),
            ("bytes=9-99999999999999999999999", 10, part(9, 1)),
            ("Bytes=0-9", 10, part(0, 10)),
            ("bytes= 1-2 ", 10, part(1, 2)),
            ("bytes=10-", 10, Extent::Unsatisfiable),
            ("bytes=10-12", 10, Extent::Unsatisfiable),
            ("bytes=99999999999999999999999-", 10, Extent::Unsatisfiable),
            ("bytes=-0", 10, Extent::Unsatisfiable),
            ("bytes=0-", 0, Extent::Unsatisfiable),
            ("bytes=-1", 0, Extent::Unsatisfiable),
            ("bytes=4-2", 10, Extent::Whole),
            ("bytes=0-1,3-4", 10, Extent::Whole),
            ("bytes=0-1, 3-4", 10, Extent::Whole),
            ("bytes=-", 10, Extent::Whole),
            ("bytes=", 10, Extent::Whole),
            ("bytes=a-b", 10, Extent::Whole),
            ("bytes=+1-2", 10, Extent::Whole),
            ("bytes=1--2", 10, Extent::Whole),
            ("items=0-1", 10, Extent::Whole),
            ("bytes", 10, Extent::Whole),
            ("", 10, Extent::Whole),
        ];
        for (field, length, extent) in cases {
            assert_eq!(single_range(field.as_bytes(), *length), *extent, "{field} of {length}");
        }
    }

    fn asking(fields: &str) -> Asking {
        let raw = format!("GET / HTTP/1.1\r\nhost: a\r\n{fields}\r\n");
        Asking::of(&Head::parse(Bytes::from(raw), &crate::head::HeadLimits::default()).unwrap())
    }

    #[test]
    fn conditions_are_heeded_in_the_order_of_the_standard() {
        let later = "Sun, 06 Nov 1994 08:49:38 GMT";
        let earlier = "Sunday, 06-Nov-94 08:49:36 GMT";
        let cases: &[(&str, Extent)] = &[
            ("", Extent::Whole),
            ("If-None-Match: W/\"a-1\"\r\n", Extent::Unchanged),
            ("If-None-Match: \"a-1\"\r\n", Extent::Unchanged),
            ("If-None-Match: \"x,y\", W/\"a-1\"\r\n", Extent::Unchanged),
            ("If-None-Match: \"x\"\r\nIf-None-Match: \"a-1\"\r\n", Extent::Unchanged),
            ("If-None-Match: *\r\n", Extent::Unchanged),
            ("If-None-Match: \"a-2\"\r\n", Extent::Whole),
            ("If-None-Match: a-1\r\n", Extent::Whole),
            ("If-None-Match: \"x, W/\"a-1\"\r\n", Extent::Whole),
            (&format!("If-Modified-Since: {DATE}\r\n"), Extent::Unchanged),
            (&format!("If-Modified-Since: {later}\r\n"), Extent::Unchanged),
            (&format!("If-Modified-Since: {earlier}\r\n"), Extent::Whole),
            ("If-Modified-Since: yesterday\r\n", Extent::Whole),
            (&format!("If-None-Match: \"b\"\r\nIf-Modified-Since: {later}\r\n"), Extent::Whole),
            (&format!("Range: bytes=1-2\r\nIf-Modified-Since: {later}\r\n"), Extent::Unchanged),
            ("Range: bytes=1-2\r\n", part(1, 2)),
            ("Range: bytes=1-2\r\nRange: bytes=3-4\r\n", Extent::Whole),
            ("Range: bytes=1-2\r\nIf-Range: W/\"a-1\"\r\n", part(1, 2)),
            (&format!("Range: bytes=1-2\r\nIf-Range: {DATE}\r\n"), part(1, 2)),
            (&format!("Range: bytes=1-2\r\nIf-Range: {later}\r\n"), Extent::Whole),
            ("Range: bytes=1-2\r\nIf-Range: \"a-1\"\r\n", Extent::Whole),
            ("Range: bytes=99-\r\nIf-Range: \"b\"\r\n", Extent::Whole),
            ("Range: bytes=99-\r\n", Extent::Unsatisfiable),
        ];
        for (fields, extent) in cases {
            assert_eq!(asking(fields).extent(ETAG, MODIFIED, 10), *extent, "{fields}");
        }
    }
}
