//! Maps the errors of the lower crates to Python exceptions (rule B2 of the style).
//!
//! Invariant: each `match` lists every variant, so a new error asks at compile time what Python sees.

use oxb_http::problem;
use pyo3::prelude::*;

/// Adds this file's names to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(status_title, module)?)
}

/// The name of a status as a problem's title (RFC 9110); `Error` for an unknown one.
#[pyfunction]
fn status_title(status: u16) -> &'static str {
    problem::title(status)
}
