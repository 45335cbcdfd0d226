//! A loop set against a naive model of it: lists of jobs, searched each time.
#![cfg(not(loom))]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use oxb_core::{LoopSet, LoopSetOptions, Micros, PendingWakes, Slot, SubmitError, Worker};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Action {
    Submit,
    SubmitUnwoken,
    WakePending,
    Acknowledge(usize),
    Pop(usize),
    Steal(usize),
    Release(usize),
    BeginStep(usize),
    EndStep(usize),
    Stop,
}

fn action() -> impl Strategy<Value = Action> {
    let index = 0..8usize;
    prop_oneof![
        8 => Just(Action::Submit),
        6 => Just(Action::SubmitUnwoken),
        3 => Just(Action::WakePending),
        3 => index.clone().prop_map(Action::Acknowledge),
        8 => index.clone().prop_map(Action::Pop),
        4 => index.clone().prop_map(Action::Steal),
        8 => any::<usize>().prop_map(Action::Release),
        3 => index.clone().prop_map(Action::BeginStep),
        3 => index.prop_map(Action::EndStep),
        1 => Just(Action::Stop),
    ]
}

#[derive(Default)]
struct Model {
    queues: Vec<VecDeque<u64>>,
    /// Jobs handed out, and the loop each counts for.
    running: BTreeMap<u64, usize>,
    in_step: Vec<bool>,
    /// Whether the loop was rung for and has not acknowledged.
    is_rung: Vec<bool>,
    /// Loops with a job whose wake is still owed.
    is_owed: Vec<bool>,
    is_stopping: bool,
}

impl Model {
    fn load(&self, index: usize) -> usize {
        self.queues[index].len() + self.running.values().filter(|at| **at == index).count()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_loop_set_does_what_lists_do(
        loop_count in 1..5usize,
        slots_per_loop in 1..5usize,
        actions in prop::collection::vec(action(), 1..120),
    ) {
        let options = LoopSetOptions { loop_count, slots_per_loop, ..LoopSetOptions::default() };
        let set: Arc<LoopSet<u64, ()>> = Arc::new(LoopSet::new(&options).unwrap());
        let workers: Vec<_> = (0..loop_count).map(|index| Worker::new(&set, index).unwrap()).collect();
        let mut slots: BTreeMap<u64, Slot> = BTreeMap::new();
        let mut pending = PendingWakes::new();
        let mut model = Model {
            queues: vec![VecDeque::new(); loop_count],
            in_step: vec![false; loop_count],
            is_rung: vec![false; loop_count],
            is_owed: vec![false; loop_count],
            ..Model::default()
        };
        for (job, action) in actions.into_iter().enumerate() {
            let job = job as u64;
            match action {
                Action::Submit | Action::SubmitUnwoken => {
                    let is_woken = matches!(action, Action::Submit);
                    let result = if is_woken { set.submit(job) } else { set.submit_unwoken(job, &mut pending) };
                    let is_full = (0..loop_count).all(|index| model.load(index) == slots_per_loop);
                    match result {
                        Ok(loop_id) => {
                            let at = loop_id.index();
                            prop_assert!(!model.is_stopping && model.load(at) < slots_per_loop);
                            // A step of the model began at the last moment there is, so that no loop is ever held.
                            let lowest = (0..loop_count).map(|index| model.load(index)).min().unwrap();
                            prop_assert_eq!(model.load(at), lowest);
                            let is_idle_left = (0..loop_count)
                                .any(|index| model.load(index) == lowest && !model.in_step[index]);
                            prop_assert!(!model.in_step[at] || !is_idle_left, "an idle loop of that load was left out");
                            model.queues[at].push_back(job);
                            if is_woken { model.is_rung[at] = true } else { model.is_owed[at] = true }
                        }
                        Err(SubmitError::Overloaded { job: back }) => {
                            prop_assert!(is_full && !model.is_stopping && back == job);
                        }
                        Err(SubmitError::Stopping { job: back }) => prop_assert!(model.is_stopping && back == job),
                    }
                }
                Action::WakePending => {
                    set.wake_pending(&mut pending);
                    for index in 0..loop_count {
                        let owed = std::mem::take(&mut model.is_owed[index]);
                        model.is_rung[index] |= owed && !model.queues[index].is_empty();
                    }
                }
                Action::Acknowledge(index) => {
                    let index = index % loop_count;
                    workers[index].acknowledge();
                    model.is_rung[index] = false;
                }
                Action::Pop(index) => {
                    let index = index % loop_count;
                    let taken = workers[index].pop();
                    prop_assert_eq!(taken.as_ref().map(|taken| taken.job), model.queues[index].pop_front());
                    if let Some(taken) = taken {
                        model.running.insert(taken.job, index);
                        slots.insert(taken.job, taken.slot);
                    }
                }
                Action::Steal(index) => {
                    let index = index % loop_count;
                    let can = model.load(index) < slots_per_loop
                        && (0..loop_count).any(|victim| {
                            victim != index && model.in_step[victim] && !model.queues[victim].is_empty()
                        });
                    let taken = workers[index].steal();
                    prop_assert_eq!(taken.is_some(), can);
                    if let Some(taken) = taken {
                        let victim = model.queues.iter().position(|queue| queue.front() == Some(&taken.job)).unwrap();
                        prop_assert!(victim != index && model.in_step[victim]);
                        model.queues[victim].pop_front();
                        model.running.insert(taken.job, index);
                        slots.insert(taken.job, taken.slot);
                        if model.is_stopping && model.load(victim) == 0 {
                            model.is_rung[victim] = true;
                        }
                    }
                }
                Action::Release(nth) => {
                    if !slots.is_empty() {
                        let job = *slots.keys().nth(nth % slots.len()).unwrap();
                        let at = model.running.remove(&job).unwrap();
                        set.release(slots.remove(&job).unwrap());
                        if model.is_stopping && model.load(at) == 0 {
                            model.is_rung[at] = true;
                        }
                    }
                }
                Action::BeginStep(index) => {
                    workers[index % loop_count].begin_step(Micros(u64::MAX - 1 - job));
                    model.in_step[index % loop_count] = true;
                }
                Action::EndStep(index) => {
                    workers[index % loop_count].end_step();
                    model.in_step[index % loop_count] = false;
                }
                Action::Stop => {
                    set.stop();
                    model.is_stopping = true;
                    model.is_rung.fill(true);
                }
            }
            for (index, loop_id) in set.loop_ids().enumerate() {
                let gauges = set.gauges(loop_id);
                prop_assert_eq!(gauges.slots_taken, model.load(index));
                prop_assert_eq!(gauges.queued, model.queues[index].len());
                prop_assert_eq!(gauges.step_since.is_some(), model.in_step[index]);
                prop_assert_eq!(gauges.wake_pending_since.is_some(), model.is_rung[index]);
                prop_assert_eq!(workers[index].wait(Some(std::time::Duration::ZERO)).unwrap(), model.is_rung[index]);
                prop_assert_eq!(workers[index].has_work(), !model.queues[index].is_empty());
                let is_drained = model.is_stopping && model.load(index) == 0;
                prop_assert_eq!(workers[index].is_drained(), is_drained);
            }
            let is_full = (0..loop_count).all(|index| model.load(index) == slots_per_loop);
            prop_assert_eq!(set.is_full(), is_full);
        }
        slots.into_values().for_each(|slot| set.release(slot));
    }
}
