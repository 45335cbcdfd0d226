//! The load generator of `oxb-bench`, for `oxbrook bench`, which runs it in a process of its own.
//!
//! It converts a request and its report and decides nothing about load.

use std::time::Duration;

use oxb_bench::load::{self, Exchange, Expectation, Extent, Pace, RequestSpec, SteadyOptions, Target};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// Adds this file's names to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(generate_load, module)?)
}

/// A closed loop, as a mapping with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ClosedLoop {
    url: String,
    method: String,
    headers: Vec<(String, String)>,
    body: String,
    /// The status of a good answer.
    status: u16,
    connections: usize,
    /// Seconds, both.
    warmup: f64,
    duration: f64,
    /// The server's first process.
    process: u32,
}

impl ClosedLoop {
    fn options(self) -> PyResult<SteadyOptions> {
        let seconds = |value| {
            Duration::try_from_secs_f64(value).map_err(|error| PyValueError::new_err(error.to_string()))
        };
        let request = RequestSpec {
            method: self.method,
            headers: self.headers,
            body: self.body.into_bytes(),
            ..RequestSpec::default()
        };
        let expect = Expectation { status: self.status, ..Expectation::default() };
        Ok(SteadyOptions {
            target: Target::parse(&self.url).map_err(|error| PyValueError::new_err(error.to_string()))?,
            exchanges: vec![Exchange { request, expect, weight: 1 }],
            connection_count: self.connections,
            warmup: seconds(self.warmup)?,
            measured: Extent::For(seconds(self.duration)?),
            pace: Pace::Closed,
            seed: 0,
            limit: load::LIMIT,
            watched: Some(self.process),
            keeps_lines: false,
        })
    }
}

/// Runs the load on this thread to its end; the report as JSON.
#[pyfunction]
fn generate_load(py: Python<'_>, load: ClosedLoop) -> PyResult<String> {
    let options = load.options()?;
    let failed = |error: std::io::Error| PyRuntimeError::new_err(error.to_string());
    let report = py.detach(|| load::run(load::steady(options))).map_err(failed)?.map_err(failed)?;
    Ok(report.to_json().to_string())
}
