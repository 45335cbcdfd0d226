//! Bodies of forms: `application/x-www-form-urlencoded` and `multipart/form-data`, from bytes to parts.
//!
//! Invariant: both encodings give the same parts for the same form and are held to the same limit (R14), the cost
//! is linear in the body, and the data of a file is a slice of it, not a copy.

mod multipart;
mod parameters;

use bytes::Bytes;
use thiserror::Error;

/// One part of a form, in the order they came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The name of its field.
    pub name: String,
    /// What was sent under that name.
    pub content: Content,
}

/// What a part holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A text; what is no UTF-8 in it became U+FFFD.
    Text(String),
    /// A part with a filename.
    File {
        /// The client's name for it: no path to be trusted.
        filename: String,
        /// As sent; `None` when the part does not say.
        content_type: Option<String>,
        /// Its bytes.
        data: Bytes,
    },
}

/// Why a body is not taken as a form.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum FormError {
    /// The content type is another, or none: 415.
    #[error("expected a form body: application/x-www-form-urlencoded or multipart/form-data")]
    NotAForm,
    /// The body breaks the grammar: 400.
    #[error("malformed form body: {0}")]
    Malformed(&'static str),
    /// It has more parts than are allowed: 413.
    #[error("form has more than {0} parts")]
    TooManyParts(usize),
}

impl FormError {
    /// The status it is answered with.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::NotAForm => 415,
            Self::Malformed(_) => 400,
            Self::TooManyParts(_) => 413,
        }
    }
}

/// The parts of a form, at most `max_parts`.
///
/// ```
/// use bytes::Bytes;
/// use oxb_http::form::{Content, parse};
///
/// let parts = parse(Some(b"application/x-www-form-urlencoded"), &Bytes::from_static(b"a=1&b=x+y"), 10)?;
/// assert_eq!((parts[1].name.as_str(), &parts[1].content), ("b", &Content::Text("x y".into())));
/// # Ok::<(), oxb_http::form::FormError>(())
/// ```
///
/// # Errors
/// The body is not a form, breaks the grammar of one, or has too many parts.
pub fn parse(content_type: Option<&[u8]>, body: &Bytes, max_parts: usize) -> Result<Vec<Part>, FormError> {
    let (media_type, parameters) = parameters::split(content_type.ok_or(FormError::NotAForm)?);
    if media_type.eq_ignore_ascii_case(b"application/x-www-form-urlencoded") {
        return urlencoded(body, max_parts);
    }
    if !media_type.eq_ignore_ascii_case(b"multipart/form-data") {
        return Err(FormError::NotAForm);
    }
    let boundary = parameters::value_of(parameters, b"boundary");
    multipart::parse(&boundary.ok_or(FormError::Malformed("no boundary"))?, body, max_parts)
}

fn urlencoded(body: &[u8], max_parts: usize) -> Result<Vec<Part>, FormError> {
    let mut parts = Vec::new();
    for (name, value) in form_urlencoded::parse(body) {
        if parts.len() == max_parts {
            return Err(FormError::TooManyParts(max_parts));
        }
        parts.push(Part { name: name.into_owned(), content: Content::Text(value.into_owned()) });
    }
    Ok(parts)
}
