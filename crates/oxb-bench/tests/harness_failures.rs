//! What goes wrong in a run is said, and nothing that was started is left.
#![cfg(all(feature = "harness", feature = "load", target_os = "linux"))]
#![allow(missing_docs, reason = "a test")]

mod support;

use oxb_bench::harness;
use support::{Folder, is_gone, kit, options};

const FLOOR: &str = "[[row]]\nserver = 'floor'\n";

#[test]
#[ignore = "the server that other tests start"]
fn serve() {
    support::serve();
}

#[test]
fn a_row_that_runs_is_measured_and_its_server_ended() {
    let folder = Folder::new("good");
    folder.scenario("good", FLOOR);
    harness::run("good", &options(&folder), &kit(&folder, "")).unwrap();
    let result = folder.result("good").unwrap();
    assert_eq!(result["format"], 2);
    assert_eq!(result["rows"][0]["state"], "measured", "{result:#}");
    assert!(is_gone(folder.server().unwrap()));
}

#[test]
fn a_target_that_ends_in_mid_run_is_rejected_and_named() {
    let folder = Folder::new("killed");
    folder.scenario("killed", FLOOR);
    let error = harness::run("killed", &options(&folder), &kit(&folder, "OXB_ANSWERS=20")).unwrap_err();
    assert!(error.to_string().contains("floor: bare hyper"), "{error}");
    let result = folder.result("killed").unwrap();
    assert_eq!(result["rows"][0]["state"], "rejected");
    assert!(result["rows"][0]["why"].as_str().unwrap().contains("ended during the sample"), "{result:#}");
    assert!(is_gone(folder.server().unwrap()));
}

#[test]
fn a_worker_that_ends_in_mid_run_is_rejected_though_its_server_goes_on() {
    let folder = Folder::new("worker");
    folder.scenario("worker", FLOOR);
    harness::run("worker", &options(&folder), &kit(&folder, "OXB_LOSES=20")).unwrap_err();
    let result = folder.result("worker").unwrap();
    let why = result["rows"][0]["why"].as_str().unwrap();
    assert!(why.contains("processes of the server ended during the sample"), "{why}");
    assert!(is_gone(folder.server().unwrap()));
}

#[test]
fn a_rate_is_a_multiple_of_a_capacity_that_the_run_itself_measured() {
    let folder = Folder::new("capacity");
    let text = "title = 't'\nabout = 'a'\nrounds = 1\n[[load]]\nmode = 'open'\nrate-x-capacity = 0.25\n\
                [[row]]\nserver = 'floor'\n";
    std::fs::write(folder.0.join("benches/scenarios/capacity.toml"), text).unwrap();
    harness::run("capacity", &options(&folder), &kit(&folder, "")).unwrap();
    let row = &folder.result("capacity").unwrap()["rows"][0];
    let of = |key: &str| row[key].as_f64().unwrap();
    assert!(of("capacity") > 0.0 && (of("rate") / of("capacity") - 0.25).abs() < 1e-9, "{row:#}");
    assert!(of("peak_rss_bytes") > 0.0, "{row:#}");
}

#[test]
fn a_peer_that_is_asked_for_by_name_and_is_not_there_fails_the_run() {
    let folder = Folder::new("named");
    folder.scenario("named", "[[row]]\nserver = 'floor'\n[[row]]\nserver = 'uvicorn'\n");
    let options = oxb_bench::harness::Options { peers: vec!["uvicorn".to_owned()], ..options(&folder) };
    let error = harness::run("named", &options, &kit(&folder, "")).unwrap_err();
    assert!(error.to_string().contains("--peers uvicorn: uvicorn: nobody installed it"), "{error}");
}

#[test]
fn a_port_that_is_in_use_is_told_with_the_log_that_says_so() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let folder = Folder::new("port");
    folder.scenario("port", FLOOR);
    let kit = kit(&folder, &format!("OXB_TAKEN={port}"));
    harness::run("port", &options(&folder), &kit).unwrap_err();
    let result = folder.result("port").unwrap();
    let why = result["rows"][0]["why"].as_str().unwrap();
    assert!(why.contains("ended with") && why.contains(".log"), "{why}");
    assert!(why.contains("in use"), "{why}");
    assert!(is_gone(folder.server().unwrap()));
}

#[test]
fn a_missing_peer_and_a_missing_feature_are_rows_with_why() {
    let folder = Folder::new("missing");
    folder.scenario(
        "missing",
        "[[row]]\nserver = 'uvicorn'\n[[row]]\nserver = 'ours'\nname = 'later'\nnot-built = 'streams'\n",
    );
    harness::run("missing", &options(&folder), &kit(&folder, "")).unwrap();
    let result = folder.result("missing").unwrap();
    let row = |index: usize| &result["rows"][index];
    assert_eq!((&row(0)["state"], &row(0)["why"]), (&"absent".into(), &"nobody installed it".into()));
    assert_eq!((&row(1)["state"], &row(1)["why"]), (&"not built".into(), &"streams".into()));
}

#[test]
fn a_full_disk_is_told_and_leaves_no_half_result() {
    let folder = Folder::new("full");
    folder.scenario("full", FLOOR);
    let into = folder.0.join("results/full");
    std::fs::create_dir_all(&into).unwrap();
    std::os::unix::fs::symlink("/dev/full", into.join("result.half")).unwrap();
    let error = harness::run("full", &options(&folder), &kit(&folder, "")).unwrap_err();
    assert!(error.to_string().contains("No space left"), "{error}");
    assert!(!into.join("result.json").exists() && !into.join("result.half").is_symlink());
    assert!(is_gone(folder.server().unwrap()));
}
