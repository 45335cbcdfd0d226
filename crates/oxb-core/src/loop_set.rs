//! The loop scheduler: gives each job to one of several loops, which hold a bounded number of them.
//!
//! A job goes to the loop with the lowest load, held loops last; it takes a slot there, is pushed on that loop's bounded
//! queue, and the loop is woken unless a wake is in flight. A full loop spills to the next, and when all are full the
//! job comes back. The loop's own thread pops through its [`Worker`]; the slot is released when the job is done.
//!
//! Invariant: a queued job holds a slot of the loop it is queued on, so a queue of as many places as slots never
//! overflows (10 of ARCHITECTURE.md); a job leaves its queue once, to its owner or to a loop that stole it.
//! Invariants 3, 4 and 13 are kept by `waker`, `slot` and `assign`.

mod assign;
mod options;
mod worker;

use crossbeam_utils::CachePadded;

pub use self::assign::Assignment;
pub use self::options::{LoopSetError, LoopSetOptions, PendingWakes, SubmitError};
pub use self::worker::{Taken, Worker};
use crate::clock;
use crate::gauges::LoopGauges;
use crate::histogram::Histogram;
#[cfg(not(loom))]
use crate::parker::Parker;
use crate::signal::Signal;
use crate::slot::{Slot, SlotCount, Take};
use crate::sync::{ArrayQueue, AtomicBool, AtomicU64, AtomicUsize, Ordering, SegQueue};
use crate::units::{LoopId, Micros};
use crate::waker::{Bell, Waker};

/// A job on its queue.
struct Queued<J> {
    job: J,
    queued_at: Micros,
}

/// What one loop's own thread writes and others read.
struct OwnerSide {
    /// When the current step began, 0 between steps.
    step_since: AtomicU64,
    queue_wait: Histogram,
    jobs_taken: AtomicU64,
    jobs_stolen: AtomicU64,
    jobs_late: AtomicU64,
    /// When it took a job last, 0 for never.
    taken_at: AtomicU64,
}

struct LoopState<J, N> {
    jobs: ArrayQueue<Queued<J>>,
    /// Without a bound of its own: a note is about a job, and jobs are bounded.
    notes: SegQueue<N>,
    // Each on lines of its own: submitters and releasers write the first, wakers the second, the owner the third.
    slots: CachePadded<SlotCount>,
    waker: CachePadded<Waker>,
    owner: CachePadded<OwnerSide>,
    /// When a job was last pushed on an empty queue.
    filled_at: AtomicU64,
    is_owned: AtomicBool,
}

impl<J, N> LoopState<J, N> {
    fn new(slots: usize, bell: Bell) -> Self {
        LoopState {
            jobs: ArrayQueue::new(slots),
            notes: SegQueue::new(),
            slots: CachePadded::new(SlotCount::new(slots)),
            waker: CachePadded::new(Waker::asleep(bell)),
            owner: CachePadded::new(OwnerSide {
                step_since: AtomicU64::new(0),
                queue_wait: Histogram::new(),
                jobs_taken: AtomicU64::new(0),
                jobs_stolen: AtomicU64::new(0),
                jobs_late: AtomicU64::new(0),
                taken_at: AtomicU64::new(0),
            }),
            filled_at: AtomicU64::new(0),
            is_owned: AtomicBool::new(false),
        }
    }

    /// When its current step began.
    fn step_since(&self) -> Option<Micros> {
        // Relaxed: a guess about load; being late by an instant is as good as having looked an instant earlier.
        let since = self.owner.step_since.load(Ordering::Relaxed);
        (since != 0).then_some(Micros(since))
    }

    /// Since when there was a job on its queue and it took none.
    fn waiting_since(&self) -> Option<Micros> {
        // Relaxed, both: a gauge. A push that races the look may be missed, and is seen by the next.
        let filled_at = self.filled_at.load(Ordering::Relaxed);
        let taken_at = self.owner.taken_at.load(Ordering::Relaxed);
        (!self.jobs.is_empty()).then_some(Micros(filled_at.max(taken_at)))
    }

    /// Frees a slot here. A loop that stops and has no job left sleeps perhaps, and may end.
    #[inline]
    fn give_back(&self) {
        if self.slots.release() {
            self.waker.wake();
        }
    }

    /// Takes a slot and pushes.
    #[inline]
    fn accept(&self, job: J, queued_at: Micros) -> Result<(), SubmitError<J>> {
        match self.slots.take() {
            Take::Taken => {}
            Take::Full => return Err(SubmitError::Overloaded { job }),
            Take::Stopping => return Err(SubmitError::Stopping { job }),
        }
        if self.jobs.is_empty() {
            // Relaxed: a gauge, as in `waiting_since`. Of two that find it empty at once either is as good.
            self.filled_at.store(queued_at.0, Ordering::Relaxed);
        }
        match self.jobs.push(Queued { job, queued_at }) {
            Ok(()) => Ok(()),
            Err(Queued { job, .. }) => {
                debug_assert!(false, "a slot is held, so its queue has a place");
                self.give_back();
                Err(SubmitError::Overloaded { job })
            }
        }
    }
}

/// Several loops that share the jobs submitted to them.
///
/// `J` is a job; `N` is a note to one loop about a job it already has, such as a cancellation.
///
/// ```
/// use std::sync::Arc;
/// use oxb_core::{LoopSet, LoopSetOptions, Worker};
///
/// let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
/// let worker = Worker::new(&set, 0).expect("nobody else owns the loop");
/// let loop_thread = std::thread::spawn(move || {
///     let mut sum = 0;
///     while sum < 3 {
///         worker.wait(None).expect("an open descriptor can be polled");
///         worker.acknowledge();
///         while let Some(taken) = worker.pop() {
///             sum += taken.job;
///             worker.loop_set().release(taken.slot);
///         }
///     }
///     sum
/// });
/// set.submit(1).expect("there is room");
/// set.submit(2).expect("there is room");
/// assert_eq!(loop_thread.join().expect("it does not panic"), 3);
/// # Ok::<(), oxb_core::LoopSetError>(())
/// ```
pub struct LoopSet<J, N> {
    loops: Box<[LoopState<J, N>]>,
    assignment: Assignment,
    queue_timeout: Micros,
    /// Where the search for a loop begins: turns among equals.
    next_turn: CachePadded<AtomicUsize>,
    refused: AtomicU64,
    set_id: u16,
}

impl<J: Send, N: Send> LoopSet<J, N> {
    /// Makes the loops, with all places they will ever have, and a signal each.
    ///
    /// # Errors
    /// A count out of range, or no descriptor left.
    ///
    /// ```
    /// use oxb_core::{LoopSet, LoopSetOptions};
    /// let set: LoopSet<String, ()> = LoopSet::new(&LoopSetOptions { loop_count: 2, ..LoopSetOptions::default() })?;
    /// assert_eq!(set.loop_count(), 2);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn new(options: &LoopSetOptions) -> Result<Self, LoopSetError> {
        Self::with_bells(options, || {
            Signal::new().map(Bell::Signal).map_err(|source| LoopSetError::Signal { source })
        })
    }

    /// The same for loops that wait on nothing but their jobs: they park instead of polling a descriptor.
    #[cfg(not(loom))]
    pub(crate) fn new_parked(options: &LoopSetOptions) -> Result<Self, LoopSetError> {
        Self::with_bells(options, || Ok(Bell::Parker(Parker::new())))
    }

    fn with_bells(
        options: &LoopSetOptions,
        bell: impl Fn() -> Result<Bell, LoopSetError>,
    ) -> Result<Self, LoopSetError> {
        // A name for debug checks only, so it may come round. `static`, so not loom's; Relaxed: a number.
        static NEXT_SET: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(0);

        if !(1..=options::MAX_LOOPS).contains(&options.loop_count) {
            return Err(LoopSetError::LoopCount { given: options.loop_count });
        }
        if !(1..=SlotCount::MAX_CAPACITY).contains(&options.slots_per_loop) {
            return Err(LoopSetError::SlotCount { given: options.slots_per_loop });
        }
        let loops: Result<Box<[_]>, _> =
            (0..options.loop_count).map(|_| Ok(LoopState::new(options.slots_per_loop, bell()?))).collect();
        Ok(LoopSet {
            loops: loops?,
            assignment: options.assignment,
            queue_timeout: options.queue_timeout.map_or(Micros(u64::MAX), Micros::from),
            next_turn: CachePadded::new(AtomicUsize::new(0)),
            refused: AtomicU64::new(0),
            set_id: NEXT_SET.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
        })
    }

    /// How many loops there are.
    ///
    /// ```
    /// # use oxb_core::{LoopSet, LoopSetOptions};
    /// let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions::default())?;
    /// assert_eq!(set.loop_count(), 1);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn loop_count(&self) -> usize {
        self.loops.len()
    }

    /// The name of every loop, in order.
    ///
    /// ```
    /// # use oxb_core::{LoopSet, LoopSetOptions};
    /// let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions { loop_count: 3, ..LoopSetOptions::default() })?;
    /// assert_eq!(set.loop_ids().count(), 3);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn loop_ids(&self) -> impl Iterator<Item = LoopId> + use<J, N> {
        (0..self.loops.len()).map(LoopId::new)
    }

    /// Gives a job to a loop and wakes it, unless a wake is in flight already.
    ///
    /// # Errors
    /// All loops are full, or the set is stopping; the job comes back.
    ///
    /// ```
    /// # use oxb_core::{LoopSet, LoopSetOptions};
    /// let set: LoopSet<&str, ()> = LoopSet::new(&LoopSetOptions::default())?;
    /// assert_eq!(set.submit("job").expect("there is room").index(), 0);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn submit(&self, job: J) -> Result<LoopId, SubmitError<J>> {
        let index = self.place(job, clock::now())?;
        self.loops[index].waker.wake();
        Ok(LoopId::new(index))
    }

    /// Gives a job to a loop; the wake is owed in `pending` and paid by [`wake_pending`](Self::wake_pending). A loop
    /// that is running may take the job before that, and then no wake is made at all.
    ///
    /// With one loop the clock is read for the first job of a batch only: the others count as waiting from then.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    ///
    /// ```
    /// # use oxb_core::{LoopSet, LoopSetOptions, PendingWakes};
    /// let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions::default())?;
    /// let mut pending = PendingWakes::new();
    /// for job in 0..10 {
    ///     set.submit_unwoken(job, &mut pending).expect("there is room");
    /// }
    /// set.wake_pending(&mut pending);
    /// let loop_id = set.loop_ids().next().expect("a set has a loop");
    /// assert_eq!(set.gauges(loop_id).wakes, 1);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    #[inline]
    pub fn submit_unwoken(&self, job: J, pending: &mut PendingWakes) -> Result<LoopId, SubmitError<J>> {
        // With several loops, which are held is asked for each job.
        let now = if pending.is_empty() || self.loops.len() > 1 { clock::now() } else { pending.since };
        let index = self.place(job, now)?;
        pending.since = now;
        pending.loops |= 1 << (index % 64);
        Ok(LoopId::new(index))
    }

    /// Pays the wakes that are owed. A loop whose queue is empty has taken the jobs already and is left alone.
    ///
    /// ```
    /// # use oxb_core::{LoopSet, LoopSetOptions, PendingWakes};
    /// let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions::default())?;
    /// let mut pending = PendingWakes::new();
    /// set.wake_pending(&mut pending);
    /// let loop_id = set.loop_ids().next().expect("a set has a loop");
    /// assert_eq!(set.gauges(loop_id).wakes, 0);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn wake_pending(&self, pending: &mut PendingWakes) {
        let mut owed = std::mem::take(&mut pending.loops);
        while owed != 0 {
            let first = owed.trailing_zeros() as usize;
            owed &= owed - 1;
            for state in self.loops.iter().skip(first).step_by(64) {
                // The pushes of this thread are before this look, so an empty queue means they were all taken.
                if !state.jobs.is_empty() {
                    state.waker.wake();
                }
            }
        }
    }

    /// Leaves a note for one loop and wakes it. Notes are read before jobs, and are not refused while stopping.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker};
    /// let set: Arc<LoopSet<u32, &str>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// set.post(worker.loop_id(), "the client left");
    /// assert_eq!(worker.pop_note(), Some("the client left"));
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn post(&self, loop_id: LoopId, note: N) {
        let state = &self.loops[loop_id.index()];
        state.notes.push(note);
        state.waker.wake();
    }

    /// Wakes one loop without a job, so that it looks at something else, such as a stop.
    ///
    /// ```
    /// # use oxb_core::{LoopSet, LoopSetOptions};
    /// let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions::default())?;
    /// let loop_id = set.loop_ids().next().expect("a set has a loop");
    /// set.wake(loop_id);
    /// assert!(set.gauges(loop_id).wake_pending_since.is_some());
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn wake(&self, loop_id: LoopId) {
        self.loops[loop_id.index()].waker.wake();
    }

    /// Whether every loop has all its slots taken.
    ///
    /// ```
    /// # use oxb_core::{LoopSet, LoopSetOptions};
    /// let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions { slots_per_loop: 1, ..LoopSetOptions::default() })?;
    /// assert!(!set.is_full());
    /// set.submit(1).expect("there is room for one");
    /// assert!(set.is_full());
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    #[inline]
    pub fn is_full(&self) -> bool {
        self.loops.iter().all(|state| state.slots.is_full())
    }

    /// Frees a slot: the only way. Any thread.
    ///
    /// # Panics
    /// In debug builds, when the slot is of another set.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker};
    /// let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// set.submit(1).expect("there is room");
    /// let taken = worker.pop().expect("it was submitted");
    /// assert_eq!(set.gauges(worker.loop_id()).slots_taken, 1);
    /// set.release(taken.slot);
    /// assert_eq!(set.gauges(worker.loop_id()).slots_taken, 0);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    #[inline]
    pub fn release(&self, slot: Slot) {
        let loop_id = slot.end(self.set_id);
        self.loops[loop_id.index()].give_back();
    }

    /// Takes no more jobs, and wakes all loops so that they see it. Those taken before are still done.
    ///
    /// ```
    /// # use oxb_core::{LoopSet, LoopSetOptions};
    /// let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions::default())?;
    /// set.stop();
    /// assert!(set.submit(1).is_err());
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn stop(&self) {
        for state in &self.loops {
            state.slots.stop();
        }
        for state in &self.loops {
            state.waker.wake();
        }
    }

    /// Whether [`stop`](Self::stop) was called.
    ///
    /// ```
    /// # use oxb_core::{LoopSet, LoopSetOptions};
    /// let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions::default())?;
    /// assert!(!set.is_stopping());
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn is_stopping(&self) -> bool {
        self.loops.iter().all(|state| state.slots.is_stopping())
    }

    /// Whether the set is stopping and no loop holds a job any more: none can come.
    ///
    /// ```
    /// # use oxb_core::{LoopSet, LoopSetOptions};
    /// let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions::default())?;
    /// set.stop();
    /// assert!(set.is_drained());
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn is_drained(&self) -> bool {
        self.loops.iter().all(|state| state.slots.is_drained())
    }

    /// How many jobs [`submit`](Self::submit) and its kin gave back.
    ///
    /// ```
    /// # use oxb_core::{LoopSet, LoopSetOptions};
    /// let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions::default())?;
    /// assert_eq!(set.refused_count(), 0);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn refused_count(&self) -> u64 {
        self.refused.load(Ordering::Relaxed) // a gauge
    }

    /// What one loop is doing.
    ///
    /// ```
    /// # use oxb_core::{LoopSet, LoopSetOptions};
    /// let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions::default())?;
    /// let loop_id = set.loop_ids().next().expect("a set has a loop");
    /// set.submit(1).expect("there is room");
    /// assert_eq!(set.gauges(loop_id).queued, 1);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn gauges(&self, loop_id: LoopId) -> LoopGauges {
        let state = &self.loops[loop_id.index()];
        // Relaxed: counts that only their owner writes; nothing is read because of them.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LoopGauges {
            slots_taken: state.slots.taken(),
            slot_capacity: state.slots.capacity(),
            queued: state.jobs.len(),
            waiting_since: state.waiting_since(),
            step_since: state.step_since(),
            wake_pending_since: state.waker.rung_at(),
            wakes: state.waker.ring_count(),
            jobs_taken: read(&state.owner.jobs_taken),
            jobs_stolen: read(&state.owner.jobs_stolen),
            jobs_late: read(&state.owner.jobs_late),
            queue_wait: state.owner.queue_wait.snapshot(),
        }
    }
}
