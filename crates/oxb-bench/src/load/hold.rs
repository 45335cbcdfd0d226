//! Many idle keep-alive connections, to see what one costs the server.
//!
//! Invariant: every connection counted was answered once and was still open at the end.

use std::time::Duration;

use serde_json::{Value, json};

use super::connection::{Connection, LIMIT};
use super::{Expectation, RequestSpec, Target};
use crate::process::{TreeUsage, read_tree};

/// How many, where, and for how long.
#[derive(Debug, Clone)]
pub struct HoldOptions {
    /// The server.
    pub target: Target,
    /// What the one request of each connection must get.
    pub expect: Expectation,
    /// Connections to hold.
    pub connection_count: usize,
    /// How long the server is left alone before its memory is read.
    pub quiet: Duration,
    /// Root of its process tree.
    pub watched: Option<u32>,
}

/// What holding them showed.
#[derive(Debug, Clone)]
pub struct HoldReport {
    /// Connections answered and still open at the end.
    pub held: usize,
    /// Connections that failed, with the first reason.
    pub failed: usize,
    /// The first reason.
    pub reason: Option<String>,
    /// The server before the first and with all of them.
    pub server: Option<(TreeUsage, TreeUsage)>,
}

/// Opens the connections one after the other, then waits.
pub async fn hold(options: HoldOptions) -> HoldReport {
    let wire = RequestSpec::default().bytes(&options.target);
    let before = options.watched.and_then(read_tree);
    let mut report = HoldReport { held: 0, failed: 0, reason: None, server: None };
    let mut open = Vec::with_capacity(options.connection_count);
    for number in 0..options.connection_count {
        match first_answer(&options, number, &wire).await {
            Ok(connection) => open.push(connection),
            Err(reason) => {
                report.failed += 1;
                report.reason.get_or_insert(reason);
            }
        }
    }
    tokio::time::sleep(options.quiet).await;
    report.server = before.zip(options.watched.and_then(read_tree));
    report.held = open.iter().filter(|connection| connection.is_open()).count();
    report.failed += open.len() - report.held;
    report
}

async fn first_answer(options: &HoldOptions, number: usize, wire: &[u8]) -> Result<Connection, String> {
    let mut connection =
        Connection::open(&options.target, number, LIMIT).await.map_err(|lost| format!("{lost:?}"))?;
    let (taken, _) = connection.exchange(wire, false).await.map_err(|lost| format!("{lost:?}"))?;
    match options.expect.judge(taken.status, connection.body(&taken)) {
        super::Outcome::Good => Ok(connection),
        other => Err(format!("{other:?}")),
    }
}

impl HoldReport {
    /// The report as `oxb-bench hold` prints it.
    pub fn to_json(&self) -> Value {
        let server = self.server.map(|(before, after)| {
            let growth = after.resident_bytes as f64 - before.resident_bytes as f64;
            json!({
                "rss_before_bytes": before.resident_bytes,
                "rss_after_bytes": after.resident_bytes,
                "bytes_per_connection": if self.held > 0 { json!(growth / self.held as f64) } else { Value::Null },
            })
        });
        json!({ "is_right": self.failed == 0, "held": self.held, "failed": self.failed, "reason": self.reason, "server": server })
    }
}
