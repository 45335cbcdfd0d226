//! A request body as it arrives: collected within the route's limit and the server's budget, or read away.

use oxb_core::ByteCount;

use crate::budget::Budget;
use crate::chunked::ChunkedDecoder;
use crate::head::BodyFraming;

/// Where the body ends.
#[derive(Debug)]
pub(crate) enum BodyEnd {
    Length(u64),
    Chunked(ChunkedDecoder),
}

impl BodyEnd {
    pub(crate) fn new(framing: BodyFraming) -> Option<Self> {
        match framing {
            BodyFraming::None | BodyFraming::Length(0) => None,
            BodyFraming::Length(length) => Some(Self::Length(length)),
            BodyFraming::Chunked => Some(Self::Chunked(ChunkedDecoder::new())),
        }
    }

    /// Follows `input` to the body's end without keeping anything. `Err`: the framing is broken.
    pub(crate) fn skip(&mut self, input: &[u8]) -> Result<Step, ()> {
        match self {
            Self::Length(left) => {
                let count = take(left, input);
                Ok(Step { consumed: count, is_done: *left == 0 })
            }
            Self::Chunked(decoder) => {
                let progress = decoder.decode(input, |_| {}).map_err(drop)?;
                Ok(Step { consumed: progress.consumed, is_done: progress.done })
            }
        }
    }
}

/// How far a call got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) consumed: usize,
    pub(crate) is_done: bool,
}

/// Why a body is not collected any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Over the limit: 413.
    TooLarge,
    /// Broken framing: 400.
    Broken,
}

/// A body being collected.
#[derive(Debug)]
pub(crate) struct Collecting {
    pub(crate) end: BodyEnd,
    pub(crate) bytes: Vec<u8>,
    /// Bytes taken from the budget; given back when the request has ended.
    pub(crate) reserved: ByteCount,
    limit: u64,
}

impl Collecting {
    pub(crate) fn new(end: BodyEnd, limit: u64) -> Self {
        // A declared length is believed only as far as one read: the rest has to arrive first.
        let capacity = match end {
            BodyEnd::Length(length) => usize::try_from(length).unwrap_or(usize::MAX).min(64 * 1024),
            BodyEnd::Chunked(_) => 0,
        };
        Self { end, bytes: Vec::with_capacity(capacity), reserved: ByteCount(0), limit }
    }

    /// Takes what `input` holds of the body. `take` asks the budget; where it says no, nothing is consumed.
    ///
    /// Returns `None` when the budget is full.
    pub(crate) fn collect(
        &mut self,
        input: &[u8],
        budget: &Budget,
        take_from_budget: impl FnOnce(u64) -> bool,
    ) -> Result<Option<Step>, Refused> {
        match &mut self.end {
            BodyEnd::Length(left) => {
                let mut left_after = *left;
                let count = take(&mut left_after, input);
                if !take_from_budget(count as u64) {
                    return Ok(None);
                }
                self.reserved.0 += count as u64;
                *left = left_after;
                self.bytes.extend_from_slice(&input[..count]);
                Ok(Some(Step { consumed: count, is_done: left_after == 0 }))
            }
            BodyEnd::Chunked(decoder) => {
                // An upper bound of what this input can hold; the difference goes back at once.
                if !take_from_budget(input.len() as u64) {
                    return Ok(None);
                }
                let before = self.bytes.len();
                let bytes = &mut self.bytes;
                let limit = self.limit;
                let mut is_over = false;
                let progress = decoder.decode(input, |data| {
                    is_over |= bytes.len() as u64 + data.len() as u64 > limit;
                    if !is_over {
                        bytes.extend_from_slice(data);
                    }
                });
                let kept = (self.bytes.len() - before) as u64;
                self.reserved.0 += kept;
                budget.give_back(input.len() as u64 - kept);
                if is_over {
                    return Err(Refused::TooLarge);
                }
                let progress = progress.map_err(|_| Refused::Broken)?;
                Ok(Some(Step { consumed: progress.consumed, is_done: progress.done }))
            }
        }
    }
}

fn take(left: &mut u64, input: &[u8]) -> usize {
    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    *left -= count as u64;
    count
}
