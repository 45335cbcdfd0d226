//! Maps the errors of the lower crates to Python exceptions (rule B2 of the style).
//!
//! Invariant: each `match` lists every variant, so a new error asks at compile time what Python sees.

use oxb_core::LoopSetError;
use oxb_http::cors::CorsError;
use oxb_http::files::MountError;
use oxb_http::form::FormError;
use oxb_http::listener::BindError;
use oxb_http::problem;
use oxb_http::reply::BadHead;
use oxb_http::router::RouteError;
use oxb_http::server::ServeError;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// Adds this file's names to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(status_title, module)?)
}

/// The name of a status as a problem's title (RFC 9110); `Error` for an unknown one.
#[pyfunction]
fn status_title(status: u16) -> &'static str {
    problem::title(status)
}

/// What a route that cannot be registered raises (the tables of api.md 2.4).
pub(crate) fn route_error(error: &RouteError) -> PyErr {
    match error {
        RouteError::NoSlash { .. }
        | RouteError::BadBrace { .. }
        | RouteError::TwoPlaceholders { .. }
        | RouteError::CatchAllNotLast { .. }
        | RouteError::RepeatedPlaceholder { .. }
        | RouteError::BadMethod { .. }
        | RouteError::Conflict { .. } => PyValueError::new_err(error.to_string()),
        RouteError::BadPathParam { .. } => PyTypeError::new_err(error.to_string()),
    }
}

/// Why a server does not run (api.md 1.2): a descriptor that does not listen is a wrong value.
pub(crate) fn serve_error(error: &ServeError) -> PyErr {
    match error {
        ServeError::Bind(BindError::Host { .. } | BindError::Bind { .. })
        | ServeError::Thread(_)
        | ServeError::Descriptors { .. } => PyRuntimeError::new_err(error.to_string()),
        ServeError::Bind(BindError::NotListening { .. }) => PyValueError::new_err(error.to_string()),
    }
}

/// What rules for other origins that cannot be raise (api.md 10.2).
pub(crate) fn cors_error(error: &CorsError) -> PyErr {
    match error {
        CorsError::NoOrigin | CorsError::Origin(_) | CorsError::AnyWithCredentials | CorsError::Token(..) => {
            PyValueError::new_err(error.to_string())
        }
    }
}

/// What a mount that cannot be raises (api.md 10.1).
pub(crate) fn mount_error(error: &MountError) -> PyErr {
    match error {
        MountError::Prefix(_)
        | MountError::Directory(_)
        | MountError::Index(_)
        | MountError::Fallback(..)
        | MountError::CacheControl(_) => PyValueError::new_err(error.to_string()),
    }
}

/// Why there are no loops: a wrong count, or a system that gives no descriptor.
pub(crate) fn loop_set_error(error: &LoopSetError) -> PyErr {
    match error {
        LoopSetError::LoopCount { .. } | LoopSetError::SlotCount { .. } => {
            PyValueError::new_err(error.to_string())
        }
        LoopSetError::Signal { .. } => PyRuntimeError::new_err(error.to_string()),
    }
}

/// Why a body is not taken as a form: `HTTPError` with the status of api.md 4.3.
pub(crate) fn form_error(py: Python<'_>, error: &FormError) -> PyErr {
    http_error(py, error.status(), &error.to_string())
}

/// `oxbrook.HTTPError` with this status and detail.
pub(crate) fn http_error(py: Python<'_>, status: u16, detail: &str) -> PyErr {
    let class = py.import("oxbrook._errors").and_then(|errors| errors.getattr(intern!(py, "HTTPError")));
    match class.and_then(|class| class.call1((status, detail))) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// The exception for a head that HTTP forbids: a field is the 500 `bad response header`, a status any 500.
pub(crate) fn bad_head(py: Python<'_>, error: &BadHead) -> PyErr {
    match error {
        BadHead::Status(_) => PyValueError::new_err(error.to_string()),
        BadHead::Name(_) | BadHead::Value(_) | BadHead::Dates | BadHead::Length => {
            bad_header(py, error.to_string())
        }
    }
}

/// `oxbrook._errors.BadResponseHeader` with this text.
pub(crate) fn bad_header(py: Python<'_>, text: String) -> PyErr {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || {
        let class = py.import("oxbrook._errors")?.getattr(intern!(py, "BadResponseHeader"))?;
        Ok::<_, PyErr>(class.cast_into::<PyType>()?.unbind())
    });
    match class {
        Ok(class) => PyErr::from_type(class.bind(py).clone(), text),
        Err(error) => error,
    }
}
