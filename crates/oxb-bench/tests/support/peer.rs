//! A server for the generator to meet, that does exactly what a test says; and a scenario played against it.

#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use oxb_bench::load::{Script, Target};
use serde_json::Value;

/// One connection of a client.
pub(crate) struct Client {
    pub(crate) reader: BufReader<TcpStream>,
}

/// A server with a thread for each connection; it lives as long as the test process.
pub(crate) fn serve(play: impl Fn(Client) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let play = Arc::new(play);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let play = Arc::clone(&play);
            thread::spawn(move || play(Client { reader: BufReader::new(stream) }));
        }
    });
    format!("http://{address}/")
}

/// Answers every request head with these bytes.
pub(crate) fn serve_bytes(answer: &'static [u8]) -> String {
    serve(move |mut client| {
        while client.head().is_some() {
            if !client.write(answer) {
                return;
            }
        }
    })
}

impl Client {
    /// The next request head, or `None` at the end.
    pub(crate) fn head(&mut self) -> Option<String> {
        let mut head = String::new();
        loop {
            let before = head.len();
            match self.reader.read_line(&mut head) {
                Ok(0) | Err(_) => return None,
                Ok(_) if &head[before..] == "\r\n" => return Some(head),
                Ok(_) => {}
            }
        }
    }

    /// Whether the client still takes bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> bool {
        self.reader.get_mut().write_all(bytes).is_ok()
    }

    /// Stays until the client leaves.
    pub(crate) fn stay(&mut self) {
        let mut rest = Vec::new();
        // An error is a client that left as well.
        let _ = std::io::Read::read_to_end(&mut self.reader, &mut rest);
    }

    /// Ends with a reset instead of a close.
    pub(crate) fn reset(self) {
        let stream = self.reader.into_inner();
        rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO))
            .expect("a socket option");
    }
}

/// Plays a scenario file; the report.
pub(crate) fn play(url: &str, script: &str) -> Value {
    let target = Target::parse(url).expect("the server's own address");
    let script = Script::parse(script).expect("a scenario");
    let plan = script.plan(target, Some(std::process::id()), false).expect("a plan");
    let played = plan.play().expect("a load that could begin");
    assert_eq!(played.report["is_right"], played.is_right);
    played.report
}

/// A report in which only this kind of error was counted.
pub(crate) fn assert_only(report: &Value, kind: &str, what: &str) {
    assert_eq!(report["is_right"], false, "{what}: {report}");
    let errors = report["errors"].as_object().expect("errors by kind");
    assert_eq!(errors.keys().collect::<Vec<_>>(), [kind], "{what}: {report}");
}
