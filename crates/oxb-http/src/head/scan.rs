//! Finds the end of a head in a buffer that grows.
//!
//! Invariant: no byte is looked at twice but a CR at a cut, so a head in one-byte pieces costs what a whole
//! one costs, and the verdict does not depend on where the pieces were cut.

use super::error::HeadError;

/// Bounds of one head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes in the header section, line ends counted; the request line may be as long once more.
    pub section: usize,
    /// Fields in the header section; values above 100 count as 100.
    pub fields: usize,
}

impl Default for HeadLimits {
    /// 64 KiB and 100 fields.
    fn default() -> Self {
        HeadLimits { section: 65536, fields: 100 }
    }
}

/// Empty lines taken before a request line. RFC 9112 §2.2 asks for at least one; old clients send one after a body.
const MAX_EMPTY_LINES: u8 = 4;

/// Finds the end of a head incrementally.
///
/// ```
/// use oxb_http::head::{HeadLimits, HeadScan};
///
/// let limits = HeadLimits::default();
/// let mut scan = HeadScan::new();
/// assert_eq!(scan.advance(b"GET / HTTP/1.1\r\nHost: a\r", &limits), Ok(None));
/// assert_eq!(scan.advance(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET", &limits), Ok(Some(27)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct HeadScan {
    /// The next byte to look at.
    position: usize,
    /// Where the line it belongs to begins.
    line: usize,
    /// Where the header section begins; 0 until the request line has ended.
    section: usize,
    field_count: usize,
    empty_line_count: u8,
}

impl HeadScan {
    /// A scan at the beginning of a buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at what is new in `buf`, which begins where the head begins and holds all that came before.
    /// Gives the length of the head, from the beginning of `buf` to the end of its blank line, once it is whole.
    ///
    /// # Errors
    ///
    /// A bare LF, a bare CR or a NUL as soon as it is seen, and a request line, a section or a number of
    /// fields over its limit, whether or not the rest has arrived.
    pub fn advance(&mut self, buf: &[u8], limits: &HeadLimits) -> Result<Option<usize>, HeadError> {
        loop {
            let rest = buf.get(self.position..).unwrap_or_default();
            let Some(found) = memchr::memchr3(b'\r', b'\n', 0, rest) else {
                self.position = buf.len();
                // None of these bytes ends a line, so its end lies further out still.
                self.check_reach(buf.len(), limits)?;
                return Ok(None);
            };
            let at = self.position + found;
            self.check_reach(at, limits)?;
            match (buf[at], buf.get(at + 1)) {
                (b'\n', _) => return Err(HeadError::BARE_LF),
                (b'\r', Some(b'\n')) => {}
                (b'\r', None) => {
                    self.position = at;
                    return Ok(None);
                }
                (b'\r', Some(_)) => return Err(HeadError::BARE_CR),
                _ => return Err(HeadError::NUL),
            }
            let is_empty_line = at == self.line;
            self.line = at + 2;
            self.position = self.line;
            if self.section == 0 {
                if !is_empty_line {
                    self.section = self.line;
                } else {
                    self.empty_line_count += 1;
                    if self.empty_line_count > MAX_EMPTY_LINES {
                        return Err(HeadError::Malformed("empty lines before the request line"));
                    }
                }
            } else if is_empty_line {
                return Ok(Some(self.line));
            } else {
                self.field_count += 1;
                if self.field_count > limits.fields {
                    return Err(HeadError::TooManyFields);
                }
                if self.line - self.section > limits.section {
                    return Err(HeadError::SectionTooLarge);
                }
            }
        }
    }

    /// Whether a byte of a request line was seen, that is, whether a request is in progress.
    pub fn has_begun(&self) -> bool {
        self.section != 0 || self.position > self.line
    }

    /// Forgets everything: the next head begins at the beginning of the next buffer.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Refuses a line that ends at byte `at` or later, when that is over a limit. Asked before the byte is judged, so
    /// that a buffer that holds more gives the same verdict as one that was cut here.
    fn check_reach(&self, at: usize, limits: &HeadLimits) -> Result<(), HeadError> {
        if self.section == 0 {
            if at.saturating_sub(self.line) > limits.section {
                return Err(HeadError::RequestLineTooLong);
            }
        } else if at.saturating_sub(self.section) > limits.section {
            return Err(HeadError::SectionTooLarge);
        }
        Ok(())
    }
}
