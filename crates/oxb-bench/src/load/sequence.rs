//! Numbers that should come one after the other: which are missing, out of order or doubled. No I/O.
//!
//! Invariant: a number that came late is out of order and no longer missing; one that came twice counts once.

use std::collections::BTreeMap;

/// The numbers one subscriber got.
#[derive(Debug, Clone, Default)]
pub(super) struct Sequence {
    /// The number after the highest so far; none before the first, where the first is not known.
    next: Option<u64>,
    /// Gaps below it, from their first number to the one after their last. Each event makes at most one.
    gaps: BTreeMap<u64, u64>,
    /// Numbers counted once.
    pub(super) count: u64,
    pub(super) out_of_order: u64,
    pub(super) duplicates: u64,
}

impl Sequence {
    /// `first` is the number that must come first; any may where absent.
    pub(super) fn new(first: Option<u64>) -> Self {
        Self { next: first, ..Self::default() }
    }

    /// Takes the next number.
    pub(super) fn add(&mut self, number: u64) {
        let next = self.next.unwrap_or(number);
        if number >= next {
            if number > next {
                self.gaps.insert(next, number);
            }
            self.next = Some(number.saturating_add(1));
            self.count += 1;
            return;
        }
        let gap = self.gaps.range(..=number).next_back().map(|(start, end)| (*start, *end));
        match gap.filter(|(_, end)| number < *end) {
            None => self.duplicates += 1,
            Some((start, end)) => {
                self.gaps.remove(&start);
                if start < number {
                    self.gaps.insert(start, number);
                }
                if number + 1 < end {
                    self.gaps.insert(number + 1, end);
                }
                self.out_of_order += 1;
                self.count += 1;
            }
        }
    }

    /// Numbers that did not come, of those below `end` or, where that is absent, below the highest that came.
    pub(super) fn missing(&self, end: Option<u64>) -> u64 {
        let within: u64 = self.gaps.iter().map(|(start, end)| end - start).sum();
        let after = end.zip(self.next).map_or(0, |(end, next)| end.saturating_sub(next));
        within + after
    }
}

#[cfg(test)]
mod tests {
    use super::Sequence;

    /// Missing, out of order, doubled.
    fn told(first: Option<u64>, end: Option<u64>, numbers: &[u64]) -> (u64, u64, u64) {
        let mut sequence = Sequence::new(first);
        for number in numbers {
            sequence.add(*number);
        }
        (sequence.missing(end), sequence.out_of_order, sequence.duplicates)
    }

    #[test]
    fn what_is_missing_late_or_doubled_is_told_apart() {
        for (numbers, expected) in [
            (&[0, 1, 2, 3][..], (0, 0, 0)),
            (&[], (4, 0, 0)),
            (&[0, 1], (2, 0, 0)),
            (&[1, 2, 3], (1, 0, 0)),
            (&[0, 2, 1, 3], (0, 1, 0)),
            (&[0, 3, 2, 1], (0, 2, 0)),
            (&[0, 3, 1], (1, 1, 0)),
            (&[0, 1, 1, 2, 3], (0, 0, 1)),
            (&[0, 3, 1, 1, 3], (1, 1, 2)),
        ] {
            assert_eq!(told(Some(0), Some(4), numbers), expected, "{numbers:?}");
        }
    }

    #[test]
    fn a_sequence_without_a_known_start_begins_with_what_comes_first() {
        assert_eq!(told(None, None, &[7, 8, 10]), (1, 0, 0));
        assert_eq!(told(None, None, &[7, 6]), (0, 0, 1));
    }

    proptest::proptest! {
        #[test]
        fn it_agrees_with_a_naive_model(numbers in proptest::collection::vec(0_u64..40, 0..120)) {
            let mut seen = std::collections::BTreeSet::new();
            let (mut late, mut doubled) = (0, 0);
            for number in &numbers {
                if seen.contains(number) {
                    doubled += 1;
                } else if seen.last().is_some_and(|highest| number < highest) {
                    late += 1;
                }
                seen.insert(*number);
            }
            let missing = 40 - seen.len() as u64;
            proptest::prop_assert_eq!(told(Some(0), Some(40), &numbers), (missing, late, doubled));
        }
    }
}
