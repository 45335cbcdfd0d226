//! How a loop set is laid out, how it refuses, and which wakes a submitter owes. Values only.

use std::time::Duration;

use super::assign::Assignment;
use crate::slot::SlotCount;
use crate::units::Micros;

/// More loops than any machine this is for; the bit set of owed wakes stays small.
pub(super) const MAX_LOOPS: usize = 1024;

/// How a [`LoopSet`](super::LoopSet) is laid out.
///
/// ```
/// use oxb_core::{Assignment, LoopSetOptions};
///
/// let options = LoopSetOptions { loop_count: 4, ..LoopSetOptions::default() };
/// assert_eq!((options.slots_per_loop, options.assignment), (1024, Assignment::LeastLoaded));
/// ```
#[derive(Clone, Debug)]
pub struct LoopSetOptions {
    /// How many loops, 1 to 1024.
    pub loop_count: usize,
    /// How many jobs one loop holds, queued plus running, 1 to 2^24. Their places are made at once.
    pub slots_per_loop: usize,
    /// Which loop a job goes to.
    pub assignment: Assignment,
    /// A job that waited longer in a queue is handed out as late. `None`: never.
    pub queue_timeout: Option<Duration>,
}

impl Default for LoopSetOptions {
    /// One loop, 1024 slots, least-loaded, no queue timeout.
    fn default() -> Self {
        LoopSetOptions {
            loop_count: 1,
            slots_per_loop: 1024,
            assignment: Assignment::LeastLoaded,
            queue_timeout: None,
        }
    }
}

/// Why a [`LoopSet`](super::LoopSet) could not be made.
///
/// ```
/// use oxb_core::{LoopSet, LoopSetError, LoopSetOptions};
///
/// let options = LoopSetOptions { loop_count: 0, ..LoopSetOptions::default() };
/// assert!(matches!(LoopSet::<u32, ()>::new(&options), Err(LoopSetError::LoopCount { given: 0 })));
/// ```
#[derive(Debug, thiserror::Error)]
pub enum LoopSetError {
    /// No loop, or more than 1024.
    #[error("a set has 1 to {MAX_LOOPS} loops, not {given}")]
    LoopCount {
        /// What was asked for.
        given: usize,
    },
    /// No slot, or more than 2^24.
    #[error("a loop has 1 to {} slots, not {given}", SlotCount::MAX_CAPACITY)]
    SlotCount {
        /// What was asked for.
        given: usize,
    },
    /// The descriptor that wakes a loop could not be made.
    #[error("no descriptor to wake a loop: {source}")]
    Signal {
        /// What the system said.
        source: std::io::Error,
    },
}

/// Why a job was not taken. It comes back.
///
/// ```
/// use oxb_core::{LoopSet, LoopSetOptions, SubmitError};
///
/// let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions { slots_per_loop: 1, ..LoopSetOptions::default() })?;
/// set.submit(1).expect("there is room for one");
/// assert!(matches!(set.submit(2), Err(SubmitError::Overloaded { job: 2 })));
/// set.stop();
/// assert!(matches!(set.submit(3), Err(SubmitError::Stopping { job: 3 })));
/// # Ok::<(), oxb_core::LoopSetError>(())
/// ```
#[derive(thiserror::Error)]
pub enum SubmitError<J> {
    /// Every slot of every loop is taken.
    #[error("every loop is full")]
    Overloaded {
        /// The job, not begun.
        job: J,
    },
    /// The set takes no more jobs.
    #[error("the loops are stopping")]
    Stopping {
        /// The job, not begun.
        job: J,
    },
}

// By hand, so that a job need not be `Debug` for its error to be.
impl<J> std::fmt::Debug for SubmitError<J> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            SubmitError::Overloaded { .. } => "Overloaded",
            SubmitError::Stopping { .. } => "Stopping",
        })
    }
}

/// Wakes owed to loops whose jobs were submitted by [`LoopSet::submit_unwoken`](super::LoopSet::submit_unwoken): a small bit set.
///
/// Whoever submits keeps one and pays it before it sleeps.
///
/// ```
/// use oxb_core::{LoopSet, LoopSetOptions, PendingWakes};
///
/// let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions::default())?;
/// let mut pending = PendingWakes::default();
/// set.submit_unwoken(1, &mut pending).expect("there is room");
/// assert!(!pending.is_empty());
/// set.wake_pending(&mut pending);
/// assert!(pending.is_empty());
/// # Ok::<(), oxb_core::LoopSetError>(())
/// ```
#[derive(Debug, Default)]
pub struct PendingWakes {
    /// Bit `index % 64` for each loop owed a wake.
    pub(super) loops: u64,
    /// When the first of them was submitted: the clock is read once for all of a one-loop set.
    pub(super) since: Micros,
}

impl PendingWakes {
    /// None owed.
    ///
    /// ```
    /// assert!(oxb_core::PendingWakes::new().is_empty());
    /// ```
    pub fn new() -> PendingWakes {
        PendingWakes::default()
    }

    /// Whether no wake is owed.
    ///
    /// ```
    /// assert!(oxb_core::PendingWakes::default().is_empty());
    /// ```
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.loops == 0
    }
}
