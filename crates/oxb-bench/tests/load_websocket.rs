//! WebSocket echo and broadcast, against servers that do well and servers that do not.

#![cfg(feature = "scenarios")]

#[path = "support/peer.rs"]
mod peer;

use std::net::TcpStream;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use oxb_bench::load::{Script, Target};
use tokio_tungstenite::tungstenite::{Message, WebSocket, accept};

use crate::peer::{Client, assert_only, play, serve, serve_bytes};

/// What the n-th message of a connection is answered with; nothing closes it.
type Answer = fn(usize, Message) -> Option<Message>;

type Socket = WebSocket<TcpStream>;

/// A server of WebSockets.
fn sockets(behave: impl Fn(Socket) + Send + Sync + 'static) -> String {
    serve(move |client: Client| {
        if let Ok(socket) = accept(client.reader.into_inner()) {
            behave(socket);
        }
    })
}

fn answering(answer: Answer) -> String {
    sockets(move |mut socket| {
        for number in 0.. {
            let Ok(message) = socket.read() else { return };
            if !(message.is_text() || message.is_binary()) {
                continue;
            }
            let Some(message) = answer(number, message) else { break };
            if socket.send(message).is_err() {
                return;
            }
        }
        let _ = socket.close(None);
        while socket.read().is_ok() {}
    })
}

fn echo(more: &str) -> String {
    format!(
        r#"{{"mode": "websocket-echo", "connections": 3, "warmup": 0.05, "duration": 0.4, "timeout": 0.2, {more}
           "requests": [{{"path": "/echo?a=b", "headers": [["X-Own", "v"]]}}]}}"#
    )
}

#[test]
fn messages_that_come_back_are_right() {
    for more in ["", r#""message_kind": "binary", "message_bytes": 70000,"#] {
        let report = play(&answering(|_, message| Some(message)), &echo(more));
        assert_eq!(report["is_right"], true, "{report}");
        assert!(report["websocket"]["round_trips_per_second"].as_f64().unwrap() > 10.0, "{report}");
        assert!(report["websocket"]["latency_ms"]["p99"].is_f64(), "{report}");
    }
}

#[test]
fn what_is_not_an_echo_is_counted_under_its_kind() {
    let cases: [(&str, Answer); 6] = [
        ("length", |_, _| Some(Message::text("another"))),
        ("body", |_, message| Some(Message::text("y".repeat(message.len())))),
        // The right bytes as the wrong kind of message.
        ("body", |_, message| Some(Message::binary(message.into_data()))),
        // That of another: the first answer of each connection is right.
        ("body", |number, message| {
            let text = message.into_text().ok()?.as_str().to_owned();
            Some(Message::text(if number == 0 { text } else { format!("{:020}{}", 999_999, &text[20..]) }))
        }),
        ("closed", |_, _| None),
        ("timeout", |_, _| Some(Message::Ping(Vec::new().into()))),
    ];
    for (number, (kind, answer)) in cases.into_iter().enumerate() {
        let begin = Instant::now();
        assert_only(&play(&answering(answer), &echo("")), kind, &format!("case {number}"));
        assert!(begin.elapsed() < Duration::from_secs(20), "case {number}: {:?}", begin.elapsed());
    }
}

#[test]
fn frames_that_are_none_are_a_protocol_error() {
    let url = sockets(|mut socket| {
        while socket.read().is_ok() {
            // An opcode that there is not.
            if std::io::Write::write_all(socket.get_mut(), b"\x8F\x00").is_err() {
                return;
            }
        }
    });
    assert_only(&play(&url, &echo("")), "protocol", "frames");
}

#[test]
fn a_handshake_that_fails_is_told_with_its_status() {
    let url = serve_bytes(b"HTTP/1.1 403 X\r\nContent-Length: 0\r\n\r\n");
    let plan = Script::parse(&echo("")).unwrap().plan(Target::parse(&url).unwrap(), None, false).unwrap();
    let error = plan.play().unwrap_err().to_string();
    assert!(error.contains("status") && error.contains("403"), "{error}");
}

/// A server that sends each message to all, or to those that this says.
fn broadcasting(is_for: fn(subscriber: usize, message: usize) -> bool) -> String {
    let all: Arc<Mutex<Vec<Sender<Message>>>> = Arc::default();
    let count = Arc::new(Mutex::new(0));
    sockets(move |socket| {
        let stream = socket.get_ref().try_clone().expect("another handle");
        let (tx, rx) = channel();
        all.lock().expect("no holder panics").push(tx);
        std::thread::spawn(move || {
            let role = tokio_tungstenite::tungstenite::protocol::Role::Server;
            let mut writer = WebSocket::from_raw_socket(stream, role, None);
            for message in rx {
                if writer.send(message).is_err() {
                    return;
                }
            }
        });
        let mut socket = socket;
        while let Ok(message) = socket.read() {
            if !message.is_text() {
                continue;
            }
            let is_hello = message.to_text().is_ok_and(|text| text.starts_with("hello"));
            let mut number = count.lock().expect("no holder panics");
            for (subscriber, tx) in all.lock().expect("no holder panics").iter().enumerate() {
                if is_hello || is_for(subscriber, *number) {
                    let _ = tx.send(message.clone());
                }
            }
            if !is_hello {
                *number += 1;
            }
        }
    })
}

const BROADCAST: &str = r#"{"mode": "websocket-broadcast", "connections": 4, "events": 50, "timeout": 0.5,
    "requests": [{"path": "/all"}]}"#;

#[test]
fn a_broadcast_comes_to_all() {
    let paced = BROADCAST.replace(r#""events": 50"#, r#""events": 50, "rate": 500"#);
    let deep = BROADCAST.replace(r#""events": 50"#, r#""events": 50, "pipeline_depth": 10"#);
    for script in [BROADCAST, &paced, &deep] {
        let report = play(&broadcasting(|_, _| true), &script.replace("0.5,", "20,"));
        assert_eq!(report["is_right"], true, "{report}");
        assert_eq!(report["stream"]["deliveries"], 200, "{report}");
        assert!(report["stream"]["emit_to_arrival_ms"]["p99"].is_f64(), "{report}");
    }
}

#[test]
fn a_message_that_one_subscriber_did_not_get_is_missing() {
    // Two of the five connections: one of them may be that of the publisher, which is no subscriber.
    let report = play(&broadcasting(|subscriber, message| subscriber > 1 || message != 7), BROADCAST);
    assert_eq!(report["is_right"], false, "{report}");
    let missing = report["stream"]["missing"].as_u64().unwrap();
    assert!(missing >= 1, "{report}");
    assert!(report["errors"]["timeout"].as_u64().is_some(), "{report}");
}

#[test]
fn a_server_that_broadcasts_nothing_is_a_timeout() {
    let begin = Instant::now();
    let url = sockets(|mut socket| while socket.read().is_ok() {});
    assert_only(&play(&url, BROADCAST), "timeout", "silence");
    assert!(begin.elapsed() < Duration::from_secs(20));
}
