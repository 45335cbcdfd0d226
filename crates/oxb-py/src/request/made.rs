//! The parts of a `Request` made by hand, for tests of handlers and for code that calls one.
//!
//! Invariant: its fields are in the form a request of the engine has: a method in upper case, an address that
//! parsed, headers that HTTP allows.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyString};
use std::net::IpAddr;

use crate::json;

#[derive(Debug)]
pub(super) struct Made {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) client: Option<IpAddr>,
}

impl Made {
    pub(super) fn new(
        method: &str,
        path: &str,
        query: Option<String>,
        headers: Option<&Bound<'_, PyAny>>,
        client: Option<&str>,
    ) -> PyResult<Self> {
        let client = client.map(address).transpose()?;
        let mut made = Self {
            method: method.to_ascii_uppercase(),
            path: path.to_owned(),
            query,
            headers: Vec::new(),
            client,
        };
        if let Some(headers) = headers {
            for pair in headers.try_iter()? {
                made.headers.extend(field(&pair?));
            }
        }
        Ok(made)
    }

    pub(super) fn header(&self, name: &str) -> Option<&[u8]> {
        let mut named = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.as_slice())
    }
}

/// The bytes of `body`: `bytes`, `bytearray`, or none for `None`.
pub(super) fn body(py: Python<'_>, body: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyBytes>> {
    let Some(body) = body else { return Ok(PyBytes::new(py, b"").unbind()) };
    if let Ok(bytes) = body.cast_exact::<PyBytes>() {
        return Ok(bytes.clone().unbind());
    }
    if let Ok(bytes) = body.cast::<PyByteArray>() {
        return Ok(PyBytes::new(py, &bytes.to_vec()).unbind());
    }
    if let Ok(bytes) = body.cast::<PyBytes>() {
        return Ok(PyBytes::new(py, bytes.as_bytes()).unbind());
    }
    let name = body.get_type().name()?;
    Err(PyTypeError::new_err(format!("the body of a Request is bytes, not {name}")))
}

fn address(client: &str) -> PyResult<IpAddr> {
    client.parse().map_err(|_| PyValueError::new_err(format!("client is not an IP address: {client:?}")))
}

/// A header field in the form it is kept in; `None` for what HTTP forbids (RFC 9110 sections 5.1 and 5.5) or
/// what is no pair of texts.
fn field(pair: &Bound<'_, PyAny>) -> Option<(String, Vec<u8>)> {
    let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract().ok()?;
    let (name, value) = (latin1(&name)?, latin1(&value)?);
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let is_bad = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
    if name.is_empty() || !name.iter().all(is_token) || value.iter().any(is_bad) {
        return None;
    }
    let name = String::from_utf8(name).ok()?;
    Some((name.to_ascii_lowercase(), value.trim_ascii().to_vec()))
}

fn latin1(text: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    match text.cast::<PyBytes>() {
        Ok(bytes) => Some(bytes.as_bytes().to_vec()),
        Err(_) => json::latin1(text.cast::<PyString>().ok()?),
    }
}
