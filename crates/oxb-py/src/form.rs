//! The body of a request as the parts of a form. What becomes of them is Python's: `_forms.py`.

use oxb_http::form::{self, Content};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::errors;
use crate::request::PyRequest;

/// Adds this file's names to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(parse_form, module)?)
}

/// The parts of a form in order: `(name, text)`, or `(name, filename, content_type, data)` of a file.
#[pyfunction]
fn parse_form<'py>(
    py: Python<'py>,
    request: &Bound<'py, PyRequest>,
    max_parts: usize,
) -> PyResult<Bound<'py, PyList>> {
    let (content_type, body) = request.get().content(py)?;
    let parts =
        form::parse(content_type, &body, max_parts).map_err(|error| errors::form_error(py, &error))?;
    let list = PyList::empty(py);
    for part in parts {
        let name = PyString::new(py, &part.name);
        let made = match part.content {
            Content::Text(text) => (name, text).into_pyobject(py)?,
            Content::File { filename, content_type, data } => {
                (name, filename, content_type, PyBytes::new(py, &data)).into_pyobject(py)?
            }
        };
        let made: Bound<'py, PyTuple> = made;
        list.append(made)?;
    }
    Ok(list)
}
