//! Repeatable random numbers: the same seed gives the same run on every machine.
//!
//! Invariant: the sequence of a seed never changes, because result files name the seed only.

use std::time::Duration;

/// SplitMix64: small, fast, and good enough to choose orders, tokens and arrival times. Not for secrets.
///
/// ```
/// use oxb_bench::seeded::Seeded;
/// assert_eq!(Seeded::new(7).next_u64(), Seeded::new(7).next_u64());
/// ```
#[derive(Debug, Clone)]
pub struct Seeded(u64);

impl Seeded {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which must not be 0. The bias of the remainder is below 2^-32 for any `end` used here.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64() % end
    }

    /// A fraction in (0, 1].
    pub fn fraction(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// The gap before the next arrival of a Poisson process of `rate` arrivals a second.
    pub fn exponential_gap(&mut self, rate: f64) -> Duration {
        Duration::from_secs_f64(-self.fraction().ln() / rate)
    }
}

#[cfg(test)]
mod tests {
    use super::Seeded;

    #[test]
    fn the_gaps_of_a_poisson_process_have_its_mean_and_its_spread() {
        let mut seeded = Seeded::new(1);
        let gaps: Vec<f64> = (0..100_000).map(|_| seeded.exponential_gap(500.0).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 0.002).abs() < 0.000_05, "mean {mean}");
        assert!((variance.sqrt() - 0.002).abs() < 0.000_1, "deviation {}", variance.sqrt());
    }
}
