//! A harness that is killed, and so can end nothing itself, leaves neither generator nor server.
#![cfg(all(feature = "harness", feature = "load", target_os = "linux"))]
#![allow(missing_docs, reason = "a test")]

mod support;

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use oxb_bench::{harness, process};
use support::{Folder, is_gone, kit, options};

#[test]
#[ignore = "the server that the other test's harness starts"]
fn serve() {
    support::serve();
}

#[test]
#[ignore = "the harness that the other test kills"]
fn measure() {
    if std::env::var_os("OXB_MEASURE").is_some() {
        let folder = Folder::new("killed-harness");
        folder.scenario("long", "[[row]]\nserver = 'floor'\n");
        let long = harness::Options { duration: Some(600.0), ..options(&folder) };
        let _ = harness::run("long", &long, &kit(&folder, ""));
    }
}

#[test]
fn a_killed_harness_takes_generator_and_server_with_it() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "measure"])
        .env("OXB_MEASURE", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let is_generator = |id: &u32| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.next().is_some_and(|program| program.ends_with(b"oxb-bench")) && words.next() == Some(b"load")
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    let family = loop {
        let family = process::tree(child.id()).unwrap();
        if family.iter().any(is_generator) {
            break family;
        }
        assert!(Instant::now() < deadline, "no generator was started: {family:?}");
        std::thread::sleep(Duration::from_millis(5));
    };
    child.kill().unwrap();
    child.wait().unwrap();
    for id in family {
        assert!(is_gone(id), "process {id} is left");
    }
    let folder = std::env::temp_dir().join(format!("oxb-harness-killed-harness-{}", child.id()));
    fs::remove_dir_all(folder).unwrap();
}
