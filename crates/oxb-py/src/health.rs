//! The probes of `oxbrook.Health` as the engine takes them.

use std::sync::Arc;
use std::time::Duration;

use oxb_http::health::Health;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Adds this file's names to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Probes>()
}

/// The probes of one server.
#[pyclass(frozen, module = "oxbrook._core")]
pub(crate) struct Probes {
    health: Arc<Health>,
}

impl Probes {
    pub(crate) fn health(&self) -> Arc<Health> {
        Arc::clone(&self.health)
    }
}

#[pymethods]
impl Probes {
    /// `stall_after` in seconds; `has_checks`: a route at `ready` answers where nothing speaks against it.
    #[new]
    fn new(live: &str, ready: &str, stall_after: f64, has_checks: bool) -> PyResult<Self> {
        let stall_after = Duration::try_from_secs_f64(stall_after)
            .map_err(|error| PyValueError::new_err(format!("stall_after: {error}")))?;
        Ok(Self { health: Arc::new(Health::new(live, ready, stall_after, has_checks)) })
    }

    /// From here on the server is not ready.
    fn drain(&self) {
        self.health.drain();
    }
}
