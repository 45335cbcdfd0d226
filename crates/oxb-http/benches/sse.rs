//! Guards the price of an event as bytes: a small one, one with every field, and one of many lines.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use oxb_http::sse::Event;

fn sse(criterion: &mut Criterion) {
    let lines = b"a line of some length\n".repeat(100);
    for (name, event) in [
        ("small", Event { data: b"{\"price\":1.25}", ..Event::default() }),
        (
            "all fields",
            Event { data: b"{\"price\":1.25}", event: Some("price"), id: Some("7"), retry: Some(3000) },
        ),
        ("100 lines", Event { data: &lines, ..Event::default() }),
    ] {
        let mut out = Vec::with_capacity(8192);
        criterion.bench_function(&format!("sse/{name}"), |bencher| {
            bencher.iter(|| {
                out.clear();
                black_box(event).write(black_box(&mut out))
            });
        });
    }
}

criterion_group!(benches, sse);
criterion_main!(benches);
