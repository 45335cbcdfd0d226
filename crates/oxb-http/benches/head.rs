//! Guards the price of a request head: finding its end and reading it, for a load generator's GET (three fields; budget
//! 250 ns together) and a browser's (fifteen), and the scan of a head that trickles in.

use std::hint::black_box;

use bytes::BytesMut;
use criterion::{Criterion, criterion_group, criterion_main};
use oxb_http::head::{Head, HeadLimits, HeadScan};

const SMALL: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nUser-Agent: load/1.0\r\nAccept: */*\r\n\r\n";

const BROWSER: &[u8] = b"GET /articles/2024/11/some-title?page=2 HTTP/1.1\r\n\
Host: www.example.com\r\n\
Connection: keep-alive\r\n\
Cache-Control: max-age=0\r\n\
sec-ch-ua: \"Chromium\";v=\"130\", \"Not?A_Brand\";v=\"99\"\r\n\
sec-ch-ua-mobile: ?0\r\n\
sec-ch-ua-platform: \"Linux\"\r\n\
Upgrade-Insecure-Requests: 1\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
Sec-Fetch-Site: same-origin\r\n\
Sec-Fetch-Mode: navigate\r\n\
Sec-Fetch-Dest: document\r\n\
Accept-Encoding: gzip, deflate, br\r\n\
Accept-Language: en-US,en;q=0.9\r\n\
Cookie: session=3f2a9c0e1b7d4; theme=dark\r\n\r\n";

fn head(criterion: &mut Criterion) {
    let limits = HeadLimits::default();
    for (name, raw) in [("small", SMALL), ("browser", BROWSER)] {
        criterion.bench_function(&format!("head/scan {name}"), |bencher| {
            bencher.iter(|| HeadScan::new().advance(black_box(raw), &limits));
        });
        let frozen = bytes::Bytes::copy_from_slice(raw);
        criterion.bench_function(&format!("head/parse {name}"), |bencher| {
            bencher.iter(|| Head::parse(black_box(&frozen).clone(), &limits));
        });
        // As a connection does it: scan the buffer, split the head off, freeze it, parse.
        let pipeline = raw.repeat(64);
        criterion.bench_function(&format!("head/64 pipelined {name}"), |bencher| {
            bencher.iter_batched(
                || BytesMut::from(&pipeline[..]),
                |mut buf| {
                    let mut scan = HeadScan::new();
                    while let Ok(Some(len)) = scan.advance(&buf, &limits) {
                        black_box(Head::parse(buf.split_to(len).freeze(), &limits)).expect("a good head");
                        scan.reset();
                    }
                    buf
                },
                criterion::BatchSize::SmallInput,
            );
        });
    }
    criterion.bench_function("head/scan browser byte by byte", |bencher| {
        bencher.iter(|| {
            let mut scan = HeadScan::new();
            for len in 1..=BROWSER.len() {
                let _ = black_box(scan.advance(&BROWSER[..len], &limits));
            }
        });
    });
    let parsed = Head::parse(bytes::Bytes::from_static(BROWSER), &limits).expect("a good head");
    criterion.bench_function("head/find the last of fifteen fields", |bencher| {
        bencher.iter(|| black_box(&parsed).header(black_box("cookie")).map(<[u8]>::len));
    });
}

criterion_group!(benches, head);
criterion_main!(benches);
