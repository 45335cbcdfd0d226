//! The body of a streamed answer on its way into the output: framed, held to its declared length, and credited
//! to its source as the socket takes it.
//!
//! Invariant: a body ends on the wire only when its source ended it and, with a declared length, gave exactly
//! that much (R07); whatever else happens closes the connection before the end is written, and resets it where
//! closing is the end.

use bytes::Bytes;

use crate::output::Output;
use crate::wire::{self, BodyWire};

/// The source gave more or less than the length it declared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WrongLength;

/// A body that comes piece by piece.
#[derive(Debug)]
pub(crate) struct StreamBody {
    wire: BodyWire,
    /// Bytes still owed under a declared length.
    owed: Option<u64>,
    /// Bytes in the output that the source has not been credited for.
    uncredited: usize,
    is_ended: bool,
}

impl StreamBody {
    pub(crate) fn new(wire: BodyWire, declared: Option<u64>) -> Self {
        Self { wire, owed: declared, uncredited: 0, is_ended: false }
    }

    /// One piece goes into the output.
    pub(crate) fn push(&mut self, bytes: Bytes, output: &mut Output) -> Result<(), WrongLength> {
        let size = bytes.len();
        if let Some(owed) = &mut self.owed {
            *owed = owed.checked_sub(size as u64).ok_or(WrongLength)?;
        }
        self.uncredited += size;
        if self.wire == BodyWire::Chunked {
            wire::write_chunk_size(&mut output.buf, size);
            output.push(bytes);
            output.buf.extend_from_slice(b"\r\n");
        } else {
            output.push(bytes);
        }
        Ok(())
    }

    /// The source has ended.
    pub(crate) fn end(&mut self, output: &mut Output) -> Result<(), WrongLength> {
        if self.owed.is_some_and(|owed| owed > 0) {
            return Err(WrongLength);
        }
        if self.wire == BodyWire::Chunked {
            output.buf.extend_from_slice(wire::LAST_CHUNK);
        }
        self.is_ended = true;
        Ok(())
    }

    /// Only the end of the connection tells its client where it ends.
    pub(crate) fn ends_by_closing(&self) -> bool {
        self.wire == BodyWire::UntilClose
    }

    /// The source has ended and all of the body is in the output.
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Bytes the socket has taken since the last call, when `waiting` are left in the output. Frames count as if
    /// they were the last to leave, so a source is credited late rather than early.
    pub(crate) fn credit(&mut self, waiting: usize) -> usize {
        let credit = self.uncredited.saturating_sub(waiting);
        self.uncredited -= credit;
        credit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(output: &Output) -> String {
        String::from_utf8(output.buf.clone()).unwrap()
    }

    #[test]
    fn pieces_become_chunks_and_are_credited_once() {
        let (mut body, mut output) = (StreamBody::new(BodyWire::Chunked, None), Output::default());
        body.push(Bytes::from_static(b"hello"), &mut output).unwrap();
        body.push(Bytes::from_static(b"you"), &mut output).unwrap();
        assert_eq!(body.credit(output.len()), 0, "nothing has left");
        body.end(&mut output).unwrap();
        assert_eq!(written(&output), "5\r\nhello\r\n3\r\nyou\r\n0\r\n\r\n");
        assert_eq!((body.credit(2), body.credit(0), body.credit(0)), (6, 2, 0));
    }

    #[test]
    fn a_declared_length_is_kept_to_the_byte() {
        let cases: &[(u64, &[&str], bool)] = &[
            (5, &["hello"], true),
            (5, &["he", "llo"], true),
            (5, &["hell"], false),
            (5, &["hello", "x"], false),
            (0, &[], true),
            (0, &["x"], false),
        ];
        for (declared, pieces, is_right) in cases {
            let (mut body, mut output) =
                (StreamBody::new(BodyWire::Length(*declared), Some(*declared)), Output::default());
            let mut outcome = Ok(());
            for piece in *pieces {
                outcome = outcome.and_then(|()| body.push(Bytes::from(*piece), &mut output));
            }
            let outcome = outcome.and_then(|()| body.end(&mut output));
            assert_eq!(outcome.is_ok(), *is_right, "{declared} {pieces:?}");
        }
    }
}
