//! Encodes plain Python values as JSON (api.md 5.3).

use pyo3::prelude::*;

/// Adds this file's names to the extension module.
pub(crate) fn register(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
