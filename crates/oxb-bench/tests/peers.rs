//! Every peer that is installed serves its hello and is what its row says; it is ended by its id.
//!
//! The environments are those of `cargo xtask bench setup`, so these tests are ignored unless asked for:
//! `OXB_PEERS_PYTHON=PATH cargo test -p oxb-bench --features harness --test peers -- --ignored`. `OXB_PEERS_ONLY=granian,uvicorn` takes
//! the servers whose names begin so, which is what continuous integration runs.

#![cfg(all(feature = "harness", feature = "load", target_os = "linux"))]

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use oxb_bench::harness::peers::{Catalog, Interpreter, Peers, Target};
use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_oxb-bench");

/// A server that is ended with all its children.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let id = self.0.id().to_string();
        let stopped = Command::new(BENCH)
            .args(["stop", "--duration", "5", "--pid", &id])
            .stdout(Stdio::null())
            .status();
        assert!(stopped.is_ok() || std::thread::panicking(), "{stopped:?}");
        let _ = self.0.wait();
    }
}

fn get(port: u16, path: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
    // As long as the head says: not every event loop closes when it is asked to.
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    while !is_whole(&answer) {
        match stream.read(&mut piece)? {
            0 => break,
            count => answer.extend_from_slice(&piece[..count]),
        }
    }
    let end = head_end(&answer);
    match end {
        Some(end) if answer.starts_with(b"HTTP/1.1 200") => Ok(answer.split_off(end)),
        _ => Err(std::io::Error::other(String::from_utf8_lossy(&answer).into_owned())),
    }
}

fn head_end(answer: &[u8]) -> Option<usize> {
    answer.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = head_end(answer) else { return false };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    length
        .and_then(|length| length.trim().parse::<usize>().ok())
        .is_some_and(|length| answer.len() >= end + length)
}

fn try_out(target: &Target, from: u16) -> Result<(), Box<dyn Error>> {
    // A port of its own for each, as the one before may linger. Below those that connections are given: whoever
    // waits for a listener must not connect to itself.
    let port = (from..30_000)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or("no free port")?;
    let mut command = Command::new(BENCH);
    command.args(["exec", "--"]).args(target.command(port, 1)).current_dir(&target.directory);
    command
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut running = Running(command.spawn()?);
    let id = running.0.id();
    let deadline = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        if let Some(status) = running.0.try_wait()? {
            return Err(format!("ended with {status}").into());
        }
        if Instant::now() > deadline {
            return Err("does not listen".into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // A listener may be there before its worker.
    let hello = get(port, "/")?;
    if hello != b"Hello, world!" {
        return Err(format!("/ answers {:?}", String::from_utf8_lossy(&hello)).into());
    }
    let info: Value = serde_json::from_slice(&get(port, "/info")?)?;
    Ok(target.check(&info, id)?)
}

fn peers() -> Peers {
    let python = std::env::var_os("OXB_PEERS_PYTHON").expect("OXB_PEERS_PYTHON names the interpreter");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder));
    let catalog = Catalog::load(&root.join("benches/peers")).expect("the catalogue is right");
    let interpreter = Interpreter::ask(&PathBuf::from(python)).expect("it is a Python");
    Peers::open(catalog, interpreter, &target)
}

#[test]
#[ignore = "wants the environments of `cargo xtask bench setup`"]
fn every_installed_peer_says_hello_and_is_what_its_row_claims() {
    let peers = peers();
    let only = std::env::var("OXB_PEERS_ONLY").unwrap_or_default();
    let only: Vec<&str> = only.split(',').collect();
    let (mut tried, mut wrong) = (0_u16, Vec::new());
    for (server, event_loop, app) in peers.combinations() {
        if !only.iter().any(|name| server.starts_with(name)) {
            continue;
        }
        match peers.target(server, event_loop, app) {
            Err(absent) => println!("{server}, {event_loop}, {app}: {absent}"),
            Ok(target) => {
                tried += 1;
                match try_out(&target, 20_000 + tried * 10) {
                    Ok(()) => println!("{}: right", target.name),
                    Err(error) => wrong.push(format!("{}: {error}", target.name)),
                }
            }
        }
    }
    assert!(tried > 0, "no peer is installed");
    assert!(wrong.is_empty(), "{tried} tried:\n{}", wrong.join("\n"));
}
