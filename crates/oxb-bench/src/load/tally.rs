//! What came of the requests of one run.
//!
//! Invariant: every request that was recorded is in exactly one count.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::outcome::{Failure, Outcome};

/// Counts of outcomes, and the latencies of good answers and of refusals.
#[derive(Debug, Clone)]
pub struct Tally {
    good: Histogram<u64>,
    head: Histogram<u64>,
    first_byte: Histogram<u64>,
    gap: Histogram<u64>,
    refused: Histogram<u64>,
    wrong_status: BTreeMap<u16, u64>,
    failures: [u64; Failure::NAMES.len()],
}

/// When the parts of an answer came.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// Its head was whole.
    pub head: Instant,
    /// The first byte of its body was there; none where the body is empty.
    pub first_byte: Option<Instant>,
    /// Its last byte was there.
    pub end: Instant,
}

/// Longest latency told apart; what takes longer counts as this.
const LONGEST: Duration = Duration::from_secs(120);
const PERCENTILES: [f64; 9] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 100.0];

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

impl Tally {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Self {
            good: empty(),
            head: empty(),
            first_byte: empty(),
            gap: empty(),
            refused: empty(),
            wrong_status: BTreeMap::new(),
            failures: [0; Failure::NAMES.len()],
        }
    }

    /// Counts one request.
    pub fn record(&mut self, outcome: Outcome, latency: Duration) {
        match outcome {
            Outcome::Good => self.good.saturating_record(nanos(latency)),
            Outcome::Refused => self.refused.saturating_record(nanos(latency)),
            Outcome::Failed(failure) => {
                self.failures[failure.index()] += 1;
                if let Failure::Status(status) = failure {
                    *self.wrong_status.entry(status).or_default() += 1;
                }
            }
        }
    }

    /// Counts one request that was answered, its latencies counted `from` when it was or should have been sent.
    pub fn record_seen(&mut self, outcome: Outcome, from: Instant, seen: &Seen) {
        self.record(outcome, seen.end.saturating_duration_since(from));
        if outcome == Outcome::Good {
            self.head.saturating_record(nanos(seen.head.saturating_duration_since(from)));
            if let Some(first_byte) = seen.first_byte {
                self.first_byte.saturating_record(nanos(first_byte.saturating_duration_since(from)));
                self.gap.saturating_record(nanos(first_byte.saturating_duration_since(seen.head)));
            }
        }
    }

    /// Good answers.
    pub fn good(&self) -> u64 {
        self.good.len()
    }

    /// Refusals that the caller allows.
    pub fn refused(&self) -> u64 {
        self.refused.len()
    }

    /// Everything that is neither good nor an allowed refusal.
    pub fn bad(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// The latency that this share of the good answers stayed within.
    pub fn percentile(&self, percentile: f64) -> Duration {
        Duration::from_nanos(self.good.value_at_percentile(percentile))
    }

    /// Failures that were counted, by the name of their kind.
    pub fn errors(&self) -> BTreeMap<&'static str, u64> {
        Failure::NAMES.into_iter().zip(self.failures).filter(|(_, count)| *count > 0).collect()
    }

    /// All counts and latencies; times in milliseconds.
    pub fn to_json(&self) -> Value {
        let statuses: serde_json::Map<String, Value> =
            self.wrong_status.iter().map(|(status, count)| (status.to_string(), json!(count))).collect();
        let of = |kinds: &[Failure]| kinds.iter().map(|kind| self.failures[kind.index()]).sum::<u64>();
        json!({
            "good": self.good(),
            "refused": self.refused(),
            "bad": self.bad(),
            "wrong_status": statuses,
            "wrong_body": of(&[Failure::Length, Failure::Body]),
            "lost": of(&[Failure::Closed, Failure::Cut, Failure::Reset, Failure::Timeout, Failure::Protocol]),
            "unconnected": of(&[Failure::Connect]),
            "latency_ms": latencies(&self.good),
            "head_ms": latencies(&self.head),
            "first_byte_ms": latencies(&self.first_byte),
            "gap_ms": latencies(&self.gap),
            "refused_latency_ms": latencies(&self.refused),
        })
    }
}

pub(super) fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, nanos(LONGEST), 3)
        .expect("the bounds are constants that hdrhistogram takes")
}

pub(super) fn latencies(histogram: &Histogram<u64>) -> Value {
    if histogram.is_empty() {
        return Value::Null;
    }
    let mut fields = serde_json::Map::new();
    fields.insert("mean".to_owned(), json!(histogram.mean() / 1e6));
    for percentile in PERCENTILES {
        let name = if percentile == 100.0 { "max".to_owned() } else { format!("p{percentile}") };
        fields.insert(name, json!(histogram.value_at_percentile(percentile) as f64 / 1e6));
    }
    Value::Object(fields)
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_is_in_exactly_one_count() {
        let mut tally = Tally::new();
        for outcome in [
            Outcome::Good,
            Outcome::Good,
            Outcome::Refused,
            Outcome::Failed(Failure::Status(500)),
            Outcome::Failed(Failure::Body),
            Outcome::Failed(Failure::Reset),
            Outcome::Failed(Failure::Connect),
        ] {
            tally.record(outcome, Duration::from_millis(3));
        }
        assert_eq!((tally.good(), tally.refused(), tally.bad()), (2, 1, 4));
        let json = tally.to_json();
        assert_eq!(json["wrong_status"]["500"], 1);
        assert_eq!(tally.errors().into_values().sum::<u64>(), 4);
        let p50 = json["latency_ms"]["p50"].as_f64().unwrap();
        assert!((2.99..3.01).contains(&p50), "{p50}");
    }
}
