//! Concurrency slots of one loop: how many jobs it holds, queued plus running, and whether it takes more.
//!
//! Invariant 4 of ARCHITECTURE.md: a slot is released by an explicit call, exactly once. A [`Slot`] cannot be cloned,
//! `LoopSet::release` consumes it, and dropping one instead is a bug that debug builds panic on and release builds
//! count. The count and the stopping mark share one word, so that no job gets in after the stop was seen.

use crate::sync::{AtomicU32, Ordering};
use crate::units::LoopId;

/// The right of one job to be with one loop. Give it back with [`LoopSet::release`](crate::LoopSet::release).
///
/// ```
/// use std::sync::Arc;
/// use oxb_core::{LoopSet, LoopSetOptions, Worker};
///
/// let set: Arc<LoopSet<&str, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
/// let worker = Worker::new(&set, 0).expect("nobody else owns it");
/// set.submit("job").expect("there is room");
/// let taken = worker.pop().expect("it was just submitted");
/// assert_eq!(taken.slot.loop_id(), worker.loop_id());
/// set.release(taken.slot);
/// # Ok::<(), oxb_core::LoopSetError>(())
/// ```
#[must_use = "a slot that is dropped is lost: give it to LoopSet::release"]
#[derive(Debug)]
pub struct Slot {
    loop_id: LoopId,
    set_id: u16,
}

impl Slot {
    pub(crate) fn new(loop_id: LoopId, set_id: u16) -> Slot {
        Slot { loop_id, set_id }
    }

    /// The loop it counts for.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker};
    /// # let set: Arc<LoopSet<&str, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// # let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// # set.submit("job").expect("there is room");
    /// # let taken = worker.pop().expect("it was just submitted");
    /// assert_eq!(taken.slot.loop_id().index(), 0);
    /// # set.release(taken.slot);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn loop_id(&self) -> LoopId {
        self.loop_id
    }

    /// Ends it without the alarm of `drop`; the caller counts it down.
    pub(crate) fn end(self, set_id: u16) -> LoopId {
        debug_assert_eq!(self.set_id, set_id, "a slot is released in the set it came from");
        let loop_id = self.loop_id;
        std::mem::forget(self);
        loop_id
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Relaxed: a count nobody orders anything by. A `static` cannot be loom's.
        LOST.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if cfg!(debug_assertions) && !std::thread::panicking() {
            panic!("a slot of loop {} was dropped instead of released", self.loop_id.index());
        }
    }
}

static LOST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// How many slots of this process were dropped instead of released: 0 unless there is a bug.
///
/// ```
/// assert_eq!(oxb_core::lost_slots(), 0);
/// ```
pub fn lost_slots() -> u64 {
    LOST.load(std::sync::atomic::Ordering::Relaxed) // as in `drop`
}

/// What became of an attempt to take a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Take {
    Taken,
    Full,
    Stopping,
}

const STOPPING: u32 = 1 << 31;

/// Counts the slots of one loop that are taken.
pub(crate) struct SlotCount {
    word: AtomicU32,
    capacity: u32,
}

impl SlotCount {
    /// More would reach into the stopping mark.
    pub(crate) const MAX_CAPACITY: usize = 1 << 24;

    pub(crate) fn new(capacity: usize) -> SlotCount {
        let capacity = u32::try_from(capacity).expect("at most MAX_CAPACITY: checked in LoopSet::new");
        SlotCount { word: AtomicU32::new(0), capacity }
    }

    /// Takes one for a job from outside: not while stopping.
    #[inline]
    pub(crate) fn take(&self) -> Take {
        self.take_unless(STOPPING)
    }

    /// Takes one for a job that moves here from another loop, which may happen while stopping as well.
    pub(crate) fn take_for_moved(&self) -> Take {
        self.take_unless(0)
    }

    #[inline]
    fn take_unless(&self, mark: u32) -> Take {
        // Relaxed: only a guess, which the exchange below checks.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & mark != 0 {
                return Take::Stopping;
            }
            if word & !STOPPING >= self.capacity {
                return Take::Full;
            }
            // Acquire: pairs with the Release in `release`, so the queue place that slot stood for is seen to be free.
            // Relaxed on failure: another guess.
            match self.word.compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Take::Taken,
                Err(seen) => word = seen,
            }
        }
    }

    /// Frees one; whether it was the last of a stopping loop, which is then to be woken: it may end.
    #[inline]
    pub(crate) fn release(&self) -> bool {
        // AcqRel. Release pairs with the Acquire in `take_unless` and in `is_drained`; Acquire keeps this from being
        // ordered before the pop it ends.
        let before = self.word.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before & !STOPPING > 0, "a slot is released once, after it was taken");
        before == STOPPING | 1
    }

    /// From here on `take` refuses. Who took one before is counted.
    pub(crate) fn stop(&self) {
        // AcqRel: one order with the exchange in `take_unless`: a job is counted before the stop, or refused.
        self.word.fetch_or(STOPPING, Ordering::AcqRel);
    }

    #[inline]
    pub(crate) fn taken(&self) -> usize {
        // Relaxed: a load is compared by it, nothing read because of it.
        (self.word.load(Ordering::Relaxed) & !STOPPING) as usize
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.taken() >= self.capacity()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    pub(crate) fn is_stopping(&self) -> bool {
        // Acquire: pairs with `stop`; what its caller did before is seen.
        self.word.load(Ordering::Acquire) & STOPPING != 0
    }

    /// Stopping, and no job is left: none can come any more.
    pub(crate) fn is_drained(&self) -> bool {
        // Acquire: pairs with the Release of the last `release`.
        self.word.load(Ordering::Acquire) == STOPPING
    }
}
