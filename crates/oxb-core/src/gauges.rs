//! What one loop is doing, as anyone may read it at any time. Values only; each is true for its own moment.

use crate::histogram::HistogramSnapshot;
use crate::units::Micros;

/// The state of one loop when it was read.
///
/// ```
/// use oxb_core::{LoopSet, LoopSetOptions};
///
/// let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions::default())?;
/// let gauges = set.gauges(set.loop_ids().next().expect("a set has a loop"));
/// assert_eq!((gauges.slots_taken, gauges.slot_capacity, gauges.queued), (0, 1024, 0));
/// assert_eq!(gauges.waiting_since, None);
/// # Ok::<(), oxb_core::LoopSetError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LoopGauges {
    /// Jobs it holds, queued plus running.
    pub slots_taken: usize,
    /// How many it may hold.
    pub slot_capacity: usize,
    /// Jobs in its queue.
    pub queued: usize,
    /// Since when jobs have been in its queue without one being taken; `None` when there is none.
    pub waiting_since: Option<Micros>,
    /// When its current step began; `None` between steps.
    pub step_since: Option<Micros>,
    /// When the wake in flight was made; `None` when none is. Long ago means a loop that does not come back.
    pub wake_pending_since: Option<Micros>,
    /// Wakes made for it so far.
    pub wakes: u64,
    /// Jobs it popped so far, stolen ones included.
    pub jobs_taken: u64,
    /// Jobs it took from other loops so far.
    pub jobs_stolen: u64,
    /// Jobs that had waited longer than the queue timeout when it popped them.
    pub jobs_late: u64,
    /// How long the jobs it popped had been queued.
    pub queue_wait: HistogramSnapshot,
}
