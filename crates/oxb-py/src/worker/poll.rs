//! The wait of the stock loop on Linux: one `epoll_wait` for the loop's descriptors and the worker's signal.
//!
//! `select` waits detached (invariant 2 of ARCHITECTURE.md) on the epoll of the loop's own selector, where the
//! signal is registered edge-triggered and never read. When jobs come it pumps right here, outside any Task, and
//! goes back to asyncio only when asyncio has something to do: another descriptor, a ready callback, a new first
//! timer, or its timeout.
//!
//! Invariant 3: the flag is cleared right before sleeping, and the queue is looked at after that; a push that
//! came before the clear is seen by the look, one that comes after signals.

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyOSError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::Worker;
use super::desk::{Desk, Pumped};

/// Events taken at once; the rest is reported by the next wait.
const EVENTS: usize = 64;
/// `selectors.EVENT_READ` and `EVENT_WRITE`.
const READ: u32 = 1;
const WRITE: u32 = 2;

/// What one wait brought.
#[derive(Default)]
struct Events {
    was_signalled: bool,
    /// Descriptors of the loop's own; rarely any.
    others: Vec<(RawFd, EventFlags)>,
}

fn wait(epoll: BorrowedFd<'_>, signal: RawFd, timeout: Option<&Timespec>) -> Result<Events, Errno> {
    let mut space = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
    let (taken, _) = epoll::wait(epoll, &mut space, timeout)?;
    let mut events = Events::default();
    for event in taken {
        // Python's `epoll.register` writes the lower half only; what stands above is chance.
        let descriptor = event.data.u64() as u32 as RawFd;
        if descriptor == signal {
            events.was_signalled = true;
        } else {
            events.others.push((descriptor, event.flags));
        }
    }
    Ok(events)
}

/// The `select` of a worker loop's selector.
#[pyclass(frozen, module = "oxbrook._core")]
pub(crate) struct Poll {
    worker: Py<Worker>,
    epoll: RawFd,
    /// The worker's signal; -1 until it is watched.
    signal: AtomicI32,
    /// `selector._fd_to_key`.
    keys: Py<PyDict>,
}

#[pymethods]
impl Poll {
    /// `epoll` is the descriptor of the selector's epoll, `keys` its map of descriptors to keys.
    #[new]
    fn new(worker: Py<Worker>, epoll: RawFd, keys: Py<PyDict>) -> Self {
        Self { worker, epoll, signal: AtomicI32::new(-1), keys }
    }

    /// Watches the worker's signal; call it after the worker was started.
    fn watch(&self) -> PyResult<()> {
        let signal = self.worker.get().desk()?.queue.signal_fd();
        // SAFETY: the selector keeps its epoll open as long as its loop uses it, the worker its signal.
        let (epoll, descriptor) =
            unsafe { (BorrowedFd::borrow_raw(self.epoll), BorrowedFd::borrow_raw(signal)) };
        let data = EventData::new_u64(u64::from(signal.cast_unsigned()));
        epoll::add(epoll, descriptor, data, EventFlags::IN | EventFlags::ET)
            .map_err(|error| PyOSError::new_err(error.to_string()))?;
        // Relaxed: as in `wait`.
        self.signal.store(signal, Ordering::Relaxed);
        Ok(())
    }

    /// Waits as `EpollSelector.select` does, and runs jobs meanwhile.
    fn select<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyList>> {
        let worker = self.worker.bind(py);
        let Ok(desk) = worker.get().desk() else {
            return self.gather(py, &self.wait(py, timeout.map(as_duration))?);
        };
        // A timeout of 0 or less is the common one while callbacks are ready: no clock is read for it.
        let deadline = match timeout {
            Some(seconds) if seconds > 0.0 => Some(Instant::now() + as_duration(seconds)),
            _ => None,
        };
        let is_waiting = timeout.is_none_or(|seconds| seconds > 0.0);
        let mut loop_state: Option<LoopState<'py>> = None;
        loop {
            let mut rest = if is_waiting {
                deadline.map(|at| at.saturating_duration_since(Instant::now()))
            } else {
                Some(Duration::ZERO)
            };
            let pumped = if desk.queue.has_work() || (is_waiting && desk.steal()) {
                let before = match loop_state.take() {
                    Some(state) => state,
                    None => LoopState::read(py, desk)?,
                };
                let pumped = Worker::pump_reported(worker, desk);
                if before.has_changed(desk)? {
                    rest = Some(Duration::ZERO);
                }
                loop_state = Some(before);
                pumped
            } else {
                Pumped::Dry
            };
            if pumped == Pumped::Dry && rest != Some(Duration::ZERO) {
                // Invariant 3: cleared, then looked at, then asleep.
                if !desk.queue.prepare_to_sleep() {
                    continue;
                }
            } else {
                // The loop's descriptors have their turn between two of ours (invariant 12).
                let is_due = rest == Some(Duration::ZERO);
                let events = self.wait(py, Some(Duration::ZERO))?;
                if is_due || !events.others.is_empty() || pumped == Pumped::Starved {
                    return self.gather(py, &events);
                }
                continue;
            }
            let events = self.wait(py, rest);
            desk.queue.awake();
            let events = events?;
            if !events.others.is_empty() {
                return self.gather(py, &events);
            }
            if !events.was_signalled {
                return Ok(PyList::empty(py));
            }
        }
    }
}

impl Poll {
    /// One `epoll_wait`.
    fn wait(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Events> {
        // Relaxed: written and read by the loop's thread.
        let signal = self.signal.load(Ordering::Relaxed);
        // SAFETY: as in `watch`.
        let epoll = unsafe { BorrowedFd::borrow_raw(self.epoll) };
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        let is_quick = timeout.as_ref().is_some_and(|timeout| timeout.tv_sec == 0 && timeout.tv_nsec == 0);
        let waited = if is_quick {
            wait(epoll, signal, timeout.as_ref())
        } else {
            // Invariant 2: nothing blocks natively while attached.
            py.detach(|| wait(epoll, signal, timeout.as_ref()))
        };
        match waited {
            Ok(events) => Ok(events),
            // A signal handler is due; asyncio takes it for an early return.
            Err(Errno::INTR) => {
                py.check_signals()?;
                Ok(Events::default())
            }
            Err(error) => Err(PyOSError::new_err((error.raw_os_error(), error.to_string()))),
        }
    }

    /// The events as `(key, mask)` pairs.
    fn gather<'py>(&self, py: Python<'py>, events: &Events) -> PyResult<Bound<'py, PyList>> {
        let ready = PyList::empty(py);
        let keys = self.keys.bind(py);
        for &(descriptor, flags) in &events.others {
            let Some(key) = keys.get_item(descriptor)? else { continue };
            let mut mask = 0;
            // As `selectors.EpollSelector`: anything but readiness to read lets a writer look, and the reverse.
            if flags.intersects(!EventFlags::IN) {
                mask |= WRITE;
            }
            if flags.intersects(!EventFlags::OUT) {
                mask |= READ;
            }
            let wanted: u32 = key.getattr(intern!(py, "events"))?.extract()?;
            if mask & wanted != 0 {
                ready.append(PyTuple::new(py, [key, (mask & wanted).into_pyobject(py)?.into_any()])?)?;
            }
        }
        Ok(ready)
    }
}

/// What asyncio's loop would do next, to tell whether jobs gave it something to do.
struct LoopState<'py> {
    ready: Bound<'py, PyAny>,
    first_timer: usize,
}

impl<'py> LoopState<'py> {
    fn read(py: Python<'py>, desk: &Desk) -> PyResult<Self> {
        let event_loop = desk.event_loop.bind(py);
        Ok(Self { ready: event_loop.getattr(intern!(py, "_ready"))?, first_timer: first_timer(event_loop)? })
    }

    fn has_changed(&self, desk: &Desk) -> PyResult<bool> {
        let py = self.ready.py();
        let event_loop = desk.event_loop.bind(py);
        Ok(self.ready.len()? != 0
            || first_timer(event_loop)? != self.first_timer
            || event_loop.getattr(intern!(py, "_stopping"))?.is_truthy()?)
    }
}

/// The address of the timer heap's first entry. Only the loop itself takes entries out, so the address stays that
/// timer's as long as jobs run; an earlier timer puts another address in front.
fn first_timer(event_loop: &Bound<'_, PyAny>) -> PyResult<usize> {
    let heap = event_loop.getattr(intern!(event_loop.py(), "_scheduled"))?;
    let heap = heap.cast::<PyList>()?;
    Ok(heap.get_item(0).map_or(0, |first| first.as_ptr().addr()))
}

fn as_duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}
