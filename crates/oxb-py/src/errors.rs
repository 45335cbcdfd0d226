//! Maps the errors of the lower crates to Python exceptions (rule B2 of the style).

use pyo3::prelude::*;

/// Adds this file's names to the extension module.
pub(crate) fn register(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
