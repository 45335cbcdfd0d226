//! What a handler answers: a status, header fields and a body.
//!
//! Nothing of a reply whose head HTTP forbids is sent: [`ReplyHead::check`] says so before a byte is written.

use std::borrow::Cow;

use bytes::Bytes;
use thiserror::Error;

/// The head of an answer.
///
/// The framing fields are the server's own: `Content-Length`, `Transfer-Encoding` and `Keep-Alive` given here are
/// dropped, though a stream takes its length from the first; `Connection: close` is obeyed. A `Date` given here is
/// the one that is sent.
///
/// ```
/// use oxb_http::reply::ReplyHead;
/// let head = ReplyHead::new(201).content_type("application/json").header("location", "/jobs/7");
/// assert!(head.check().is_ok());
/// assert!(ReplyHead::new(200).header("x", "a\r\nb").check().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyHead {
    /// 200 to 599.
    pub status: u16,
    /// The `Content-Type` field; `None` sends none.
    pub content_type: Option<Cow<'static, str>>,
    /// All other fields, in order; repeats are kept.
    pub headers: Vec<(Cow<'static, str>, Bytes)>,
}

/// A head that HTTP forbids (RFC 9110 sections 5.1, 5.5 and 15).
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BadHead {
    /// Not a status an answer may have.
    #[error("status {0} is not from 200 to 599")]
    Status(u16),
    /// Not a token.
    #[error("{0:?} is not a header field name")]
    Name(String),
    /// A line break, NUL or another control character.
    #[error("the value of header field {0:?} holds a control character")]
    Value(String),
    /// Two moments at which one answer was made.
    #[error("more than one Date field")]
    Dates,
    /// `Content-Length` that is no number, or says two things (RFC 9110 section 8.6).
    #[error("the Content-Length fields do not name one length")]
    Length,
}

impl ReplyHead {
    /// A head with no fields.
    #[must_use]
    pub fn new(status: u16) -> Self {
        Self { status, content_type: None, headers: Vec::new() }
    }

    /// The same with a content type.
    #[must_use]
    pub fn content_type(mut self, value: impl Into<Cow<'static, str>>) -> Self {
        self.content_type = Some(value.into());
        self
    }

    /// The same with one more field.
    #[must_use]
    pub fn header(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Bytes>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Whether HTTP allows this head.
    ///
    /// # Errors
    /// The first thing about it that HTTP forbids.
    pub fn check(&self) -> Result<(), BadHead> {
        if !(200..=599).contains(&self.status) {
            return Err(BadHead::Status(self.status));
        }
        if let Some(Cow::Owned(value)) = &self.content_type
            && !is_field_value(value.as_bytes())
        {
            return Err(BadHead::Value("content-type".into()));
        }
        let mut has_date = false;
        for (name, value) in &self.headers {
            if !is_token(name.as_bytes()) {
                return Err(BadHead::Name(name.to_string()));
            }
            if !is_field_value(value) {
                return Err(BadHead::Value(name.to_string()));
            }
            if name.eq_ignore_ascii_case("date") && std::mem::replace(&mut has_date, true) {
                return Err(BadHead::Dates);
            }
        }
        self.length(None).map(drop)
    }

    /// The one length that `declared` and the `Content-Length` fields name.
    ///
    /// # Errors
    /// [`BadHead::Length`] when they name several, or a field names none.
    pub(crate) fn length(&self, declared: Option<u64>) -> Result<Option<u64>, BadHead> {
        let fields = self.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        fields.map(|(_, value)| value).try_fold(declared, |known, value| {
            let is_digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            let length =
                std::str::from_utf8(value).ok().filter(|_| is_digits).and_then(|text| text.parse().ok());
            match (known, length) {
                (_, None) => Err(BadHead::Length),
                (Some(known), Some(length)) if known != length => Err(BadHead::Length),
                (_, length) => Ok(length),
            }
        })
    }
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Status and fields.
    pub head: ReplyHead,
    /// The body; not sent where HTTP has none (`HEAD`, 204, 205, 304).
    pub body: Bytes,
}

impl Reply {
    /// A reply of `status` with a body of `content_type`.
    #[must_use]
    pub fn new(status: u16, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { head: ReplyHead::new(status).content_type(content_type), body: body.into() }
    }
}

/// RFC 9110 section 5.6.2.
pub(crate) fn is_token(name: &[u8]) -> bool {
    !name.is_empty()
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

/// RFC 9110 section 5.5: no control characters but the tab.
pub(crate) fn is_field_value(value: &[u8]) -> bool {
    value.iter().all(|&byte| byte == b'\t' || (byte >= 0x20 && byte != 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_http_forbids_is_named() {
        let cases: &[(ReplyHead, BadHead)] = &[
            (ReplyHead::new(99), BadHead::Status(99)),
            (ReplyHead::new(101), BadHead::Status(101)),
            (ReplyHead::new(600), BadHead::Status(600)),
            (ReplyHead::new(200).header("", "x"), BadHead::Name(String::new())),
            (ReplyHead::new(200).header("a b", "x"), BadHead::Name("a b".into())),
            (ReplyHead::new(200).header("a:", "x"), BadHead::Name("a:".into())),
            (ReplyHead::new(200).header("a", "x\ny"), BadHead::Value("a".into())),
            (ReplyHead::new(200).header("a", "x\0"), BadHead::Value("a".into())),
            (ReplyHead::new(200).content_type("x\r".to_owned()), BadHead::Value("content-type".into())),
            (ReplyHead::new(200).header("Date", "then").header("date", "then"), BadHead::Dates),
            (
                ReplyHead::new(200).header("Content-Length", "5").header("content-length", "6"),
                BadHead::Length,
            ),
            (ReplyHead::new(200).header("content-length", ""), BadHead::Length),
            (ReplyHead::new(200).header("content-length", "+5"), BadHead::Length),
            (ReplyHead::new(200).header("content-length", "5, 5"), BadHead::Length),
            (ReplyHead::new(200).header("content-length", "99999999999999999999"), BadHead::Length),
        ];
        for (head, error) in cases {
            assert_eq!(head.check().as_ref(), Err(error), "{head:?}");
        }
        assert!(ReplyHead::new(200).header("x-a", "tab\there, \u{e4}".as_bytes()).check().is_ok());
    }

    #[test]
    fn a_length_is_named_once_by_whoever_names_it() {
        let head = |lengths: &[&'static str]| {
            lengths.iter().fold(ReplyHead::new(200), |head, length| head.header("Content-Length", *length))
        };
        type Case = (&'static [&'static str], Option<u64>, Result<Option<u64>, BadHead>);
        let cases: &[Case] = &[
            (&[], None, Ok(None)),
            (&[], Some(5), Ok(Some(5))),
            (&["5"], None, Ok(Some(5))),
            (&["5", "5"], Some(5), Ok(Some(5))),
            (&["5"], Some(6), Err(BadHead::Length)),
            (&["5", "6"], None, Err(BadHead::Length)),
        ];
        for (lengths, declared, expected) in cases {
            assert_eq!(head(lengths).length(*declared), *expected, "{lengths:?} {declared:?}");
        }
    }
}
