//! One worker loop as Python holds it, and the ways its queue is pumped.
//!
//! The pump runs outside any Task: as the loop's reader callback of the signal (every loop implementation), or
//! inside the selector of the stock loop on Linux, where a wake costs no turn of asyncio's own loop.
//!
//! Invariant 3 of ARCHITECTURE.md: the signal's readiness is consumed, then the flag is cleared, then the queue
//! is drained. While a turn runs the flag stays set, so that pushes do not signal a loop that is awake anyway; it
//! is cleared at the end of the turn, and what was pushed until then is looked for once more after that.

mod blocking;
mod context;
mod desk;
mod door;
pub(crate) mod inlet;
pub(crate) mod job;
mod owned;
pub(crate) mod plan;
#[cfg(target_os = "linux")]
mod poll;
pub(crate) mod site;
mod spare;
mod stream;
mod tasks;

use std::sync::{Arc, OnceLock};

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;

use self::desk::{Desk, Pumped};
use self::job::{Loops, Onward};
use self::owned::Owned;
use self::site::Site;

/// One loop of a server.
#[pyclass(frozen, module = "oxbrook._core")]
pub(crate) struct Worker {
    index: usize,
    loops: Arc<Loops>,
    /// The server's; the loop's own once it was started.
    server_site: Arc<Site>,
    loop_site: OnceLock<Arc<Site>>,
    desk: OnceLock<Owned<Desk>>,
}

impl Worker {
    pub(crate) fn new(index: usize, loops: Arc<Loops>, site: Arc<Site>) -> Self {
        Self { index, loops, server_site: site, loop_site: OnceLock::new(), desk: OnceLock::new() }
    }

    fn site(&self) -> &Arc<Site> {
        self.loop_site.get().unwrap_or(&self.server_site)
    }

    /// The loop's own state, on its own thread and once it was started.
    #[inline]
    fn desk(&self) -> PyResult<&Desk> {
        match self.desk.get() {
            Some(desk) => desk.get(),
            None => Err(PyRuntimeError::new_err("this worker was not started")),
        }
    }

    /// Goes on with a job whose blocking handler has ended. The loop calls it, outside any Task.
    fn go_on(slf: &Bound<'_, Self>, onward: Onward) -> PyResult<()> {
        let desk = slf.get().desk()?;
        desk.put_onward(onward);
        if Self::pump_reported(slf, desk) != Pumped::Dry {
            desk.queue.rearm();
        }
        Ok(())
    }

    /// Runs turns until nothing waits or the loop is due. An error of ours is reported, not raised: it must not
    /// end the loop.
    fn pump_reported(slf: &Bound<'_, Self>, desk: &Desk) -> Pumped {
        let py = slf.py();
        desk.pump(py, slf).unwrap_or_else(|error| {
            error.write_unraisable(py, Some(slf.as_any()));
            Pumped::Dry
        })
    }
}

#[pymethods]
impl Worker {
    /// Takes jobs from now on. Runs on the loop's thread, while the loop runs; `is_polled` says that its selector
    /// pumps, else the loop is given the signal to watch. `state` is what its requests show.
    fn start(
        slf: &Bound<'_, Self>,
        event_loop: &Bound<'_, PyAny>,
        is_polled: bool,
        state: Py<PyAny>,
    ) -> PyResult<()> {
        let py = slf.py();
        let worker = slf.get();
        let queue = oxb_core::Worker::new(&worker.loops, worker.index)
            .ok_or_else(|| PyRuntimeError::new_err("this worker has an owner already"))?;
        let signal = queue.signal_fd();
        let site = Arc::new(worker.server_site.of_loop(py, state, event_loop));
        let site = Arc::clone(worker.loop_site.get_or_init(|| site));
        let desk = Desk::new(py, queue, Arc::clone(&worker.loops), site, event_loop)?;
        worker
            .desk
            .set(Owned::new(desk))
            .map_err(|_| PyRuntimeError::new_err("this worker was started already"))?;
        worker.desk()?.make_spares(py, slf)?;
        if !is_polled {
            let pump = slf.getattr(intern!(py, "pump"))?;
            event_loop.call_method1(intern!(py, "add_reader"), (signal, pump))?;
        }
        Ok(())
    }

    /// The reader callback of the signal.
    fn pump(slf: &Bound<'_, Self>) -> PyResult<()> {
        let desk = slf.get().desk()?;
        let mut pumped = Self::pump_reported(slf, desk);
        if pumped == Pumped::Dry {
            // Invariant 3: consumed, cleared, and then drained.
            desk.queue.acknowledge();
            pumped = Self::pump_reported(slf, desk);
        }
        if pumped != Pumped::Dry || desk.steal() {
            desk.queue.rearm();
        }
        Ok(())
    }

    /// Takes no more jobs, and returns the Tasks that run some or wait for some. Runs on the loop's thread.
    fn stop(slf: &Bound<'_, Self>, is_polled: bool) -> PyResult<Vec<Py<PyAny>>> {
        let py = slf.py();
        let desk = slf.get().desk()?;
        if !is_polled {
            let signal = desk.queue.signal_fd();
            desk.event_loop.bind(py).call_method1(intern!(py, "remove_reader"), (signal,))?;
        }
        desk.stop(py)
    }

    /// Settles what is still owed. Runs on the loop's thread, after `stop`.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().desk()?.close(slf.py())
    }
}

/// Adds this file's names to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Worker>()?;
    module.add_class::<stream::Outlet>()?;
    module.add_class::<inlet::Inlet>()?;
    #[cfg(target_os = "linux")]
    module.add_class::<poll::Poll>()?;
    tasks::register_coroutine(module.py())
}
