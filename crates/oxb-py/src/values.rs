//! Parameter values, coerced in Rust, as Python objects (api.md 2.5).

use pyo3::prelude::*;

/// Adds this file's names to the extension module.
pub(crate) fn register(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
