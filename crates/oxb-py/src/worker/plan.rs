//! How a handler is called, compiled once at registration.
//!
//! Every parameter is given on every call: positional ones in signature order, keyword-only ones by a tuple of
//! names made once, so that a call is one vectorcall without a dictionary. A `Plan` holds Python objects: it
//! lives in tables of the loops' side and is never touched by an I/O thread (invariant 1 of ARCHITECTURE.md).

use oxb_http::exchange::Exchange;
use oxb_http::head::Head;
use oxb_http::params::Value;
use oxb_http::request::Request;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use super::site::Site;
use crate::reply::Answers;
use crate::request::PyRequest;
use crate::values::{Converter, to_python};

/// How a handler runs, api.md 2.3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A coroutine function, on its loop.
    Async,
    /// A plain function on the pool.
    Blocking,
    /// A plain function on the loop.
    Inline,
}

/// The request of a job, as far as it was shown to Python.
pub(crate) enum Asked {
    /// Not at all; `None` after a failure to show it.
    Raw(Option<Box<Request>>),
    /// As the object the handler got.
    Shown(Py<PyRequest>),
}

impl Asked {
    /// The object, made if need be.
    #[inline]
    pub(crate) fn show(&mut self, py: Python<'_>, site: &Site) -> PyResult<&Py<PyRequest>> {
        if let Self::Raw(request) = self {
            let request =
                request.take().ok_or_else(|| PyRuntimeError::new_err("the request was not shown before"))?;
            *self = Self::Shown(PyRequest::new(py, *request, site)?);
        }
        match self {
            Self::Shown(request) => Ok(request),
            Self::Raw(_) => Err(PyRuntimeError::new_err("the request was shown just now")),
        }
    }

    /// Whether a client that leaves now cancels what runs: nobody was told that its handler has ended.
    pub(crate) fn may_cancel(&self) -> bool {
        match self {
            Self::Raw(_) => true,
            Self::Shown(request) => request.get().progress().may_cancel(),
        }
    }

    /// Whether something is to run after the response, which goes out now.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        match self {
            Self::Raw(_) => false,
            Self::Shown(request) => request.get().progress().close(),
        }
    }

    /// Tells the exchange when the answer is that to an exception which nobody handled.
    #[inline]
    pub(crate) fn tell_failure(&self, exchange: &Exchange) {
        if let Self::Shown(request) = self
            && request.get().progress().is_unhandled()
        {
            exchange.fail();
        }
    }

    /// There is no response to run anything after.
    pub(crate) fn drop_work(&self) {
        if let Self::Shown(request) = self {
            request.get().progress().drop_all();
        }
    }

    /// The head of the request; `None` after a failure to show it, and of one that was made by hand.
    pub(crate) fn head(&self) -> Option<&Head> {
        match self {
            Self::Raw(request) => request.as_ref().map(|request| request.head()),
            Self::Shown(request) => request.get().head(),
        }
    }

    /// The whole body.
    fn body(&self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        match self {
            Self::Raw(Some(request)) => Ok(PyBytes::new(py, request.body()).unbind()),
            Self::Raw(None) => Ok(PyBytes::new(py, b"").unbind()),
            Self::Shown(request) => request.get().body(py),
        }
    }

    /// The coerced parameters; once.
    fn take_values(&mut self) -> Vec<Value> {
        match self {
            Self::Raw(Some(request)) => request.take_values(),
            _ => Vec::new(),
        }
    }
}

/// What a handler takes.
pub(crate) enum Argument {
    /// The request.
    Request,
    /// A coerced value by its place in the request's values; the default where it was not given.
    Value { index: usize, converter: Converter, default: Py<PyAny> },
    /// The body, made into a model.
    Model { validate: Py<PyAny>, refuse: Py<PyAny> },
}

/// How a handler is called: what by place, then what by name.
pub(crate) struct Call<'a> {
    pub(crate) handler: Py<PyAny>,
    pub(crate) kind: Kind,
    pub(crate) positional: Vec<Argument>,
    pub(crate) named: Vec<(&'a str, Argument)>,
}

/// One registered handler.
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) answers: Answers,
    pub(crate) cancels_on_disconnect: bool,
    /// Its name, as Tasks show it.
    pub(crate) name: Py<PyString>,
    handler: Py<PyAny>,
    arguments: Vec<Argument>,
    /// The names of those at the end that are given by name.
    keywords: Option<Py<PyTuple>>,
}

/// What is raised in place of the error of a model's validator.
#[cold]
fn refused(py: Python<'_>, refuse: &Py<PyAny>, error: PyErr) -> PyErr {
    refuse.bind(py).call1((error.into_value(py),)).map_or_else(|error| error, PyErr::from_value)
}

impl Plan {
    /// # Errors
    /// When the interpreter is out of memory.
    pub(crate) fn new(
        py: Python<'_>,
        call: Call<'_>,
        status: u16,
        cancels_on_disconnect: bool,
        name: &str,
    ) -> PyResult<Self> {
        let Call { handler, kind, mut positional, named } = call;
        let (names, by_name): (Vec<&str>, Vec<Argument>) = named.into_iter().unzip();
        positional.extend(by_name);
        let keywords = if names.is_empty() {
            None
        } else {
            Some(PyTuple::new(py, names.iter().map(|name| PyString::intern(py, name)))?.unbind())
        };
        Ok(Self {
            kind,
            answers: Answers::new(status),
            cancels_on_disconnect,
            name: PyString::new(py, name).unbind(),
            handler,
            arguments: positional,
            keywords,
        })
    }

    /// Calls the handler. The caller has entered the job's context.
    #[inline]
    pub(crate) fn call<'py>(
        &self,
        py: Python<'py>,
        site: &Site,
        asked: &mut Asked,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.arguments.as_slice() {
            // SAFETY: `py` proves the thread is attached, `self` holds the handler; null is an error set.
            [] => unsafe {
                Bound::from_owned_ptr_or_err(py, ffi::PyObject_CallNoArgs(self.handler.as_ptr()))
            },
            [Argument::Request] if self.keywords.is_none() => {
                let request = asked.show(py, site)?;
                // SAFETY: as above; `asked` holds the request for the call.
                unsafe {
                    let called = ffi::PyObject_CallOneArg(self.handler.as_ptr(), request.as_ptr());
                    Bound::from_owned_ptr_or_err(py, called)
                }
            }
            arguments => self.call_with(py, site, asked, arguments),
        }
    }

    fn call_with<'py>(
        &self,
        py: Python<'py>,
        site: &Site,
        asked: &mut Asked,
        arguments: &[Argument],
    ) -> PyResult<Bound<'py, PyAny>> {
        let values = asked.take_values();
        let mut objects: Vec<Py<PyAny>> = Vec::with_capacity(arguments.len());
        for argument in arguments {
            objects.push(match argument {
                Argument::Request => asked.show(py, site)?.clone_ref(py).into_any(),
                Argument::Value { index, converter, default } => match values.get(*index) {
                    None | Some(Value::Absent) => default.clone_ref(py),
                    Some(value) => to_python(py, converter, value)?,
                },
                Argument::Model { validate, refuse } => match validate.call1(py, (asked.body(py)?,)) {
                    Ok(model) => model,
                    Err(error) => return Err(refused(py, refuse, error)),
                },
            });
        }
        let names = self.keywords.as_ref().map_or(std::ptr::null_mut(), |names| names.as_ptr());
        let named = self.keywords.as_ref().map_or(0, |names| names.bind(py).len());
        // SAFETY: `Py<PyAny>` is one object pointer, so the vector is an array of them; it and the handler live
        // for the call, the last `named` are those that `names` names, and null is an error set.
        unsafe {
            let called = ffi::PyObject_Vectorcall(
                self.handler.as_ptr(),
                objects.as_ptr().cast(),
                objects.len() - named,
                names,
            );
            Bound::from_owned_ptr_or_err(py, called)
        }
    }
}
