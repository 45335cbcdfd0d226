//! Guards the price of a chunked body: large chunks (the cost is the caller's copy), small ones (the cost is ours), and
//! one that arrives byte by byte.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use oxb_http::chunked::ChunkedDecoder;

fn wire(chunk_len: usize, chunk_count: usize) -> Vec<u8> {
    let chunk = [format!("{chunk_len:x}\r\n").as_bytes(), &vec![b'x'; chunk_len], b"\r\n"].concat();
    [chunk.repeat(chunk_count), b"0\r\n\r\n".to_vec()].concat()
}

fn chunked(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("chunked");
    for (name, input, piece) in [
        ("16 of 16 KiB", wire(16384, 16), usize::MAX),
        ("1024 of 16 bytes", wire(16, 1024), usize::MAX),
        ("64 of 16 bytes, byte by byte", wire(16, 64), 1),
    ] {
        group.throughput(Throughput::Bytes(input.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut decoder = ChunkedDecoder::new();
                let mut count = 0;
                for piece in black_box(&input).chunks(piece.min(input.len())) {
                    let progress = decoder.decode(piece, |data| count += data.len());
                    black_box(progress).expect("a good body");
                }
                count
            });
        });
    }
    group.finish();
}

criterion_group!(benches, chunked);
criterion_main!(benches);
