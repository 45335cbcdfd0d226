//! What a job costs on its way through a loop set, and how long a sleeping loop takes to wake.
//!
//! Guards: work added to submit, pop or release (`round_trip`, `burst`); a queue or slot count that falls apart when
//! several threads push (`contention`); a lost or late wake (`wake_latency`).

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use oxb_core::{LoopSet, LoopSetOptions, PendingWakes, Worker, clock};

/// As large as a request's job: a few pointers.
type Job = [u64; 4];
const JOB: Job = [1, 2, 3, 4];

fn set_of(loop_count: usize) -> Arc<LoopSet<Job, ()>> {
    Arc::new(
        LoopSet::new(&LoopSetOptions { loop_count, ..LoopSetOptions::default() })
            .expect("descriptors are left"),
    )
}

fn worker_of(set: &Arc<LoopSet<Job, ()>>, index: usize) -> Worker<Job, ()> {
    Worker::new(set, index).expect("nobody else owns it")
}

/// One job, there and back, on one thread: nothing contended, no wake rung.
fn round_trip(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("round_trip");
    for loop_count in [1, 2, 4] {
        let set = set_of(loop_count);
        let workers: Vec<_> = (0..loop_count).map(|index| worker_of(&set, index)).collect();
        let mut pending = PendingWakes::new();
        group.bench_function(BenchmarkId::new("submit_unwoken_pop_release", loop_count), |bencher| {
            bencher.iter(|| {
                let loop_id = set.submit_unwoken(black_box(JOB), &mut pending).expect("there is room");
                let taken = workers[loop_id.index()].pop().expect("it was submitted");
                black_box(taken.job);
                set.release(taken.slot);
                set.wake_pending(&mut pending);
            });
        });
    }
    group.bench_function("clock", |bencher| bencher.iter(clock::now));
    group.finish();
}

/// A batch of 64 as an I/O thread and a drain make it: one clock for all that go in, one wake.
fn burst(criterion: &mut Criterion) {
    const BATCH: u64 = 64;
    let mut group = criterion.benchmark_group("burst");
    group.throughput(Throughput::Elements(BATCH));
    let set = set_of(1);
    let worker = worker_of(&set, 0);
    let mut pending = PendingWakes::new();
    group.bench_function("push_drain_64", |bencher| {
        bencher.iter(|| {
            for _ in 0..BATCH {
                set.submit_unwoken(black_box(JOB), &mut pending).expect("there is room");
            }
            set.wake_pending(&mut pending);
            worker.acknowledge();
            while let Some(taken) = worker.pop() {
                worker.begin_step(taken.taken_at);
                black_box(taken.job);
                worker.end_step();
                set.release(taken.slot);
            }
        });
    });
    group.finish();
}

/// Several producers on one loop that drains all the time.
fn contention(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("contention");
    group.throughput(Throughput::Elements(1));
    for producers in [1, 2, 4, 8] {
        group.bench_function(BenchmarkId::new("producers", producers), |bencher| {
            bencher.iter_custom(|jobs| {
                let set = set_of(1);
                let drain = {
                    let worker = worker_of(&set, 0);
                    thread::spawn(move || {
                        let mut done = 0;
                        while done < jobs {
                            worker
                                .wait(Some(Duration::from_secs(10)))
                                .expect("an open descriptor can be polled");
                            worker.acknowledge();
                            while let Some(taken) = worker.pop() {
                                worker.loop_set().release(taken.slot);
                                done += 1;
                            }
                        }
                    })
                };
                let started = Instant::now();
                thread::scope(|scope| {
                    for producer in 0..producers {
                        let share = jobs / producers + u64::from(producer < jobs % producers);
                        let set = &set;
                        scope.spawn(move || {
                            for _ in 0..share {
                                while set.submit(JOB).is_err() {
                                    thread::yield_now();
                                }
                            }
                        });
                    }
                });
                drain.join().expect("the drain does not panic");
                started.elapsed()
            });
        });
    }
    group.finish();
}

/// From `submit` to the first instruction of the woken loop.
fn wake_latency(criterion: &mut Criterion) {
    let set = set_of(1);
    let worker = worker_of(&set, 0);
    let origin = Instant::now();
    let seen = Arc::new(AtomicU64::new(0));
    let sleeper = {
        let seen = Arc::clone(&seen);
        thread::spawn(move || {
            while !worker.loop_set().is_drained() {
                worker.wait(None).expect("an open descriptor can be polled");
                worker.acknowledge();
                while let Some(taken) = worker.pop() {
                    worker.loop_set().release(taken.slot);
                    seen.store(origin.elapsed().as_nanos() as u64, Ordering::Release);
                }
            }
        })
    };
    criterion.bench_function("wake_latency", |bencher| {
        bencher.iter_custom(|rounds| {
            let mut total = Duration::ZERO;
            for _ in 0..rounds {
                seen.store(0, Ordering::Release);
                // Long enough for the loop to be asleep again.
                thread::sleep(Duration::from_micros(50));
                let begun = origin.elapsed().as_nanos() as u64;
                set.submit(JOB).expect("there is room");
                let woken = loop {
                    match seen.load(Ordering::Acquire) {
                        0 => std::hint::spin_loop(),
                        woken => break woken,
                    }
                };
                total += Duration::from_nanos(woken - begun);
            }
            total
        });
    });
    set.stop();
    sleeper.join().expect("the loop does not panic");
}

fn quick() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
}

criterion_group! { name = benches; config = quick(); targets = round_trip, burst, contention, wake_latency }
criterion_main!(benches);
