//! What one loop works with: its queue, its spares, and the turn in which it drains.
//!
//! Everything here belongs to the loop's thread. No cell stays borrowed while Python runs: a handler may come
//! back in by any way it likes.
//!
//! Invariant 12 of ARCHITECTURE.md: a turn takes one job at a time and yields after 64 jobs or 500 us.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use oxb_core::{LoopId, Micros, Taken, Worker as Queue, clock};
use oxb_http::exchange::Exchange;
use oxb_http::service::Notice;
use pyo3::intern;
use pyo3::prelude::*;

use super::Worker;
use super::blocking::BlockingCall;
use super::context::Context;
use super::door::Door;
use super::job::{Job, Loops, Onward, Owed};
use super::plan::{Asked, Plan};
use super::site::Site;
use super::spare::Spare;
use super::tasks::Tasks;
use crate::reply::{Outcome, to_reply};

/// Jobs of one turn, then the loop's own callbacks come by (invariant 12).
const TURN_JOBS: u32 = 64;
/// Microseconds of one turn.
const TURN_LENGTH: u64 = 500;
/// Idle spares that are kept. More than a burst of suspended jobs leaves behind is not worth its memory.
const IDLE_SPARES: usize = 256;
/// Spares made at once where a new one needs a turn of the loop before it can be used (3.11).
const SLOW_BATCH: usize = 8;

/// How a turn ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pumped {
    /// Nothing waits.
    Dry,
    /// The turn is over and jobs wait.
    Spent,
    /// Jobs wait for spares that park at the loop's next turn.
    Starved,
}

/// One loop's own state.
pub(crate) struct Desk {
    pub(crate) queue: Queue<Job, Notice>,
    pub(crate) loop_id: LoopId,
    pub(crate) site: Arc<Site>,
    pub(crate) event_loop: Py<PyAny>,
    /// What each job's context is a copy of.
    pub(crate) base: Context,
    pub(crate) tasks: Tasks,
    loops: Arc<Loops>,
    /// A job taken from another loop, before any of the own queue.
    in_hand: RefCell<Option<Taken<Job>>>,
    /// Jobs that go on after their handler: streams that blocking handlers returned, and work for after a response.
    onward: RefCell<VecDeque<Onward>>,
    idle: RefCell<Vec<Py<Spare>>>,
    seats: RefCell<Vec<Option<Py<Spare>>>>,
    free_seats: RefCell<Vec<u32>>,
    jobs_left: Cell<u32>,
    turn_ends: Cell<Micros>,
    /// There are other loops.
    is_shared: bool,
    is_pumping: Cell<bool>,
    is_stopped: Cell<bool>,
}

impl Desk {
    pub(super) fn new(
        py: Python<'_>,
        queue: Queue<Job, Notice>,
        loops: Arc<Loops>,
        site: Arc<Site>,
        event_loop: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        Ok(Self {
            loop_id: queue.loop_id(),
            queue,
            site,
            base: Context::copy_current(py)?,
            tasks: Tasks::new(py, event_loop)?,
            event_loop: event_loop.clone().unbind(),
            is_shared: loops.loop_count() > 1,
            loops,
            in_hand: RefCell::new(None),
            onward: RefCell::new(VecDeque::new()),
            idle: RefCell::new(Vec::new()),
            seats: RefCell::new(Vec::new()),
            free_seats: RefCell::new(Vec::new()),
            jobs_left: Cell::new(0),
            turn_ends: Cell::new(Micros(0)),
            is_pumping: Cell::new(false),
            is_stopped: Cell::new(false),
        })
    }

    /// The next job of this turn.
    #[inline]
    pub(super) fn next_job(&self) -> Option<Taken<Job>> {
        if let Some(taken) = self.in_hand.take() {
            return Some(taken);
        }
        let left = self.jobs_left.get();
        let now = clock::now();
        if left == 0 || now >= self.turn_ends.get() {
            self.jobs_left.set(0);
            return None;
        }
        self.jobs_left.set(left - 1);
        let taken = self.queue.pop_at(now);
        if taken.is_some() && self.is_shared {
            // One of several loops: each job is a step of its own, which others judge this loop by (invariant 13).
            self.queue.begin_step(now);
        }
        taken
    }

    /// A resumed job finished: its spare may take one waiting job in the same step. No more, or a turn of the loop
    /// that resumes many would put off its timers (invariant 12).
    #[inline]
    pub(super) fn allow_one(&self) {
        self.jobs_left.set(u32::from(!self.is_stopped.get()));
        self.turn_ends.set(Micros(u64::MAX));
    }

    pub(super) fn next_onward(&self) -> Option<Onward> {
        self.onward.borrow_mut().pop_front()
    }

    /// A job goes on after its handler, on this loop.
    pub(super) fn put_onward(&self, onward: Onward) {
        if self.is_stopped.get() {
            onward.held.answer.turn_away(&self.loops);
        } else {
            self.onward.borrow_mut().push_back(onward);
        }
    }

    /// Runs one turn. Called outside any Task: by the loop's reader callback or inside our selector.
    pub(super) fn pump(&self, py: Python<'_>, worker: &Bound<'_, Worker>) -> PyResult<Pumped> {
        if self.is_stopped.get() {
            self.turn_away();
            return Ok(Pumped::Dry);
        }
        if self.is_pumping.replace(true) {
            return Ok(Pumped::Dry);
        }
        let started = clock::now();
        self.jobs_left.set(TURN_JOBS);
        self.turn_ends.set(Micros(started.0 + TURN_LENGTH));
        self.queue.begin_step(started);
        let pumped = self.turn(py, worker);
        self.queue.end_step();
        self.is_pumping.set(false);
        pumped
    }

    fn turn(&self, py: Python<'_>, worker: &Bound<'_, Worker>) -> PyResult<Pumped> {
        loop {
            while let Some(notice) = self.queue.pop_note() {
                self.notify(py, &notice)?;
            }
            if self.in_hand.borrow().is_none() && self.onward.borrow().is_empty() && !self.queue.has_work() {
                return Ok(Pumped::Dry);
            }
            if self.jobs_left.get() == 0 {
                return Ok(Pumped::Spent);
            }
            let Some(spare) = self.take_idle(py)? else {
                self.make_spares(py, worker)?;
                if self.idle.borrow().is_empty() {
                    return Ok(Pumped::Starved);
                }
                continue;
            };
            spare.get().wake(py)?;
        }
    }

    /// Takes a waiting job of a loop that is in a step; the next pump begins with it (invariant 13).
    pub(super) fn steal(&self) -> bool {
        if self.is_stopped.get() || !self.is_shared {
            return false;
        }
        let stolen = self.queue.steal();
        let is_stolen = stolen.is_some();
        if is_stolen {
            self.in_hand.replace(stolen);
        }
        is_stolen
    }

    fn notify(&self, py: Python<'_>, notice: &Notice) -> PyResult<()> {
        let (Notice::Abandoned(exchange) | Notice::Room(exchange)) = notice else {
            return match (notice, &self.site.readers) {
                (Notice::Body(exchange), Some(readers)) => readers.wake(py, exchange),
                _ => Ok(()),
            };
        };
        let Some(seat) = exchange.seat() else { return Ok(()) };
        let spare =
            self.seats.borrow().get(seat as usize).and_then(|seat| seat.as_ref().map(|s| s.clone_ref(py)));
        match spare {
            Some(spare) => spare.get().notify(py, notice),
            None => Ok(()),
        }
    }

    /// An idle spare whose Task nobody else holds.
    fn take_idle(&self, py: Python<'_>) -> PyResult<Option<Py<Spare>>> {
        loop {
            let spare = self.idle.borrow_mut().pop();
            let Some(spare) = spare else { return Ok(None) };
            if !spare.get().is_kept()? {
                return Ok(Some(spare));
            }
            // A kept Task ends, so that whoever awaits it goes on.
            spare.get().end(py)?;
        }
    }

    pub(super) fn make_spares(&self, py: Python<'_>, worker: &Bound<'_, Worker>) -> PyResult<()> {
        let batch = if self.tasks.is_eager { 1 } else { SLOW_BATCH };
        for _ in 0..batch {
            let seat = self.free_seats.borrow_mut().pop();
            let seat = seat.unwrap_or_else(|| {
                let mut seats = self.seats.borrow_mut();
                seats.push(None);
                u32::try_from(seats.len() - 1)
                    .expect("a loop holds at most 2^24 jobs: LoopSet caps its slots")
            });
            let door = Bound::new(py, Door::new(self.event_loop.clone_ref(py)))?;
            let spare = Bound::new(py, Spare::new(worker.clone().unbind(), door.unbind(), seat))?;
            if let Some(place) = self.seats.borrow_mut().get_mut(seat as usize) {
                *place = Some(spare.clone().unbind());
            }
            let task = self.tasks.make(&spare)?;
            spare.get().set_task(task.unbind())?;
        }
        Ok(())
    }

    pub(super) fn put_idle(&self, spare: Py<Spare>) {
        self.idle.borrow_mut().push(spare);
    }

    pub(super) fn wants_idle(&self) -> bool {
        !self.is_stopped.get() && self.idle.borrow().len() < IDLE_SPARES
    }

    /// The Task of the spare at this seat ended.
    pub(super) fn forget(&self, seat: u32) {
        let gone = self.seats.borrow_mut().get_mut(seat as usize).and_then(Option::take);
        if gone.is_some() {
            self.free_seats.borrow_mut().push(seat);
        }
        drop(gone);
    }

    #[inline]
    pub(super) fn step_begins(&self) {
        if self.is_shared {
            self.queue.begin_step(clock::now());
        }
    }

    #[inline]
    pub(super) fn step_ends(&self) {
        if self.is_shared {
            self.queue.end_step();
        }
    }

    /// No more jobs. Returns the Tasks of all spares, idle ones too, for the loop to cancel.
    pub(super) fn stop(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        self.is_stopped.set(true);
        let idle = self.idle.take();
        drop(idle);
        let seated: Vec<_> = self.seats.borrow().iter().flatten().map(|spare| spare.clone_ref(py)).collect();
        let tasks: PyResult<Vec<_>> = seated.iter().map(|spare| spare.get().task(py)).collect();
        Ok(tasks?.into_iter().flatten().collect())
    }

    /// The loop is about to close: what is still owed is settled, whatever state its job is in.
    pub(super) fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.is_stopped.set(true);
        let seated: Vec<_> = self.seats.borrow().iter().flatten().map(|spare| spare.clone_ref(py)).collect();
        for spare in seated {
            spare.get().abandon()?;
        }
        self.turn_away();
        Ok(())
    }

    /// After the stop: what is still queued is refused, so that nothing is left to look at.
    fn turn_away(&self) {
        while self.queue.pop_note().is_some() {}
        while let Some(onward) = self.next_onward() {
            onward.held.answer.turn_away(&self.loops);
        }
        while let Some(taken) = self.in_hand.take().or_else(|| self.queue.pop()) {
            taken.job.responder.overloaded();
            self.loops.release(taken.slot);
        }
    }

    /// Hands the job to the pool, which answers it.
    pub(super) fn to_pool(
        &self,
        py: Python<'_>,
        worker: &Py<Worker>,
        plan: &Arc<Plan>,
        asked: Asked,
        owed: Owed,
        context: Context,
    ) {
        let call = BlockingCall::new(
            worker.clone_ref(py),
            self.event_loop.clone_ref(py),
            Arc::clone(plan),
            asked,
            owed,
            context,
        );
        let submitted = Bound::new(py, call).and_then(|call| {
            let submitted = self.site.submit.bind(py).call1((&call,));
            if submitted.is_err() {
                call.get().turn_away();
            }
            submitted
        });
        if let Err(error) = submitted {
            error.write_unraisable(py, None);
        }
    }

    /// Answers for a job that raised.
    #[cold]
    pub(super) fn fail(&self, py: Python<'_>, plan: &Plan, asked: Asked, owed: Owed, error: PyErr) {
        fail(py, &self.site, &self.loops, plan, asked, owed, error);
    }

    /// The source of a stream failed: the client sees it by the closed connection, the operator in the log.
    #[cold]
    pub(super) fn log_failure(&self, py: Python<'_>, asked: &mut Asked, error: PyErr) {
        let logged = asked.show(py, &self.site).map(|request| request.clone_ref(py)).and_then(|request| {
            self.site.log_stream.bind(py).call1((error.into_value(py), request)).map(drop)
        });
        if let Err(error) = logged {
            error.write_unraisable(py, None);
        }
    }
}

/// Answers for a job that raised: by the hook, which logs what is not an `HTTPError` and gives a response.
#[cold]
pub(super) fn fail(
    py: Python<'_>,
    site: &Site,
    loops: &Loops,
    plan: &Plan,
    mut asked: Asked,
    owed: Owed,
    error: PyErr,
) {
    asked.drop_work();
    if is_from_outside(py, loops, owed.responder.exchange(), &error) {
        owed.turn_away(loops);
        return;
    }
    let reply = asked.show(py, site).map(|request| request.clone_ref(py)).and_then(|request| {
        let response = site.answer.bind(py).call1((error.into_value(py), request, site.is_debug))?;
        match to_reply(py, &response, &plan.answers)? {
            Outcome::Whole(reply) => Ok(Some(reply)),
            Outcome::Stream { .. } | Outcome::File { .. } => Ok(None),
        }
    });
    match reply {
        Ok(Some(reply)) => {
            asked.tell_failure(owed.responder.exchange());
            owed.reply(loops, reply);
        }
        // The engine answers 500 for a responder that was dropped.
        Ok(None) => owed.abandon(loops),
        Err(error) => {
            error.write_unraisable(py, None);
            owed.abandon(loops);
        }
    }
}

/// Whether a job was cancelled because its client left or the grace of a stop is over: nothing is logged for it
/// (api.md 1.4 and 16.9).
pub(super) fn is_from_outside(py: Python<'_>, loops: &Loops, exchange: &Exchange, error: &PyErr) -> bool {
    (exchange.is_abandoned() || loops.is_stopping()) && is_cancellation(py, error)
}

fn is_cancellation(py: Python<'_>, error: &PyErr) -> bool {
    py.import(intern!(py, "asyncio"))
        .and_then(|asyncio| asyncio.getattr(intern!(py, "CancelledError")))
        .is_ok_and(|cancelled| error.matches(py, cancelled).unwrap_or(false))
}
