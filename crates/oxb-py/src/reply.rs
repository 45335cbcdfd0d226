//! What a handler returned, as an answer of the engine (api.md 5.1 and 5.2).
//!
//! The types of nearly every return are told apart by the pointer of their type; what is left is tried as
//! a subclass, and then as JSON.
//!
//! Invariant: a value is turned into a whole answer, or into an exception and nothing of it is sent.

use bytes::Bytes;
use oxb_http::reply::{Reply, ReplyHead};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyMapping, PyMemoryView, PyString, PyTuple, PyType};
use std::borrow::Cow;
use std::path::PathBuf;

use crate::{errors, json};

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const BINARY: &str = "application/octet-stream";
/// Content types that are borrowed rather than copied for every answer.
const USUAL: [&str; 5] = [JSON, TEXT, "text/html; charset=utf-8", BINARY, "application/problem+json"];

/// Adds this file's names to the extension module.
pub(crate) fn register(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}

/// An answer of a handler.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// One that is ready.
    Whole(Reply),
    /// One whose body is yet to be asked for.
    Stream {
        /// Status and fields.
        head: ReplyHead,
        /// The async iterable of `bytes` or `str`.
        source: Py<PyAny>,
        /// The `Content-Length` among its headers.
        declared: Option<u64>,
    },
    /// A file that the engine sends.
    File {
        /// Where it is.
        path: PathBuf,
        /// Status and fields beside those of the file itself.
        head: ReplyHead,
        /// What the handler returned.
        file: Py<PyAny>,
    },
}

/// What a route says about its answers.
pub(crate) struct Answers {
    /// The status of a value that has none of its own.
    status: u16,
    /// The class of models among what its handler returns, known from the first one; `None`: it was no model.
    model: PyOnceLock<Option<Py<PyType>>>,
}

impl Answers {
    pub(crate) fn new(status: u16) -> Self {
        Self { status, model: PyOnceLock::new() }
    }

    /// The JSON text of a model of the class that was seen first, by its own serialiser; `None` for other values.
    #[inline]
    fn model_json<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let py = value.py();
        match self.model.get(py) {
            Some(Some(class)) if class.as_ptr().cast() == value.get_type_ptr() => {
                let serializer = value.get_type().getattr(intern!(py, "__pydantic_serializer__"))?;
                let text = serializer.call_method1(intern!(py, "to_json"), (value,))?;
                Ok(Some(text.cast_into()?))
            }
            _ => Ok(None),
        }
    }

    /// Remembers the class of a value that went as JSON, if it is the first.
    fn remember(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = value.py();
        if self.model.get(py).is_none() {
            let class = value.get_type();
            let is_model = py
                .import(intern!(py, "oxbrook._json"))?
                .call_method1(intern!(py, "is_usual_model"), (&class,))?
                .is_truthy()?;
            // Of two loops that are here at once the first stays.
            let _ = self.model.set(py, is_model.then(|| class.unbind()));
        }
        Ok(())
    }
}

/// The answer that `value`, returned by a handler of a route with these answers, stands for.
///
/// # Errors
///
/// `BadResponseHeader` for a header field that HTTP forbids, `TypeError` for a value without a JSON form or a
/// body that is neither bytes nor text, and what code of the value itself raises. All are for
/// `oxbrook._errors.answer`.
pub(crate) fn to_reply(py: Python<'_>, value: &Bound<'_, PyAny>, answers: &Answers) -> PyResult<Outcome> {
    let route_status = answers.status;
    let value_type = value.get_type_ptr();
    if value_type == &raw mut ffi::PyUnicode_Type {
        // SAFETY: the type was just compared with that of `str`.
        let text = unsafe { value.cast_unchecked::<PyString>() };
        let mut body = Vec::new();
        json::utf8(text.as_borrowed(), &mut body)?;
        Ok(whole(route_status, TEXT, body.into()))
    } else if value_type == &raw mut ffi::PyBytes_Type {
        // SAFETY: the type was just compared with that of `bytes`.
        let bytes = unsafe { value.cast_unchecked::<PyBytes>() };
        Ok(whole(route_status, BINARY, Bytes::copy_from_slice(bytes.as_bytes())))
    } else if value_type == &raw mut ffi::PyDict_Type || value_type == &raw mut ffi::PyList_Type {
        json_value(value, route_status)
    } else if value.is_none() {
        let status = if route_status == 200 { 204 } else { route_status };
        Ok(whole(status, "text/plain", Bytes::new()))
    } else if let Some(text) = answers.model_json(value)? {
        Ok(whole(route_status, JSON, Bytes::copy_from_slice(text.as_bytes())))
    } else {
        by_class(py, value, answers)
    }
}

fn by_class(py: Python<'_>, value: &Bound<'_, PyAny>, answers: &Answers) -> PyResult<Outcome> {
    let route_status = answers.status;
    let classes = Classes::get(py)?;
    // `is_instance` of the exact type answers at once.
    if value.is_instance(classes.response.bind(py))? {
        response(value)
    } else if value.is_instance(classes.stream.bind(py))? {
        stream(value)
    } else if value.is_instance(classes.file.bind(py))? {
        let path = value.getattr(intern!(py, "path"))?.extract()?;
        let (head, _) = head_of(value)?;
        Ok(Outcome::File { path, head, file: value.clone().unbind() })
    } else if value.is_instance(classes.reply.bind(py))? {
        reply(py, value, answers)
    } else if let Some(body) = body_of(value)? {
        Ok(whole(route_status, content_type_of(value), body))
    } else {
        answers.remember(value)?;
        json_value(value, route_status)
    }
}

/// A `Reply`: what its value stands for, under its own status and with its headers.
fn reply(py: Python<'_>, value: &Bound<'_, PyAny>, answers: &Answers) -> PyResult<Outcome> {
    let inner = value.getattr(intern!(py, "value"))?;
    if inner.is_instance(Classes::get(py)?.reply.bind(py))? {
        return Err(PyTypeError::new_err("the value of a Reply is another Reply"));
    }
    let mut outcome = to_reply(py, &inner, answers)?;
    let status: Option<u16> = value.getattr(intern!(py, "status"))?.extract()?;
    let headers = value.getattr(intern!(py, "headers"))?;
    let mut added = ReplyHead { status: 200, content_type: None, headers: Vec::new() };
    let mut length = None;
    if !headers.is_none() {
        fields(&headers, &mut added, &mut length)?;
    }
    let head = match &mut outcome {
        Outcome::Whole(reply) => &mut reply.head,
        Outcome::File { head, .. } => head,
        Outcome::Stream { head, declared, .. } => {
            *declared = length.or(*declared);
            head
        }
    };
    head.status = status.unwrap_or(head.status);
    let is_new = |name: &str| added.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    head.headers.retain(|(name, _)| name.eq_ignore_ascii_case("set-cookie") || !is_new(name));
    if is_new("content-type") {
        head.content_type = None;
    }
    head.headers.append(&mut added.headers);
    head.check().map_err(|error| errors::bad_head(py, &error))?;
    Ok(outcome)
}

/// The classes of `oxbrook._responses`, looked up once.
struct Classes {
    response: Py<PyType>,
    stream: Py<PyType>,
    file: Py<PyType>,
    reply: Py<PyType>,
}

impl Classes {
    fn get(py: Python<'_>) -> PyResult<&Self> {
        static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();
        CLASSES.get_or_try_init(py, || {
            let module = py.import("oxbrook._responses")?;
            Ok(Self {
                response: module.getattr("Response")?.cast_into()?.unbind(),
                stream: module.getattr("Stream")?.cast_into()?.unbind(),
                file: module.getattr("File")?.cast_into()?.unbind(),
                reply: module.getattr("Reply")?.cast_into()?.unbind(),
            })
        })
    }
}

fn whole(status: u16, content_type: &'static str, body: Bytes) -> Outcome {
    let head = ReplyHead { status, content_type: Some(Cow::Borrowed(content_type)), headers: Vec::new() };
    Outcome::Whole(Reply { head, body })
}

fn content_type_of(body: &Bound<'_, PyAny>) -> &'static str {
    if body.is_instance_of::<PyString>() { TEXT } else { BINARY }
}

fn json_value(value: &Bound<'_, PyAny>, status: u16) -> PyResult<Outcome> {
    let mut body = Vec::with_capacity(128);
    json::encode(value, &mut body)?;
    Ok(whole(status, JSON, body.into()))
}

/// Text as UTF-8 or bytes as they are; `None` when `value` is neither.
///
/// They are copied: a Python object kept alive by a body would be dropped on an I/O thread, which never
/// attaches to the interpreter (invariant 1).
fn body_of(value: &Bound<'_, PyAny>) -> PyResult<Option<Bytes>> {
    let body = if let Ok(text) = value.cast::<PyString>() {
        let mut utf8 = Vec::new();
        json::utf8(text.as_borrowed(), &mut utf8)?;
        utf8.into()
    } else if let Ok(bytes) = value.cast::<PyBytes>() {
        Bytes::copy_from_slice(bytes.as_bytes())
    } else if let Ok(bytes) = value.cast::<PyByteArray>() {
        bytes.to_vec().into()
    } else if let Ok(view) = value.cast::<PyMemoryView>() {
        let bytes = view.call_method0(intern!(value.py(), "tobytes"))?;
        Bytes::copy_from_slice(bytes.cast::<PyBytes>()?.as_bytes())
    } else {
        return Ok(None);
    };
    Ok(Some(body))
}

#[cold]
fn bad_body(body: &Bound<'_, PyAny>) -> PyErr {
    let name = body.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("a response body is bytes or str, not {name}"))
}

fn response(value: &Bound<'_, PyAny>) -> PyResult<Outcome> {
    let body = value.getattr(intern!(value.py(), "body"))?;
    let Some(bytes) = body_of(&body)? else { return Err(bad_body(&body)) };
    let (head, _) = head_of(value)?;
    Ok(Outcome::Whole(Reply { head, body: bytes }))
}

fn stream(value: &Bound<'_, PyAny>) -> PyResult<Outcome> {
    let source = value.getattr(intern!(value.py(), "source"))?.unbind();
    let (head, declared) = head_of(value)?;
    Ok(Outcome::Stream { head, source, declared })
}

/// Status, content type and fields of a `Response` or `Stream`, and the `Content-Length` among the fields.
fn head_of(value: &Bound<'_, PyAny>) -> PyResult<(ReplyHead, Option<u64>)> {
    let py = value.py();
    let status: u16 = value.getattr(intern!(py, "status"))?.extract()?;
    let given = value.getattr(intern!(py, "content_type"))?;
    let content_type = if given.is_none() { None } else { Some(content_type(&given)?) };
    let mut head = ReplyHead { status, content_type, headers: Vec::new() };
    let mut declared = None;
    let headers = value.getattr(intern!(py, "headers"))?;
    if headers.cast_exact::<PyDict>().is_ok_and(PyDictMethods::is_empty) {
        // The usual case, and nothing is left to check but the content type.
        if matches!(head.content_type, None | Some(Cow::Borrowed(_))) && (200..=599).contains(&status) {
            return Ok((head, None));
        }
    } else {
        fields(&headers, &mut head, &mut declared)?;
    }
    head.check().map_err(|error| errors::bad_head(py, &error))?;
    Ok((head, declared))
}

/// Adds the fields of a mapping of headers; a length goes apart, and a content type in front of that of the value.
fn fields(headers: &Bound<'_, PyAny>, head: &mut ReplyHead, declared: &mut Option<u64>) -> PyResult<()> {
    let py = headers.py();
    // A list of the items, so that no change of the mapping by other code is seen in the middle.
    for item in headers.cast::<PyMapping>()?.items()? {
        let (name, field): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        let name = header_text(&name)?;
        let name = String::from_utf8(name).map_err(|_| errors::bad_header(py, format!("name {item:?}")))?;
        if name.eq_ignore_ascii_case("content-type") {
            head.content_type = None;
        }
        if let Some(values) = field.cast::<PyList>().ok().map(PyListMethods::to_tuple) {
            each_value(&name, &values, head, declared)?;
        } else if let Ok(values) = field.cast::<PyTuple>() {
            each_value(&name, values, head, declared)?;
        } else {
            push_field(&name, &field, head, declared)?;
        }
    }
    Ok(())
}

fn each_value(
    name: &str,
    values: &Bound<'_, PyTuple>,
    head: &mut ReplyHead,
    declared: &mut Option<u64>,
) -> PyResult<()> {
    values.iter().try_for_each(|value| push_field(name, &value, head, declared))
}

fn push_field(
    name: &str,
    value: &Bound<'_, PyAny>,
    head: &mut ReplyHead,
    declared: &mut Option<u64>,
) -> PyResult<()> {
    let text = header_text(value)?;
    if name.eq_ignore_ascii_case("content-length") {
        let given = length(&text).ok_or_else(|| {
            errors::bad_header(value.py(), format!("Content-Length is no length: {value:?}"))
        })?;
        if declared.replace(given).is_some_and(|earlier| earlier != given) {
            return Err(errors::bad_header(value.py(), "two different values of Content-Length".to_owned()));
        }
        return Ok(());
    }
    head.headers.push((Cow::Owned(name.to_owned()), text.into()));
    Ok(())
}

/// RFC 9110 section 8.6: digits alone.
fn length(text: &[u8]) -> Option<u64> {
    let is_digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_digits)?.parse().ok()
}

/// A field name or value as Latin-1, which RFC 9110 section 5.5 calls the historical charset of fields.
fn header_text(text: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let latin1 = text.cast::<PyString>().ok().and_then(|text| json::latin1(text));
    latin1.ok_or_else(|| errors::bad_header(text.py(), format!("not text in Latin-1: {text:?}")))
}

fn content_type(given: &Bound<'_, PyAny>) -> PyResult<Cow<'static, str>> {
    let text = given.cast::<PyString>().map_err(|_| {
        errors::bad_header(given.py(), format!("content_type is text or None, not {given:?}"))
    })?;
    let text = text.to_str()?;
    Ok(match USUAL.iter().find(|usual| **usual == text) {
        Some(usual) => Cow::Borrowed(*usual),
        None => Cow::Owned(text.to_owned()),
    })
}
