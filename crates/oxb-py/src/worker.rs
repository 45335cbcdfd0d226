//! Runs handlers on one asyncio loop: doors, spares, plans and the drain.

use pyo3::prelude::*;

/// Adds this file's names to the extension module.
pub(crate) fn register(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
