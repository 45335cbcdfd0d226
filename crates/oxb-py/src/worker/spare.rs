//! The coroutine of a spare `asyncio.Task`, inside whose steps jobs run.
//!
//! An idle spare awaits its [`Door`]. When the pump opens it, the Task steps, and that step drains the queue: a
//! job that finishes leaves the spare free for the next one, no Task was made for it. A job that suspends keeps
//! the Task: its future is yielded out of the same step, and later sends and throws go to the job, inside the
//! job's context. So `current_task()` is there before the first await and the same after it.
//!
//! Invariants: no exception of a job leaves a step; a spare on which a job left a mark (a cancellation, a done
//! callback, another name, a kept reference) takes no other job: its Task ends and a new one replaces it. Contexts are left as
//! they were (invariant 8), what is owed for a job is settled once (invariants 4 and 5).

mod onward;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use oxb_core::Taken;
use oxb_http::request::Request;
use oxb_http::service::Notice;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::Worker;
use super::desk::Desk;
use super::door::Door;
use super::job::{Answer, Held, Job, Onward, Owed};
use super::owned::Owned;
use super::plan::{Asked, Kind, Plan};
use crate::reply::{Outcome, to_reply};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Its Task has not made its first step.
    Fresh,
    /// Awaits the door.
    Idle,
    /// A step is running.
    Stepping,
    /// A job's future is awaited.
    Suspended,
    /// The next step ends the Task.
    Ending,
    /// The Task ended.
    Ended,
}

struct State {
    worker: Py<Worker>,
    door: Py<Door>,
    seat: u32,
    phase: Cell<Phase>,
    task: RefCell<Option<Py<PyAny>>>,
    /// References to the Task at the start of a step that nobody kept one from.
    clean_count: Cell<isize>,
    /// The coroutine of the job in hand.
    coroutine: RefCell<Option<Py<PyAny>>>,
    held: RefCell<Option<Held>>,
    /// The address of the Task's name, an object that a plan keeps alive; 0 while it has asyncio's.
    named: Cell<usize>,
}

/// What a coroutine did when it was sent to.
enum Sent {
    Yielded(Py<PyAny>),
    Returned(Py<PyAny>),
    Raised(PyErr),
}

/// What a job wants to be sent.
enum Input {
    Nothing,
    Throw(Py<PyTuple>),
}

/// The coroutine of a spare Task.
#[pyclass(frozen, module = "oxbrook._core")]
pub(crate) struct Spare {
    state: Owned<State>,
}

impl Spare {
    pub(super) fn new(worker: Py<Worker>, door: Py<Door>, seat: u32) -> Self {
        Self {
            state: Owned::new(State {
                worker,
                door,
                seat,
                phase: Cell::new(Phase::Fresh),
                task: RefCell::new(None),
                clean_count: Cell::new(isize::MAX),
                coroutine: RefCell::new(None),
                held: RefCell::new(None),
                named: Cell::new(0),
            }),
        }
    }

    /// The Task this is the coroutine of; given once it was made.
    pub(super) fn set_task(&self, task: Py<PyAny>) -> PyResult<()> {
        let state = self.state.get()?;
        if state.phase.get() != Phase::Ended {
            state.task.replace(Some(task));
        }
        Ok(())
    }

    /// Steps the idle Task: it drains the queue. False when it was not idle after all.
    pub(super) fn wake(&self, py: Python<'_>) -> PyResult<bool> {
        let state = self.state.get()?;
        if state.phase.get() != Phase::Idle {
            return Ok(false);
        }
        Door::open(state.door.bind(py))
    }

    /// Whether somebody else holds the Task of this idle spare: it must not become another job's.
    pub(super) fn is_kept(&self) -> PyResult<bool> {
        let state = self.state.get()?;
        // Its own reference and that of the wakeup in the door.
        Ok(state.task.borrow().as_ref().is_none_or(|task| count(task) > 2))
    }

    /// Lets the idle Task end normally.
    pub(super) fn end(&self, py: Python<'_>) -> PyResult<()> {
        let state = self.state.get()?;
        if state.phase.get() == Phase::Idle {
            state.phase.set(Phase::Ending);
            Door::open(state.door.bind(py))?;
        }
        Ok(())
    }

    /// A notice about the job in hand: the engine names the seat, the exchange tells whether it is still that job.
    pub(super) fn notify(&self, py: Python<'_>, notice: &Notice) -> PyResult<()> {
        let state = self.state.get()?;
        let mut held = state.held.borrow_mut();
        let Some(job) = held.as_mut() else { return Ok(()) };
        match notice {
            Notice::Abandoned(exchange) => {
                if !Arc::ptr_eq(exchange, job.answer.exchange()) {
                    return Ok(());
                }
                let is_cancelled = match &job.answer {
                    // Teardown, once it has begun, runs to its end (api.md 16.9).
                    Answer::Owed(_) => job.plan.cancels_on_disconnect && job.asked.may_cancel(),
                    Answer::Streaming(_) => true,
                    Answer::Sent(_) => false,
                };
                if !is_cancelled {
                    return Ok(());
                }
                drop(held);
                self.cancel(py)
            }
            // Whoever reads a body may be another Task than that of its request.
            Notice::Body(_) => Ok(()),
            Notice::Room(exchange) => {
                if !Arc::ptr_eq(exchange, job.answer.exchange()) {
                    return Ok(());
                }
                let Answer::Streaming(streaming) = &mut job.answer else { return Ok(()) };
                let waiter = streaming.take_waiter();
                drop(held);
                let Some(waiter) = waiter else { return Ok(()) };
                let waiter = waiter.bind(py);
                if !waiter.call_method0(intern!(py, "done"))?.is_truthy()? {
                    waiter.call_method1(intern!(py, "set_result"), (py.None(),))?;
                }
                Ok(())
            }
        }
    }

    /// The Task this is the coroutine of; `None` once it ended.
    pub(super) fn task(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.state.get()?.task.borrow().as_ref().map(|task| task.clone_ref(py)))
    }

    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(task) = self.task(py)? {
            task.bind(py).call_method0(intern!(py, "cancel"))?;
        }
        Ok(())
    }

    /// The loop ends: what is owed is settled though the job never finished. Its coroutine is let be: one that would
    /// not be cancelled cannot be closed either.
    pub(super) fn abandon(&self) -> PyResult<()> {
        let state = self.state.get()?;
        let held = state.held.take();
        if let Some(held) = held {
            held.answer.turn_away(&state.worker.get().loops);
        }
        Ok(())
    }

    fn step(slf: &Bound<'_, Self>, input: Input) -> PyResult<Option<Py<PyAny>>> {
        let py = slf.py();
        let state = slf.get().state.get()?;
        let worker = state.worker.get();
        let desk = worker.desk()?;
        match (state.phase.replace(Phase::Stepping), input) {
            (Phase::Fresh, Input::Nothing) => Ok(Some(state.park(py, desk, slf))),
            (Phase::Idle, Input::Nothing) => {
                // Nobody else held the Task when the pump chose it, so this is the count without a mark.
                if let Some(task) = state.task.borrow().as_ref() {
                    state.clean_count.set(count(task));
                }
                state.drain(py, desk, slf)
            }
            (Phase::Suspended, input) => state.resume(py, desk, slf, input),
            (Phase::Ending, Input::Nothing) => {
                state.leave(desk);
                Ok(None)
            }
            (Phase::Fresh | Phase::Idle | Phase::Ending, Input::Throw(exception)) => {
                state.leave(desk);
                Err(as_error(exception.bind(py)))
            }
            (phase @ (Phase::Stepping | Phase::Ended), _) => {
                state.phase.set(phase);
                Err(if phase == Phase::Ended {
                    PyRuntimeError::new_err("cannot reuse already awaited coroutine")
                } else {
                    PyValueError::new_err("coroutine already executing")
                })
            }
        }
    }

    /// An attribute of the coroutine in hand.
    fn of_job(&self, py: Python<'_>, name: &Bound<'_, pyo3::types::PyString>) -> Option<Py<PyAny>> {
        let state = self.state.get().ok()?;
        let coroutine = state.coroutine.borrow().as_ref()?.clone_ref(py);
        coroutine.bind(py).getattr(name).ok().map(Bound::unbind)
    }
}

impl State {
    /// Takes jobs until the queue is empty, the turn is spent, or one suspends. Returns what the Task awaits.
    fn drain(&self, py: Python<'_>, desk: &Desk, slf: &Bound<'_, Spare>) -> PyResult<Option<Py<PyAny>>> {
        let loops = &self.worker.get().loops;
        while let Some(Onward { held, stream }) = desk.next_onward() {
            if let Some(awaited) = self.go_on(py, desk, held, stream) {
                return Ok(Some(awaited));
            }
            if self.is_marked(py, desk) {
                self.leave(desk);
                return Ok(None);
            }
        }
        // Invariant 12: one job at a time.
        while let Some(Taken { job, slot, late, .. }) = desk.next_job() {
            let Job { request, responder } = job;
            if late {
                Owed { responder, slot }.turn_away(loops);
                continue;
            }
            if !responder.begin(desk.loop_id) {
                Owed { responder, slot }.abandon(loops);
                continue;
            }
            if let Some(awaited) = self.run(py, desk, request, Owed { responder, slot }) {
                return Ok(Some(awaited));
            }
            if self.is_marked(py, desk) {
                self.leave(desk);
                return Ok(None);
            }
        }
        Ok(Some(self.park(py, desk, slf)))
    }

    /// Runs a job to its end or to its first await, whose future is returned.
    #[inline]
    fn run(&self, py: Python<'_>, desk: &Desk, request: Box<Request>, owed: Owed) -> Option<Py<PyAny>> {
        let Some(plan) = desk.site.plans.get(request.route().index()) else {
            owed.abandon(&self.worker.get().loops);
            return None;
        };
        let mut asked = Asked::Raw(Some(request));
        if plan.kind != Kind::Blocking {
            self.take_name(py, plan);
        }
        let context = match desk.base.copy(py) {
            Ok(context) => context,
            Err(error) => {
                desk.fail(py, plan, asked, owed, error);
                return None;
            }
        };
        if plan.kind == Kind::Blocking {
            desk.to_pool(py, &self.worker, plan, asked, owed, context);
            return None;
        }
        let sent = {
            let entered = match context.enter(py) {
                Ok(entered) => entered,
                Err(error) => {
                    desk.fail(py, plan, asked, owed, error);
                    return None;
                }
            };
            let called = plan.call(py, &desk.site, &mut asked);
            let sent = match (called, plan.kind) {
                (Err(error), _) => Sent::Raised(error),
                (Ok(value), Kind::Inline | Kind::Blocking) => match refuse_awaitable(py, value) {
                    Ok(value) => Sent::Returned(value.unbind()),
                    Err(error) => Sent::Raised(error),
                },
                (Ok(value), Kind::Async) => match as_coroutine(value) {
                    Err(error) => Sent::Raised(error),
                    Ok(coroutine) => {
                        let pointer = coroutine.as_ptr();
                        self.coroutine.replace(Some(coroutine.unbind()));
                        // SAFETY: `self.coroutine` keeps the object alive: it is taken out after the step, or by
                        // `close`, which refuses inside one.
                        unsafe { send(py, pointer) }
                    }
                },
            };
            drop(entered);
            sent
        };
        match sent {
            Sent::Yielded(awaited) => {
                self.hold(py, Held { plan: Arc::clone(plan), asked, context, answer: Answer::Owed(owed) });
                Some(awaited)
            }
            Sent::Returned(value) => {
                let coroutine = self.coroutine.take();
                drop(coroutine);
                match to_reply(py, value.bind(py), &plan.answers) {
                    Ok(Outcome::Whole(reply)) if !asked.has_work() => {
                        asked.tell_failure(owed.responder.exchange());
                        owed.reply(&self.worker.get().loops, reply);
                        None
                    }
                    Ok(outcome) => {
                        let held =
                            Held { plan: Arc::clone(plan), asked, context, answer: Answer::Owed(owed) };
                        self.answer(py, desk, held, outcome)
                    }
                    Err(error) => {
                        desk.fail(py, plan, asked, owed, error);
                        None
                    }
                }
            }
            Sent::Raised(error) => {
                let coroutine = self.coroutine.take();
                drop(coroutine);
                desk.fail(py, plan, asked, owed, error);
                None
            }
        }
    }

    /// Sends to the job in hand, or throws into it, inside its context.
    fn resume(
        &self,
        py: Python<'_>,
        desk: &Desk,
        slf: &Bound<'_, Spare>,
        input: Input,
    ) -> PyResult<Option<Py<PyAny>>> {
        let (Some(held), Some(coroutine)) =
            (self.held.take(), self.coroutine.borrow().as_ref().map(|coroutine| coroutine.clone_ref(py)))
        else {
            // The loop was stopped and the job with it.
            self.leave(desk);
            return match input {
                Input::Throw(exception) => Err(as_error(exception.bind(py))),
                Input::Nothing => Ok(None),
            };
        };
        desk.step_begins();
        let sent = match held.context.enter(py) {
            Err(error) => Sent::Raised(error),
            Ok(entered) => {
                let sent = match input {
                    // SAFETY: `coroutine` owns the object for the call.
                    Input::Nothing => unsafe { send(py, coroutine.as_ptr()) },
                    Input::Throw(exception) => throw(coroutine.bind(py), exception.bind(py)),
                };
                drop(entered);
                sent
            }
        };
        drop(coroutine);
        let awaited = match sent {
            Sent::Yielded(awaited) => {
                self.held.replace(Some(held));
                self.phase.set(Phase::Suspended);
                Some(awaited)
            }
            Sent::Returned(value) => {
                let coroutine = self.coroutine.take();
                drop(coroutine);
                self.finish(py, desk, held, &value)
            }
            Sent::Raised(error) => {
                let coroutine = self.coroutine.take();
                drop(coroutine);
                self.broke(py, desk, held, error);
                None
            }
        };
        if awaited.is_some() {
            desk.step_ends();
            return Ok(awaited);
        }
        if self.is_marked(py, desk) || !desk.wants_idle() {
            desk.step_ends();
            self.leave(desk);
            return Ok(None);
        }
        // The place that became free is taken at once: going to the door and back costs more than many a handler.
        desk.allow_one();
        let next = self.drain(py, desk, slf);
        desk.step_ends();
        next
    }

    /// Keeps the job that suspended, findable by its seat.
    fn hold(&self, py: Python<'_>, held: Held) {
        held.answer.exchange().set_seat(Some(self.seat));
        // A notice that was posted meanwhile waits in this loop's queue: it is read after this step.
        self.take_name(py, &held.plan);
        self.held.replace(Some(held));
        self.phase.set(Phase::Suspended);
    }

    /// Gives the Task the name of this plan's handler.
    #[inline]
    fn take_name(&self, py: Python<'_>, plan: &Plan) {
        if self.named.get() != plan.name.as_ptr().addr() {
            self.change_name(py, plan);
        }
    }

    #[cold]
    fn change_name(&self, py: Python<'_>, plan: &Plan) {
        let task = self.task.borrow().as_ref().map(|task| task.clone_ref(py));
        let Some(task) = task else { return };
        match task.bind(py).call_method1(intern!(py, "set_name"), (&plan.name,)) {
            Ok(_) => self.named.set(plan.name.as_ptr().addr()),
            Err(error) => error.write_unraisable(py, None),
        }
    }

    /// Back to the pool: what is returned is what the Task awaits.
    fn park(&self, py: Python<'_>, desk: &Desk, slf: &Bound<'_, Spare>) -> Py<PyAny> {
        self.phase.set(Phase::Idle);
        self.door.get().await_here();
        desk.put_idle(slf.clone().unbind());
        self.door.clone_ref(py).into_any()
    }

    /// The Task ends with this step.
    fn leave(&self, desk: &Desk) {
        self.phase.set(Phase::Ended);
        let task = self.task.take();
        drop(task);
        desk.forget(self.seat);
    }

    /// Whether the job that just finished left something on the Task that the next one must not inherit.
    #[inline]
    fn is_marked(&self, py: Python<'_>, desk: &Desk) -> bool {
        let task = self.task.borrow();
        let Some(task) = task.as_ref() else { return true };
        count(task) > self.clean_count.get() || desk.tasks.has_mark(task.bind(py), self.named.get())
    }
}

#[pymethods]
impl Spare {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Option<Py<PyAny>>> {
        Self::step(slf, Input::Nothing)
    }

    fn send(slf: &Bound<'_, Self>, _value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        match Self::step(slf, Input::Nothing)? {
            Some(awaited) => Ok(awaited),
            None => Err(pyo3::exceptions::PyStopIteration::new_err(())),
        }
    }

    #[pyo3(signature = (*exception))]
    fn throw(slf: &Bound<'_, Self>, exception: Py<PyTuple>) -> PyResult<Py<PyAny>> {
        match Self::step(slf, Input::Throw(exception))? {
            Some(awaited) => Ok(awaited),
            None => Err(pyo3::exceptions::PyStopIteration::new_err(())),
        }
    }

    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let state = slf.get().state.get()?;
        if state.phase.get() == Phase::Stepping {
            return Err(PyValueError::new_err("coroutine already executing"));
        }
        slf.get().abandon()?;
        let coroutine = state.coroutine.take();
        state.leave(state.worker.get().desk()?);
        match coroutine {
            Some(coroutine) => coroutine.bind(py).call_method0(intern!(py, "close")).map(drop),
            None => Ok(()),
        }
    }

    #[getter]
    fn __name__(&self, py: Python<'_>) -> Py<PyAny> {
        let name = intern!(py, "__name__");
        self.of_job(py, name).unwrap_or_else(|| intern!(py, "idle").clone().into_any().unbind())
    }

    #[getter]
    fn __qualname__(&self, py: Python<'_>) -> Py<PyAny> {
        let name = intern!(py, "__qualname__");
        self.of_job(py, name).unwrap_or_else(|| intern!(py, "oxbrook.idle").clone().into_any().unbind())
    }

    #[getter]
    fn cr_code(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.of_job(py, intern!(py, "cr_code"))
    }

    #[getter]
    fn cr_frame(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.of_job(py, intern!(py, "cr_frame"))
    }

    #[getter]
    fn cr_await(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.of_job(py, intern!(py, "cr_await"))
    }

    #[getter]
    fn cr_origin(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.of_job(py, intern!(py, "cr_origin"))
    }

    // These two are asked for by `repr()` on any thread; on another than the loop's the answer is "not now".
    #[getter]
    fn cr_running(&self) -> bool {
        self.state.get().is_ok_and(|state| state.phase.get() == Phase::Stepping)
    }

    #[getter]
    fn cr_suspended(&self) -> bool {
        let waits = [Phase::Suspended, Phase::Idle, Phase::Ending];
        self.state.get().is_ok_and(|state| waits.contains(&state.phase.get()))
    }
}

#[inline]
fn count(task: &Py<PyAny>) -> isize {
    // SAFETY: the caller is attached (it runs inside a step) and owns a reference, so the object is alive.
    unsafe { ffi::Py_REFCNT(task.as_ptr()) }
}

/// Sends `None`, by the fast path of native coroutines.
///
/// # Safety
/// `coroutine` is an object that stays alive for the call.
#[inline]
unsafe fn send(py: Python<'_>, coroutine: *mut ffi::PyObject) -> Sent {
    let mut result = std::ptr::null_mut();
    // SAFETY: `py` proves this thread is attached; the caller keeps `coroutine` alive; `result` is written
    // unless the outcome is an error.
    let outcome = unsafe { ffi::PyIter_Send(coroutine, ffi::Py_None(), &raw mut result) };
    match outcome {
        // SAFETY: a new reference was written.
        ffi::PySendResult::PYGEN_NEXT => Sent::Yielded(unsafe { Bound::from_owned_ptr(py, result).unbind() }),
        ffi::PySendResult::PYGEN_RETURN => {
            // SAFETY: as above.
            Sent::Returned(unsafe { Bound::from_owned_ptr(py, result).unbind() })
        }
        ffi::PySendResult::PYGEN_ERROR => Sent::Raised(PyErr::fetch(py)),
    }
}

fn throw(coroutine: &Bound<'_, PyAny>, exception: &Bound<'_, PyTuple>) -> Sent {
    let py = coroutine.py();
    match coroutine.call_method1(intern!(py, "throw"), exception) {
        Ok(awaited) => Sent::Yielded(awaited.unbind()),
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyStopIteration>(py) => {
            match error.value(py).getattr(intern!(py, "value")) {
                Ok(value) => Sent::Returned(value.unbind()),
                Err(error) => Sent::Raised(error),
            }
        }
        Err(error) => Sent::Raised(error),
    }
}

/// The arguments of `throw` as the exception they stand for.
fn as_error(exception: &Bound<'_, PyTuple>) -> PyErr {
    match exception
        .get_item(1)
        .ok()
        .filter(|value| !value.is_none())
        .map_or_else(|| exception.get_item(0), Ok)
    {
        Ok(value) => PyErr::from_value(value),
        Err(error) => error,
    }
}

/// What can be sent to: a coroutine as it is, of any other awaitable its iterator.
#[inline]
fn as_coroutine(value: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: `value` is a live object.
    if unsafe { ffi::PyCoro_CheckExact(value.as_ptr()) } != 0 {
        return Ok(value);
    }
    let py = value.py();
    if value.hasattr(intern!(py, "send"))? {
        return Ok(value);
    }
    value.call_method0(intern!(py, "__await__"))
}

/// An inline handler has nobody to await its result.
fn refuse_awaitable<'py>(py: Python<'py>, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: `value` is a live object.
    let is_coroutine = unsafe { ffi::PyCoro_CheckExact(value.as_ptr()) } != 0;
    if is_coroutine {
        value.call_method0(intern!(py, "close"))?;
    }
    if is_coroutine || value.hasattr(intern!(py, "__await__"))? {
        return Err(pyo3::exceptions::PyTypeError::new_err(format!(
            "an inline or blocking handler returned an awaitable: {}",
            value.get_type().name()?
        )));
    }
    Ok(value)
}
