//! A run as a Markdown table, and its percentiles as CSV.

use std::fmt::Write;

use super::figures::{CPU, FIGURES, REQUESTS};
use super::result::{Row, Saved};

/// The table of a run, its promises and its conditions.
#[must_use]
pub fn markdown(saved: &Saved) -> String {
    let mut out = rows(saved);
    if !saved.bars.is_empty() && !out.is_empty() {
        out.push('\n');
    }
    for bar in &saved.bars {
        let figure = bar.figure.map_or("not measured".to_owned(), |figure| format!("{figure:.3}"));
        let limit = bar.limit.as_ref().map(|limit| format!(" ({limit})")).unwrap_or_default();
        let verdict = match bar.is_kept {
            Some(true) => ": met",
            Some(false) => ": **not met**",
            None => "",
        };
        // A write to a String cannot fail.
        let _ = writeln!(out, "- {}: {figure}{limit}{verdict}", bar.what);
    }
    out
}

/// The table alone; nothing for a scenario that is none of loops over requests.
fn rows(saved: &Saved) -> String {
    let mut out = String::new();
    if saved.rows.is_empty() {
        return out;
    }
    let first = saved.rows.iter().find(|row| row.why.is_none());
    let floor = saved.floor();
    let mut heads = vec!["row".to_owned()];
    heads.extend(FIGURES.iter().map(|figure| figure.title.to_owned()));
    let ratios = ["requests/s, range", "CPU x first", "requests/s x first", "CPU x bare hyper"];
    heads.extend(ratios.map(str::to_owned));
    line(&mut out, &heads);
    let rules = heads.iter().enumerate().map(|(index, _)| if index == 0 { "---" } else { "---:" }.to_owned());
    line(&mut out, &rules.collect::<Vec<_>>());
    for row in &saved.rows {
        line(&mut out, &cells(row, first, floor));
    }
    out
}

fn line(out: &mut String, cells: &[String]) {
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

fn cells(row: &Row, first: Option<&Row>, floor: Option<&Row>) -> Vec<String> {
    let mut name = row.name.clone();
    if row.is_generator_bound() {
        name.push_str(" (generator-bound)");
    }
    if row.rejected > 0 {
        let _ = write!(name, " ({} rejected)", row.rejected);
    }
    let mut cells = vec![name];
    if let Some(why) = &row.why {
        cells.push(why.clone());
        cells.resize(FIGURES.len() + 5, "-".to_owned());
        return cells;
    }
    let shown = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for figure in &FIGURES {
        cells.push(shown(row.median(figure).map(|value| figure.show(value))));
    }
    let range = row
        .range(&REQUESTS)
        .map(|(least, most)| format!("{} - {}", REQUESTS.show(least), REQUESTS.show(most)));
    cells.push(shown(range));
    for (figure, base) in [(&CPU, first), (&REQUESTS, first), (&CPU, floor)] {
        let base = base.and_then(|base| base.median(figure)).filter(|base| *base > 0.0);
        cells.push(shown(row.median(figure).zip(base).map(|(own, base)| format!("{:.2}", own / base))));
    }
    cells
}

/// Every percentile of every sample: `row,sample,percentile,milliseconds`.
#[must_use]
pub fn csv(saved: &Saved) -> String {
    let mut out = "row,sample,percentile,milliseconds\n".to_owned();
    for row in &saved.rows {
        for (number, sample) in row.samples.iter().enumerate() {
            for (name, value) in sample["requests"]["latency_ms"].as_object().into_iter().flatten() {
                // RFC 4180: a quote inside a quoted field is doubled.
                let _ = writeln!(out, "\"{}\",{},{name},{value}", row.name.replace('"', "\"\""), number + 1);
            }
        }
    }
    out
}
