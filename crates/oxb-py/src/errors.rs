//! Maps the errors of the lower crates to Python exceptions (rule B2 of the style).
//!
//! Invariant: each `match` lists every variant, so a new error asks at compile time what Python sees.

use oxb_http::problem;
use oxb_http::router::RouteError;
use pyo3::exceptions::{PyTypeError, PyValueError};
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

/// What a route that cannot be registered raises (the tables of api.md 2.4).
pub(crate) fn route_error(error: &RouteError) -> PyErr {
    match error {
        RouteError::NoSlash { .. }
        | RouteError::BadBrace { .. }
        | RouteError::TwoPlaceholders { .. }
        | RouteError::CatchAllNotLast { .. }
        | RouteError::RepeatedPlaceholder { .. }
        | RouteError::BadMethod { .. }
        | RouteError::Conflict { .. } => PyValueError::new_err(error.to_string()),
        RouteError::BadPathParam { .. } => PyTypeError::new_err(error.to_string()),
    }
}
