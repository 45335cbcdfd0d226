//! Reports from made-up runs: what moved, what is refused, and that nothing is lost on the way to a table or a plot.

#![cfg(feature = "report")]

use oxb_bench::report::{
    FIGURES, NotFit, Refusal, Saved, Verdict, bars, compare, csv, curves, document, markdown, scaling,
};
use serde_json::{Value, json};

fn sample(rate: f64, cpu: f64, p50: f64) -> Value {
    json!({
        "is_right": true,
        "requests_per_second": rate,
        "requests": { "latency_ms": { "p50": p50, "p90": p50 * 2.0, "p99": p50 * 4.0, "p99.9": p50 * 8.0 } },
        "server": { "cpu_us_per_request": cpu, "rss_bytes": 24_000_000 },
        "generator": { "is_saturated": false },
    })
}

fn row(name: &str, rates: &[f64]) -> Value {
    let samples: Vec<Value> = rates.iter().map(|rate| sample(*rate, 1e6 / rate, 64e3 / rate)).collect();
    json!({ "name": name, "samples": samples })
}

fn run(rows: Vec<Value>) -> Value {
    json!({
        "scenario": "hello",
        "trustworthy": true,
        "conditions": { "doubts": [], "load_before": 0.1, "load_after": 1.5 },
        "machine": { "cpu": "Made Up", "cpus": 2, "system": "Linux 6.1.0-build x86_64", "commit": "0123456789abcdef" },
        "seed": 7,
        "duration_s": 8.0,
        "rows": rows,
        "bars": [
            { "what": "CPU", "figure": 1.2, "limit": { "at_most": 1.45 }, "is_kept": true },
            { "what": "rate", "figure": 1.2, "limit": { "at_least": 1.6 }, "is_kept": false },
            { "what": "shown", "figure": null, "limit": null, "is_kept": null },
        ],
    })
}

fn saved(value: &Value) -> Saved {
    Saved::from_json(value).expect("it is a result")
}

fn verdict(before: &[f64], after: &[f64]) -> Verdict {
    let (before, after) = (saved(&run(vec![row("ours", before)])), saved(&run(vec![row("ours", after)])));
    let found = compare(&before, &after, false).expect("they can be compared");
    let rate = found.iter().find(|one| one.figure.title == "requests/s").expect("it is a figure");
    rate.verdict
}

#[test]
fn a_row_has_moved_only_beyond_the_noise_of_its_own_rounds() {
    let quiet = [100.0, 101.0, 99.0, 100.5, 99.5];
    assert_eq!(verdict(&quiet, &[110.0, 111.0, 109.0, 110.5, 109.5]), Verdict::Better);
    assert_eq!(verdict(&quiet, &[90.0, 91.0, 89.0, 90.5, 89.5]), Verdict::Worse);
    assert_eq!(verdict(&quiet, &[110.0, 111.0, 100.0, 110.5, 109.5]), Verdict::Same, "one round is within");
    assert_eq!(verdict(&quiet, &[101.2, 101.3, 101.4, 101.5, 101.6]), Verdict::Same, "apart, but hardly");
    assert_eq!(verdict(&[60.0, 100.0, 140.0], &[70.0, 120.0, 150.0]), Verdict::Same, "noisy rounds");
    assert_eq!(verdict(&[100.0, 100.0], &[200.0, 200.0]), Verdict::Unknown, "two rounds say nothing");
}

#[test]
fn costs_and_rates_have_opposite_directions() {
    let before = saved(&run(vec![row("ours", &[100.0, 101.0, 102.0])]));
    let after = saved(&run(vec![row("ours", &[200.0, 201.0, 202.0])]));
    for one in compare(&before, &after, false).expect("they can be compared") {
        let expected = if one.figure.title.starts_with("memory") { Verdict::Same } else { Verdict::Better };
        assert_eq!(one.verdict, expected, "{}", one.line());
    }
}

#[test]
fn a_row_of_one_run_alone_is_named() {
    let before = saved(&run(vec![row("ours", &[1.0, 2.0, 3.0]), row("gone", &[1.0, 2.0, 3.0])]));
    let after = saved(&run(vec![row("ours", &[1.0, 2.0, 3.0]), row("new", &[1.0, 2.0, 3.0])]));
    let lines: Vec<String> =
        compare(&before, &after, false).expect("they can be compared").iter().map(|one| one.line()).collect();
    for name in ["gone", "new"] {
        assert!(
            lines.iter().any(|line| line.starts_with(name) && line.ends_with("not in both")),
            "{lines:?}"
        );
    }
}

#[test]
fn what_says_nothing_is_refused() {
    let plain = run(vec![row("ours", &[1.0, 2.0, 3.0])]);
    let mut quick = plain.clone();
    quick["is_smoke"] = json!(true);
    let mut other = plain.clone();
    other["scenario"] = json!("cpu");
    let mut elsewhere = plain.clone();
    elsewhere["machine"]["cpu"] = json!("Another");
    let mut doubtful = plain.clone();
    doubtful["trustworthy"] = json!(false);
    let (plain, quick, other) = (saved(&plain), saved(&quick), saved(&other));
    assert!(matches!(compare(&plain, &quick, true), Err(Refusal::Quick(_))));
    assert!(matches!(compare(&plain, &other, true), Err(Refusal::Scenarios(..))));
    assert!(matches!(compare(&plain, &saved(&elsewhere), false), Err(Refusal::Machines(..))));
    assert!(compare(&plain, &saved(&elsewhere), true).is_ok());
    assert!(matches!(document(&[quick], true), Err(NotFit::Quick(_))));
    let doubtful = saved(&doubtful);
    assert!(matches!(document(std::slice::from_ref(&doubtful), false), Err(NotFit::Doubtful(..))));
    let page = document(&[doubtful], true).expect("it is marked");
    assert!(page.contains("**Not trustworthy**"), "{page}");
    for broken in [json!({}), json!({ "rows": [] }), json!({ "scenario": "hello" })] {
        assert!(Saved::from_json(&broken).is_err());
    }
}

#[test]
fn a_table_shows_medians_ranges_ratios_and_what_was_rejected() {
    let mut rows =
        vec![row("floor: bare hyper", &[2000.0]), row("oxbrook, 1 loop(s)", &[900.0, 1000.0, 1100.0])];
    let mut spoiled = row("peer", &[500.0]);
    spoiled["samples"].as_array_mut().expect("it has samples").push(json!({ "is_right": false }));
    rows.push(spoiled);
    rows.push(json!({ "name": "missing", "state": "absent", "why": "no wheel", "samples": [] }));
    rows.push(json!({ "name": "sse", "state": "not built", "samples": [] }));
    rows.push(json!({ "name": "all bad", "samples": [{ "is_right": false }] }));
    let table = markdown(&saved(&run(rows)));
    let line = |name: &str| {
        let start = format!("| {name}");
        table
            .lines()
            .find(|line| line.starts_with(&start))
            .unwrap_or_else(|| panic!("{name} in {table}"))
            .to_owned()
    };
    assert!(line("oxbrook").contains("| 1,000.00 | 1,000 |"), "{}", line("oxbrook"));
    assert!(line("oxbrook").contains("900 - 1,100 | 2.00 | 0.50 | 2.00 |"), "{}", line("oxbrook"));
    assert!(line("peer (1 rejected)").contains("| 500 |"));
    assert!(line("missing").contains("absent: no wheel"));
    assert!(line("sse").contains("not built"));
    assert!(line("all bad").contains("every sample was rejected"));
    assert!(table.contains("- CPU: 1.200 (at most 1.45): met"));
    assert!(table.contains("- rate: 1.200 (at least 1.6): **not met**"));
    assert!(table.contains("- shown: not measured"));
    let widths: Vec<usize> =
        table.lines().filter(|line| line.starts_with('|')).map(|line| line.matches('|').count()).collect();
    assert!(widths.windows(2).all(|two| two[0] == two[1]), "every line has as many cells: {widths:?}");
}

#[test]
fn every_percentile_of_every_good_sample_is_in_the_csv() {
    let text = csv(&saved(&run(vec![row("a \"quoted\" name", &[10.0, 20.0]), row("b", &[5.0])])));
    assert_eq!(text.lines().count(), 1 + 3 * 4);
    assert!(text.contains("\"a \"\"quoted\"\" name\",2,p99,12800"), "{text}");
}

#[test]
fn the_page_of_figures_names_what_was_not_measured() {
    let page = document(&[saved(&run(vec![row("oxbrook", &[1.0])]))], false).expect("it is fit");
    assert!(page.contains("## hello"));
    assert!(page.contains("Made Up, 2 CPUs, Linux x86_64; commit 0123456789ab;"), "{page}");
    assert!(page.contains("- `cpu`: "));
    assert!(!page.contains("- `hello`: "));
    assert!(page.contains("3.14"));
}

#[test]
fn plots_are_drawn_where_there_is_something_to_draw() {
    let run = saved(&run(vec![
        row("floor: bare hyper", &[2000.0, 2100.0]),
        row("oxbrook <3.13>, 1 loop(s)", &[900.0, 1000.0]),
        row("oxbrook <3.13>, 2 loop(s)", &[1800.0, 1900.0]),
    ]));
    let drawn = [bars(&run, &FIGURES[0]), bars(&run, &FIGURES[1]), curves(&run), scaling(&run)];
    for svg in drawn {
        let svg = svg.expect("there are figures");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("<3.13>") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
    let nothing = saved(&json!({ "scenario": "hello", "rows": [{ "name": "x", "samples": [] }] }));
    assert!(
        bars(&nothing, &FIGURES[0]).is_none() && curves(&nothing).is_none() && scaling(&nothing).is_none()
    );
}
