//! Why a head is refused, and with which status.
//!
//! Invariant: a detail is one of the texts written here; nothing of the request is echoed.

/// Why a head was refused. Whatever the reason, the connection is closed after the answer: where the next
/// request would begin is no longer certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The head breaks RFC 9110 or 9112: 400, with the rule it breaks.
    #[error("{0}")]
    Malformed(&'static str),
    /// The request line did not end within the limit: 414.
    #[error("request line too long")]
    RequestLineTooLong,
    /// An expectation other than `100-continue`: 417.
    #[error("unknown expectation")]
    UnknownExpectation,
    /// The header section is larger than the limit: 431.
    #[error("header section too large")]
    SectionTooLarge,
    /// More fields than the limit: 431.
    #[error("too many header fields")]
    TooManyFields,
    /// A transfer coding or a method this server does not implement: 501.
    #[error("{0}")]
    NotImplemented(&'static str),
    /// A version other than HTTP/1.0 and HTTP/1.1: 505.
    #[error("HTTP version not supported")]
    UnsupportedVersion,
}

impl HeadError {
    pub(super) const BARE_LF: HeadError = HeadError::Malformed("bare LF in head");
    pub(super) const BARE_CR: HeadError = HeadError::Malformed("bare CR in head");
    pub(super) const NUL: HeadError = HeadError::Malformed("NUL in head");

    /// The status this is answered with.
    ///
    /// ```
    /// use oxb_http::head::HeadError;
    /// assert_eq!(HeadError::SectionTooLarge.status(), 431);
    /// ```
    pub fn status(&self) -> u16 {
        match self {
            HeadError::Malformed(_) => 400,
            HeadError::RequestLineTooLong => 414,
            HeadError::UnknownExpectation => 417,
            HeadError::SectionTooLarge | HeadError::TooManyFields => 431,
            HeadError::NotImplemented(_) => 501,
            HeadError::UnsupportedVersion => 505,
        }
    }

    /// The reason in a few words, fit for a problem's `detail`.
    pub fn detail(&self) -> &'static str {
        match self {
            HeadError::Malformed(detail) | HeadError::NotImplemented(detail) => detail,
            HeadError::RequestLineTooLong => "request line too long",
            HeadError::UnknownExpectation => "unknown expectation",
            HeadError::SectionTooLarge => "header section too large",
            HeadError::TooManyFields => "too many header fields",
            HeadError::UnsupportedVersion => "HTTP version not supported",
        }
    }
}

/// What httparse's verdict on `raw` means. Only a refused head gets here, so looking again may cost.
#[cold]
pub(super) fn explain(error: httparse::Error, raw: &[u8]) -> HeadError {
    match error {
        httparse::Error::TooManyHeaders => HeadError::TooManyFields,
        httparse::Error::Version if names_a_version(raw) => HeadError::UnsupportedVersion,
        httparse::Error::HeaderName if has_folded_line(raw) => {
            HeadError::Malformed("obsolete line folding in head")
        }
        httparse::Error::HeaderName => HeadError::Malformed("bad field name"),
        httparse::Error::HeaderValue => HeadError::Malformed("bad field value"),
        httparse::Error::Token | httparse::Error::Version => HeadError::Malformed("bad request line"),
        httparse::Error::NewLine | httparse::Error::Status => HeadError::Malformed("bad line end in head"),
    }
}

/// Whether the request line ends in a well-formed version (RFC 9112 §2.3), then one we do not speak.
fn names_a_version(raw: &[u8]) -> bool {
    let Some(line) = raw.split(|&byte| byte == b'\n').find(|line| !matches!(line, [] | [b'\r'])) else {
        return false;
    };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let version = line.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
    matches!(version, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
        if major.is_ascii_digit() && minor.is_ascii_digit() && !matches!((major, minor), (b'1', b'0' | b'1')))
}

fn has_folded_line(raw: &[u8]) -> bool {
    raw.windows(2).any(|pair| matches!(pair, [b'\n', b' ' | b'\t']))
}
