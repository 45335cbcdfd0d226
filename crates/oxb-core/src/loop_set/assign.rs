//! Which loop a job goes to, and who takes the jobs of a loop that is busy with one step.
//!
//! Invariant 13 of ARCHITECTURE.md: a loop that has been in one step for over 1 ms counts as held and gets work only
//! when every other loop that is not full is held too; a job not yet popped is taken by an idle loop, which is woken
//! for it. A set of one loop skips all of this.

use super::{LoopSet, LoopState, Queued, SubmitError};
use crate::slot::Take;
use crate::sync::Ordering;
use crate::units::Micros;

/// A step longer than this holds its loop.
const HELD_AFTER: Micros = Micros(1_000);

/// How the loop of a job is chosen.
///
/// ```
/// use oxb_core::{Assignment, LoopSet, LoopSetOptions};
///
/// let options =
///     LoopSetOptions { loop_count: 2, assignment: Assignment::RoundRobin, ..LoopSetOptions::default() };
/// let set: LoopSet<u32, ()> = LoopSet::new(&options)?;
/// let places: Vec<usize> =
///     (0..4).map(|job| set.submit(job).expect("there is room").index()).collect();
/// assert_eq!(places, [0, 1, 0, 1]);
/// # Ok::<(), oxb_core::LoopSetError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Assignment {
    /// The lowest load, queued plus running, held loops last; among equals an idle one, else the one whose current
    /// step began last; then in turn.
    #[default]
    LeastLoaded,
    /// In turn, whatever the load, but for full loops. For comparison.
    RoundRobin,
}

impl<J, N> LoopState<J, N> {
    fn is_held(&self, now: Micros) -> bool {
        self.step_since().is_some_and(|since| now.since(since) > HELD_AFTER)
    }
}

impl<J: Send, N: Send> LoopSet<J, N> {
    /// Puts a job on the queue of a loop, and says which.
    #[inline]
    pub(super) fn place(&self, job: J, now: Micros) -> Result<usize, SubmitError<J>> {
        let placed = match &*self.loops {
            [only] => only.accept(job, now).map(|()| 0),
            _ => self.place_among_several(job, now),
        };
        if placed.is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed); // a gauge
        }
        placed
    }

    fn place_among_several(&self, job: J, now: Micros) -> Result<usize, SubmitError<J>> {
        // Relaxed: whose turn it is; two that read the same number only share a turn.
        let first = self.next_turn.fetch_add(1, Ordering::Relaxed) % self.loops.len();
        let chosen = match self.assignment {
            Assignment::LeastLoaded => self.least_loaded(first, now),
            Assignment::RoundRobin => first,
        };
        let mut job = match self.loops[chosen].accept(job, now) {
            Ok(()) => return Ok(chosen),
            Err(SubmitError::Overloaded { job }) => job,
            Err(stopping) => return Err(stopping),
        };
        // It filled up since it was looked at, or it was full in its turn: the next that has room.
        for step in 1..self.loops.len() {
            let index = (chosen + step) % self.loops.len();
            job = match self.loops[index].accept(job, now) {
                Ok(()) => return Ok(index),
                Err(SubmitError::Overloaded { job }) => job,
                Err(stopping) => return Err(stopping),
            };
        }
        Err(SubmitError::Overloaded { job })
    }

    fn least_loaded(&self, first: usize, now: Micros) -> usize {
        let after = (first..self.loops.len()).chain(0..first);
        // `min_by_key` keeps the first of equals, and `first` takes turns.
        after
            .min_by_key(|&index| {
                let state = &self.loops[index];
                let since = state.step_since();
                let is_held = since.is_some_and(|since| now.since(since) > HELD_AFTER);
                (
                    state.slots.is_full(),
                    is_held,
                    state.slots.taken(),
                    since.map_or(0, |since| u64::MAX - since.0), // an idle one, else the last to begin its step
                )
            })
            .expect("a set has a loop")
    }

    /// Takes a waiting job of a loop that is in a step over to the loop at `thief`; its slot moves with it. The loop
    /// longest in its step is asked first.
    pub(super) fn steal_for(&self, thief: usize) -> Option<Queued<J>> {
        if self.loops.len() == 1 {
            return None;
        }
        let mut asked_before = 0;
        loop {
            // By when their step began, each once: a step that ends meanwhile is left out, a new one comes last.
            let (since, victim) = self
                .loops
                .iter()
                .enumerate()
                .filter(|(index, state)| *index != thief && !state.jobs.is_empty())
                .filter_map(|(_, state)| Some((state.step_since()?.0, state)))
                .filter(|(since, _)| *since > asked_before)
                .min_by_key(|(since, _)| *since)?;
            asked_before = since;
            // First a slot here, so that neither loop ever holds more jobs than it has slots.
            if self.loops[thief].slots.take_for_moved() != Take::Taken {
                return None;
            }
            match victim.jobs.pop() {
                Some(queued) => {
                    victim.give_back();
                    return Some(queued);
                }
                None => self.loops[thief].give_back(),
            }
        }
    }

    /// The 10 ms tick: for each job queue that waits behind a held loop, wakes one loop that sleeps and could take from
    /// it. Whether any job waits, so that ticks must go on. A set of one loop needs none and says `false`.
    ///
    /// ```
    /// # use oxb_core::{LoopSet, LoopSetOptions, clock};
    /// let set: LoopSet<u32, ()> = LoopSet::new(&LoopSetOptions { loop_count: 2, ..LoopSetOptions::default() })?;
    /// assert!(!set.tick(clock::now()));
    /// set.submit(1).expect("there is room");
    /// assert!(set.tick(clock::now()));
    /// # Ok::<(), oxb_core::LoopSetError>(())
    /// ```
    pub fn tick(&self, now: Micros) -> bool {
        if self.loops.len() == 1 {
            return false;
        }
        let mut is_any_waiting = false;
        for victim in self.loops.iter().filter(|state| !state.jobs.is_empty()) {
            is_any_waiting = true;
            if !victim.is_held(now) {
                continue;
            }
            // One that has been rung for, or is awake, steals before it sleeps; the next held loop gets another.
            let sleeper = self.loops.iter().find(|state| {
                state.step_since().is_none()
                    && state.jobs.is_empty()
                    && !state.slots.is_full()
                    && !state.waker.is_look_due()
            });
            if let Some(sleeper) = sleeper {
                sleeper.waker.wake();
            }
        }
        is_any_waiting
    }
}
