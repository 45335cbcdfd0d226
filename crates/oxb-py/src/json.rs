//! Python values to JSON text: api.md 5.3.
//!
//! The exact plain types (`None bool int float str dict list tuple`) are written here, told apart by
//! the pointer of their type. Any other value is taken apart one level at a time by `plain` of
//! `oxbrook/_json.py`, and what comes back is written here again, so no Python frame is left standing
//! while its parts are encoded.
//!
//! Invariant: whatever the structure (cyclic, endless, changed by other code meanwhile), encoding ends
//! with valid JSON or with an exception; it never recurses deeper than `MAX_DEPTH`, and no borrowed
//! pointer is used after Python code could have run.

mod text;

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use pyo3::{Borrowed, intern};

pub(crate) use text::{latin1, utf8};

/// Levels of nesting before a structure counts as too deep. A level takes under 1 KiB of stack, and
/// the smallest stack a Python thread usually has is 512 KiB; a dataclass counts as two levels.
const MAX_DEPTH: u32 = 400;

/// Append the JSON text of `value` to `out`.
///
/// # Errors
///
/// `TypeError` names the type that has no JSON form; `ValueError` for a structure that contains
/// itself or is too deep, and for text that UTF-8 cannot carry. What `out` then holds is of no use.
pub(crate) fn encode(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    let mut encoder = Encoder { py: value.py(), out };
    encoder.value(value.as_borrowed(), &Level { value: std::ptr::null_mut(), depth: 0, above: None })
}

/// The JSON text of `value`, in UTF-8.
#[pyfunction]
fn encode_json<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let mut out = Vec::with_capacity(128);
    encode(value, &mut out)?;
    Ok(PyBytes::new(value.py(), &out))
}

/// Adds this file's names to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(encode_json, module)?)
}

/// One level of nesting: the containers being written, innermost first.
struct Level<'a> {
    value: *mut ffi::PyObject,
    depth: u32,
    above: Option<&'a Level<'a>>,
}

impl<'a> Level<'a> {
    fn enter(&'a self, value: &Bound<'_, PyAny>) -> PyResult<Level<'a>> {
        if self.depth == MAX_DEPTH {
            return Err(self.too_deep(value));
        }
        Ok(Level { value: value.as_ptr(), depth: self.depth + 1, above: Some(self) })
    }

    #[cold]
    fn too_deep(&self, value: &Bound<'_, PyAny>) -> PyErr {
        let mut level = Some(self);
        while let Some(at) = level {
            if at.value == value.as_ptr() {
                let name = type_name(value);
                return PyValueError::new_err(format!("cannot encode as JSON: a {name} contains itself"));
            }
            level = at.above;
        }
        PyValueError::new_err(format!("cannot encode as JSON: nested deeper than {MAX_DEPTH} levels"))
    }
}

struct Encoder<'py, 'out> {
    py: Python<'py>,
    out: &'out mut Vec<u8>,
}

impl<'py> Encoder<'py, '_> {
    fn value(&mut self, value: Borrowed<'_, 'py, PyAny>, above: &Level<'_>) -> PyResult<()> {
        if self.scalar(value)? {
            return Ok(());
        }
        // Held from here on: encoding what is inside may run Python code, which may take the value
        // out of the container it was borrowed from.
        let held = value.to_owned();
        let level = above.enter(&held)?;
        let value_type = type_of(held.as_borrowed());
        if value_type == &raw mut ffi::PyDict_Type {
            // SAFETY: the type was just compared with that of `dict`.
            self.dict(unsafe { held.cast_unchecked::<PyDict>() }, &level)
        } else if value_type == &raw mut ffi::PyList_Type {
            // SAFETY: the type was just compared with that of `list`.
            self.list(unsafe { held.cast_unchecked::<PyList>() }, &level)
        } else if value_type == &raw mut ffi::PyTuple_Type {
            // SAFETY: the type was just compared with that of `tuple`.
            self.tuple(unsafe { held.cast_unchecked::<PyTuple>() }, &level)
        } else {
            let plain = plain(&held)?;
            if type_of(plain.as_borrowed()) == &raw mut ffi::PyBytes_Type {
                // SAFETY: the type was just compared with that of `bytes`.
                self.out.extend_from_slice(unsafe { plain.cast_unchecked::<PyBytes>() }.as_bytes());
                return Ok(());
            }
            self.value(plain.as_borrowed(), &level)
        }
    }

    /// Write a value without parts; false when it is not one. Runs no Python code.
    #[inline]
    fn scalar(&mut self, value: Borrowed<'_, 'py, PyAny>) -> PyResult<bool> {
        let value_type = type_of(value);
        if value_type == &raw mut ffi::PyUnicode_Type {
            // SAFETY: the type was just compared with that of `str`.
            text::quoted(unsafe { value.cast_unchecked::<PyString>() }, self.out)?;
        } else if value_type == &raw mut ffi::PyLong_Type {
            self.int(value)?;
        } else if value.is_none() {
            self.out.extend_from_slice(b"null");
        } else if value_type == &raw mut ffi::PyBool_Type {
            self.out.extend_from_slice(if is_true(value) { b"true" } else { b"false" });
        } else if value_type == &raw mut ffi::PyFloat_Type {
            let number = float_of(value);
            if number.is_finite() {
                self.out.extend_from_slice(zmij::Buffer::new().format_finite(number).as_bytes());
            } else {
                self.out.extend_from_slice(b"null");
            }
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn int(&mut self, value: Borrowed<'_, 'py, PyAny>) -> PyResult<()> {
        let mut overflow = 0;
        // SAFETY: `py` proves this thread is attached, and `value` is an exact int (each caller
        // compared its type), so the call converts it and can only report an overflow.
        let small = unsafe { ffi::PyLong_AsLongLongAndOverflow(value.as_ptr(), &mut overflow) };
        if overflow == 0 {
            self.out.extend_from_slice(itoa::Buffer::new().format(small).as_bytes());
            return Ok(());
        }
        // `str()` first; past the interpreter's limit on digits it refuses, and ours does not.
        let held = value.to_owned();
        let digits = match held.str() {
            Ok(digits) => digits,
            Err(_) => json_module(self.py)?.call_method1(intern!(self.py, "digits"), (held,))?.cast_into()?,
        };
        utf8(digits.as_borrowed(), self.out)
    }

    fn dict(&mut self, dict: &Bound<'py, PyDict>, level: &Level<'_>) -> PyResult<()> {
        // Without a GIL the lock keeps other threads off between `PyDict_Next` and the moment its
        // borrowed pointers are owned or written. It may be let go while Python code runs, hence
        // the check of the length; `PyDict_Next` itself stands any change.
        with_critical_section(dict.as_any(), || {
            let length = dict.len();
            let mut position = 0;
            let mut key = std::ptr::null_mut();
            let mut value = std::ptr::null_mut();
            self.out.push(b'{');
            // SAFETY: `dict` is a live dict, `position` is only changed by the call, and the two
            // pointers are written whenever it returns non-zero.
            while unsafe { ffi::PyDict_Next(dict.as_ptr(), &mut position, &mut key, &mut value) } != 0 {
                // SAFETY: both were just given by `PyDict_Next` and stay alive while the dict holds
                // them: no Python code runs before they are written or owned (`value`, `own_key`).
                let (key, value) =
                    unsafe { (Borrowed::from_ptr(self.py, key), Borrowed::from_ptr(self.py, value)) };
                if type_of(key) == &raw mut ffi::PyUnicode_Type {
                    // SAFETY: the type was just compared with that of `str`.
                    text::quoted(unsafe { key.cast_unchecked::<PyString>() }, self.out)?;
                    self.out.push(b':');
                    self.value(value, level)?;
                } else {
                    let (key, value) = (key.to_owned(), value.to_owned());
                    self.key(&key, level)?;
                    self.out.push(b':');
                    self.value(value.as_borrowed(), level)?;
                }
                self.out.push(b',');
                if dict.len() != length {
                    return Err(PyRuntimeError::new_err("dict changed size while it was encoded as JSON"));
                }
            }
            self.close(b'}');
            Ok(())
        })
    }

    fn list(&mut self, list: &Bound<'py, PyList>, level: &Level<'_>) -> PyResult<()> {
        // The lock as in `dict`. The length is read again for every item, since a list may shrink.
        with_critical_section(list.as_any(), || {
            self.out.push(b'[');
            let mut index = 0;
            // SAFETY: `list` is a live list and this thread is attached; the index is checked
            // against the length right before the item is borrowed, with nothing run in between.
            while unsafe { index < ffi::PyList_GET_SIZE(list.as_ptr()) } {
                // SAFETY: as above; the item is written or owned (`value`) before Python code runs.
                let item = unsafe { Borrowed::from_ptr(self.py, ffi::PyList_GET_ITEM(list.as_ptr(), index)) };
                self.value(item, level)?;
                self.out.push(b',');
                index += 1;
            }
            self.close(b']');
            Ok(())
        })
    }

    fn tuple(&mut self, tuple: &Bound<'py, PyTuple>, level: &Level<'_>) -> PyResult<()> {
        self.out.push(b'[');
        for item in tuple.iter_borrowed() {
            self.value(item, level)?;
            self.out.push(b',');
        }
        self.close(b']');
        Ok(())
    }

    /// Turn the comma after the last item into the closing bracket.
    fn close(&mut self, bracket: u8) {
        match self.out.last_mut() {
            Some(last) if *last == b',' => *last = bracket,
            _ => self.out.push(bracket),
        }
    }

    /// Write the text of an object key that is not an exact `str`, in quotes.
    fn key(&mut self, key: &Bound<'py, PyAny>, above: &Level<'_>) -> PyResult<()> {
        let level = above.enter(key)?;
        let key_type = type_of(key.as_borrowed());
        if key_type == &raw mut ffi::PyUnicode_Type {
            // SAFETY: the type was just compared with that of `str`.
            return text::quoted(unsafe { key.cast_unchecked::<PyString>() }.as_borrowed(), self.out);
        }
        if key_type == &raw mut ffi::PyLong_Type {
            self.out.push(b'"');
            self.int(key.as_borrowed())?;
            self.out.push(b'"');
        } else if key_type == &raw mut ffi::PyBool_Type {
            let text: &[u8] = if is_true(key.as_borrowed()) { b"\"true\"" } else { b"\"false\"" };
            self.out.extend_from_slice(text);
        } else if key.is_none() {
            self.out.extend_from_slice(b"\"None\"");
        } else if key_type == &raw mut ffi::PyFloat_Type {
            self.out.push(b'"');
            self.out.extend_from_slice(zmij::Buffer::new().format(float_of(key.as_borrowed())).as_bytes());
            self.out.push(b'"');
        } else if !is_container(key_type) {
            let plain = plain(key)?;
            let plain_type = type_of(plain.as_borrowed());
            // `bytes` are the finished text of a model.
            if is_container(plain_type) || plain_type == &raw mut ffi::PyBytes_Type {
                return Err(key_refused(key));
            }
            return self.key(&plain, &level);
        } else {
            return Err(key_refused(key));
        }
        Ok(())
    }
}

#[inline]
fn type_of(value: Borrowed<'_, '_, PyAny>) -> *mut ffi::PyTypeObject {
    // SAFETY: a `Borrowed` is a live object.
    unsafe { ffi::Py_TYPE(value.as_ptr()) }
}

#[inline]
fn is_true(value: Borrowed<'_, '_, PyAny>) -> bool {
    // SAFETY: only the address of the singleton is taken.
    value.as_ptr() == unsafe { ffi::Py_True() }
}

#[inline]
fn float_of(value: Borrowed<'_, '_, PyAny>) -> f64 {
    // SAFETY: each caller compared the type with that of `float`.
    unsafe { ffi::PyFloat_AS_DOUBLE(value.as_ptr()) }
}

/// Types whose JSON cannot be a key.
fn is_container(key_type: *mut ffi::PyTypeObject) -> bool {
    key_type == &raw mut ffi::PyTuple_Type
        || key_type == &raw mut ffi::PyDict_Type
        || key_type == &raw mut ffi::PyList_Type
}

#[cold]
fn key_refused(key: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("cannot encode as JSON: an object key of type {}", type_name(key)))
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().fully_qualified_name().map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

fn json_module<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
    static MODULE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    Ok(MODULE
        .get_or_try_init(py, || py.import("oxbrook._json").map(|module| module.into_any().unbind()))?
        .bind(py))
}

/// One level of a value that is not of a plain type: a value of one, or the JSON text as `bytes`.
fn plain<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static PLAIN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let plain =
        PLAIN.get_or_try_init(py, || json_module(py)?.getattr(intern!(py, "plain")).map(Bound::unbind))?;
    plain.bind(py).call1((value,))
}
