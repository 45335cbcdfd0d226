//! The head of an HTTP/1 request: where it ends, what it says, and how its body is framed.
//!
//! [`HeadScan`] finds the blank line in a growing buffer; [`Head::parse`] then reads the whole head once.
//! A head owns its bytes and remembers only where things are, so nothing is copied and headers nobody
//! asks for cost nothing.
//!
//! Invariant: a `Head` that exists is well formed by RFC 9112 (line ends, names, values, target, Host) and
//! its framing is unambiguous, so this server and whatever stands before it agree where its body ends.

mod error;
mod fields;
mod framing;
mod scan;
mod target;

use std::mem::MaybeUninit;

use bytes::Bytes;

pub use self::error::HeadError;
pub use self::fields::Headers;
pub use self::framing::{BodyFraming, Framing, Version};
pub use self::scan::{HeadLimits, HeadScan};

use self::fields::{Field, Fields, MAX_FIELDS};
use self::framing::FramingRules;
use self::target::Target;

/// One request head: its own bytes, and where in them things are.
///
/// ```
/// use bytes::Bytes;
/// use oxb_http::head::{BodyFraming, Head, HeadLimits};
///
/// let raw = Bytes::from_static(b"POST /items?draft HTTP/1.1\r\nHost: example\r\nContent-Length: 3\r\n\r\n");
/// let head = Head::parse(raw, &HeadLimits::default())?;
/// assert_eq!((head.method(), head.path(), head.query()), ("POST", "/items", Some("draft")));
/// assert_eq!(head.header("host"), Some(&b"example"[..]));
/// assert_eq!(head.framing().body, BodyFraming::Length(3));
/// # Ok::<(), oxb_http::head::HeadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Head {
    raw: Bytes,
    method: Span,
    target: Span,
    parts: Target,
    fields: Fields,
    framing: Framing,
}

/// A part of the head's bytes. 32 bits: `parse` refuses a head that would not fit.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// Where `part`, a subslice of the buffer that begins at address `base`, lies in it.
    fn of(part: &[u8], base: usize) -> Self {
        let start = narrow(part.as_ptr() as usize - base);
        Span { start, end: start + narrow(part.len()) }
    }

    fn text(self, raw: &[u8]) -> &str {
        std::str::from_utf8(&raw[self.start as usize..self.end as usize])
            .expect("spans of text are ASCII: checked in Head::parse")
    }
}

fn narrow(offset: usize) -> u32 {
    u32::try_from(offset).expect("offsets of a head fit u32: its length was checked in Head::parse")
}

impl Head {
    /// Reads a whole head, blank line included, as [`HeadScan`] delimits it. Empty lines before it are skipped.
    ///
    /// # Errors
    ///
    /// Whatever RFC 9110 and 9112 tell a server to refuse; see [`HeadError::status`].
    pub fn parse(raw: Bytes, limits: &HeadLimits) -> Result<Head, HeadError> {
        if u32::try_from(raw.len()).is_err() {
            return Err(HeadError::SectionTooLarge);
        }
        let mut slots = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut []);
        let slot_count = limits.fields.min(MAX_FIELDS);
        match request.parse_with_uninit_headers(&raw, &mut slots[..slot_count]) {
            Ok(httparse::Status::Complete(len)) if len == raw.len() => {}
            Ok(httparse::Status::Complete(_)) => return Err(HeadError::Malformed("bytes after the head")),
            Ok(httparse::Status::Partial) => return Err(HeadError::Malformed("incomplete head")),
            Err(error) => return Err(error::explain(error, &raw)),
        }
        let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version)
        else {
            return Err(HeadError::Malformed("incomplete head"));
        };

        let base = raw.as_ptr() as usize;
        let method_span = Span::of(method.as_bytes(), base);
        // httparse takes a bare LF for a line end. A scanned head has none; one that comes from elsewhere is
        // held to the same rule, which costs one byte a line: every line but the last begins after a CRLF.
        let lead = &raw[..method_span.start as usize];
        if !lead.chunks(2).all(|line| line == b"\r\n") || !raw.ends_with(b"\r\n\r\n") {
            return Err(HeadError::BARE_LF);
        }

        let version = if minor == 0 { Version::Http10 } else { Version::Http11 };
        let mut rules = FramingRules::default();
        let mut fields = Fields::default();
        for header in request.headers.iter() {
            let name = Span::of(header.name.as_bytes(), base);
            if raw[name.start as usize - 2] != b'\r' {
                return Err(HeadError::BARE_LF);
            }
            fields.push(Field { start: name.start, name_len: name.end - name.start });
            rules.see(header.name.as_bytes(), header.value)?;
        }
        let target_span = Span::of(target.as_bytes(), base);
        let parts = target::parse(method, target, target_span.start)?;
        let framing = rules.finish(version)?;
        Ok(Head { method: method_span, target: target_span, parts, fields, framing, raw })
    }

    /// The method as sent; methods are case-sensitive (RFC 9110 §9.1).
    pub fn method(&self) -> &str {
        self.method.text(&self.raw)
    }

    /// The request target as sent, in whichever of its forms.
    pub fn target(&self) -> &str {
        self.target.text(&self.raw)
    }

    /// The path, still percent-encoded; `/` where the absolute form has none, `*` for the asterisk form.
    pub fn path(&self) -> &str {
        if self.parts.is_path_empty() { "/" } else { self.parts.path.text(&self.raw) }
    }

    /// What follows the first `?`, still encoded; `None` without a `?`.
    pub fn query(&self) -> Option<&str> {
        self.parts.query.map(|query| query.text(&self.raw))
    }

    /// Host and port the client meant: of the target in absolute form, else the Host field (RFC 9112 §3.2.2).
    pub fn authority(&self) -> Option<&str> {
        self.header("host").and_then(|host| std::str::from_utf8(host).ok())
    }

    /// The protocol version of the request line.
    pub fn version(&self) -> Version {
        self.framing.version
    }

    /// Every field as sent and in order: name, and value without the whitespace around it. A target in absolute
    /// form has its own `host`, which replaces the one sent (RFC 9112 §3.2.2), or comes first where none was.
    pub fn headers(&self) -> Headers<'_> {
        Headers::new(&self.raw, &self.fields, self.target_authority().map(str::as_bytes))
    }

    /// The value of the first field of that name, in any case; of `host` as [`headers`](Self::headers) gives it.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        match self.target_authority() {
            Some(authority) if name.eq_ignore_ascii_case("host") => Some(authority.as_bytes()),
            _ => self.fields.find(&self.raw, name.as_bytes()),
        }
    }

    fn target_authority(&self) -> Option<&str> {
        self.parts.authority.map(|authority| authority.text(&self.raw))
    }

    /// How the body is framed and what becomes of the connection.
    pub fn framing(&self) -> &Framing {
        &self.framing
    }

    /// The bytes of the head, empty lines before it and the blank line after it included.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }
}
