//! The flag, wake, slot and completion protocols, in every interleaving with up to three preemptions.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p oxb-core --release --test 'loom*'`. Under loom the queues are a
//! `Mutex<VecDeque>` shim (crossbeam's are not modelled), the signal is a lock and a condition variable, and the
//! clock stands still: what is explored is the protocol around them. A wait that nobody ends is a deadlock to loom.
//! Without a bound the models of three threads take hours; `LOOM_MAX_PREEMPTIONS` sets another.
#![cfg(loom)]

use std::sync::Arc;

use loom::thread;
use oxb_core::{LoopSet, LoopSetOptions, Micros, PendingWakes, ReturnQueue, SubmitError, Worker};

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

type Set = Arc<LoopSet<u32, u32>>;

fn set_of(loop_count: usize, slots_per_loop: usize) -> Set {
    let options = LoopSetOptions { loop_count, slots_per_loop, ..LoopSetOptions::default() };
    Arc::new(LoopSet::new(&options).expect("descriptors are left"))
}

fn worker_of(set: &Set, index: usize) -> Worker<u32, u32> {
    Worker::new(set, index).expect("nobody else owns it")
}

/// Waits and drains as a loop does, until `count` jobs were popped.
fn drain(worker: &Worker<u32, u32>, count: usize) -> Vec<u32> {
    let mut jobs = Vec::new();
    while jobs.len() < count {
        worker.wait(None).expect("it can be waited for");
        worker.acknowledge();
        while let Some(taken) = worker.pop() {
            jobs.push(taken.job);
            worker.loop_set().release(taken.slot);
        }
    }
    jobs
}

#[test]
fn invariant_3_a_push_that_races_a_drain_is_drained_or_wakes_again() {
    explore(|| {
        let set = set_of(1, 4);
        let worker = worker_of(&set, 0);
        let pushers: Vec<_> = (1..=2)
            .map(|job| {
                let set = Arc::clone(&set);
                thread::spawn(move || set.submit(job).unwrap())
            })
            .collect();
        let mut jobs = drain(&worker, 2);
        jobs.sort_unstable();
        assert_eq!(jobs, [1, 2]);
        for pusher in pushers {
            pusher.join().unwrap();
        }
        assert!(set.gauges(worker.loop_id()).wakes <= 2);
    });
}

#[test]
fn invariant_3_the_readiness_is_consumed_before_the_flag_is_cleared() {
    // A ring swallowed between the two would leave the flag set: it takes a third push to find the loop asleep.
    explore(|| {
        let set = set_of(1, 4);
        let worker = worker_of(&set, 0);
        let pusher = {
            let set = Arc::clone(&set);
            thread::spawn(move || (1..=3).for_each(|job| assert!(set.submit(job).is_ok())))
        };
        assert_eq!(drain(&worker, 3), [1, 2, 3]);
        pusher.join().unwrap();
    });
}

#[test]
fn invariant_3_at_most_one_wake_is_in_flight() {
    explore(|| {
        let set = set_of(1, 4);
        let pushers: Vec<_> = (1..=2)
            .map(|job| {
                let set = Arc::clone(&set);
                thread::spawn(move || set.submit(job).unwrap())
            })
            .collect();
        for pusher in pushers {
            pusher.join().unwrap();
        }
        let loop_id = set.loop_ids().next().unwrap();
        assert_eq!(set.gauges(loop_id).wakes, 1, "nobody acknowledged the first");
    });
}

#[test]
fn an_owed_wake_is_paid_unless_the_job_was_taken_without_it() {
    explore(|| {
        let set = set_of(1, 4);
        let worker = worker_of(&set, 0);
        let pusher = {
            let set = Arc::clone(&set);
            thread::spawn(move || {
                let mut pending = PendingWakes::new();
                set.submit(1).unwrap();
                set.submit_unwoken(2, &mut pending).unwrap();
                set.wake_pending(&mut pending);
            })
        };
        assert_eq!(drain(&worker, 2), [1, 2]);
        pusher.join().unwrap();
    });
}

#[test]
fn a_loop_that_rearms_itself_comes_back_to_what_it_left() {
    explore(|| {
        let set = set_of(1, 4);
        let worker = worker_of(&set, 0);
        let pusher = {
            let set = Arc::clone(&set);
            thread::spawn(move || {
                set.submit(1).unwrap();
                set.submit(2).unwrap();
            })
        };
        let mut jobs = Vec::new();
        while jobs.len() < 2 {
            worker.wait(None).unwrap();
            worker.acknowledge();
            // One job a turn, then yield.
            if let Some(taken) = worker.pop() {
                jobs.push(taken.job);
                set.release(taken.slot);
                if worker.has_work() {
                    worker.rearm();
                }
            }
        }
        assert_eq!(jobs, [1, 2]);
        pusher.join().unwrap();
    });
}

#[test]
fn a_loop_that_says_when_it_is_awake_sleeps_on_nothing() {
    explore(|| {
        let set = set_of(1, 4);
        let worker = worker_of(&set, 0);
        worker.awake();
        let pusher = {
            let set = Arc::clone(&set);
            thread::spawn(move || {
                set.submit(1).unwrap();
                let loop_id = set.loop_ids().next().unwrap();
                set.post(loop_id, 7);
            })
        };
        let (mut jobs, mut notes) = (0, 0);
        while jobs + notes < 2 {
            while worker.pop_note().is_some() {
                notes += 1;
            }
            while let Some(taken) = worker.pop() {
                jobs += 1;
                set.release(taken.slot);
            }
            if jobs + notes < 2 && worker.prepare_to_sleep() {
                worker.wait(None).unwrap();
                worker.acknowledge();
                worker.awake();
            }
        }
        assert_eq!((jobs, notes), (1, 1));
        pusher.join().unwrap();
    });
}

#[test]
fn invariant_10_a_loop_never_holds_more_jobs_than_slots() {
    explore(|| {
        let set = set_of(1, 1);
        let worker = worker_of(&set, 0);
        let pushers: Vec<_> = (1..=2)
            .map(|job| {
                let set = Arc::clone(&set);
                thread::spawn(move || set.submit(job).is_ok())
            })
            .collect();
        let mut done = 0;
        if let Some(taken) = worker.pop() {
            assert!(set.gauges(worker.loop_id()).slots_taken <= 1);
            set.release(taken.slot);
            done += 1;
        }
        let accepted =
            pushers.into_iter().map(|pusher| pusher.join().unwrap()).filter(|accepted| *accepted).count();
        while let Some(taken) = worker.pop() {
            set.release(taken.slot);
            done += 1;
        }
        assert!(accepted >= 1, "one of them found a free slot");
        assert_eq!(done, accepted);
        assert_eq!(set.gauges(worker.loop_id()).slots_taken, 0);
    });
}

#[test]
fn invariant_4_a_job_that_is_taken_over_takes_its_slot_along() {
    explore(|| {
        let set = set_of(2, 1);
        let workers = [worker_of(&set, 0), worker_of(&set, 1)];
        let victim = set.submit(1).unwrap().index();
        let mut workers =
            workers.into_iter().enumerate().partition::<Vec<_>, _>(|(index, _)| *index == victim);
        let (owner, thief) = (workers.0.remove(0).1, workers.1.remove(0).1);
        owner.begin_step(Micros(1));
        let stealing = {
            let set = Arc::clone(&set);
            thread::spawn(move || match thief.steal() {
                Some(taken) => {
                    assert_eq!(taken.slot.loop_id(), thief.loop_id());
                    set.release(taken.slot);
                    1
                }
                None => 0,
            })
        };
        let popped = match owner.pop() {
            Some(taken) => {
                set.release(taken.slot);
                1
            }
            None => 0,
        };
        assert_eq!(popped + stealing.join().unwrap(), 1, "a job leaves its queue once");
        assert!(set.loop_ids().all(|loop_id| set.gauges(loop_id).slots_taken == 0));
    });
}

#[test]
fn a_job_is_counted_before_the_stop_or_refused() {
    explore(|| {
        let set = set_of(1, 4);
        let worker = worker_of(&set, 0);
        let submitter = {
            let set = Arc::clone(&set);
            thread::spawn(move || match set.submit(1) {
                Ok(_) => true,
                Err(SubmitError::Stopping { .. }) => false,
                Err(SubmitError::Overloaded { .. }) => panic!("there is room"),
            })
        };
        let stopper = {
            let set = Arc::clone(&set);
            thread::spawn(move || set.stop())
        };
        let mut done = false;
        while !worker.is_drained() {
            worker.wait(None).unwrap();
            worker.acknowledge();
            while let Some(taken) = worker.pop() {
                done = true;
                set.release(taken.slot);
            }
        }
        assert_eq!(done, submitter.join().unwrap(), "accepted means done before the loop ends");
        stopper.join().unwrap();
    });
}

#[test]
fn a_stopping_loop_whose_last_slot_is_freed_elsewhere_is_woken() {
    explore(|| {
        let set = set_of(1, 4);
        let worker = worker_of(&set, 0);
        set.submit(1).unwrap();
        let slot = worker.pop().unwrap().slot;
        set.stop();
        let releaser = {
            let set = Arc::clone(&set);
            thread::spawn(move || set.release(slot))
        };
        while !worker.is_drained() {
            worker.wait(None).unwrap();
            worker.acknowledge();
        }
        releaser.join().unwrap();
    });
}

#[test]
fn a_completion_never_waits_for_an_owner_that_sleeps() {
    explore(|| {
        let queue = Arc::new(ReturnQueue::new().unwrap());
        let pushers: Vec<_> = (1..=2)
            .map(|completion| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || queue.push(completion))
            })
            .collect();
        let mut seen = Vec::new();
        while seen.len() < 2 {
            while let Some(completion) = queue.pop() {
                seen.push(completion);
            }
            if seen.len() < 2 && queue.prepare_to_sleep() {
                queue.signal().wait(None).unwrap();
                queue.awake();
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
        for pusher in pushers {
            pusher.join().unwrap();
        }
    });
}
