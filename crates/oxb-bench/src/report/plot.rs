//! Plots as SVG: bars with the spread of their rounds, latency by percentile, scaling by loops.
//!
//! Ours is drawn in one colour, everything else in greys, and every mark is labelled where it stands, so that a plot
//! needs no legend and no colour sight. The ground is white, for pages of either brightness.

use std::fmt::Write;

use super::figures::{Figure, REQUESTS, grouped, median};
use super::result::{Row, Saved};

const OURS: &str = "#0b6e99";
const OTHERS: [&str; 4] = ["#4a4f57", "#7b828c", "#9aa1ab", "#5f666f"];
const FLOOR: &str = "#2b2f36";
const RULE: &str = "#d7dbe0";
const WIDTH: f64 = 980.0;
const FONT: &str = "font-family=\"system-ui, sans-serif\"";
/// Percentiles of the curve, and where each stands: by how many are above it.
const PERCENTILES: [(&str, f64); 7] = [
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// Loops, requests a second, and the row they are of.
type Points<'a> = Vec<(u32, f64, &'a Row)>;

struct Canvas(String);

impl Canvas {
    fn new(height: f64, title: &str, note: &str) -> Self {
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" {FONT} role=\"img\">\n<title>{}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
            escaped(title)
        );
        let _ = writeln!(
            out,
            "<text x=\"20\" y=\"32\" font-size=\"18\" font-weight=\"600\">{}</text>",
            escaped(title)
        );
        let _ = writeln!(
            out,
            "<text x=\"20\" y=\"52\" font-size=\"12\" fill=\"#5f666f\">{}</text>",
            escaped(note)
        );
        Self(out)
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, size: f64, fill: &str, text: &str) {
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"{fill}\">{}</text>",
            escaped(text)
        );
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width: f64) {
        let _ = writeln!(
            self.0,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{stroke}\" stroke-width=\"{width}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    fn path(&mut self, points: &[(f64, f64)], stroke: &str, width: f64) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            self.0,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\"/>",
            points.join(" ")
        );
    }

    fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn colour(row: &Row, index: usize) -> &'static str {
    match () {
        () if row.is_ours() => OURS,
        () if row.is_floor() => FLOOR,
        () => OTHERS[index % OTHERS.len()],
    }
}

/// One bar a row, with the range of its rounds; `None` where no row has the figure.
#[must_use]
pub fn bars(saved: &Saved, figure: &Figure) -> Option<String> {
    const LEFT: f64 = 390.0;
    const STEP: f64 = 30.0;
    const TOP: f64 = 70.0;
    let rows: Vec<(&Row, f64, (f64, f64))> =
        saved.rows.iter().filter_map(|row| Some((row, row.median(figure)?, row.range(figure)?))).collect();
    let most = rows.iter().map(|(_, _, range)| range.1).reduce(f64::max).filter(|most| *most > 0.0)?;
    let right = WIDTH - 110.0;
    let note = format!(
        "median of the rounds, line: least to greatest; {} is better",
        if figure.is_cost { "less" } else { "more" }
    );
    let title = format!("{}: {}", saved.scenario, figure.title);
    let mut canvas = Canvas::new(TOP + STEP * rows.len() as f64 + 20.0, &title, &note);
    let at = |value: f64| LEFT + (right - LEFT) * value / most;
    canvas.line((LEFT, TOP - 6.0), (LEFT, TOP + STEP * rows.len() as f64), RULE, 1.0);
    for (index, (row, value, (least, greatest))) in rows.iter().enumerate() {
        let y = TOP + STEP * index as f64;
        let fill = colour(row, 2);
        let weight = if row.is_ours() { " font-weight=\"600\"" } else { "" };
        let _ = writeln!(
            canvas.0,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"13\"{weight}>{}</text>",
            LEFT - 10.0,
            y + 15.0,
            escaped(&shortened(&row.name))
        );
        let _ = writeln!(
            canvas.0,
            "<rect x=\"{LEFT:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"18\" fill=\"{fill}\" fill-opacity=\"{}\"/>",
            y + 2.0,
            (at(*value) - LEFT).max(1.0),
            if row.is_ours() { "1" } else { "0.75" }
        );
        canvas.line((at(*least), y + 11.0), (at(*greatest), y + 11.0), "#111111", 1.5);
        for end in [*least, *greatest] {
            canvas.line((at(end), y + 7.0), (at(end), y + 15.0), "#111111", 1.5);
        }
        canvas.text(at(value.max(*greatest)) + 8.0, y + 15.0, "start", 13.0, "#111111", &figure.show(*value));
    }
    Some(canvas.finish())
}

/// Latency by percentile, one line a row, on logarithmic scales; `None` where no row has latencies.
#[must_use]
pub fn curves(saved: &Saved) -> Option<String> {
    const BOX: (f64, f64, f64, f64) = (70.0, 80.0, 640.0, 420.0);
    let place = |share: f64| -(1.0 - share).log10();
    let (first, last) = (place(0.5), place(0.9999));
    let x = |share: f64| BOX.0 + (BOX.2 - BOX.0) * (place(share) - first) / (last - first);
    let mut lines: Vec<(&Row, Vec<(f64, f64)>)> = Vec::new();
    // Rows at other numbers of connections are about something else.
    for row in saved.rows.iter().filter(|row| !row.name.contains("connection(s)")) {
        let points: Vec<(f64, f64)> = PERCENTILES
            .iter()
            .filter_map(|(name, share)| {
                let pick = |sample: &serde_json::Value| sample["requests"]["latency_ms"][*name].as_f64();
                let values: Vec<f64> = row.samples.iter().filter_map(pick).collect();
                Some((*share, median(&values).filter(|value| *value > 0.0)?))
            })
            .collect();
        if points.len() > 1 {
            lines.push((row, points));
        }
    }
    let values = || lines.iter().flat_map(|(_, points)| points.iter().map(|(_, value)| *value));
    let least = values().reduce(f64::min)?.log10().floor();
    let most = values().reduce(f64::max)?.log10().ceil().max(least + 1.0);
    let y = |value: f64| BOX.3 - (BOX.3 - BOX.1) * (value.log10() - least) / (most - least);
    let note = "milliseconds, median of the rounds, both scales logarithmic; less is better";
    let mut canvas = Canvas::new(BOX.3 + 50.0, &format!("{}: latency by percentile", saved.scenario), note);
    let mut decade = least;
    while decade <= most {
        let value = 10f64.powf(decade);
        canvas.line((BOX.0, y(value)), (BOX.2, y(value)), RULE, 1.0);
        let digits = (-decade).max(0.0) as usize;
        canvas.text(
            BOX.0 - 8.0,
            y(value) + 4.0,
            "end",
            12.0,
            "#5f666f",
            &format!("{} ms", grouped(value, digits)),
        );
        decade += 1.0;
    }
    for (name, share) in PERCENTILES {
        canvas.line((x(share), BOX.3), (x(share), BOX.3 + 5.0), RULE, 1.0);
        canvas.text(x(share), BOX.3 + 20.0, "middle", 12.0, "#5f666f", name);
    }
    // Ours last, on top of the others.
    lines.sort_by_key(|(row, _)| row.is_ours());
    let mut labels: Vec<(f64, f64, &Row, &'static str)> = Vec::new();
    for (index, (row, points)) in lines.iter().enumerate() {
        let stroke = colour(row, index);
        let drawn: Vec<(f64, f64)> = points.iter().map(|(share, value)| (x(*share), y(*value))).collect();
        canvas.path(&drawn, stroke, if row.is_ours() { 3.0 } else { 1.5 });
        if let Some((_, at)) = drawn.last() {
            labels.push((*at, *at, row, stroke));
        }
    }
    spread(&mut labels, 16.0, |label| &mut label.0);
    for (at, end, row, stroke) in labels {
        canvas.line((BOX.2, end), (BOX.2 + 22.0, at), stroke, 0.75);
        canvas.text(BOX.2 + 26.0, at + 4.0, "start", 12.0, stroke, &shortened(&row.name));
    }
    Some(canvas.finish())
}

/// Requests a second by the number of loops, one line a series; `None` with fewer than two points in every series.
#[must_use]
pub fn scaling(saved: &Saved) -> Option<String> {
    const BOX: (f64, f64, f64, f64) = (90.0, 80.0, 560.0, 380.0);
    let mut series: Vec<(String, Points<'_>)> = Vec::new();
    for row in &saved.rows {
        let Some((loops, value)) = row.loops().zip(row.median(&REQUESTS)) else { continue };
        let name = row.name.replace(&format!("{loops} loop(s)"), "N loops");
        match series.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push((loops, value, row)),
            None => series.push((name, vec![(loops, value, row)])),
        }
    }
    series.retain(|(_, points)| points.len() > 1);
    let all = || series.iter().flat_map(|(_, points)| points.iter());
    let widest = all().map(|(loops, ..)| *loops).max()?;
    // As a multiple of the first point of its series.
    let speed_up = |points: &[(u32, f64, &Row)]| -> Vec<(u32, f64)> {
        let one = points.first().map_or(1.0, |(_, value, _)| *value);
        points.iter().map(|(loops, value, _)| (*loops, value / one)).collect()
    };
    let most = series
        .iter()
        .flat_map(|(_, points)| speed_up(points))
        .map(|(_, times)| times)
        .fold(f64::from(widest), f64::max);
    let x = |loops: f64| BOX.0 + (BOX.2 - BOX.0) * (loops - 1.0) / f64::from(widest - 1).max(1.0);
    let y = |times: f64| BOX.3 - (BOX.3 - BOX.1) * times / most;
    let note =
        "requests a second as a multiple of one loop's; thin line: what twice the loops would be at best";
    let mut canvas = Canvas::new(BOX.3 + 50.0, &format!("{}: loops", saved.scenario), note);
    let mut times = 0.0;
    while times <= most {
        canvas.line((BOX.0, y(times)), (BOX.2, y(times)), RULE, 1.0);
        canvas.text(BOX.0 - 8.0, y(times) + 4.0, "end", 12.0, "#5f666f", &format!("{times:.0} x"));
        times += 1.0;
    }
    canvas.line((x(1.0), y(1.0)), (x(f64::from(widest)), y(f64::from(widest))), "#9aa1ab", 1.0);
    let mut labels: Vec<(f64, String, &'static str)> = Vec::new();
    for (index, (name, points)) in series.iter().enumerate() {
        let stroke =
            if points.iter().any(|(_, _, row)| row.is_ours()) { OURS } else { OTHERS[index % OTHERS.len()] };
        let drawn: Vec<(f64, f64)> =
            speed_up(points).into_iter().map(|(loops, times)| (x(f64::from(loops)), y(times))).collect();
        canvas.path(&drawn, stroke, 2.5);
        for (at_x, at_y) in &drawn {
            let _ =
                writeln!(canvas.0, "<circle cx=\"{at_x:.1}\" cy=\"{at_y:.1}\" r=\"4\" fill=\"{stroke}\"/>");
        }
        if let (Some((_, at)), Some((_, times))) = (drawn.last(), speed_up(points).last()) {
            labels.push((*at, format!("{times:.2} x  {}", shortened(name)), stroke));
        }
    }
    for loops in 1..=widest {
        canvas.text(
            x(f64::from(loops)),
            BOX.3 + 20.0,
            "middle",
            12.0,
            "#5f666f",
            &format!("{loops} loop(s)"),
        );
    }
    spread(&mut labels, 16.0, |label| &mut label.0);
    for (at, text, stroke) in labels {
        canvas.text(BOX.2 + 12.0, at + 4.0, "start", 12.0, stroke, &text);
    }
    Some(canvas.finish())
}

/// Moves labels apart, downwards, so that none stands on another; `at` is where a label stands.
fn spread<T>(labels: &mut [T], least: f64, at: impl Fn(&mut T) -> &mut f64) {
    let mut places: Vec<f64> = labels.iter_mut().map(|label| *at(label)).collect();
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|one, other| places[*one].total_cmp(&places[*other]));
    for two in order.windows(2) {
        if let [above, below] = two {
            places[*below] = places[*below].max(places[*above] + least);
        }
    }
    for (label, place) in labels.iter_mut().zip(places) {
        *at(label) = place;
    }
}

/// What fits beside a plot.
fn shortened(name: &str) -> String {
    const MOST: usize = 50;
    if name.chars().count() <= MOST {
        return name.to_owned();
    }
    let mut short: String = name.chars().take(MOST - 1).collect();
    short.push('…');
    short
}
