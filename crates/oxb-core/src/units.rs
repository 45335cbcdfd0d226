//! Values with a unit: which loop, how many microseconds, how many bytes.
//!
//! Values only; nothing here keeps an invariant but [`LoopId`]: only a `LoopSet` makes one, so it is in range
//! for the set it came from.

use std::time::Duration;

/// Names one loop of a [`LoopSet`](crate::LoopSet). Only the set makes one, so it is in range.
///
/// ```
/// use oxb_core::{LoopSet, LoopSetOptions};
///
/// let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions { loop_count: 2, ..LoopSetOptions::default() })?;
/// let names: Vec<usize> = set.loop_ids().map(|loop_id| loop_id.index()).collect();
/// assert_eq!(names, [0, 1]);
/// # Ok::<(), oxb_core::LoopSetError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LoopId(u16);

impl LoopId {
    pub(crate) fn new(index: usize) -> LoopId {
        LoopId(u16::try_from(index).expect("loop count fits u16: checked in LoopSet::new"))
    }

    /// The place of the loop in its set, counted from 0.
    ///
    /// ```
    /// # use oxb_core::{LoopSet, LoopSetOptions};
    /// let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions::default())?;
    /// assert_eq!(set.loop_ids().next().map(|loop_id| loop_id.index()), Some(0));
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Microseconds: a length of time, or a moment as [`clock::now`](crate::clock::now) gives it.
///
/// ```
/// use oxb_core::Micros;
/// use std::time::Duration;
///
/// let timeout = Micros::from(Duration::from_millis(30));
/// assert_eq!(timeout, Micros(30_000));
/// assert_eq!(Duration::from(timeout), Duration::from_millis(30));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Micros(pub u64);

impl Micros {
    /// The time from `earlier` to this moment; zero when `earlier` is later.
    ///
    /// ```
    /// # use oxb_core::Micros;
    /// assert_eq!(Micros(70).since(Micros(50)), Micros(20));
    /// assert_eq!(Micros(50).since(Micros(70)), Micros(0));
    /// ```
    #[inline]
    pub fn since(self, earlier: Micros) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }

    /// The moment `length` after this one; the last there is when that is past it.
    ///
    /// ```
    /// # use oxb_core::Micros;
    /// assert_eq!(Micros(70).after(Micros(50)), Micros(120));
    /// ```
    #[inline]
    pub fn after(self, length: Micros) -> Micros {
        Micros(self.0.saturating_add(length.0))
    }
}

impl From<Duration> for Micros {
    fn from(length: Duration) -> Micros {
        Micros(u64::try_from(length.as_micros()).unwrap_or(u64::MAX))
    }
}

impl From<Micros> for Duration {
    fn from(length: Micros) -> Duration {
        Duration::from_micros(length.0)
    }
}

/// A number of bytes.
///
/// ```
/// use oxb_core::ByteCount;
/// assert!(ByteCount(16) < ByteCount(1024));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ByteCount(pub u64);
