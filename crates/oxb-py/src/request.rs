//! The `Request` a handler sees (api.md 3), and the context of the loop that runs it.
//!
//! The request of the engine is kept as it came; a Python object is made of a part when it is asked for.
//!
//! Invariant: a `Request` never changes, but for what it remembers: `body` and `locals`, which are set once, and how far
//! its answer is; so any number of threads may use one.

mod made;
mod progress;

use bytes::Bytes;
use oxb_http::head::Head;
use oxb_http::request::Request;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use std::net::IpAddr;
use std::sync::OnceLock;

use self::made::Made;
pub(crate) use self::progress::Progress;
use crate::worker::inlet::Inlet;
use crate::worker::site::Site;

/// Adds this file's names to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyRequest>()?;
    module.add_class::<Context>()
}

/// The app and state that a request made by hand shows, given as `context=`.
#[pyclass(frozen, module = "oxbrook._core")]
#[derive(Debug)]
pub(crate) struct Context {
    app: Py<PyAny>,
    state: Py<PyAny>,
}

#[pymethods]
impl Context {
    /// `app` is the serving `App`, `state` the `State` of this loop.
    #[new]
    fn new(app: Py<PyAny>, state: Py<PyAny>) -> Self {
        Self { app, state }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.app)?;
        visit.call(&self.state)
    }
}

/// An HTTP request, as the server got it or made by hand.
#[pyclass(frozen, name = "Request", module = "oxbrook._core")]
#[derive(Debug)]
pub(crate) struct PyRequest {
    source: Source,
    app: Option<Py<PyAny>>,
    state: Option<Py<PyAny>>,
    body: OnceLock<Py<PyBytes>>,
    /// Where the body flows.
    inlet: Option<Py<Inlet>>,
    stream: OnceLock<Py<PyAny>>,
    locals: OnceLock<Py<PyDict>>,
    progress: Progress,
}

#[expect(clippy::large_enum_variant, reason = "nearly every request is from the wire, and is spared a box")]
#[derive(Debug)]
enum Source {
    Wire(Request),
    Made(Box<Made>),
}

impl PyRequest {
    /// The object for a request of the engine.
    pub(crate) fn new(py: Python<'_>, mut request: Request, site: &Site) -> PyResult<Py<Self>> {
        let inlet = match request.take_reader() {
            Some(reader) => Some(Py::new(py, Inlet::new(reader, site.readers.clone()))?),
            None => None,
        };
        let request = Self {
            source: Source::Wire(request),
            app: Some(site.app.clone_ref(py)),
            state: Some(site.state.clone_ref(py)),
            body: OnceLock::new(),
            inlet,
            stream: OnceLock::new(),
            locals: OnceLock::new(),
            progress: Progress::default(),
        };
        Py::new(py, request)
    }

    /// How far its answer is.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The head as it came; `None` for a request made by hand.
    pub(crate) fn head(&self) -> Option<&Head> {
        match &self.source {
            Source::Wire(request) => Some(request.head()),
            Source::Made(_) => None,
        }
    }

    fn method_str(&self) -> &str {
        match &self.source {
            Source::Wire(request) => request.method(),
            Source::Made(made) => &made.method,
        }
    }

    fn path_str(&self) -> &str {
        match &self.source {
            Source::Wire(request) => request.path(),
            Source::Made(made) => &made.path,
        }
    }

    /// The `Content-Type` field as sent, and the whole body.
    pub(crate) fn content(&self, py: Python<'_>) -> PyResult<(Option<&[u8]>, Bytes)> {
        Ok(match &self.source {
            Source::Wire(request) if self.inlet.is_some() => {
                let body = self.body(py)?;
                (request.header("content-type"), Bytes::copy_from_slice(body.as_bytes(py)))
            }
            Source::Wire(request) => (request.header("content-type"), request.body().clone()),
            Source::Made(made) => {
                let body = self.body(py)?;
                (made.header("content-type"), Bytes::copy_from_slice(body.as_bytes(py)))
            }
        })
    }

    /// Calls `visit` with the name, in lower case, and value of every field whose value is text.
    fn each_text_field(&self, mut visit: impl FnMut(&str, &str) -> PyResult<()>) -> PyResult<()> {
        let mut lower = String::new();
        let mut visit_field = |name: &str, value: &[u8]| match text(value) {
            Some(value) => {
                lower.clear();
                lower.push_str(name);
                lower.make_ascii_lowercase();
                visit(&lower, value)
            }
            None => Ok(()),
        };
        match &self.source {
            Source::Wire(request) => request.headers().try_for_each(|(name, value)| visit_field(name, value)),
            Source::Made(made) => made.headers.iter().try_for_each(|(name, value)| visit_field(name, value)),
        }
    }
}

#[pymethods]
impl PyRequest {
    #[new]
    #[pyo3(signature = (method="GET", path="/", query=None, body=None, headers=None, context=None, locals=None,
        client=None))]
    #[expect(clippy::too_many_arguments, reason = "the signature of api.md 3")]
    fn by_hand(
        py: Python<'_>,
        method: &str,
        path: &str,
        query: Option<String>,
        body: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
        context: Option<Py<Context>>,
        locals: Option<Py<PyDict>>,
        client: Option<&str>,
    ) -> PyResult<Self> {
        let body = made::body(py, body)?;
        let made = Made::new(method, path, query, headers, client)?;
        let request = Self {
            source: Source::Made(Box::new(made)),
            app: context.as_ref().map(|context| context.get().app.clone_ref(py)),
            state: context.as_ref().map(|context| context.get().state.clone_ref(py)),
            body: OnceLock::new(),
            inlet: None,
            stream: OnceLock::new(),
            locals: OnceLock::new(),
            progress: Progress::default(),
        };
        // Both were just made and are empty.
        let _ = request.body.set(body);
        if let Some(locals) = locals {
            let _ = request.locals.set(locals);
        }
        Ok(request)
    }

    /// The method, in upper case.
    #[getter]
    fn method<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        // The two that are nearly all traffic cost no new string.
        match self.method_str() {
            "GET" => intern!(py, "GET").clone(),
            "POST" => intern!(py, "POST").clone(),
            other => PyString::new(py, other),
        }
    }

    /// The path as sent, still percent-encoded, without the query.
    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        PyString::new(py, self.path_str())
    }

    /// The raw query string; None when there is no `?`.
    #[getter]
    fn query<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyString>> {
        let query = match &self.source {
            Source::Wire(request) => request.query(),
            Source::Made(made) => made.query.as_deref(),
        };
        query.map(|query| PyString::new(py, query))
    }

    /// The whole body; RuntimeError where it flows and was not read yet.
    #[getter]
    pub(crate) fn body(&self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        if let Some(inlet) = &self.inlet {
            return inlet.get().kept(py).ok_or_else(|| {
                PyRuntimeError::new_err("the body was not read yet: `await request.read()` gives it")
            });
        }
        // Kept: a body may be large, and code that validates it reads it twice.
        Ok(remember(py, &self.body, || match &self.source {
            Source::Wire(request) => PyBytes::new(py, request.body()).unbind(),
            Source::Made(_) => PyBytes::new(py, b"").unbind(),
        }))
    }

    /// A coroutine that gives the whole body, and reads it first where it flows.
    fn read<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let inlet = slf.get().inlet.as_ref();
        py.import("oxbrook._bodies")?.call_method1(intern!(py, "read_whole"), (slf, inlet))
    }

    /// The body as a `BodyStream`: the same on every access where it flows, else a new one with all of it.
    fn stream(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let make = |source: &Bound<'_, PyAny>| {
            let bodies = py.import("oxbrook._bodies")?;
            bodies.call_method1(intern!(py, "BodyStream"), (source,)).map(Bound::unbind)
        };
        let Some(inlet) = self.inlet.as_ref().filter(|inlet| inlet.get().kept(py).is_none()) else {
            return make(self.body(py)?.bind(py));
        };
        if let Some(stream) = self.stream.get() {
            return Ok(stream.clone_ref(py));
        }
        // Made before the lock is touched, as in `remember`.
        let stream = make(inlet.bind(py))?;
        Ok(self.stream.get_or_init(|| stream).clone_ref(py))
    }

    /// The body as a form of at most `max_parts` parts, parsed on each call.
    #[pyo3(signature = (max_parts=1000))]
    fn form<'py>(slf: &Bound<'py, Self>, max_parts: i64) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        py.import("oxbrook._forms")?.call_method1(intern!(py, "form_of"), (slf, max_parts))
    }

    /// The first value of a header, whatever the case of its name; `default` when it is absent or holds a byte
    /// outside tab and 0x20 to 0x7E.
    #[pyo3(signature = (name, default=None))]
    fn header<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> Option<Bound<'py, PyAny>> {
        let value = match &self.source {
            Source::Wire(request) => request.header(name),
            Source::Made(made) => made.header(name),
        };
        match value.and_then(text) {
            Some(value) => Some(PyString::new(py, value).into_any()),
            None => default,
        }
    }

    /// A new dict of all headers: lower-case names, repeats joined with `, `.
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let headers = PyDict::new(py);
        self.each_text_field(|name, value| {
            let name = PyString::new(py, name);
            match headers.get_item(&name)? {
                Some(first) => headers.set_item(name, format!("{first}, {value}")),
                None => headers.set_item(name, value),
            }
        })?;
        Ok(headers)
    }

    /// A new dict of the cookies, as they were sent.
    #[getter]
    fn cookies<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let cookies = PyDict::new(py);
        self.each_text_field(|name, value| {
            if name == "cookie" {
                for (name, value) in value.split(';').filter_map(|pair| pair.split_once('=')) {
                    cookies.set_item(name.trim_ascii(), value.trim_ascii())?;
                }
            }
            Ok(())
        })?;
        Ok(cookies)
    }

    /// The caller's IP address; None on a Unix socket.
    #[getter]
    fn client(&self) -> Option<String> {
        let address: Option<IpAddr> = match &self.source {
            Source::Wire(request) => request.peer(),
            Source::Made(made) => made.client,
        };
        address.map(|address| address.to_string())
    }

    /// The serving `App`; None if made by hand.
    #[getter]
    fn app(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.app.as_ref().map(|app| app.clone_ref(py))
    }

    /// What the hooks of the app and of this loop yielded; None if made by hand.
    #[getter]
    fn state(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.state.as_ref().map(|state| state.clone_ref(py))
    }

    /// A dict of this request alone, the same object on every access.
    #[getter]
    fn locals(&self, py: Python<'_>) -> Py<PyDict> {
        remember(py, &self.locals, || PyDict::new(py).unbind())
    }

    /// Calls `fn(*args, **kwargs)` once the response was handed over: api.md 16.10.
    #[pyo3(signature = (r#fn, /, *args, **kwargs))]
    fn after_response(
        &self,
        r#fn: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let py = r#fn.py();
        if !r#fn.is_callable() {
            let name = r#fn.get_type().name()?;
            return Err(PyTypeError::new_err(format!("after_response takes a function, not {name}")));
        }
        let kwargs = kwargs.cloned().unwrap_or_else(|| PyDict::new(py));
        let work = PyTuple::new(py, [r#fn.as_any(), args.as_any(), kwargs.as_any()])?;
        if self.progress.add(work.unbind()) {
            return Ok(());
        }
        let text = "the response was sent, and what runs after it has ended: nothing can be added";
        Err(PyRuntimeError::new_err(text))
    }

    /// The next work for after the response.
    fn _next_work(&self) -> Option<Py<PyTuple>> {
        self.progress.next()
    }

    /// A handler is about to begin. True when its client left meanwhile.
    fn _handler_begins(&self) -> bool {
        self.progress.begin()
    }

    /// A handler has ended: a client that leaves now cancels nothing.
    fn _handler_ended(&self) {
        self.progress.end();
    }

    /// A handler, or what is around it, raised.
    fn _handler_failed(&self) {
        self.progress.fail();
    }

    /// An exception that nobody handled is answered with a 500.
    fn _unhandled(&self) {
        self.progress.unhandled();
    }

    fn __repr__(&self) -> String {
        format!("<Request {} {}>", self.method_str(), self.path_str())
    }

    // A cycle leads through `locals`, a dict, which the collector clears, or through work that never ran.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.app)?;
        visit.call(&self.state)?;
        visit.call(&self.inlet)?;
        if let Some(stream) = self.stream.get() {
            visit.call(stream)?;
        }
        if let Some(locals) = self.locals.get() {
            visit.call(locals)?;
        }
        self.progress.traverse(&visit)
    }

    fn __clear__(&self) {
        self.progress.drop_all();
    }
}

/// What `kept` holds, made and put there if it is empty.
///
/// It is made before the lock is touched: making a Python object may run the collector and so let another thread
/// in, which must not find this one inside the lock. Of two that are made at once the first stays.
fn remember<T>(py: Python<'_>, kept: &OnceLock<Py<T>>, make: impl FnOnce() -> Py<T>) -> Py<T> {
    if let Some(value) = kept.get() {
        return value.clone_ref(py);
    }
    let made = make();
    kept.get_or_init(|| made.clone_ref(py)).clone_ref(py)
}

/// A field value as text: api.md 3 gives none to a handler that holds a byte outside tab and 0x20 to 0x7E.
fn text(value: &[u8]) -> Option<&str> {
    let is_text = value.iter().all(|&byte| byte == b'\t' || (0x20..=0x7e).contains(&byte));
    if is_text { std::str::from_utf8(value).ok() } else { None }
}
