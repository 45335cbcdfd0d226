//! Event streams, uploads and slow readers, against servers that do well and servers that do not.

#![cfg(feature = "scenarios")]

#[path = "support/peer.rs"]
mod peer;

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::peer::{Client, assert_only, play, serve};

type Misbehave = fn(Client);

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n";

/// Sends these numbers as events, chunked, and stays.
fn events(client: &mut Client, numbers: &[u64]) -> bool {
    numbers.iter().all(|number| {
        let event = format!("id: {number}\ndata: {{\"at\": {}}}\n\n", nanos());
        client.write(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())
    })
}

fn nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_nanos()
}

fn stream(numbers: &'static [u64], is_ended: bool) -> String {
    serve(move |mut client| {
        client.head();
        client.write(format!("{STREAM}Transfer-Encoding: chunked\r\n\r\n").as_bytes());
        events(&mut client, numbers);
        if is_ended {
            client.write(b"0\r\n\r\n");
        }
        client.stay();
    })
}

const BURST: &str = r#"{"mode": "sse", "events": 4, "connections": 3, "timeout": 0.3, "sent_at": "/at",
    "requests": [{"path": "/events"}]}"#;

#[test]
fn every_event_to_every_subscriber_once_and_in_order_is_right() {
    let report = play(&stream(&[0, 1, 2, 3], false), BURST);
    assert_eq!(report["is_right"], true, "{report}");
    let told = &report["stream"];
    assert_eq!(
        (&told["deliveries"], &told["missing"], &told["out_of_order"]),
        (&12.into(), &0.into(), &0.into())
    );
    let arrival = told["emit_to_arrival_ms"]["p50"].as_f64().unwrap();
    assert!((0.0..5000.0).contains(&arrival), "{report}");
}

#[test]
fn missing_late_and_doubled_events_are_told() {
    // Numbers; then missing, out of order and doubled ones of each of three subscribers.
    for (numbers, expected) in [
        (&[0, 1, 3][..], (3, 0, 0)),
        (&[0, 2, 1, 3], (0, 3, 0)),
        (&[0, 1, 1, 2, 3], (0, 0, 3)),
        (&[1, 2, 3], (3, 0, 0)),
        (&[], (12, 0, 0)),
    ] {
        for is_ended in [false, true] {
            let report = play(&stream(numbers, is_ended), BURST);
            assert_eq!(report["is_right"], false, "{numbers:?}: {report}");
            let of = |key: &str| report["stream"][key].as_u64().unwrap();
            assert_eq!(
                (of("missing"), of("out_of_order"), of("duplicates")),
                expected,
                "{numbers:?}: {report}"
            );
            if expected.0 > 0 {
                // A subscriber that waits in vain has a time limit; one whose stream ends sees that.
                assert_only(&report, if is_ended { "closed" } else { "timeout" }, "missing");
            }
        }
    }
}

#[test]
fn a_stream_that_is_none_is_counted_under_its_kind() {
    let cases: [(&str, Misbehave); 7] = [
        ("status", |mut client| {
            client.head();
            client.write(b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n");
            client.stay();
        }),
        ("protocol", |mut client| {
            client.head();
            client.write(b"HTTP/1.1 200 X\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nright");
            client.stay();
        }),
        ("protocol", |mut client| {
            client.head();
            client.write(format!("{STREAM}\r\nid: seven\ndata: {{}}\n\n").as_bytes());
            client.stay();
        }),
        ("protocol", |mut client| {
            client.head();
            client.write(format!("{STREAM}Transfer-Encoding: chunked\r\n\r\nno chunk").as_bytes());
            client.stay();
        }),
        ("cut", |mut client| {
            client.head();
            client.write(format!("{STREAM}Transfer-Encoding: chunked\r\n\r\n10\r\nid: 0").as_bytes());
            let _ = client.reader.get_ref().shutdown(std::net::Shutdown::Write);
            client.stay();
        }),
        ("timeout", |mut client| client.stay()),
        ("timeout", |mut client| {
            // Comments keep a connection alive and are no events.
            client.head();
            client.write(format!("{STREAM}\r\n").as_bytes());
            while client.write(b": still here\n\n") {
                std::thread::sleep(Duration::from_millis(20));
            }
        }),
    ];
    for (number, (kind, misbehave)) in cases.into_iter().enumerate() {
        let begin = Instant::now();
        let report = play(&serve(misbehave), BURST);
        assert_only(&report, kind, &format!("case {number}"));
        assert_eq!(report["errors"][kind], 3, "case {number}: {report}");
        assert_eq!(report["stream"]["missing"], 12, "case {number}: {report}");
        assert!(begin.elapsed() < Duration::from_secs(20), "case {number}: {:?}", begin.elapsed());
    }
}

#[test]
fn a_trigger_is_pulled_once_all_have_subscribed() {
    static SUBSCRIBED: AtomicUsize = AtomicUsize::new(0);
    static PUBLISHED: AtomicUsize = AtomicUsize::new(0);
    let url = serve(|mut client| {
        let head = client.head().unwrap_or_default();
        if head.starts_with("POST /publish") {
            assert_eq!(SUBSCRIBED.load(Ordering::SeqCst), 5);
            PUBLISHED.store(1, Ordering::SeqCst);
            client.write(b"HTTP/1.1 202 X\r\nContent-Length: 0\r\n\r\n");
            return;
        }
        SUBSCRIBED.fetch_add(1, Ordering::SeqCst);
        client.write(format!("{STREAM}\r\n").as_bytes());
        while PUBLISHED.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        client.write(b"data: 7\n\ndata: 8\n\n");
        client.stay();
    });
    let script = r#"{"mode": "sse", "events": 2, "connections": 5, "timeout": 20, "sequence": "data",
        "first_sequence": 7, "requests": [{"path": "/events"}],
        "trigger": {"method": "POST", "path": "/publish", "expect": {"status": 202}}}"#;
    let report = play(&url, script);
    assert_eq!(
        (&report["is_right"], &report["stream"]["deliveries"]),
        (&true.into(), &10.into()),
        "{report}"
    );
}

#[test]
fn a_trigger_that_fails_is_told_at_once() {
    let url = serve(|mut client| {
        let head = client.head().unwrap_or_default();
        let answer =
            if head.starts_with("POST") { "HTTP/1.1 500 X\r\nContent-Length: 0\r\n" } else { STREAM };
        client.write(format!("{answer}\r\n").as_bytes());
        client.stay();
    });
    let script = r#"{"mode": "sse", "events": 2, "connections": 2, "timeout": 20,
        "requests": [{"path": "/events"}], "trigger": {"method": "POST", "path": "/publish"}}"#;
    let report = play(&url, script);
    assert_eq!(report["is_right"], false);
    assert!(report["error"].as_str().is_some_and(|error| error.contains("trigger") && error.contains("500")));
}

#[test]
fn of_a_paced_stream_the_events_of_the_window_count() {
    let url = serve(|mut client| {
        client.head();
        client.write(format!("{STREAM}Transfer-Encoding: chunked\r\n\r\n").as_bytes());
        for number in 100.. {
            if !events(&mut client, &[number]) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let script = r#"{"mode": "sse", "connections": 2, "warmup": 0.1, "duration": 0.5, "timeout": 5, "sent_at": "/at",
        "requests": [{"path": "/events"}]}"#;
    let report = play(&url, script);
    assert_eq!(report["is_right"], true, "{report}");
    // At most 50 each; far fewer on a busy machine.
    let deliveries = report["stream"]["deliveries"].as_u64().unwrap();
    assert!((4..=104).contains(&deliveries), "{report}");
}

/// Answers an upload with the number of bytes that came.
fn counting() -> String {
    serve(|mut client| {
        while let Some(head) = client.head() {
            let count = if head.contains("Transfer-Encoding: chunked") {
                let (mut count, mut line) = (0, String::new());
                loop {
                    line.clear();
                    std::io::BufRead::read_line(&mut client.reader, &mut line).expect("a chunk");
                    let size = u64::from_str_radix(line.trim(), 16).expect("a chunk size");
                    let mut chunk = vec![0; size as usize + 2];
                    client.reader.read_exact(&mut chunk).expect("a whole chunk");
                    count += size;
                    if size == 0 {
                        break count;
                    }
                }
            } else {
                let length = head.split("Content-Length: ").nth(1).expect("a length");
                let length =
                    length.split("\r\n").next().and_then(|text| text.parse().ok()).expect("a number");
                std::io::copy(&mut (&mut client.reader).take(length), &mut std::io::sink()).expect("the body")
            };
            let body = count.to_string();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            if !client.write(answer.as_bytes()) {
                return;
            }
        }
    })
}

#[test]
fn an_upload_arrives_whole_with_a_length_and_in_chunks() {
    for mode in ["upload", "chunked-upload"] {
        for bytes in [1, 999, 1000, 1001, 3_000_000] {
            let script = format!(
                r#"{{"mode": "{mode}", "chunk_bytes": 1000, "count": 6, "connections": 2, "timeout": 20, "requests":
                   [{{"method": "POST", "path": "/", "body_bytes": {bytes}, "expect": {{"body": "{bytes}"}}}}]}}"#
            );
            let report = play(&counting(), &script);
            assert_eq!(report["is_right"], true, "{mode} {bytes}: {report}");
            assert_eq!(report["upload"]["bytes"], bytes * 6, "{mode} {bytes}: {report}");
        }
    }
}

#[test]
fn a_slow_upload_takes_the_time_that_its_pace_says() {
    let script = r#"{"mode": "slow-upload", "bytes_per_second": 10000, "count": 2, "connections": 2, "requests":
        [{"method": "POST", "path": "/", "body_bytes": 3000, "expect": {"body": "3000"}}]}"#;
    let report = play(&counting(), script);
    assert_eq!(report["is_right"], true, "{report}");
    // Its last piece goes out at 0.25 s or later.
    assert!(report["requests"]["latency_ms"]["p50"].as_f64().unwrap() >= 240.0, "{report}");
}

#[test]
fn an_answer_that_comes_before_the_body_is_sent_ends_the_upload() {
    for (mode, more) in
        [("upload", ""), ("chunked-upload", ""), ("slow-upload", r#""bytes_per_second": 1000,"#)]
    {
        let url = serve(|mut client| {
            client.head();
            client.write(b"HTTP/1.1 413 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = client.reader.get_ref().shutdown(std::net::Shutdown::Write);
            // It reads no further, so the client cannot send all of it.
            std::thread::sleep(Duration::from_millis(500));
        });
        let script = format!(
            r#"{{"mode": "{mode}", {more} "count": 2, "connections": 2, "timeout": 20, "requests": [{{"method": "POST",
               "path": "/", "body_bytes": 50000000, "expect": {{"status": 413}}}}]}}"#
        );
        let report = play(&url, &script);
        assert_eq!(report["is_right"], true, "{mode}: {report}");
    }
}

#[test]
fn a_server_that_stops_reading_an_upload_is_a_timeout() {
    let url = serve(|mut client| {
        client.head();
        std::thread::sleep(Duration::from_secs(20));
    });
    let script = r#"{"mode": "upload", "count": 2, "connections": 2, "timeout": 0.2, "requests":
        [{"method": "POST", "path": "/", "body_bytes": 50000000}]}"#;
    let begin = Instant::now();
    assert_only(&play(&url, script), "timeout", "an upload");
    assert!(begin.elapsed() < Duration::from_secs(15));
}

/// A server of `/big`, endless, and of `/small`; counts the bytes of the first that went out.
fn big_and_small(sent: &Arc<AtomicU64>) -> String {
    let sent = Arc::clone(sent);
    serve(move |mut client| {
        while let Some(head) = client.head() {
            if head.starts_with("GET /small") {
                if !client.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsmall") {
                    return;
                }
                continue;
            }
            client.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
            while client.write(&[b'x'; 4096]) {
                sent.fetch_add(4096, Ordering::Relaxed);
            }
        }
    })
}

#[test]
fn slow_readers_hold_the_server_back_while_others_are_served() {
    let sent = Arc::new(AtomicU64::new(0));
    let script = r#"{"mode": "slow-reader", "slow_connections": 2, "connections": 2, "warmup": 0.1, "duration": 0.5,
        "requests": [{"path": "/big", "slow": true}, {"path": "/small", "expect": {"body": "small"}}]}"#;
    let report = play(&big_and_small(&sent), script);
    assert_eq!(report["is_right"], true, "{report}");
    assert!(report["requests"]["good"].as_u64().unwrap() > 10, "{report}");
    let slow = &report["slow_reader"];
    assert_eq!((&slow["open_at_end"], &slow["bytes_read"]), (&2.into(), &0.into()), "{report}");
    // Each of them could have had a gigabyte; what went out fills buffers.
    assert!(sent.load(Ordering::Relaxed) < 100_000_000, "{}", sent.load(Ordering::Relaxed));
}

#[test]
fn a_slow_reader_reads_no_faster_than_it_was_told() {
    let script = r#"{"mode": "slow-reader", "read_bytes_per_second": 100000, "warmup": 0, "duration": 0.6,
        "requests": [{"path": "/big", "slow": true}]}"#;
    let report = play(&big_and_small(&Arc::default()), script);
    assert_eq!(report["is_right"], true, "{report}");
    let read = report["slow_reader"]["bytes_read"].as_u64().unwrap();
    assert!((1..=70_000).contains(&read), "{report}");
}

#[test]
fn a_slow_reader_that_gets_another_status_is_told() {
    let url = serve(|mut client| {
        client.head();
        client.write(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n");
        client.stay();
    });
    let script =
        r#"{"mode": "slow-reader", "warmup": 0, "duration": 0.4, "requests": [{"path": "/", "slow": true}]}"#;
    let report = play(&url, script);
    assert_eq!(
        (&report["is_right"], &report["slow_reader"]["errors"]["status"]),
        (&false.into(), &1.into()),
        "{report}"
    );
}

#[test]
fn a_subscriber_that_does_not_read_stands_beside_those_that_do() {
    let url = serve(|mut client| {
        client.head();
        client.write(format!("{STREAM}Transfer-Encoding: chunked\r\n\r\n").as_bytes());
        events(&mut client, &[0, 1, 2, 3]);
        client.stay();
    });
    let script = BURST.replace(r#""events": 4"#, r#""events": 4, "slow_connections": 1"#);
    let report = play(&url, &script);
    assert_eq!(
        (&report["is_right"], &report["slow_reader"]["open_at_end"]),
        (&true.into(), &1.into()),
        "{report}"
    );
}
