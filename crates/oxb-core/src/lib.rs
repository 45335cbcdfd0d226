//! Dispatch queues, coalesced wakeups, a loop scheduler, deadlines, topics: what stands between I/O threads and the loops
//! that run their jobs. No HTTP, no Python, no async runtime.
//!
//! Start at [`LoopSet`]: jobs go in by [`submit`](LoopSet::submit), each loop takes its own through a [`Worker`], and
//! what comes of them goes back through a [`ReturnQueue`].
//!
//! Invariants 3, 4, 10, 11 and 13 of ARCHITECTURE.md are kept here; each is stated again where it is kept.
#![forbid(unsafe_code)]

pub mod clock;

mod completion;
mod gauges;
mod histogram;
mod loop_set;
mod parker;
mod probe;
#[cfg(not(loom))]
mod rust_loop;
mod signal;
mod slot;
mod sync;
mod topic;
mod units;
mod waker;
mod wheel;

pub use crate::completion::ReturnQueue;
pub use crate::gauges::LoopGauges;
pub use crate::histogram::HistogramSnapshot;
pub use crate::loop_set::{
    Assignment, LoopSet, LoopSetError, LoopSetOptions, PendingWakes, SubmitError, Taken, Worker,
};
pub use crate::probe::{Probe, Readings, SystemReadings};
#[cfg(not(loom))]
pub use crate::rust_loop::{JobContext, RustJob, RustLoops, StartError};
pub use crate::signal::Signal;
pub use crate::slot::{Slot, lost_slots};
pub use crate::topic::{
    Converted, Emission, Policy, Resumed, Subscription, SubscriptionOptions, Topic, TopicError, TopicFull,
    TopicHub, TopicOptions,
};
pub use crate::units::{ByteCount, LoopId, Micros};
pub use crate::wheel::{DeadlineKey, DeadlineWheel};
