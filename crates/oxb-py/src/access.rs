//! The access log of the engine, as the thread that writes it takes it.

use std::sync::Arc;

use oxb_http::access_log::{AccessLog, AccessRecord};
use pyo3::prelude::*;

/// Adds this file's names to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyAccessLog>()
}

/// Records of requests, from the end of their responses until they are taken.
#[pyclass(frozen, name = "AccessLog", module = "oxbrook._core")]
pub(crate) struct PyAccessLog {
    log: Arc<AccessLog>,
}

impl PyAccessLog {
    pub(crate) fn log(&self) -> Arc<AccessLog> {
        Arc::clone(&self.log)
    }
}

/// Method, target, status, milliseconds, and whether an exception that nobody handled is behind the status.
type Line = (String, String, u16, f64, bool);

fn line(record: AccessRecord) -> Line {
    let AccessRecord { method, target, status, duration, is_failure } = record;
    #[expect(clippy::cast_precision_loss, reason = "a duration of centuries")]
    let milliseconds = duration.0 as f64 / 1000.0;
    (method, target, status, milliseconds, is_failure)
}

#[pymethods]
impl PyAccessLog {
    #[new]
    fn new(capacity: usize) -> Self {
        Self { log: Arc::new(AccessLog::new(capacity)) }
    }

    /// Waits for records and takes at most `limit`, with the count of those lost since; `None` once it is closed.
    fn take(&self, py: Python<'_>, limit: usize) -> Option<(Vec<Line>, u64)> {
        let taken = py.detach(|| self.log.take(limit))?;
        Some((taken.records.into_iter().map(line).collect(), taken.lost))
    }

    /// No more records come.
    fn close(&self) {
        self.log.close();
    }
}
