//! The parallelism probe, for the default number of loops (api.md 1.5).

use oxb_core::{Probe, SystemReadings};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Adds this file's names to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(probe, module)?)
}

/// What each reading of the machine allows; `available_cpus` where the interpreter counts its own way.
#[pyfunction]
fn probe(py: Python<'_>, available_cpus: Option<usize>) -> PyResult<Bound<'_, PyDict>> {
    // The readings open files, which may block: not while attached (invariant 2 of ARCHITECTURE.md).
    let found = py.detach(|| Probe::read(&SystemReadings { available_cpus }));
    let readings = PyDict::new(py);
    readings.set_item("performance_cores", found.performance_cores)?;
    readings.set_item("physical_cores", found.physical_cores)?;
    readings.set_item("cgroup_quota", found.cgroup_quota)?;
    readings.set_item("available_cpus", found.available_cpus)?;
    readings.set_item("detected", found.detected)?;
    readings.set_item("usable_cpus", found.usable_cpus())?;
    Ok(readings)
}
