//! A request body as it arrives: collected within the route's limit and the server's budget, or read away.

use std::task::Waker;

use oxb_core::ByteCount;

use crate::budget::{Budget, Room, Ticket};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) consumed: usize,
    pub(crate) is_done: bool,
}

/// Why a body is not collected any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Over the limit: 413. `rest` says how far the input was followed, so that the body can be read away; `None`
    /// when its framing is broken as well.
    TooLarge {
        /// Where to go on.
        rest: Option<Step>,
    },
    /// Broken framing: 400.
    Broken,
    /// The budget has no room for it, nor will it have any: 503.
    NoRoom,
}

/// A body being collected.
#[derive(Debug)]
pub(crate) struct Collecting {
    pub(crate) end: BodyEnd,
    pub(crate) bytes: Vec<u8>,
    /// Bytes taken from the budget; given back when the request has ended.
    pub(crate) reserved: ByteCount,
    /// Its place among the bodies that wait for room.
    ticket: Option<Ticket>,
    limit: u64,
}

impl Collecting {
    pub(crate) fn new(end: BodyEnd, limit: u64) -> Self {
        // A declared length is believed only as far as one read: the rest has to arrive first.
        let capacity = match end {
            BodyEnd::Length(length) => usize::try_from(length).unwrap_or(usize::MAX).min(64 * 1024),
            BodyEnd::Chunked(_) => 0,
        };
        Self { end, bytes: Vec::with_capacity(capacity), reserved: ByteCount(0), ticket: None, limit }
    }

    /// Takes what `input` holds of the body. Where the budget has no room nothing is consumed: then this is
    /// `None`, and `waker` is woken when it may have.
    pub(crate) fn collect(
        &mut self,
        input: &[u8],
        budget: &Budget,
        waker: &Waker,
    ) -> Result<Option<Step>, Refused> {
        match &mut self.end {
            BodyEnd::Length(left) => {
                let mut left_after = *left;
                let count = take(&mut left_after, input);
                match budget.take_or_wait(count as u64, self.reserved.0, &mut self.ticket, waker) {
                    Room::Taken => {}
                    Room::Later => return Ok(None),
                    Room::Never => return Err(Refused::NoRoom),
                }
                self.reserved.0 += count as u64;
                *left = left_after;
                // Never more than was declared, however the buffer grows.
                let space = self.bytes.capacity() - self.bytes.len();
                if space < count {
                    let wanted = count.max(self.bytes.len());
                    let most = count.saturating_add(usize::try_from(left_after).unwrap_or(usize::MAX));
                    self.bytes.reserve_exact(wanted.min(most));
                }
                self.bytes.extend_from_slice(&input[..count]);
                Ok(Some(Step { consumed: count, is_done: left_after == 0 }))
            }
            BodyEnd::Chunked(decoder) => {
                let room = self.limit.saturating_sub(self.bytes.len() as u64);
                // An upper bound of what this input can hold. Where that does not fit, what it does hold may.
                let mut granted = room.min(input.len() as u64);
                if budget.take(granted) {
                    budget.leave(&mut self.ticket);
                } else {
                    let mut held = 0;
                    // What is wrong with it is found below.
                    let _ = decoder.clone().decode(input, |data| held += data.len() as u64);
                    granted = room.min(held);
                    match budget.take_or_wait(granted, self.reserved.0, &mut self.ticket, waker) {
                        Room::Taken => {}
                        Room::Later => return Ok(None),
                        Room::Never => return Err(Refused::NoRoom),
                    }
                }
                let (before, bytes, limit) = (self.bytes.len(), &mut self.bytes, self.limit);
                let mut is_over = false;
                let progress = decoder.decode(input, |data| {
                    is_over |= bytes.len() as u64 + data.len() as u64 > limit;
                    if !is_over {
                        bytes.extend_from_slice(data);
                    }
                });
                let kept = (self.bytes.len() - before) as u64;
                self.reserved.0 += kept;
                budget.give_back(granted - kept);
                let step =
                    progress.map(|progress| Step { consumed: progress.consumed, is_done: progress.done });
                if is_over {
                    return Err(Refused::TooLarge { rest: step.ok() });
                }
                step.map(Some).map_err(|_| Refused::Broken)
            }
        }
    }
}

impl Collecting {
    /// Gives up its place among those that wait, and what it holds of the budget.
    pub(crate) fn forget(&mut self, budget: &Budget) {
        budget.leave(&mut self.ticket);
        budget.give_back(std::mem::take(&mut self.reserved.0));
    }
}

fn take(left: &mut u64, input: &[u8]) -> usize {
    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    *left -= count as u64;
    count
}
