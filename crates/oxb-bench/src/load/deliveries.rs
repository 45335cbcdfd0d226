//! What subscribers of a stream or of a broadcast got, together.
//!
//! Invariant: a subscriber that fell out is among the errors, and what it did not get is among the missing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::outcome::Failure;
use super::sequence::Sequence;
use super::tally::{empty, latencies, nanos};
use super::window::Window;

#[derive(Debug, Clone)]
pub(super) struct Deliveries {
    subscribers: usize,
    delivered: u64,
    missing: u64,
    out_of_order: u64,
    duplicates: u64,
    errors: BTreeMap<&'static str, u64>,
    first: Option<Instant>,
    last: Option<Instant>,
    emit_to_arrival: Histogram<u64>,
}

impl Deliveries {
    pub(super) fn new(subscribers: usize) -> Self {
        Self {
            subscribers,
            delivered: 0,
            missing: 0,
            out_of_order: 0,
            duplicates: 0,
            errors: BTreeMap::new(),
            first: None,
            last: None,
            emit_to_arrival: empty(),
        }
    }

    /// Events that came at that moment, and how long each was under way where that is known.
    pub(super) fn note(&mut self, at: Instant, under_way: &[Duration], is_timed: bool) {
        self.first.get_or_insert(at);
        self.last = Some(at);
        self.delivered += under_way.len() as u64;
        if is_timed {
            for time in under_way {
                self.emit_to_arrival.saturating_record(nanos(*time));
            }
        }
    }

    /// A subscriber's numbers, and why it fell out where it did.
    pub(super) fn close(&mut self, sequence: &Sequence, end: Option<u64>, failure: Option<Failure>) {
        self.missing += sequence.missing(end);
        self.out_of_order += sequence.out_of_order;
        self.duplicates += sequence.duplicates;
        if let Some(failure) = failure {
            *self.errors.entry(Failure::NAMES[failure.index()]).or_default() += 1;
        }
    }

    /// Something else that went wrong.
    pub(super) fn fail(&mut self, failure: Failure) {
        *self.errors.entry(Failure::NAMES[failure.index()]).or_default() += 1;
    }

    pub(super) fn is_right(&self) -> bool {
        let faults = self.missing + self.out_of_order + self.duplicates;
        self.delivered > 0 && faults == 0 && self.errors.is_empty()
    }

    /// The report, but for what is wrong beside the deliveries.
    pub(super) fn to_json(&self, window: &Window) -> Value {
        let seconds = window.elapsed().as_secs_f64();
        let per_thousand = window
            .server_cpu()
            .filter(|_| self.delivered > 0)
            .map(|cpu| cpu.as_secs_f64() * 1e6 / self.delivered as f64);
        let spread = self.first.zip(self.last).map(|(first, last)| (last - first).as_secs_f64() * 1e3);
        json!({
            "is_right": self.is_right(),
            "seconds": seconds,
            "stream": {
                "subscribers": self.subscribers,
                "deliveries": self.delivered,
                "deliveries_per_second": self.delivered as f64 / seconds,
                "first_to_last_ms": spread,
                "missing": self.missing,
                "out_of_order": self.out_of_order,
                "duplicates": self.duplicates,
                "cpu_ms_per_1000": per_thousand,
                "emit_to_arrival_ms": latencies(&self.emit_to_arrival),
            },
            "errors": self.errors,
            "server": window.server(self.delivered),
            "generator": window.generator(self.delivered),
        })
    }
}
