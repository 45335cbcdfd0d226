//! What came of the requests of one run.
//!
//! Invariant: every request that was recorded is in exactly one count.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// How one request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The expected status and body.
    Good,
    /// A status that the caller allows as a refusal.
    Refused,
    /// Any other status.
    WrongStatus(u16),
    /// The right status with another body.
    WrongBody,
    /// Connected, sent, and no answer: closed, reset or not HTTP.
    Lost,
    /// No connection could be made.
    Unconnected,
}

/// Counts of outcomes, and the latencies of good answers and of refusals.
#[derive(Debug, Clone)]
pub struct Tally {
    good: Histogram<u64>,
    refused: Histogram<u64>,
    wrong_status: BTreeMap<u16, u64>,
    wrong_body: u64,
    lost: u64,
    unconnected: u64,
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
            refused: empty(),
            wrong_status: BTreeMap::new(),
            wrong_body: 0,
            lost: 0,
            unconnected: 0,
        }
    }

    /// Counts one request.
    pub fn record(&mut self, outcome: Outcome, latency: Duration) {
        match outcome {
            Outcome::Good => self.good.saturating_record(nanos(latency)),
            Outcome::Refused => self.refused.saturating_record(nanos(latency)),
            Outcome::WrongStatus(status) => *self.wrong_status.entry(status).or_default() += 1,
            Outcome::WrongBody => self.wrong_body += 1,
            Outcome::Lost => self.lost += 1,
            Outcome::Unconnected => self.unconnected += 1,
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
        self.wrong_status.values().sum::<u64>() + self.wrong_body + self.lost + self.unconnected
    }

    /// The latency that this share of the good answers stayed within.
    pub fn percentile(&self, percentile: f64) -> Duration {
        Duration::from_nanos(self.good.value_at_percentile(percentile))
    }

    /// All counts and latencies; times in milliseconds.
    pub fn to_json(&self) -> Value {
        let statuses: serde_json::Map<String, Value> =
            self.wrong_status.iter().map(|(status, count)| (status.to_string(), json!(count))).collect();
        json!({
            "good": self.good(),
            "refused": self.refused(),
            "bad": self.bad(),
            "wrong_status": statuses,
            "wrong_body": self.wrong_body,
            "lost": self.lost,
            "unconnected": self.unconnected,
            "latency_ms": latencies(&self.good),
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
            Outcome::WrongStatus(500),
            Outcome::WrongBody,
            Outcome::Lost,
            Outcome::Unconnected,
        ] {
            tally.record(outcome, Duration::from_millis(3));
        }
        assert_eq!((tally.good(), tally.refused(), tally.bad()), (2, 1, 4));
        let json = tally.to_json();
        assert_eq!(json["wrong_status"]["500"], 1);
        let p50 = json["latency_ms"]["p50"].as_f64().unwrap();
        assert!((2.99..3.01).contains(&p50), "{p50}");
    }
}
