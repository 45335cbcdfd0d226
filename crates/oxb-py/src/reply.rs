//! Turns what a handler returned into a reply of the engine (api.md 5.1).

use pyo3::prelude::*;

/// Adds this file's names to the extension module.
pub(crate) fn register(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
