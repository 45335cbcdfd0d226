//! A loop's own side of a [`LoopSet`]: wait, acknowledge, drain, sleep.
//!
//! Invariant: one owner a loop. It alone clears the wake flag and writes the loop's counts; others only ring, push,
//! and take jobs over.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::{LoopSet, LoopState, Queued};
use crate::clock;
use crate::histogram::add;
use crate::slot::Slot;
use crate::sync::Ordering;
use crate::units::{LoopId, Micros};
use crate::waker::Bell;

/// A job that left its queue, and what came with it.
///
/// ```
/// # use std::sync::Arc;
/// # use oxb_core::{LoopSet, LoopSetOptions, Micros, Worker};
/// let options = LoopSetOptions { queue_timeout: Some(std::time::Duration::ZERO), ..LoopSetOptions::default() };
/// let set: Arc<LoopSet<&str, ()>> = Arc::new(LoopSet::new(&options)?);
/// let worker = Worker::new(&set, 0).expect("nobody else owns it");
/// set.submit("job").expect("there is room");
/// let taken = worker.pop().expect("it was submitted");
/// assert_eq!(taken.job, "job");
/// assert_eq!(taken.late, taken.waited > Micros(0));
/// set.release(taken.slot);
/// # Ok::<(), oxb_core::LoopSetError>(())
/// ```
#[derive(Debug)]
pub struct Taken<J> {
    /// What was submitted.
    pub job: J,
    /// To be released when the job is done.
    pub slot: Slot,
    /// How long it was queued.
    pub waited: Micros,
    /// Whether that is over the queue timeout: the job is to be answered rather than begun.
    pub late: bool,
    /// When it left the queue, so that its step can begin without another look at the clock.
    pub taken_at: Micros,
}

/// One loop of a [`LoopSet`], for the thread that runs it.
///
/// Dropping it gives the loop back, so that another thread may own it.
///
/// ```
/// use std::sync::Arc;
/// use oxb_core::{LoopSet, LoopSetOptions, Worker};
///
/// let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
/// let worker = Worker::new(&set, 0).expect("nobody else owns it");
/// set.submit(7).expect("there is room");
///
/// worker.wait(None).expect("an open descriptor can be polled");
/// worker.acknowledge(); // then drain: invariant 3
/// while let Some(taken) = worker.pop().or_else(|| worker.steal()) {
///     worker.begin_step(taken.taken_at);
///     assert_eq!(taken.job, 7);
///     worker.end_step();
///     set.release(taken.slot);
/// }
/// # Ok::<(), oxb_core::LoopSetError>(())
/// ```
pub struct Worker<J: Send, N: Send> {
    set: Arc<LoopSet<J, N>>,
    index: usize,
}

impl<J: Send, N: Send> Worker<J, N> {
    /// The loop at `index`, or `None` when there is none or it has an owner.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker};
    /// let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// let worker = Worker::new(&set, 0);
    /// assert!(worker.is_some());
    /// assert!(Worker::new(&set, 0).is_none());
    /// assert!(Worker::new(&set, 1).is_none());
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn new(set: &Arc<LoopSet<J, N>>, index: usize) -> Option<Worker<J, N>> {
        let state = set.loops.get(index)?;
        // AcqRel: pairs with the Release in `drop`: the counts of an owner before are seen.
        let was_owned = state.is_owned.swap(true, Ordering::AcqRel);
        (!was_owned).then(|| Worker { set: Arc::clone(set), index })
    }

    #[inline]
    fn state(&self) -> &LoopState<J, N> {
        &self.set.loops[self.index]
    }

    /// The set it belongs to.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker};
    /// # let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// # let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// assert_eq!(worker.loop_set().loop_count(), 1);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn loop_set(&self) -> &Arc<LoopSet<J, N>> {
        &self.set
    }

    /// Which loop it is.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker};
    /// # let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// # let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// assert_eq!(worker.loop_id().index(), 0);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn loop_id(&self) -> LoopId {
        LoopId::new(self.index)
    }

    /// The descriptor that becomes readable when this loop is woken; it is open as long as the set is.
    ///
    /// # Panics
    /// The loop parks instead, as those of `RustLoops` do.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker};
    /// # let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// # let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// assert!(worker.signal_fd() > 2);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    #[cfg(all(unix, not(loom)))]
    pub fn signal_fd(&self) -> std::os::fd::RawFd {
        match self.state().waker.bell() {
            Bell::Signal(signal) => std::os::fd::AsRawFd::as_raw_fd(signal),
            Bell::Parker(_) => panic!("this loop parks: it has no descriptor"),
        }
    }

    /// Waits until this loop is woken, for at most `timeout`; whether it was. For loops that wait on nothing else.
    ///
    /// # Errors
    /// What `poll` gives.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker};
    /// # let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// # let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// assert!(!worker.wait(Some(std::time::Duration::ZERO)).expect("an open descriptor can be polled"));
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        match self.state().waker.bell() {
            Bell::Signal(signal) => signal.wait(timeout),
            Bell::Parker(parker) => Ok(parker.wait(timeout)),
        }
    }

    /// After a level-triggered wait: consumes the readiness, then clears the flag. Then drain (invariant 3).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker};
    /// # let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// # let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// set.submit(1).expect("there is room");
    /// worker.acknowledge();
    /// assert!(worker.has_work());
    /// assert!(set.gauges(worker.loop_id()).wake_pending_since.is_none());
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn acknowledge(&self) {
        self.state().waker.acknowledge();
    }

    /// The same after an edge-triggered wait, which needs no read: clears the flag only, where the system allows it.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker};
    /// # let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// # let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// set.submit(1).expect("there is room");
    /// worker.acknowledge_edge();
    /// assert!(worker.pop().map(|taken| set.release(taken.slot)).is_some());
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn acknowledge_edge(&self) {
        self.state().waker.acknowledge_edge();
    }

    /// Before sleeping, for a loop that says when it is [`awake`](Self::awake): from here on wakes ring, and then a look:
    /// `true` means it may sleep, `false` that it has work and counts as awake still.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker};
    /// # let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// # let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// worker.awake();
    /// set.submit(1).expect("there is room");
    /// assert_eq!(set.gauges(worker.loop_id()).wakes, 0); // it looks by itself
    /// assert!(!worker.prepare_to_sleep());
    /// assert!(worker.pop().map(|taken| set.release(taken.slot)).is_some());
    /// assert!(worker.prepare_to_sleep());
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn prepare_to_sleep(&self) -> bool {
        self.state().waker.clear_flag();
        let may_sleep = !self.has_work();
        if !may_sleep {
            self.state().waker.awake();
        }
        may_sleep
    }

    /// Nobody rings for this loop until it [prepares to sleep](Self::prepare_to_sleep): it looks at its queue by itself.
    /// After a level-triggered wait that found the descriptor readable, [`acknowledge`](Self::acknowledge) first.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker};
    /// # let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// # let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// worker.awake();
    /// set.submit(1).expect("there is room");
    /// assert_eq!(set.gauges(worker.loop_id()).wakes, 0);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    #[inline]
    pub fn awake(&self) {
        self.state().waker.awake();
    }

    /// The next job of the own queue.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker};
    /// # let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// # let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// assert!(worker.pop().is_none());
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    #[inline]
    pub fn pop(&self) -> Option<Taken<J>> {
        let queued = self.state().jobs.pop()?;
        Some(self.take(queued, clock::now()))
    }

    /// The same for a drain that has just read the clock.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker, clock};
    /// # let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// # let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// set.submit(1).expect("there is room");
    /// let now = clock::now();
    /// let taken = worker.pop_at(now).expect("it was submitted");
    /// assert_eq!(taken.taken_at, now);
    /// set.release(taken.slot);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    #[inline]
    pub fn pop_at(&self, now: Micros) -> Option<Taken<J>> {
        let queued = self.state().jobs.pop()?;
        Some(self.take(queued, now))
    }

    /// Before sleeping: a waiting job of a loop that is in a step. Its slot moves with it, so this loop must have one.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker, clock};
    /// let options = LoopSetOptions { loop_count: 2, ..LoopSetOptions::default() };
    /// let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&options)?);
    /// let workers = [0, 1].map(|index| Worker::new(&set, index).expect("nobody else owns it"));
    /// let loop_id = set.submit(7).expect("there is room");
    /// workers[loop_id.index()].begin_step(clock::now()); // busy with something else
    /// let idle = &workers[1 - loop_id.index()];
    /// let taken = idle.steal().expect("the other loop is in a step");
    /// assert_eq!((taken.job, taken.slot.loop_id()), (7, idle.loop_id()));
    /// set.release(taken.slot);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn steal(&self) -> Option<Taken<J>> {
        let queued = self.set.steal_for(self.index)?;
        add(&self.state().owner.jobs_stolen, 1);
        Some(self.take(queued, clock::now()))
    }

    #[inline]
    fn take(&self, queued: Queued<J>, taken_at: Micros) -> Taken<J> {
        let owner = &self.state().owner;
        let waited = taken_at.since(queued.queued_at);
        let late = waited > self.set.queue_timeout;
        owner.queue_wait.record(waited);
        add(&owner.jobs_taken, 1);
        // Relaxed: a gauge that only this thread writes.
        owner.taken_at.store(taken_at.0, Ordering::Relaxed);
        if late {
            add(&owner.jobs_late, 1);
        }
        Taken { job: queued.job, slot: Slot::new(self.loop_id(), self.set.set_id), waited, late, taken_at }
    }

    /// The next note left for this loop.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker};
    /// # let set: Arc<LoopSet<u32, &str>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// # let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// assert_eq!(worker.pop_note(), None);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    #[inline]
    pub fn pop_note(&self) -> Option<N> {
        let notes = &self.state().notes;
        // Mostly there is none, and a look is cheaper than a pop.
        if notes.is_empty() { None } else { notes.pop() }
    }

    /// Whether a job or a note waits here.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker};
    /// # let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// # let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// assert!(!worker.has_work());
    /// set.submit(1).expect("there is room");
    /// assert!(worker.has_work());
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    #[inline]
    pub fn has_work(&self) -> bool {
        let state = self.state();
        !state.jobs.is_empty() || !state.notes.is_empty()
    }

    /// Whether the set is stopping and this loop holds no job any more: none can come, and its thread may end.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker};
    /// # let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// # let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// set.submit(1).expect("there is room");
    /// set.stop();
    /// assert!(!worker.is_drained());
    /// let taken = worker.pop().expect("what was taken is still done");
    /// set.release(taken.slot);
    /// assert!(worker.is_drained());
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn is_drained(&self) -> bool {
        self.state().slots.is_drained()
    }

    /// One step of one job begins: over 1 ms in it and the loop is held (invariant 13).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker, clock};
    /// # let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// # let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// let now = clock::now();
    /// worker.begin_step(now);
    /// assert!(set.gauges(worker.loop_id()).step_since.is_some());
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    #[inline]
    pub fn begin_step(&self, now: Micros) {
        // Relaxed: others only guess load by it. 0 means no step.
        self.state().owner.step_since.store(now.0.max(1), Ordering::Relaxed);
    }

    /// The step is over.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker, clock};
    /// # let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// # let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// worker.begin_step(clock::now());
    /// worker.end_step();
    /// assert!(set.gauges(worker.loop_id()).step_since.is_none());
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    #[inline]
    pub fn end_step(&self) {
        // Relaxed: as in `begin_step`.
        self.state().owner.step_since.store(0, Ordering::Relaxed);
    }

    /// Rings for the own loop: a drain that yields with work left comes back to it.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use oxb_core::{LoopSet, LoopSetOptions, Worker};
    /// # let set: Arc<LoopSet<u32, ()>> = Arc::new(LoopSet::new(&LoopSetOptions::default())?);
    /// # let worker = Worker::new(&set, 0).expect("nobody else owns it");
    /// worker.rearm();
    /// assert!(worker.wait(None).expect("an open descriptor can be polled"));
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn rearm(&self) {
        self.state().waker.wake();
    }
}

impl<J: Send, N: Send> Drop for Worker<J, N> {
    fn drop(&mut self) {
        self.end_step();
        // Release: pairs with the swap in `Worker::new`.
        self.state().is_owned.store(false, Ordering::Release);
    }
}
