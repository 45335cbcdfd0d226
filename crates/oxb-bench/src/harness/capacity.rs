//! Rates that are multiples of what a row can take.
//!
//! **Invariant:** a capacity was measured in the run that uses it, on the same server and path, in a closed loop in which
//! nothing was refused.

use serde_json::Value;

use super::error::Error;
use super::rounds::{REQUESTS, Row, sample};
use super::run::Run;
use super::scenario::Load;

/// Gives each row that asks for a multiple of its capacity its rate. The capacity is that of a closed loop, measured
/// once for rows of one server and path, and without the refusals that an overload may bring.
pub(crate) fn with_capacities(run: &Run<'_>, rows: Vec<(Row, Option<&Load>)>) -> Result<Vec<Row>, Error> {
    let mut known: Vec<(String, f64)> = Vec::new();
    let mut all = Vec::new();
    for (mut row, load) in rows {
        let load = load.filter(|_| run.options.wants(&row.name));
        if let Some((load, multiple)) = load.and_then(|load| Some((load, load.rate_x_capacity?))) {
            let key = format!("{} {}", row.server.line(), row.path);
            let found = known.iter().find(|(known, _)| *known == key).map(|(_, capacity)| *capacity);
            let capacity = match found {
                Some(capacity) => capacity,
                None => {
                    let capacity = capacity(run, &row, load.capacity_connections)?;
                    known.push((key, capacity));
                    capacity
                }
            };
            row.capacity = Some(capacity);
            row.rate = Some(capacity * multiple);
        }
        all.push(row);
    }
    Ok(all)
}

fn capacity(run: &Run<'_>, row: &Row, connections: usize) -> Result<f64, Error> {
    let closed = Row {
        name: format!("{}, capacity", row.name),
        connections: row.connections.min(connections),
        script: row.script.closed(),
        duration: None,
        ..row.clone()
    };
    let report = sample(run, &closed)?;
    let rate = report.pointer(REQUESTS).and_then(Value::as_f64).filter(|rate| *rate > 0.0);
    match rate {
        Some(rate) if report["is_right"] == true => {
            println!("bench: {}: {rate:.0} req/s", closed.name);
            Ok(rate)
        }
        _ => Err(Error::failed(format!(
            "{} was not measured with {} connections: {}",
            closed.name, closed.connections, report["requests"]
        ))),
    }
}
