//! The measured window: what the server's process tree and the generator itself took within it.
//!
//! Invariant: the generator's own cost stands beside every figure of a server.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{TreeUsage, own_cpu, read_tree};

/// What was read at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    server: Option<TreeUsage>,
    generator: Option<Duration>,
    at: Instant,
}

/// Two readings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    before: Reading,
    after: Reading,
}

/// With so much of its one core in use the generator may be what limits the figure.
const SATURATED: f64 = 0.90;

impl Reading {
    /// Reads the tree below `watched`, and this process.
    pub(super) fn now(watched: Option<u32>) -> Self {
        Self { server: watched.and_then(read_tree), generator: own_cpu(), at: Instant::now() }
    }

    /// The window from this reading on.
    pub(super) fn until(self, after: Self) -> Window {
        Window { before: self, after }
    }
}

impl Window {
    pub(super) fn elapsed(&self) -> Duration {
        self.after.at - self.before.at
    }

    /// CPU time of the server.
    pub(super) fn server_cpu(&self) -> Option<Duration> {
        Some(self.after.server?.cpu().saturating_sub(self.before.server?.cpu()))
    }

    /// The server's part of a report. `count` requests or deliveries share its CPU time.
    pub(super) fn server(&self, count: u64) -> Option<Value> {
        let (before, after) = (self.before.server?, self.after.server?);
        let cpu = after.cpu().saturating_sub(before.cpu()).as_secs_f64();
        Some(json!({
            "cpu_s": cpu,
            "user_s": after.user.saturating_sub(before.user).as_secs_f64(),
            "system_s": after.system.saturating_sub(before.system).as_secs_f64(),
            "cpu_us_per_request": if count > 0 { json!(cpu * 1e6 / count as f64) } else { Value::Null },
            "cores": cpu / self.elapsed().as_secs_f64(),
            "rss_bytes": after.resident_bytes,
            "rss_growth_bytes": after.resident_bytes as i64 - before.resident_bytes as i64,
            "peak_rss_bytes": after.peak_resident_bytes,
            "peak_rss_growth_bytes": after.peak_resident_bytes as i64 - before.resident_bytes as i64,
            "processes": after.process_count,
            "threads": after.thread_count,
        }))
    }

    /// The generator's own part.
    pub(super) fn generator(&self, count: u64) -> Option<Value> {
        let cpu = self.after.generator?.saturating_sub(self.before.generator?).as_secs_f64();
        let cores = cpu / self.elapsed().as_secs_f64();
        Some(json!({
            "cpu_s": cpu,
            "cores": cores,
            "cpu_us_per_request": cpu * 1e6 / count.max(1) as f64,
            "is_saturated": cores >= SATURATED,
        }))
    }
}
