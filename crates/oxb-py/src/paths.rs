//! The grammar of route paths, for the checks at registration (api.md 2.4).

use oxb_http::router;
use pyo3::prelude::*;

use crate::errors::route_error;

/// Adds this file's names to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(check_path, module)?)?;
    module.add_function(wrap_pyfunction!(shape, module)?)
}

/// The names of a path's placeholders from left to right.
#[pyfunction]
fn check_path(path: &str) -> PyResult<Vec<String>> {
    router::placeholders(path).map_err(|error| route_error(&error))
}

/// What two paths that conflict have in common.
#[pyfunction]
fn shape(path: &str) -> PyResult<String> {
    router::shape(path).map_err(|error| route_error(&error))
}
