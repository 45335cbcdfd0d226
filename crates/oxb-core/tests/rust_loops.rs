//! Loops that run Rust closures: all of them, once, whatever they do.
#![cfg(not(loom))]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use oxb_core::{LoopSetOptions, RustLoops, SubmitError};

const DEADLINE: Duration = Duration::from_secs(20);

fn loops_of(loop_count: usize, slots_per_loop: usize) -> RustLoops {
    RustLoops::start(&LoopSetOptions { loop_count, slots_per_loop, ..LoopSetOptions::default() })
        .expect("threads are left")
}

#[test]
fn every_accepted_job_runs_once_also_after_stop() {
    for _ in 0..20 {
        let loops = loops_of(3, 1000);
        let runs = Arc::new(AtomicU64::new(0));
        let mut accepted = 0;
        for nth in 0..2000 {
            let runs = Arc::clone(&runs);
            accepted += u64::from(
                loops
                    .submit(move |_| {
                        if nth % 500 == 0 {
                            std::thread::sleep(Duration::from_millis(2));
                        }
                        runs.fetch_add(1, Ordering::Relaxed);
                    })
                    .is_ok(),
            );
        }
        loops.stop();
        assert_eq!(runs.load(Ordering::Relaxed), accepted);
    }
}

#[test]
fn a_panic_costs_one_job_and_frees_its_slot() {
    let loops = loops_of(1, 2);
    let (tx, rx) = mpsc::channel();
    for _ in 0..10 {
        let tx = tx.clone();
        // Dropped as the panic unwinds, or kept until the job's end.
        while let Err(SubmitError::Overloaded { .. }) = loops.submit({
            let tx = tx.clone();
            move |_| {
                tx.send(()).unwrap();
                std::panic::panic_any("a job of the test panics");
            }
        }) {
            std::thread::yield_now();
        }
        rx.recv_timeout(DEADLINE).unwrap();
    }
    let set = Arc::clone(loops.loop_set());
    let panics = loops.panic_count();
    loops.stop();
    assert!((9..=10).contains(&panics), "the last may not have been counted yet: {panics}");
    assert!(set.is_drained());
}

#[test]
fn invariant_13_a_job_behind_a_held_loop_runs_on_an_idle_one() {
    let loops = loops_of(2, 8);
    let (release_tx, release_rx) = mpsc::channel::<()>();
    let release_rx = Arc::new(Mutex::new(release_rx));
    let (tx, rx) = mpsc::channel();
    // Four jobs for two loops, one of which never comes back until told to.
    for nth in 0..4 {
        let (tx, release_rx) = (tx.clone(), Arc::clone(&release_rx));
        loops
            .submit(move |context| {
                if nth == 0 {
                    release_rx.lock().unwrap().recv_timeout(DEADLINE).unwrap();
                }
                tx.send((nth, context.loop_id)).unwrap();
            })
            .unwrap();
    }
    let done: Vec<_> = (0..3).map(|_| rx.recv_timeout(DEADLINE).unwrap()).collect();
    assert!(done.iter().all(|(nth, _)| *nth != 0), "{done:?}");
    release_tx.send(()).unwrap();
    let (nth, held) = rx.recv_timeout(DEADLINE).unwrap();
    assert_eq!(nth, 0);
    assert!(done.iter().all(|(_, loop_id)| *loop_id != held), "{done:?} on other loops than {held:?}");
}

#[test]
fn the_last_owner_of_the_loops_may_be_one_of_their_jobs() {
    let loops = Arc::new(loops_of(2, 8));
    let (go_tx, go_rx) = mpsc::channel::<()>();
    let (tx, rx) = mpsc::channel();
    let owner = Arc::clone(&loops);
    loops
        .submit(move |_| {
            go_rx.recv_timeout(DEADLINE).unwrap();
            drop(owner);
            tx.send(()).unwrap();
        })
        .unwrap();
    drop(loops);
    go_tx.send(()).unwrap();
    rx.recv_timeout(DEADLINE).unwrap();
}
