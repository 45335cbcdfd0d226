//! The figures of a row: where they stand in a sample, how they are written, and which way is better.

/// One figure of a sample.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// As a heading.
    pub title: &'static str,
    /// JSON pointer into the generator's report.
    pub pointer: &'static str,
    /// What a value is divided by before it is written.
    pub scale: f64,
    /// Digits behind the point.
    pub digits: usize,
    /// Whether less is better.
    pub is_cost: bool,
}

/// What every table of a closed or open loop shows.
pub const FIGURES: [Figure; 6] = [
    Figure::new("CPU µs/request", "/server/cpu_us_per_request", 1.0, 2, true),
    Figure::new("requests/s", "/requests_per_second", 1.0, 0, false),
    Figure::new("p50 ms", "/requests/latency_ms/p50", 1.0, 3, true),
    Figure::new("p99 ms", "/requests/latency_ms/p99", 1.0, 3, true),
    Figure::new("p99.9 ms", "/requests/latency_ms/p99.9", 1.0, 3, true),
    Figure::new("memory MiB", "/server/rss_bytes", 1_048_576.0, 1, true),
];

/// CPU time of the server's process tree for each request.
pub(crate) const CPU: Figure = FIGURES[0];
/// Requests a second.
pub(crate) const REQUESTS: Figure = FIGURES[1];

impl Figure {
    const fn new(
        title: &'static str,
        pointer: &'static str,
        scale: f64,
        digits: usize,
        is_cost: bool,
    ) -> Self {
        Self { title, pointer, scale, digits, is_cost }
    }

    /// A value as text, thousands apart.
    #[must_use]
    pub fn show(&self, value: f64) -> String {
        grouped(value / self.scale, self.digits)
    }
}

/// A number with its thousands apart.
pub(crate) fn grouped(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::new();
    for (index, digit) in whole.chars().enumerate() {
        let left = whole.len() - index;
        if index > 0 && left % 3 == 0 && digit.is_ascii_digit() && !out.ends_with('-') {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// The middle of `values`, or the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[middle - 1], upper) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(1_234_567.0, 0), "1,234,567");
        assert_eq!(grouped(999.5, 1), "999.5");
        assert_eq!(grouped(-1234.0, 0), "-1,234");
        assert_eq!(grouped(0.1234, 3), "0.123");
    }

    #[test]
    fn the_median_is_the_middle_one_or_the_mean_of_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
