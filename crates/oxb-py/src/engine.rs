//! The server of `oxb-http` as Python holds it.
//!
//! Each method converts, makes one call detached, and converts back (rule B1 of the style). The order of the
//! calls is Python's: bind, start, drain, close.

use std::os::fd::{BorrowedFd, RawFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oxb_core::{Assignment, LoopSet, LoopSetOptions};
use oxb_http::RouteOptions;
use oxb_http::access_log::AccessLog;
use oxb_http::cors::Cors;
use oxb_http::health::Health;
use oxb_http::listener::Address;
use oxb_http::options::{Place, ServerOptions};
use oxb_http::router::{Router, RouterBuilder};
use oxb_http::server::{Bound as BoundServer, Running, Server};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::access::PyAccessLog;
use crate::allocator;
use crate::bridge::Bridge;
use crate::cors::CorsRules;
use crate::errors;
use crate::health::Probes;
use crate::mount::PyMount;
use crate::route::Route;
use crate::worker::Worker;
use crate::worker::job::Loops;
use crate::worker::site::Site;

/// Adds this file's names to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Engine>()
}

/// Attributes of `oxbrook._options.ServerOptions` that are the engine's; durations in seconds.
#[derive(FromPyObject)]
struct Options {
    host: String,
    port: u16,
    uds: Option<PathBuf>,
    uds_mode: u32,
    fd: Option<RawFd>,
    backlog: u32,
    max_concurrency: usize,
    max_connections: usize,
    max_body: u64,
    max_buffered: u64,
    request_timeout: f64,
    queue_timeout: Option<f64>,
    header_timeout: f64,
    keep_alive_timeout: f64,
    body_timeout: f64,
    write_timeout: f64,
}

impl Options {
    fn place(&self) -> PyResult<Place> {
        if let Some(fd) = self.fd {
            // SAFETY: the caller keeps its descriptor open for the call; what the engine gets is a copy.
            let copy = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned();
            return copy.map(Place::Inherited).map_err(|error| PyOSError::new_err(error.to_string()));
        }
        Ok(match &self.uds {
            Some(path) => Place::Unix { path: path.clone(), mode: self.uds_mode },
            None => Place::Tcp { host: self.host.clone(), port: self.port },
        })
    }

    fn server_options(
        &self,
        io_threads: usize,
        cors: Option<Arc<Cors>>,
        access_log: Option<Arc<AccessLog>>,
        health: Option<Arc<Health>>,
    ) -> ServerOptions {
        ServerOptions {
            backlog: self.backlog,
            io_threads,
            max_connections: self.max_connections,
            max_body: self.max_body,
            max_buffered: self.max_buffered,
            request_timeout: limit(self.request_timeout),
            queue_timeout: self.queue_timeout.and_then(limit),
            header_timeout: limit(self.header_timeout),
            keep_alive_timeout: limit(self.keep_alive_timeout),
            body_timeout: limit(self.body_timeout),
            write_timeout: limit(self.write_timeout),
            cors,
            access_log,
            health,
        }
    }
}

/// 0 or less: no limit; so is what no clock can count.
fn limit(seconds: f64) -> Option<Duration> {
    if seconds > 0.0 { Duration::try_from_secs_f64(seconds).ok() } else { None }
}

enum Stage {
    Idle,
    Bound(BoundServer),
    Running(Running),
}

/// A server and its loops.
#[pyclass(frozen, module = "oxbrook._core")]
pub(crate) struct Engine {
    loops: Arc<Loops>,
    site: Arc<Site>,
    routes: Vec<Py<Route>>,
    mounts: Vec<Py<PyMount>>,
    options: Options,
    io_threads: usize,
    cors: Option<Arc<Cors>>,
    access_log: Option<Arc<AccessLog>>,
    health: Option<Arc<Health>>,
    stage: Mutex<Stage>,
}

impl Engine {
    fn stage(&self, py: Python<'_>) -> MutexGuard<'_, Stage> {
        // Invariant 2 of ARCHITECTURE.md: detached while another thread has it. Stages are replaced whole, so a
        // panic left none half done.
        self.stage.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    fn router(&self) -> PyResult<(Router, Vec<RouteOptions>)> {
        let mut router = RouterBuilder::new();
        let mut options = Vec::with_capacity(self.routes.len());
        for route in &self.routes {
            let route = route.get();
            router
                .add(route.method(), route.path(), route.specs())
                .map_err(|error| errors::route_error(&error))?;
            options.push(route.options());
        }
        for mount in &self.mounts {
            let mount = mount.get().mount();
            let count = mount.add_to(&mut router).map_err(|error| errors::route_error(&error))?;
            let own = RouteOptions { mount: Some(Arc::clone(mount)), ..RouteOptions::default() };
            options.extend(std::iter::repeat_n(own, count));
        }
        Ok((router.build(), options))
    }
}

#[pymethods]
impl Engine {
    /// `options` has the attributes of `oxbrook._options.ServerOptions`. The hooks are `answer(exception, request,
    /// debug)`, `log_stream(exception, request)`, `send_stream(source, outlet, declared)`, `run_after(request)` and
    /// `submit(call)`.
    #[new]
    #[pyo3(signature = (
        routes, options, *, loop_count, io_threads, app, is_debug, answer, log_stream, send_stream, run_after,
        submit, cors=None, mounts=Vec::new(), access_log=None,
        health=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords of a Python constructor")]
    fn new(
        py: Python<'_>,
        routes: Vec<Py<Route>>,
        options: Options,
        loop_count: usize,
        io_threads: usize,
        app: Py<PyAny>,
        is_debug: bool,
        answer: Py<PyAny>,
        log_stream: Py<PyAny>,
        send_stream: Py<PyAny>,
        run_after: Py<PyAny>,
        submit: Py<PyAny>,
        cors: Option<PyRef<'_, CorsRules>>,
        mounts: Vec<Py<PyMount>>,
        access_log: Option<PyRef<'_, PyAccessLog>>,
        health: Option<PyRef<'_, Probes>>,
    ) -> PyResult<Self> {
        allocator::give_large_buffers_back();
        let plans = routes.iter().map(|route| route.get().plan(py).map(Arc::new));
        let plans = plans.collect::<PyResult<Vec<_>>>()?;
        let loops = LoopSet::new(&LoopSetOptions {
            loop_count,
            slots_per_loop: options.max_concurrency,
            assignment: Assignment::LeastLoaded,
            queue_timeout: options.queue_timeout.and_then(limit),
        })
        .map_err(|error| errors::loop_set_error(&error))?;
        let site = Site {
            plans,
            app,
            state: py.None(),
            answer,
            log_stream,
            send_stream,
            run_after,
            submit,
            is_debug,
            readers: None,
        };
        Ok(Self {
            loops: Arc::new(loops),
            site: Arc::new(site),
            routes,
            mounts,
            options,
            io_threads,
            cors: cors.map(|rules| rules.cors()),
            access_log: access_log.map(|log| log.log()),
            health: health.map(|probes| probes.health()),
            stage: Mutex::new(Stage::Idle),
        })
    }

    /// Takes the place to listen at. Returns what had to be lowered for want of descriptors: from, to, limit.
    fn bind(&self, py: Python<'_>) -> PyResult<Option<(usize, usize, u64)>> {
        let place = self.options.place()?;
        let (cors, log) = (self.cors.clone(), self.access_log.clone());
        let options = self.options.server_options(self.io_threads, cors, log, self.health.clone());
        let mut bound =
            py.detach(|| Server::bind(place, options)).map_err(|error| errors::serve_error(&error))?;
        let lowered = bound.fit_descriptors();
        *self.stage(py) = Stage::Bound(bound);
        Ok(lowered.map(|lowered| (lowered.from, lowered.to, lowered.limit)))
    }

    /// Where it listens: host and port, or the path of a socket file.
    #[getter]
    fn address(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let address = match &*self.stage(py) {
            Stage::Idle => return Err(PyRuntimeError::new_err("the engine is not bound")),
            Stage::Bound(bound) => bound.address().clone(),
            Stage::Running(running) => running.address().clone(),
        };
        match address {
            Address::Tcp(address) => {
                Ok((address.ip().to_string(), address.port()).into_pyobject(py)?.into_any().unbind())
            }
            Address::Unix(path) => Ok(path.to_string_lossy().into_pyobject(py)?.into_any().unbind()),
        }
    }

    /// The loop with this number.
    fn worker(&self, index: usize) -> Worker {
        Worker::new(index, Arc::clone(&self.loops), Arc::clone(&self.site))
    }

    /// Starts the I/O threads.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        let (router, options) = self.router()?;
        let mut stage = self.stage(py);
        let Stage::Bound(bound) = std::mem::replace(&mut *stage, Stage::Idle) else {
            return Err(PyRuntimeError::new_err("the engine is not bound"));
        };
        let service = Arc::new(Bridge::new(Arc::clone(&self.loops)));
        let running = py
            .detach(|| bound.start(router, options, service))
            .map_err(|error| errors::serve_error(&error))?;
        *stage = Stage::Running(running);
        Ok(())
    }

    /// Stops accepting, closes silent and idle connections.
    fn drain(&self, py: Python<'_>) {
        if let Stage::Running(running) = &mut *self.stage(py) {
            running.drain();
        }
    }

    /// Whether every connection is closed, after at most `timeout` seconds.
    fn wait_closed(&self, py: Python<'_>, timeout: f64) -> bool {
        let timeout = Duration::try_from_secs_f64(timeout.max(0.0)).unwrap_or(Duration::MAX);
        py.detach(|| match &*self.stage.lock().unwrap_or_else(PoisonError::into_inner) {
            Stage::Running(running) => running.wait_closed(timeout),
            Stage::Idle | Stage::Bound(_) => true,
        })
    }

    /// Requests that are being handled or answered.
    fn in_flight(&self, py: Python<'_>) -> usize {
        match &*self.stage(py) {
            Stage::Running(running) => running.in_flight(),
            Stage::Idle | Stage::Bound(_) => 0,
        }
    }

    /// Open connections.
    fn connections(&self, py: Python<'_>) -> usize {
        match &*self.stage(py) {
            Stage::Running(running) => running.connections(),
            Stage::Idle | Stage::Bound(_) => 0,
        }
    }

    /// Bytes of collected bodies.
    fn buffered(&self, py: Python<'_>) -> u64 {
        match &*self.stage(py) {
            Stage::Running(running) => running.buffered(),
            Stage::Idle | Stage::Bound(_) => 0,
        }
    }

    /// For each loop: slots taken, jobs queued, jobs taken so far.
    fn loads(&self) -> Vec<(usize, usize, u64)> {
        let gauges = self.loops.loop_ids().map(|loop_id| self.loops.gauges(loop_id));
        gauges.map(|gauges| (gauges.slots_taken, gauges.queued, gauges.jobs_taken)).collect()
    }

    /// The loops take no more jobs.
    fn stop_loops(&self) {
        self.loops.stop();
    }

    /// Closes every connection and ends the I/O threads.
    fn close(&self, py: Python<'_>) {
        let stage = std::mem::replace(&mut *self.stage(py), Stage::Idle);
        py.detach(|| drop(stage));
    }
}
