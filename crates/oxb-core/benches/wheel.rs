//! What a request's deadline costs. Guards: work added to arm and disarm of a key that is already in its bucket.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use oxb_core::{DeadlineWheel, Micros};

fn wheel(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("wheel");
    let mut wheel = DeadlineWheel::starting_at(Micros(0));
    let keys: Vec<_> = (0..64).map(|_| wheel.insert()).collect();
    let mut now = 0u64;
    group.bench_function("arm_disarm", |bencher| {
        bencher.iter(|| {
            now += 1;
            let key = keys[now as usize % 64];
            wheel.arm(black_box(key), Micros(now + 30_000_000));
            wheel.disarm(black_box(key));
        });
    });
    // A second of a server with 10,000 requests waiting for their answer.
    for nth in 0..10_000 {
        let key = wheel.insert();
        wheel.arm(key, Micros(now + 3_600_000_000 + nth));
    }
    group.bench_function("expire_1s_10000_armed", |bencher| {
        bencher.iter(|| {
            now += 1_000_000;
            wheel.expire(Micros(now.min(3_000_000_000)), |key| panic!("{key:?} is not due"));
        });
    });
    group.finish();
}

fn quick() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
}

criterion_group! { name = benches; config = quick(); targets = wheel }
criterion_main!(benches);
