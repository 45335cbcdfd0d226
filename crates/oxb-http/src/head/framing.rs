//! How a request's body is framed, and what becomes of its connection (RFC 9112 §6 and §9).
//!
//! Invariant: a framing that two readers could read in two ways is refused, never repaired.

use super::error::HeadError;
use super::fields::trim;
use super::target::is_host;

/// The protocol version of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: connections close unless `keep-alive` is asked for; no chunked coding.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// No body.
    None,
    /// That many bytes, perhaps none.
    Length(u64),
    /// Chunked coding; see [`ChunkedDecoder`](crate::chunked::ChunkedDecoder).
    Chunked,
}

/// What the head says about the body and the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// The version the rest was read by.
    pub version: Version,
    /// How the end of the body is found.
    pub body: BodyFraming,
    /// The client wants to send another request here.
    pub keep_alive: bool,
    /// The client waits for `100 Continue` before it sends its body, which is not empty.
    pub expects_continue: bool,
    /// The client offers another protocol: `Connection: upgrade` with an `Upgrade` field, over HTTP/1.1.
    pub upgrade: bool,
}

/// Collects, field by field, what bears on framing; one pass over the header section.
#[derive(Default)]
pub(super) struct FramingRules {
    has_host: bool,
    length: Option<u64>,
    coding_count: usize,
    chunked_count: usize,
    is_chunked_last: bool,
    wants_close: bool,
    wants_keep_alive: bool,
    wants_upgrade: bool,
    has_upgrade: bool,
    expects_continue: bool,
    expects_other: bool,
}

impl FramingRules {
    #[inline]
    pub(super) fn see(&mut self, name: &[u8], value: &[u8]) -> Result<(), HeadError> {
        // The length alone settles most fields.
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => self.see_host(value),
            6 if name.eq_ignore_ascii_case(b"expect") => {
                self.see_expect(value);
                Ok(())
            }
            7 if name.eq_ignore_ascii_case(b"upgrade") => {
                self.has_upgrade = true;
                Ok(())
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                self.see_connection(value);
                Ok(())
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => self.see_length(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.see_codings(value),
            _ => Ok(()),
        }
    }

    // RFC 9112 §3.2: more than one Host line, or an invalid value, is a 400. The empty value is what a client sends
    // whose target has no authority.
    fn see_host(&mut self, value: &[u8]) -> Result<(), HeadError> {
        if self.has_host {
            return Err(HeadError::Malformed("more than one Host field"));
        }
        let value = trim(value);
        if !value.is_empty() && !is_host(value) {
            return Err(HeadError::Malformed("bad Host field"));
        }
        self.has_host = true;
        Ok(())
    }

    // RFC 9110 §8.6 would let equal repeats pass as one. They are refused: a sender never makes them, and what
    // stands before us may have taken one and dropped the other.
    fn see_length(&mut self, value: &[u8]) -> Result<(), HeadError> {
        if self.length.is_some() {
            return Err(HeadError::Malformed("more than one Content-Length"));
        }
        let value = trim(value);
        if value.is_empty() {
            return Err(HeadError::Malformed("bad Content-Length"));
        }
        let length = value.iter().try_fold(0_u64, |length, byte| {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            length.checked_mul(10)?.checked_add(u64::from(digit))
        });
        self.length = Some(length.ok_or(HeadError::Malformed("bad Content-Length"))?);
        Ok(())
    }

    // Empty list elements are refused, though RFC 9110 §5.6.1.2 would have us skip them: readers disagree about
    // which coding is then the last, and that is how requests are smuggled (RFC 9112 §11.2).
    fn see_codings(&mut self, value: &[u8]) -> Result<(), HeadError> {
        for coding in value.split(|&byte| byte == b',') {
            let coding = trim(coding);
            if coding.is_empty() {
                return Err(HeadError::Malformed("bad Transfer-Encoding"));
            }
            self.coding_count += 1;
            self.is_chunked_last = coding.eq_ignore_ascii_case(b"chunked");
            self.chunked_count += usize::from(self.is_chunked_last);
        }
        Ok(())
    }

    fn see_connection(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',') {
            let option = trim(option);
            match option.len() {
                5 if option.eq_ignore_ascii_case(b"close") => self.wants_close = true,
                10 if option.eq_ignore_ascii_case(b"keep-alive") => self.wants_keep_alive = true,
                7 if option.eq_ignore_ascii_case(b"upgrade") => self.wants_upgrade = true,
                _ => {}
            }
        }
    }

    fn see_expect(&mut self, value: &[u8]) {
        for expectation in value.split(|&byte| byte == b',') {
            let expectation = trim(expectation);
            if expectation.eq_ignore_ascii_case(b"100-continue") {
                self.expects_continue = true;
            } else if !expectation.is_empty() {
                self.expects_other = true;
            }
        }
    }

    pub(super) fn finish(self, version: Version) -> Result<Framing, HeadError> {
        let is_http11 = version == Version::Http11;
        if is_http11 && !self.has_host {
            return Err(HeadError::Malformed("no Host field"));
        }
        let body = self.body(version)?;
        // RFC 9110 §10.1.1: an expectation of an HTTP/1.0 request is ignored.
        if is_http11 && self.expects_other {
            return Err(HeadError::UnknownExpectation);
        }
        let has_body = !matches!(body, BodyFraming::None | BodyFraming::Length(0));
        Ok(Framing {
            version,
            body,
            keep_alive: !self.wants_close && (is_http11 || self.wants_keep_alive),
            expects_continue: is_http11 && self.expects_continue && has_body,
            upgrade: is_http11 && self.wants_upgrade && self.has_upgrade,
        })
    }

    fn body(&self, version: Version) -> Result<BodyFraming, HeadError> {
        if self.coding_count == 0 {
            return Ok(self.length.map_or(BodyFraming::None, BodyFraming::Length));
        }
        // Content-Length beside Transfer-Encoding is refused, though RFC 9112 §6.1 would let us go on with the
        // chunked body: that leniency is how requests are smuggled (§11.2).
        if self.length.is_some() {
            return Err(HeadError::Malformed("Content-Length beside Transfer-Encoding"));
        }
        // RFC 9112 §6.1: framing of an HTTP/1.0 message with Transfer-Encoding is to be taken as faulty.
        if version == Version::Http10 {
            return Err(HeadError::Malformed("Transfer-Encoding in HTTP/1.0"));
        }
        // §6.3: without a final `chunked` the end cannot be known: 400. §7.1: chunked is never applied twice.
        if !self.is_chunked_last || self.chunked_count > 1 {
            return Err(HeadError::Malformed("bad Transfer-Encoding"));
        }
        // §6.1: a coding we do not know is a 501.
        if self.coding_count > 1 {
            return Err(HeadError::NotImplemented("unknown transfer coding"));
        }
        Ok(BodyFraming::Chunked)
    }
}
