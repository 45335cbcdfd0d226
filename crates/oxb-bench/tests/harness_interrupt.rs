//! An interrupt in mid-run ends the run, and the server under test. Alone in its process: it raises a signal.
#![cfg(all(feature = "harness", feature = "load", target_os = "linux"))]
#![allow(missing_docs, reason = "a test")]

mod support;

use std::time::{Duration, Instant};

use oxb_bench::harness;
use support::{Folder, is_gone, kit, options};

#[test]
#[ignore = "the server that the other test starts"]
fn serve() {
    support::serve();
}

#[test]
fn an_interrupt_ends_run_generator_and_server_and_keeps_no_result() {
    let folder = Folder::new("interrupt");
    folder.scenario("interrupt", "[[row]]\nserver = 'floor'\n");
    let kit = kit(&folder, "");
    let long = harness::Options { duration: Some(600.0), ..options(&folder) };
    let begin = Instant::now();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            while folder.server().is_none() {
                assert!(begin.elapsed() < Duration::from_secs(60), "no server was started");
                std::thread::sleep(Duration::from_millis(5));
            }
            signal_hook::low_level::raise(signal_hook::consts::SIGINT).unwrap();
        });
        harness::run("interrupt", &long, &kit).unwrap_err()
    });
    assert!(matches!(error, harness::Error::Interrupted), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(300), "it went on to its end");
    assert!(folder.result("interrupt").is_none());
    assert!(is_gone(folder.server().unwrap()));
}
