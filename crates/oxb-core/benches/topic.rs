//! What a message costs each subscriber of a topic. Guards: a wakeup per message instead of one per burst, a copy of the
//! message, work added under the lock.

use std::hint::black_box;
use std::sync::Arc;
use std::task::{Context, Waker};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use oxb_core::{Policy, Subscription, SubscriptionOptions, Topic, TopicOptions};

type Message = Arc<[u8]>;

fn topic_of(subscribers: usize, policy: Policy) -> (Topic<Message>, Vec<Subscription<Message>>) {
    let topic = Topic::new("t", TopicOptions { maxsize: 64, policy, keep: 0 }).expect("64 is room");
    let readers = (0..subscribers)
        .map(|_| topic.subscribe(SubscriptionOptions::default()).expect("64 is room"))
        .collect();
    (topic, readers)
}

/// One message emitted and read by each, who then waits for the next.
fn emit_and_read(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("topic_emit_and_read");
    let message: Message = Arc::from(&b"data: hello\n\n"[..]);
    for subscribers in [1, 100, 1_000] {
        group.throughput(Throughput::Elements(subscribers as u64));
        group.bench_function(BenchmarkId::from_parameter(subscribers), |bencher| {
            let (topic, readers) = topic_of(subscribers, Policy::Block);
            let cx = &mut Context::from_waker(Waker::noop());
            bencher.iter(|| {
                let _ = black_box(topic.emit(Arc::clone(&message)).wait());
                for reader in &readers {
                    black_box(reader.try_next());
                    assert!(reader.poll_next(cx).is_pending());
                }
            });
        });
    }
    group.finish();
}

/// Messages to subscribers that do not read.
fn emit_to_full(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("topic_emit_to_full");
    let message: Message = Arc::from(&b"data: hello\n\n"[..]);
    for policy in [Policy::DropOldest, Policy::DropNewest] {
        group.throughput(Throughput::Elements(1_000));
        group.bench_function(BenchmarkId::from_parameter(format!("{policy:?}")), |bencher| {
            let (topic, readers) = topic_of(1_000, policy);
            bencher.iter(|| black_box(topic.emit_nowait(Arc::clone(&message))));
            drop(readers);
        });
    }
    group.finish();
}

criterion_group!(benches, emit_and_read, emit_to_full);
criterion_main!(benches);
