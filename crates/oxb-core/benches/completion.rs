//! What a completion costs on its way back. Guards: work added to push or pop, and a push that rings for an owner that
//! is awake.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use oxb_core::ReturnQueue;

type Completion = [u64; 4];
const COMPLETION: Completion = [1, 2, 3, 4];

fn push_pop(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("return_queue");
    let queue = ReturnQueue::new().expect("descriptors are left");
    group.bench_function("push_pop", |bencher| {
        bencher.iter(|| {
            queue.push(black_box(COMPLETION));
            black_box(queue.pop())
        });
    });
    group.throughput(Throughput::Elements(32));
    group.bench_function("push_pop_32", |bencher| {
        bencher.iter(|| {
            for _ in 0..32 {
                queue.push(black_box(COMPLETION));
            }
            while let Some(completion) = queue.pop() {
                black_box(completion);
            }
            queue.prepare_to_sleep();
            queue.awake();
        });
    });
    group.bench_function("pop_of_nothing", |bencher| bencher.iter(|| black_box(queue.pop())));
    group.finish();
}

fn contention(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("return_queue_contention");
    group.throughput(Throughput::Elements(1));
    for producers in [1, 2, 4] {
        group.bench_function(BenchmarkId::new("producers", producers), |bencher| {
            bencher.iter_custom(|count| {
                let queue = ReturnQueue::new().expect("descriptors are left");
                let started = Instant::now();
                thread::scope(|scope| {
                    for producer in 0..producers {
                        let share = count / producers + u64::from(producer < count % producers);
                        let queue = &queue;
                        scope.spawn(move || (0..share).for_each(|_| queue.push(COMPLETION)));
                    }
                    let mut seen = 0;
                    while seen < count {
                        while queue.pop().is_some() {
                            seen += 1;
                        }
                        if seen < count && queue.prepare_to_sleep() {
                            queue.signal().wait(None).expect("an open descriptor can be polled");
                            queue.signal().consume();
                        }
                        queue.awake();
                    }
                });
                started.elapsed()
            });
        });
    }
    group.finish();
}

fn quick() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
}

criterion_group! { name = benches; config = quick(); targets = push_pop, contention }
criterion_main!(benches);
