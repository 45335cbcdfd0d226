//! `multipart/form-data` (RFC 7578, RFC 2046 section 5.1) of a body that is whole.
//!
//! Written here and not taken from a library: those for Rust read an async stream and copy, while a collected body
//! needs one search for its delimiter.
//!
//! Invariant: a delimiter is a whole line; what is not between two of them is no part of the form.

use bytes::Bytes;
use memchr::memmem::{self, Finder};
use percent_encoding::percent_decode;

use super::parameters;
use super::{Content, FormError, Part};

/// RFC 2046 section 5.1.1.
const MAX_BOUNDARY: usize = 70;
/// Bytes of the header section of one part: a name, a filename and a type are all that is read of it.
const MAX_HEAD: usize = 16 * 1024;

pub(super) fn parse(boundary: &[u8], body: &Bytes, max_parts: usize) -> Result<Vec<Part>, FormError> {
    if boundary.is_empty() || boundary.len() > MAX_BOUNDARY {
        return Err(FormError::Malformed("the boundary has to have 1 to 70 characters"));
    }
    let line = [b"\r\n--", boundary].concat();
    let delimiter = Delimiter { finder: Finder::new(&line), body };
    let mut parts = Vec::new();
    let mut found = delimiter.first().ok_or(FormError::Malformed("no part begins with the boundary"))?;
    while let Some(start) = found.next {
        if parts.len() == max_parts {
            return Err(FormError::TooManyParts(max_parts));
        }
        let (head, content) = head(body, start)?;
        // Of a part without content, the line that ends its head is the first of the delimiter (RFC 2046).
        found = delimiter
            .after(content - 2)
            .ok_or(FormError::Malformed("it ends before its closing boundary"))?;
        parts.push(part(head, body.slice(content..found.at.max(content)))?);
    }
    Ok(parts)
}

/// A delimiter line.
struct Found {
    /// Where the line break before it begins.
    at: usize,
    /// Where the next part begins; `None` after the closing one.
    next: Option<usize>,
}

struct Delimiter<'a> {
    finder: Finder<'a>,
    body: &'a [u8],
}

impl Delimiter<'_> {
    /// The first one: it may begin the body, or follow a preamble.
    fn first(&self) -> Option<Found> {
        let dashes = &self.finder.needle()[2..];
        let at_start = self.body.starts_with(dashes).then(|| self.line(0, dashes.len())).flatten();
        at_start.or_else(|| self.after(0))
    }

    fn after(&self, from: usize) -> Option<Found> {
        let length = self.finder.needle().len();
        let starts = self.finder.find_iter(&self.body[from..]).map(|offset| from + offset);
        starts.into_iter().find_map(|at| self.line(at, at + length))
    }

    /// The line that began at `at` and goes on at `position`, if it is a delimiter.
    fn line(&self, at: usize, position: usize) -> Option<Found> {
        let rest = &self.body[position..];
        if rest.starts_with(b"--") {
            return Some(Found { at, next: None });
        }
        // Transport padding (RFC 2046 section 5.1.1).
        let padding = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let is_line = rest[padding..].starts_with(b"\r\n");
        is_line.then_some(Found { at, next: Some(position + padding + 2) })
    }
}

/// The header section that begins at `start`, and where the content after it does.
fn head(body: &[u8], start: usize) -> Result<(&[u8], usize), FormError> {
    let rest = &body[start..];
    if rest.starts_with(b"\r\n") {
        return Ok((&[], start + 2));
    }
    let within = &rest[..rest.len().min(MAX_HEAD + 4)];
    match memmem::find(within, b"\r\n\r\n") {
        Some(end) => Ok((&rest[..end], start + end + 4)),
        None if rest.len() > MAX_HEAD => Err(FormError::Malformed("the header of a part is over 16 KiB")),
        None => Err(FormError::Malformed("the header of a part does not end")),
    }
}

fn part(head: &[u8], data: Bytes) -> Result<Part, FormError> {
    let (mut disposition, mut content_type) = (None, None);
    let mut rest = head;
    while !rest.is_empty() {
        let end = memmem::find(rest, b"\r\n").unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 2..).unwrap_or_default();
        let colon = memchr::memchr(b':', line)
            .ok_or(FormError::Malformed("a line in a part's header is no field"))?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-disposition") {
            disposition.get_or_insert(value);
        } else if name.eq_ignore_ascii_case(b"content-type") {
            content_type.get_or_insert(value);
        }
    }
    let (kind, parameters) = parameters::split(disposition.unwrap_or_default());
    let name = parameters::value_of(parameters, b"name").filter(|_| kind.eq_ignore_ascii_case(b"form-data"));
    let name = unescape(name.ok_or(FormError::Malformed("a part without a name"))?);
    let filename = match parameters::value_of(parameters, b"filename") {
        Some(filename) => Some(unescape(filename)),
        None => parameters::value_of(parameters, b"filename*").and_then(|value| extended(&value)),
    };
    let content = match filename {
        Some(filename) => Content::File { filename, content_type: content_type.map(text), data },
        None => Content::Text(text(&data)),
    };
    Ok(Part { name, content })
}

/// Names as browsers escape them: line breaks and quotes only (the HTML standard, "multipart/form-data encoding").
fn unescape(raw: Vec<u8>) -> String {
    let raw = text(&raw);
    if !raw.contains('%') {
        return raw;
    }
    raw.replace("%0D", "\r").replace("%0A", "\n").replace("%22", "\"")
}

/// `UTF-8''name` (RFC 8187), which RFC 7578 forbids and some clients send.
fn extended(value: &[u8]) -> Option<String> {
    let charset_end = memchr::memchr(b'\'', value)?;
    let language_end = charset_end + 1 + memchr::memchr(b'\'', &value[charset_end + 1..])?;
    Some(text(&percent_decode(&value[language_end + 1..]).collect::<Vec<u8>>()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
