//! A directory that `App.static` serves, as the engine takes it.

use std::path::PathBuf;
use std::sync::Arc;

use oxb_http::files::{Mount, MountOptions};
use pyo3::prelude::*;

use crate::errors;

/// Adds this file's names to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyMount>()
}

/// A checked mount.
#[pyclass(frozen, name = "Mount", module = "oxbrook._core")]
pub(crate) struct PyMount {
    mount: Arc<Mount>,
}

impl PyMount {
    pub(crate) fn mount(&self) -> &Arc<Mount> {
        &self.mount
    }
}

#[pymethods]
impl PyMount {
    #[new]
    #[pyo3(signature = (prefix, directory, *, index, fallback, dotfiles, cache_control))]
    fn new(
        py: Python<'_>,
        prefix: &str,
        directory: PathBuf,
        index: String,
        fallback: Option<String>,
        dotfiles: bool,
        cache_control: Option<String>,
    ) -> PyResult<Self> {
        let options = MountOptions { directory, index, fallback, dotfiles, cache_control };
        let mount = py.detach(|| Mount::new(prefix, options)).map_err(|error| errors::mount_error(&error))?;
        Ok(Self { mount: Arc::new(mount) })
    }
}
