//! The one clock: microseconds since this process first asked.
//!
//! Monotonic. All moments of one process compare with each other, whichever thread read them.

use crate::units::Micros;

/// Microseconds since the first call in this process; never goes back.
///
/// ```
/// let before = oxb_core::clock::now();
/// let after = oxb_core::clock::now();
/// assert!(before <= after);
/// ```
#[cfg(not(loom))]
#[inline]
pub fn now() -> Micros {
    use std::sync::OnceLock;
    use std::time::Instant;

    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let elapsed = ORIGIN.get_or_init(Instant::now).elapsed();
    // From seconds and subseconds in 64 bits; `as_micros` would divide 128 bits on every read.
    Micros(elapsed.as_secs() * 1_000_000 + u64::from(elapsed.subsec_micros()))
}

/// Under loom time stands still: a model must take the same branches every time it is run.
#[cfg(loom)]
pub fn now() -> Micros {
    Micros(1)
}
