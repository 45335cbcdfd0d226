//! Coalesced wake of one thread: a burst of pushes costs one wakeup, and a thread that is awake costs none.
//!
//! Any thread may wake; only the owner clears. The flag says "the owner is going to look at its queue without being
//! told": because a wake is on its way, or because it is awake and looks before it sleeps.
//!
//! Invariant 3 of ARCHITECTURE.md: at most one wake is in flight. The owner consumes the readiness first, then clears
//! the flag, then looks at the queue. Consuming after clearing would swallow the signal of a push in between; looking
//! before clearing would miss a push that still saw the flag set.

use std::io;

use crate::clock;
use crate::parker::Parker;
use crate::signal::Signal;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::units::Micros;

/// What rings: a descriptor for loops that wait on descriptors, a parker for Rust loops.
pub(crate) enum Bell {
    Signal(Signal),
    // Rust loops are threads of `std`, which loom does not know.
    #[cfg_attr(loom, expect(dead_code))]
    Parker(Parker),
}

pub(crate) struct Waker {
    is_look_due: AtomicBool,
    /// When the wake in flight was rung, 0 for none. For gauges only.
    rung_at: AtomicU64,
    rings: AtomicU64,
    bell: Bell,
}

impl Waker {
    /// A waker of a thread that sleeps: the first wake rings.
    pub(crate) fn asleep(bell: Bell) -> Waker {
        Waker {
            is_look_due: AtomicBool::new(false),
            rung_at: AtomicU64::new(0),
            rings: AtomicU64::new(0),
            bell,
        }
    }

    /// A waker of a thread that is awake: nothing rings until it prepares to sleep.
    pub(crate) fn awake_with_signal() -> io::Result<Waker> {
        let waker = Waker::asleep(Bell::Signal(Signal::new()?));
        waker.awake();
        Ok(waker)
    }

    /// Sees to it that the owner looks at its queue after this call. What it shall find is pushed before.
    #[inline]
    pub(crate) fn wake(&self) {
        // AcqRel: pairs with the swap in `clear_flag`. If this sees `true`, a look is due that has yet to clear the
        // flag, and its swap will then acquire what was pushed above.
        if !self.is_look_due.swap(true, Ordering::AcqRel) {
            self.ring();
        }
    }

    #[cold]
    fn ring(&self) {
        // Relaxed, both: gauges; nothing hangs on when they are seen.
        self.rung_at.store(clock::now().0.max(1), Ordering::Relaxed);
        self.rings.fetch_add(1, Ordering::Relaxed);
        match &self.bell {
            Bell::Signal(signal) => signal.raise(),
            Bell::Parker(parker) => parker.raise(),
        }
    }

    /// The owner was woken, by a level-triggered wait: takes the readiness back, then clears the flag. Then it looks.
    pub(crate) fn acknowledge(&self) {
        match &self.bell {
            Bell::Signal(signal) => signal.consume(),
            Bell::Parker(parker) => parker.consume(),
        }
        self.clear_flag();
    }

    /// The same for an edge-triggered wait, whose readiness is consumed by the wait itself.
    pub(crate) fn acknowledge_edge(&self) {
        if Signal::EDGE_NEEDS_NO_READ {
            self.clear_flag();
        } else {
            self.acknowledge();
        }
    }

    /// From here on a wake rings. The owner looks at its queue after this, before it sleeps.
    pub(crate) fn clear_flag(&self) {
        self.rung_at.store(0, Ordering::Relaxed); // a gauge, as in `ring`
        // AcqRel: pairs with the swap in `wake`. Acquire: the pushes of all who saw the flag set are seen by the look
        // that follows. Release: as a swap it stays in one order with theirs, so who comes later sees `false`.
        self.is_look_due.swap(false, Ordering::AcqRel);
    }

    /// The owner is awake and will clear the flag and look before it sleeps again: nobody needs to ring.
    #[inline]
    pub(crate) fn awake(&self) {
        // Relaxed, both: only keeps others from ringing. Who saw `false` before this store has rung, so its push is
        // not lost though the store hides its swap; who swaps after it is acquired in `clear_flag`.
        self.rung_at.store(0, Ordering::Relaxed);
        self.is_look_due.store(true, Ordering::Relaxed);
    }

    /// Whether the owner is awake or has been rung for. A guess.
    pub(crate) fn is_look_due(&self) -> bool {
        // Relaxed: only whether to ring somebody else.
        self.is_look_due.load(Ordering::Relaxed)
    }

    pub(crate) fn bell(&self) -> &Bell {
        &self.bell
    }

    pub(crate) fn rung_at(&self) -> Option<Micros> {
        // Relaxed: a gauge.
        let rung_at = self.rung_at.load(Ordering::Relaxed);
        (rung_at != 0 && self.is_look_due.load(Ordering::Relaxed)).then_some(Micros(rung_at))
    }

    pub(crate) fn ring_count(&self) -> u64 {
        self.rings.load(Ordering::Relaxed) // a gauge
    }
}
