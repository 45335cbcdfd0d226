//! A histogram of times that one thread writes and any may read while it does.
//!
//! Four buckets to each doubling, so a quantile is at most a quarter too high; the last holds everything from about
//! 19 hours up. One writer: a record is two plain loads and stores, no read-modify-write.
//!
//! Invariant: a bucket never loses a count, as long as there is one writer at a time.

use crate::sync::{AtomicU64, Ordering};
use crate::units::Micros;

const SUB_BITS: u32 = 2;
const BUCKET_COUNT: usize = 140;

pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKET_COUNT],
    sum: AtomicU64,
}

/// Which bucket a time falls in: the position of its highest bit, and the two bits after that.
#[inline]
fn bucket_of(time: Micros) -> usize {
    let value = time.0;
    if value < 4 {
        return value as usize;
    }
    let octave = 63 - value.leading_zeros();
    let sub = (value >> (octave - SUB_BITS)) & 3;
    ((((octave - SUB_BITS + 1) << SUB_BITS) as usize) + sub as usize).min(BUCKET_COUNT - 1)
}

/// The longest time that falls in a bucket.
fn upper_bound(bucket: usize) -> Micros {
    if bucket < 4 {
        return Micros(bucket as u64);
    }
    if bucket == BUCKET_COUNT - 1 {
        return Micros(u64::MAX);
    }
    let shift = (bucket >> SUB_BITS) - 1;
    let lowest = (4 + (bucket as u64 & 3)) << shift;
    Micros(lowest + (1 << shift) - 1)
}

impl Histogram {
    pub(crate) fn new() -> Histogram {
        Histogram { buckets: std::array::from_fn(|_| AtomicU64::new(0)), sum: AtomicU64::new(0) }
    }

    /// Counts one time. One thread at a time.
    #[inline]
    pub(crate) fn record(&self, time: Micros) {
        add(&self.buckets[bucket_of(time)], 1);
        add(&self.sum, time.0);
    }

    pub(crate) fn snapshot(&self) -> HistogramSnapshot {
        // Relaxed: counts; a reader that is one behind has lost nothing.
        let buckets: Vec<u64> = self.buckets.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        HistogramSnapshot {
            count: buckets.iter().sum(),
            buckets,
            sum: Micros(self.sum.load(Ordering::Relaxed)),
        }
    }
}

/// Adds to a counter that only this thread writes.
#[inline]
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    // Relaxed, and no read-modify-write: one writer, and readers only count.
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// What a histogram held when it was read.
///
/// ```
/// use oxb_core::{LoopSet, LoopSetOptions, Micros};
///
/// let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions::default())?;
/// let loop_id = set.loop_ids().next().expect("a set has a loop");
/// let waits = set.gauges(loop_id).queue_wait;
/// assert_eq!(waits.count(), 0);
/// assert_eq!(waits.quantile(0.99), Micros(0));
/// # Ok::<(), oxb_core::LoopSetError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistogramSnapshot {
    buckets: Vec<u64>,
    count: u64,
    sum: Micros,
}

impl HistogramSnapshot {
    /// How many times were recorded.
    ///
    /// ```
    /// # use oxb_core::{LoopSet, LoopSetOptions};
    /// # let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions::default())?;
    /// # let waits = set.gauges(set.loop_ids().next().expect("a set has a loop")).queue_wait;
    /// assert_eq!(waits.count(), 0);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All of them together.
    ///
    /// ```
    /// # use oxb_core::{LoopSet, LoopSetOptions, Micros};
    /// # let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions::default())?;
    /// # let waits = set.gauges(set.loop_ids().next().expect("a set has a loop")).queue_wait;
    /// assert_eq!(waits.sum(), Micros(0));
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn sum(&self) -> Micros {
        self.sum
    }

    /// A time that the given share of the recorded ones does not exceed, at most a quarter too high. Zero when
    /// nothing was recorded.
    ///
    /// ```
    /// # use oxb_core::{LoopSet, LoopSetOptions, Micros};
    /// # let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions::default())?;
    /// # let waits = set.gauges(set.loop_ids().next().expect("a set has a loop")).queue_wait;
    /// assert_eq!(waits.quantile(0.5), Micros(0));
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn quantile(&self, share: f64) -> Micros {
        let rank = ((self.count as f64) * share.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_bound(bucket);
            }
        }
        Micros(0)
    }

    /// Pairs of a bound and how many recorded times do not exceed it, rising; empty buckets are left out.
    ///
    /// ```
    /// # use oxb_core::{LoopSet, LoopSetOptions, Micros};
    /// # let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions::default())?;
    /// # let waits = set.gauges(set.loop_ids().next().expect("a set has a loop")).queue_wait;
    /// assert_eq!(waits.cumulative().count(), 0);
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn cumulative(&self) -> impl Iterator<Item = (Micros, u64)> + '_ {
        self.buckets.iter().enumerate().filter(|(_, count)| **count > 0).scan(0, |seen, (bucket, count)| {
            *seen += count;
            Some((upper_bound(bucket), *seen))
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_time_falls_in_a_bucket_whose_bound_is_at_most_a_quarter_above_it() {
        for time in (0..4096).chain((12..36).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1])) {
            let bound = upper_bound(bucket_of(Micros(time))).0;
            assert!(bound >= time && bound <= time + time / 4, "{time} is counted as {bound}");
        }
        assert_eq!(upper_bound(bucket_of(Micros(u64::MAX))), Micros(u64::MAX));
    }

    #[test]
    fn bounds_rise_from_bucket_to_bucket() {
        assert!((1..BUCKET_COUNT).all(|bucket| upper_bound(bucket - 1) < upper_bound(bucket)));
    }

    #[test]
    fn a_quantile_is_the_bound_of_the_bucket_that_holds_its_rank() {
        let histogram = Histogram::new();
        for time in 1..=100 {
            histogram.record(Micros(time));
        }
        let snapshot = histogram.snapshot();
        assert_eq!((snapshot.count(), snapshot.sum()), (100, Micros(5050)));
        assert!((50..=62).contains(&snapshot.quantile(0.5).0));
        assert!(snapshot.quantile(1.0) >= Micros(100));
        assert_eq!(snapshot.cumulative().last().map(|(_, count)| count), Some(100));
    }
}
