//! Servers that misbehave towards requests: each way is counted under its own kind, and none makes the generator hang.

#![cfg(feature = "scenarios")]

#[path = "support/peer.rs"]
mod peer;

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use oxb_bench::load::{Script, Target};

use crate::peer::{Client, assert_only, play, serve, serve_bytes};

const RIGHT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nright";
const EXPECT: &str = r#""expect": {"body": "right"}"#;

/// Every mode that is made of requests, with four of them in all.
fn modes() -> Vec<String> {
    ["closed", "churn", "pipeline", "open"]
        .map(|mode| {
            let more = match mode {
                "open" => r#""rate": 500, "#,
                "pipeline" => r#""pipeline_depth": 2, "#,
                _ => "",
            };
            format!(
                r#"{{"mode": "{mode}", {more}"count": 4, "connections": 2, "timeout": 0.2,
                   "requests": [{{"path": "/", {EXPECT}}}]}}"#
            )
        })
        .to_vec()
}

type Misbehave = fn(Client);

#[test]
fn right_answers_are_right_in_every_mode() {
    for mode in modes() {
        let report = play(&serve_bytes(RIGHT), &mode);
        assert_eq!(report["is_right"], true, "{mode}: {report}");
        assert_eq!(report["requests"]["good"], 4, "{mode}: {report}");
        assert!(report["server"]["peak_rss_bytes"].as_u64() >= report["server"]["rss_bytes"].as_u64());
        for part in ["latency_ms", "head_ms", "first_byte_ms", "gap_ms"] {
            for percentile in ["mean", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"] {
                assert!(report["requests"][part][percentile].is_f64(), "{part} {percentile}: {report}");
            }
        }
    }
}

#[test]
fn each_misbehaviour_is_counted_under_its_own_kind_in_every_mode() {
    let cases: [(&str, Misbehave); 9] = [
        ("status", |mut client| {
            while client.head().is_some() && client.write(b"HTTP/1.1 500 X\r\nContent-Length: 5\r\n\r\nright")
            {
            }
        }),
        ("length", |mut client| {
            while client.head().is_some() && client.write(b"HTTP/1.1 200 X\r\nContent-Length: 4\r\n\r\nrigh")
            {
            }
        }),
        ("body", |mut client| {
            while client.head().is_some() && client.write(b"HTTP/1.1 200 X\r\nContent-Length: 5\r\n\r\nwrong")
            {
            }
        }),
        ("protocol", |mut client| while client.head().is_some() && client.write(b"SSH-2.0-other\r\n") {}),
        ("protocol", |mut client| {
            client.head();
            client.write(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
            client.stay();
        }),
        ("closed", |mut client| {
            client.head();
            let _ = client.reader.get_ref().shutdown(std::net::Shutdown::Write);
            client.stay();
        }),
        ("cut", |mut client| {
            client.head();
            client.write(b"HTTP/1.1 200 X\r\nContent-Length: 5\r\n\r\nri");
            let _ = client.reader.get_ref().shutdown(std::net::Shutdown::Write);
            client.stay();
        }),
        ("timeout", |mut client| client.stay()),
        ("timeout", |mut client| {
            client.head();
            client.write(b"HTTP/1.1 200 X\r\nContent-Length: 5\r\n\r\nri");
            client.stay();
        }),
    ];
    for (kind, misbehave) in cases {
        for mode in modes() {
            let begin = Instant::now();
            let report = play(&serve(misbehave), &mode);
            assert_only(&report, kind, &mode);
            let bad = report["requests"]["bad"].as_u64();
            assert_eq!(bad, Some(4), "{kind}: {mode}: {report}");
            assert!(begin.elapsed() < Duration::from_secs(20), "{kind}: {mode}: {:?}", begin.elapsed());
        }
    }
}

#[test]
fn a_reset_within_the_body_is_a_reset() {
    let url = serve(|mut client| {
        if client.head().is_some() {
            client.write(b"HTTP/1.1 200 X\r\nContent-Length: 1000000\r\n\r\nri");
            client.reset();
        }
    });
    let script = r#"{"count": 4, "connections": 2, "timeout": 5, "requests": [{"path": "/"}]}"#;
    assert_only(&play(&url, script), "reset", "a reset");
}

#[test]
fn a_server_that_goes_away_is_a_failure_to_connect() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("the only connection");
        drop(listener);
        let mut client = Client { reader: std::io::BufReader::new(stream) };
        client.head();
        client.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
    let script = r#"{"count": 3, "connections": 1, "timeout": 5, "requests": [{"path": "/"}]}"#;
    let report = play(&url, script);
    assert_only(&report, "connect", "gone");
    assert_eq!(
        (&report["requests"]["good"], &report["errors"]["connect"]),
        (&1.into(), &2.into()),
        "{report}"
    );
}

#[test]
fn a_server_that_was_never_there_is_an_error_at_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let script = Script::parse(r#"{"requests": [{"path": "/"}]}"#).unwrap();
    let plan = script.plan(Target::parse(&url).unwrap(), None, false).unwrap();
    let error = plan.play().unwrap_err().to_string();
    assert!(error.contains("connection 1") && error.contains("is the server there?"), "{error}");
}

#[test]
fn the_hash_of_an_answer_tells_it_from_another_of_the_same_length() {
    // `printf right | sha256sum`
    let right = "27042f4e6eca7d0b2a7ee4026df2ecfa51d3339e6d122aa099118ecd8563bad9";
    let wrong = right.replace('a', "b");
    for (sha256, is_right) in [(right, true), (wrong.as_str(), false)] {
        let script = format!(
            r#"{{"count": 3, "connections": 1, "requests": [{{"path": "/", "expect": {{"sha256": "{sha256}"}}}}]}}"#
        );
        let report = play(&serve_bytes(RIGHT), &script);
        assert_eq!(report["is_right"], is_right, "{report}");
        if !is_right {
            assert_only(&report, "body", "hash");
        }
    }
}

#[test]
fn requests_are_sent_as_often_as_their_weights_say_and_each_has_its_own_expectation() {
    static FEW: AtomicUsize = AtomicUsize::new(0);
    let url = serve(|mut client| {
        while let Some(head) = client.head() {
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            if path == "/few" {
                FEW.fetch_add(1, Ordering::Relaxed);
            }
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len());
            if !client.write(answer.as_bytes()) {
                return;
            }
        }
    });
    let script = r#"{"count": 1000, "connections": 4, "seed": 5, "requests": [
        {"path": "/few", "expect": {"body": "/few"}},
        {"path": "/many", "weight": 9, "expect": {"body": "/many"}}]}"#;
    let report = play(&url, script);
    assert_eq!((&report["is_right"], &report["requests"]["good"]), (&true.into(), &1000.into()), "{report}");
    let few = FEW.load(Ordering::Relaxed);
    assert!((50..200).contains(&few), "{few} of 1000 were to be a tenth");
}

#[test]
fn method_header_fields_and_body_reach_the_server() {
    let url = serve(|mut client| {
        while let Some(head) = client.head() {
            let mut body = [0; 3];
            let is_right = head.starts_with("PUT /a?b=c HTTP/1.1\r\n")
                && head.contains("\r\nX-Own: v\r\n")
                && head.contains("\r\nContent-Length: 3\r\n")
                && client.reader.read_exact(&mut body).is_ok()
                && &body == b"xxx";
            let answer = if is_right { RIGHT } else { b"HTTP/1.1 400 X\r\nContent-Length: 0\r\n\r\n" };
            if !client.write(answer) {
                return;
            }
        }
    });
    let script = r#"{"count": 3, "connections": 1, "requests": [{"method": "PUT", "path": "/a?b=c",
        "headers": [["X-Own", "v"]], "body_bytes": 3, "expect": {"body": "right"}}]}"#;
    assert_eq!(play(&url, script)["is_right"], true);
}

#[test]
fn churn_uses_each_connection_once_and_the_others_keep_theirs() {
    for (mode, most) in [("churn", usize::MAX), ("closed", 2), ("pipeline", 2)] {
        let count = std::sync::Arc::new(AtomicUsize::new(0));
        let counted = std::sync::Arc::clone(&count);
        let url = serve(move |mut client| {
            counted.fetch_add(1, Ordering::Relaxed);
            while client.head().is_some() && client.write(RIGHT) {}
        });
        let script = format!(
            r#"{{"mode": "{mode}", "count": 50, "connections": 2, "requests": [{{"path": "/", {EXPECT}}}]}}"#
        );
        assert_eq!(play(&url, &script)["requests"]["good"], 50);
        let connections = count.load(Ordering::Relaxed);
        if mode == "churn" {
            // One more looked whether the server is there.
            assert!((50..=51).contains(&connections), "{connections}");
        }
        assert!(connections <= most, "{mode}: {connections}");
    }
}

#[test]
fn a_pause_between_head_and_body_is_seen_apart() {
    let url = serve(|mut client| {
        while client.head().is_some() {
            client.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
            std::thread::sleep(Duration::from_millis(60));
            if !client.write(b"right") {
                return;
            }
        }
    });
    let script =
        r#"{"count": 3, "connections": 1, "requests": [{"path": "/", "expect": {"body": "right"}}]}"#;
    let report = play(&url, script);
    let of = |part: &str| report["requests"][part]["p50"].as_f64().unwrap();
    assert!(of("gap_ms") >= 55.0, "{report}");
    assert!(of("head_ms") < of("first_byte_ms") && of("first_byte_ms") >= 55.0, "{report}");
}

#[test]
fn a_unix_socket_is_as_good_as_a_port() {
    let folder = std::env::temp_dir().join(format!("oxb-load-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buf = [0; 4096];
                while stream.read(&mut buf).is_ok_and(|count| count > 0) {
                    if std::io::Write::write_all(&mut stream, RIGHT).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let script = Script::parse(r#"{"count": 20, "connections": 2, "requests": [{"path": "/"}]}"#).unwrap();
    let target = Target::parse("http://localhost/").unwrap().over_unix(path);
    let played = script.plan(target, None, true).unwrap().play().unwrap();
    assert!(played.is_right, "{}", played.report);
    assert_eq!(played.lines.len(), 20);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_a_mode_does_not_read_is_refused() {
    let target = Target::parse("http://127.0.0.1:1/").unwrap();
    for (script, why) in [
        (r#"{"requests": []}"#, "`requests` is empty"),
        (r#"{"requests": [{"path": "/"}], "rate": 5}"#, "`rate` says nothing in the mode closed"),
        (r#"{"mode": "open", "requests": [{"path": "/"}]}"#, "wants a `rate`"),
        (r#"{"mode": "open", "rate": 0, "requests": [{"path": "/"}]}"#, "`rate` is above 0"),
        (r#"{"mode": "upload", "requests": [{"path": "/"}]}"#, "wants a body"),
        (r#"{"mode": "slow-upload", "requests": [{"path": "/", "body": "a"}]}"#, "wants `bytes_per_second`"),
        (r#"{"mode": "slow-reader", "requests": [{"path": "/"}]}"#, "\"slow\": true"),
        (r#"{"requests": [{"path": "/", "slow": true}]}"#, "`slow` says nothing in the mode closed"),
        (r#"{"mode": "sse", "requests": [{"path": "/", "expect": {"body": "a"}}]}"#, "only `status`"),
        (r#"{"mode": "sse", "sequence": "x", "requests": [{"path": "/"}]}"#, "JSON pointer"),
        (
            r#"{"mode": "sse", "events": 5, "duration": 1, "requests": [{"path": "/"}]}"#,
            "`duration` says nothing",
        ),
        (r#"{"mode": "websocket-broadcast", "requests": [{"path": "/"}]}"#, "wants `events`"),
        (r#"{"mode": "websocket-echo", "message_bytes": 5, "requests": [{"path": "/"}]}"#, "`message_bytes`"),
        (r#"{"mode": "websocket-echo", "requests": [{"path": "/", "method": "POST"}]}"#, "is a GET"),
        (r#"{"requests": [{"path": "a"}]}"#, "`path` begins with /"),
        (r#"{"requests": [{"path": "/", "headers": [["a", "b\r\nc: d"]]}]}"#, "is no field"),
        (r#"{"requests": [{"path": "/", "body": "a", "body_bytes": 1}]}"#, "a request has one"),
        (r#"{"requests": [{"path": "/", "body_file": "no such file"}]}"#, "no such file"),
        (r#"{"requests": [{"path": "/", "expect": {"sha256": "12"}}]}"#, "64 hexadecimal"),
        (r#"{"requests": [{"path": "/"}], "count": 1, "duration": 1}"#, "not both"),
        (r#"{"requests": [{"path": "/"}], "connections": 0}"#, "`connections` is from 1"),
        (r#"{"requests": [{"path": "/"}], "timeout": 0}"#, "`timeout` is above 0"),
    ] {
        let refused =
            Script::parse(script).unwrap().plan(target.clone(), None, false).unwrap_err().to_string();
        assert!(refused.contains(why), "{script}: {refused}");
    }
}

#[test]
fn every_example_of_the_documentation_is_a_plan() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/benchmarks.md");
    let text = std::fs::read_to_string(page).unwrap();
    let examples: Vec<&str> =
        text.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 2);
    for example in examples {
        let script = Script::parse(example).unwrap_or_else(|error| panic!("{error}: {example}"));
        let plan = script.plan(Target::parse("http://127.0.0.1:1/").unwrap(), None, false);
        assert!(plan.is_ok(), "{plan:?}: {example}");
    }
}
