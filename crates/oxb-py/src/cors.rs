//! The rules of `oxbrook.CORS` as the engine takes them.

use std::sync::Arc;

use oxb_http::cors::{Cors, CorsOptions};
use pyo3::prelude::*;

use crate::errors;

/// Adds this file's names to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CorsRules>()
}

/// Checked rules.
#[pyclass(frozen, module = "oxbrook._core")]
pub(crate) struct CorsRules {
    cors: Arc<Cors>,
}

impl CorsRules {
    pub(crate) fn cors(&self) -> Arc<Cors> {
        Arc::clone(&self.cors)
    }
}

#[pymethods]
impl CorsRules {
    #[new]
    fn new(
        allow_origins: Vec<String>,
        allow_methods: Vec<String>,
        allow_headers: Vec<String>,
        allow_credentials: bool,
        expose_headers: Vec<String>,
        max_age: Option<u64>,
    ) -> PyResult<Self> {
        let options = CorsOptions {
            allow_origins,
            allow_methods,
            allow_headers,
            allow_credentials,
            expose_headers,
            max_age,
        };
        let cors = Cors::new(options).map_err(|error| errors::cors_error(&error))?;
        Ok(Self { cors: Arc::new(cors) })
    }
}
