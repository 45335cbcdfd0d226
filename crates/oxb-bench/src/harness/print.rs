//! What is printed of a scenario while a person watches: a table for each load.
//!
//! **Invariant:** a ratio stands beside rows of its own load alone.

use super::rounds::{
    CPU, DELIVERIES, GENERATOR_CORES, GROWTH, MEMORY, Measured, P50, P99, PEAK, REFUSED, REFUSED_P99,
    REQUESTS, SERVER_CORES,
};
use super::run::{ratio, shown, table};

const GAP: &str = "/requests/gap_ms/p50";

/// Tables of a scenario, one for each load; in each, ratios to the row whose name ends in `base`, else to the first.
pub(crate) fn print_beside(measured: &[Measured], base: &str) {
    let mut groups: Vec<&str> = Vec::new();
    for row in measured {
        if !groups.contains(&row.row.group.as_str()) {
            groups.push(&row.row.group);
        }
    }
    for group in groups {
        let rows: Vec<&Measured> = measured.iter().filter(|row| row.row.group == group).collect();
        print_group(&rows, base);
    }
}

fn print_group(measured: &[&Measured], base: &str) {
    let base = measured.iter().find(|row| row.row.name.ends_with(base)).or(measured.first()).copied();
    let lines: Vec<Vec<String>> = measured
        .iter()
        .map(|row| {
            let own = Some(*row);
            let spread =
                row.range(REQUESTS).map_or("-".to_owned(), |(least, most)| format!("{least:.0} - {most:.0}"));
            let mut name = row.row.name.clone();
            if row.is_generator_bound() {
                name.push_str(" (generator-bound)");
            }
            let mib = |figure| shown(of(own, figure).map(|bytes| bytes / 1048576.0), 1);
            vec![
                name,
                shown(of(own, CPU), 2),
                shown(ratio(of(own, CPU), of(base, CPU)), 2),
                shown(of(own, REQUESTS), 0),
                spread,
                shown(ratio(of(own, REQUESTS), of(base, REQUESTS)), 2),
                shown(of(own, P50), 3),
                shown(of(own, P99), 3),
                mib(MEMORY),
                mib(PEAK),
                shown(of(own, SERVER_CORES), 2),
                shown(of(own, GENERATOR_CORES), 2),
            ]
        })
        .collect();
    table(
        &[
            "target",
            "CPU us/req",
            "CPU x base",
            "req/s",
            "range",
            "req/s x base",
            "p50 ms",
            "p99 ms",
            "RSS MiB",
            "peak MiB",
            "server cores",
            "generator cores",
        ],
        &lines,
    );
    print_more(measured);
}

/// The figures that only some loads have: refusals, events, uploads, parts of the latency.
fn print_more(measured: &[&Measured]) {
    print_those(
        measured,
        DELIVERIES,
        &[
            ("deliveries/s", DELIVERIES, 1.0, 0),
            ("CPU ms per 1,000", "/stream/cpu_ms_per_1000", 1.0, 2),
            ("missing", "/stream/missing", 1.0, 0),
            ("out of order", "/stream/out_of_order", 1.0, 0),
            ("emit to arrival p50 ms", "/stream/emit_to_arrival_ms/p50", 1.0, 2),
            ("p99 ms", "/stream/emit_to_arrival_ms/p99", 1.0, 2),
        ],
    );
    print_those(
        measured,
        "/upload/mib_per_second",
        &[
            ("MiB/s", "/upload/mib_per_second", 1.0, 1),
            ("RSS growth MB", "/server/peak_rss_growth_bytes", 1e6, 2),
        ],
    );
    // Where head and body come apart, it is worth showing.
    let is_proxy = |row: &&&Measured| row.row.name.contains("proxy") || row.row.path.contains("proxy");
    let proxies: Vec<&Measured> = measured.iter().filter(is_proxy).copied().collect();
    print_those(
        &proxies,
        GAP,
        &[
            ("head p50 ms", "/requests/head_ms/p50", 1.0, 3),
            ("head p99 ms", "/requests/head_ms/p99", 1.0, 3),
            ("first byte p50 ms", "/requests/first_byte_ms/p50", 1.0, 3),
            ("gap p50 ms", GAP, 1.0, 3),
            ("gap p99 ms", "/requests/gap_ms/p99", 1.0, 3),
            ("whole p50 ms", P50, 1.0, 3),
            ("whole p99 ms", P99, 1.0, 3),
        ],
    );
    print_refusals(measured);
}

/// A table of the rows that have the figure `key`; a column is a heading, a figure, what it is divided by, and digits.
fn print_those(measured: &[&Measured], key: &str, columns: &[(&str, &str, f64, usize)]) {
    let rows: Vec<&&Measured> = measured.iter().filter(|row| row.median(key).is_some()).collect();
    if rows.is_empty() {
        return;
    }
    let lines: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let figures = columns.iter().map(|(_, figure, unit, digits)| {
                shown(row.median(figure).map(|value| value / unit), *digits)
            });
            std::iter::once(row.row.name.clone()).chain(figures).collect()
        })
        .collect();
    let head: Vec<&str> = std::iter::once("target").chain(columns.iter().map(|column| column.0)).collect();
    table(&head, &lines);
}

fn print_refusals(measured: &[&Measured]) {
    let refusing: Vec<&&Measured> =
        measured.iter().filter(|row| of(Some(row), REFUSED).is_some_and(|count| count > 0.0)).collect();
    if refusing.is_empty() {
        return;
    }
    let lines: Vec<Vec<String>> = refusing
        .iter()
        .map(|row| {
            let own = Some(**row);
            vec![
                row.row.name.clone(),
                shown(row.row.rate, 0),
                shown(of(own, REQUESTS), 0),
                shown(of(own, REFUSED), 0),
                shown(of(own, REFUSED_P99), 3),
                shown(of(own, GROWTH).map(|bytes| bytes / 1e6), 2),
            ]
        })
        .collect();
    table(&["target", "offered/s", "accepted/s", "refused", "refused p99 ms", "RSS growth MB"], &lines);
}

fn of(row: Option<&Measured>, figure: &str) -> Option<f64> {
    row?.median(figure)
}
