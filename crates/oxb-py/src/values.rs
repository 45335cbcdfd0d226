//! Parameters, coerced in Rust, as Python objects (api.md 2.5).
//!
//! Invariant 6 of ARCHITECTURE.md: what Rust validated, Python's constructors accept; so an error here is
//! one of memory or of a replaced constructor, never of a client's making.

use oxb_http::params::Value;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyInt, PyList, PyString, PyType, PyTzInfo,
};

/// Adds this file's names to the extension module.
pub(crate) fn register(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}

/// How the values of one parameter become Python objects; made when its route is registered.
#[derive(Debug)]
pub(crate) struct Converter {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Made by the interpreter's own C constructors.
    BuiltIn,
    /// Made by calling a class: `uuid.UUID`, `decimal.Decimal`.
    Class(Py<PyType>),
    /// The members of an enum or the values of a `Literal`, in the order the router knows them.
    Choice(Vec<Py<PyAny>>),
}

impl Converter {
    /// A converter for a parameter declared as `kind` (the names of `Param.kind`) with these choices.
    ///
    /// # Errors
    ///
    /// `ValueError` for another kind, or for a choice without choices.
    pub(crate) fn new(py: Python<'_>, kind: &str, choices: Option<Vec<Py<PyAny>>>) -> PyResult<Self> {
        let kind = match (kind, choices) {
            ("str" | "int" | "float" | "bool" | "date" | "datetime", None) => Kind::BuiltIn,
            ("uuid", None) => Kind::Class(py.import("uuid")?.getattr("UUID")?.cast_into()?.unbind()),
            ("decimal", None) => Kind::Class(py.import("decimal")?.getattr("Decimal")?.cast_into()?.unbind()),
            ("enum" | "literal", Some(members)) => Kind::Choice(members),
            _ => return Err(PyValueError::new_err(format!("not a kind of parameter: {kind}"))),
        };
        Ok(Self { kind })
    }
}

/// The Python object of a coerced value; `None` for an absent one (a default is its caller's affair).
pub(crate) fn to_python(py: Python<'_>, converter: &Converter, value: &Value) -> PyResult<Py<PyAny>> {
    match value {
        Value::Absent => Ok(py.None()),
        Value::Str(text) => Ok(PyString::new(py, text).into_any().unbind()),
        Value::Int(number) => Ok(PyInt::new(py, *number).into_any().unbind()),
        Value::Float(number) => Ok(PyFloat::new(py, *number).into_any().unbind()),
        Value::Bool(truth) => Ok(PyBool::new(py, *truth).to_owned().into_any().unbind()),
        Value::Uuid(bits) => {
            let named = PyDict::new(py);
            named.set_item(intern!(py, "int"), *bits)?;
            class(converter)?.bind(py).call((), Some(&named)).map(Bound::unbind)
        }
        Value::Decimal(text) => class(converter)?.bind(py).call1((text,)).map(Bound::unbind),
        Value::Date { year, month, day } => {
            PyDate::new(py, i32::from(*year), *month, *day).map(|date| date.into_any().unbind())
        }
        Value::DateTime { year, month, day, hour, minute, second, microsecond, offset_seconds } => {
            let zone = offset_seconds.map(|seconds| zone(py, seconds)).transpose()?;
            let date = (i32::from(*year), *month, *day);
            PyDateTime::new(py, date.0, date.1, date.2, *hour, *minute, *second, *microsecond, zone.as_ref())
                .map(|moment| moment.into_any().unbind())
        }
        Value::Choice(index) => match &converter.kind {
            Kind::Choice(members) => match members.get(usize::from(*index)) {
                Some(member) => Ok(member.clone_ref(py)),
                None => Err(mismatch()),
            },
            Kind::BuiltIn | Kind::Class(_) => Err(mismatch()),
        },
        Value::List(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(to_python(py, converter, item)?)?;
            }
            Ok(list.into_any().unbind())
        }
    }
}

fn class(converter: &Converter) -> PyResult<&Py<PyType>> {
    match &converter.kind {
        Kind::Class(class) => Ok(class),
        Kind::BuiltIn | Kind::Choice(_) => Err(mismatch()),
    }
}

/// The route's converters and its declaration in the router were not made from the same parameters.
#[cold]
fn mismatch() -> PyErr {
    PyRuntimeError::new_err("a parameter was coerced to another kind than it is converted from")
}

fn zone(py: Python<'_>, offset_seconds: i32) -> PyResult<Bound<'_, PyTzInfo>> {
    if offset_seconds == 0 {
        return PyTzInfo::utc(py).map(|zone| zone.to_owned());
    }
    PyTzInfo::fixed_offset(py, PyDelta::new(py, 0, offset_seconds, 0, true)?)
}
