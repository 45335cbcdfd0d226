//! The bytes of a body as they come, told from their framing (RFC 9112 section 6.3). No I/O.
//!
//! Invariant: the pieces and the end do not depend on where the input was cut.

use super::answer::Malformed;

/// Where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// Takes the framing off a body, piece by piece.
#[derive(Debug, Clone)]
pub(super) struct BodyReader {
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Length(u64),
    UntilClose,
    /// In the line of a chunk size.
    Size {
        size: u64,
        digits: u8,
        place: Place,
    },
    /// In the data of a chunk.
    Data(u64),
    /// In the CRLF after it; whether the CR was seen.
    DataEnd(bool),
    /// In the trailer section: bytes of the line so far, and whether a CR was the last.
    Trailer {
        length: u32,
        is_after_cr: bool,
    },
    Ended,
}

/// Where in the line of a chunk size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Digits,
    Extension(u16),
    AfterCr,
}

/// One step of [`BodyReader::next`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step<'a> {
    /// Bytes of the body; may be none.
    pub(super) piece: &'a [u8],
    /// How many bytes of the input are done with.
    pub(super) taken: usize,
}

/// Longer lines than any server sends.
const MAX_EXTENSION: u16 = 4096;
const MAX_TRAILER_LINE: u32 = 16 * 1024;

impl BodyReader {
    pub(super) fn new(framing: Framing) -> Self {
        let stage = match framing {
            Framing::Length(0) => Stage::Ended,
            Framing::Length(length) => Stage::Length(length),
            Framing::Chunked => Stage::Size { size: 0, digits: 0, place: Place::Digits },
            Framing::UntilClose => Stage::UntilClose,
        };
        Self { stage }
    }

    /// Whether the last byte of the message was taken.
    pub(super) fn is_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Whether the peer may end this body by closing, as it does now.
    pub(super) fn ends_at_close(&self) -> bool {
        self.stage == Stage::UntilClose
    }

    /// The next piece of the body in `bytes`, up to a boundary of the framing. Called until it takes nothing more.
    pub(super) fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, Malformed> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match &mut self.stage {
                Stage::Length(left) | Stage::Data(left) => {
                    let rest = &bytes[at..];
                    // What does not fit a usize is longer than the rest as well.
                    let length = usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                    *left -= length as u64;
                    if *left == 0 {
                        let is_chunk = matches!(self.stage, Stage::Data(_));
                        self.stage = if is_chunk { Stage::DataEnd(false) } else { Stage::Ended };
                    }
                    return Ok(Step { piece: &rest[..length], taken: at + length });
                }
                Stage::UntilClose => return Ok(Step { piece: &bytes[at..], taken: bytes.len() }),
                Stage::Ended => break,
                _ => self.stage = self.stage.after(byte)?,
            }
            at += 1;
        }
        Ok(Step { piece: &[], taken: at })
    }
}

impl Stage {
    /// The stage after one byte of what frames the data.
    fn after(self, byte: u8) -> Result<Self, Malformed> {
        let bad = Err(Malformed("chunk size"));
        Ok(match (self, byte) {
            (Self::Size { size, digits, place: Place::Digits }, _) if byte.is_ascii_hexdigit() => {
                if digits == 15 {
                    return bad;
                }
                let digit = (byte as char).to_digit(16).unwrap_or_default();
                Self::Size { size: size * 16 + u64::from(digit), digits: digits + 1, place: Place::Digits }
            }
            (Self::Size { digits: 0, .. }, _) => return bad,
            (Self::Size { size, digits, place: Place::Digits }, b';' | b' ' | b'\t') => {
                Self::Size { size, digits, place: Place::Extension(0) }
            }
            (Self::Size { size, digits, place: Place::Digits | Place::Extension(_) }, b'\r') => {
                Self::Size { size, digits, place: Place::AfterCr }
            }
            (Self::Size { size, digits, place: Place::Extension(length) }, _)
                if byte != b'\n' && length < MAX_EXTENSION =>
            {
                Self::Size { size, digits, place: Place::Extension(length + 1) }
            }
            (Self::Size { size: 0, place: Place::AfterCr, .. }, b'\n') => {
                Self::Trailer { length: 0, is_after_cr: false }
            }
            (Self::Size { size, place: Place::AfterCr, .. }, b'\n') => Self::Data(size),
            (Self::Size { .. }, _) => return bad,
            (Self::DataEnd(false), b'\r') => Self::DataEnd(true),
            (Self::DataEnd(true), b'\n') => Self::Size { size: 0, digits: 0, place: Place::Digits },
            (Self::DataEnd(_), _) => return Err(Malformed("chunk end")),
            (Self::Trailer { length, is_after_cr: false }, b'\r') => {
                Self::Trailer { length, is_after_cr: true }
            }
            (Self::Trailer { length: 0, is_after_cr: true }, b'\n') => Self::Ended,
            (Self::Trailer { is_after_cr: true, .. }, b'\n') => {
                Self::Trailer { length: 0, is_after_cr: false }
            }
            (Self::Trailer { length, is_after_cr: false }, _)
                if byte != b'\n' && length < MAX_TRAILER_LINE =>
            {
                Self::Trailer { length: length + 1, is_after_cr: false }
            }
            (Self::Trailer { .. }, _) => return Err(Malformed("trailers")),
            // Taken whole by `next`.
            (Self::Length(_) | Self::Data(_) | Self::UntilClose | Self::Ended, _) => self,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body, and what is left after it.
    fn read(framing: Framing, pieces: &[&[u8]]) -> Result<(Vec<u8>, usize, bool), Malformed> {
        let mut reader = BodyReader::new(framing);
        let (mut body, mut left) = (Vec::new(), 0);
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() && !reader.is_ended() {
                let step = reader.next(rest)?;
                body.extend_from_slice(step.piece);
                rest = &rest[step.taken..];
            }
            left += rest.len();
        }
        Ok((body, left, reader.is_ended()))
    }

    #[test]
    fn a_body_is_the_same_whole_cut_anywhere_and_followed_by_stray_bytes() {
        for (framing, wire, body) in [
            (Framing::Length(3), "abc", "abc"),
            (Framing::Length(0), "", ""),
            (Framing::Chunked, "3\r\nabc\r\nA;x=\"y\"\r\n0123456789\r\n0\r\n\r\n", "abc0123456789"),
            (Framing::Chunked, "1 \r\na\r\n000\r\nx: y\r\nz: w\r\n\r\n", "a"),
        ] {
            let wire = format!("{wire}HTTP").into_bytes();
            for cut in 0..=wire.len() {
                let (front, back) = wire.split_at(cut);
                let expected = (body.as_bytes().to_vec(), 4, true);
                assert_eq!(read(framing, &[front, back]), Ok(expected), "{framing:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn what_is_no_chunked_body_is_refused() {
        for wire in ["x\r\n", "\r\n", "1\r\nab\r\n", "1\na\r\n", "fffffffffffffffff\r\n", "0\r\na\n\r\n"] {
            assert!(read(Framing::Chunked, &[wire.as_bytes()]).is_err(), "{wire:?}");
        }
    }

    #[test]
    fn a_body_without_framing_has_no_end_of_its_own() {
        assert_eq!(read(Framing::UntilClose, &[b"abc"]), Ok((b"abc".to_vec(), 0, false)));
    }
}
