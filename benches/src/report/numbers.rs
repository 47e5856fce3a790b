//! Medians, percentiles, and numbers as people read them.

use std::time::Duration;

use super::Unit;

/// The middle one, or what lies between the two in the middle; 0 of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The lowest and the highest.
pub(crate) fn spread(values: &[f64]) -> (f64, f64) {
    let sorted = sorted(values);
    (sorted.first().copied().unwrap_or(0.0), sorted.last().copied().unwrap_or(0.0))
}

/// The value that so many of a hundred do not exceed; of few values the highest.
pub(crate) fn percentile(values: &[f64], share: usize) -> f64 {
    let sorted = sorted(values);
    let place = (sorted.len() * share / 100).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().unwrap_or(0.0)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

pub(crate) fn seconds(times: &[Duration]) -> Vec<f64> {
    times.iter().map(Duration::as_secs_f64).collect()
}

/// How many of them a second.
pub(crate) fn rate(messages: usize, took: Duration) -> f64 {
    messages as f64 / took.as_secs_f64().max(f64::EPSILON)
}

impl Unit {
    /// A value with its unit.
    pub(crate) fn show(self, value: f64) -> String {
        let (factor, unit) = self.scale(value);
        format!("{} {unit}", digits(value * factor))
    }

    /// Lowest and highest, next to the median and in its unit.
    pub(crate) fn show_spread(self, median: f64, (low, high): (f64, f64)) -> String {
        let (factor, _) = self.scale(median);
        format!("{}–{}", digits(low * factor), digits(high * factor))
    }

    /// What to multiply with, and how that is called then.
    pub(crate) fn scale(self, value: f64) -> (f64, &'static str) {
        match self {
            Self::Seconds if value < 0.001 => (1e6, "µs"),
            Self::Seconds if value < 1.0 => (1e3, "ms"),
            Self::Seconds => (1.0, "s"),
            Self::MessagesPerSecond => (1.0, "msg/s"),
            Self::MegabytesPerSecond => (1.0, "MB/s"),
            Self::Bytes => (1.0, "B"),
            Self::Mebibytes => (1.0, "MiB"),
            Self::Messages => (1.0, "messages"),
            Self::QueriesPerSecond => (1.0, "queries/s"),
            Self::Connections => (1.0, "connections"),
            Self::Files => (1.0, "files"),
            Self::Percent => (1.0, "%"),
            Self::Times => (1.0, "×"),
        }
    }
}

/// Three digits that count, at least, and commas between thousands.
pub(crate) fn digits(value: f64) -> String {
    let text = match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.01 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    };
    let (whole, fraction) = text.split_once('.').map_or((&*text, None), |(w, f)| (w, Some(f)));
    let fraction = fraction.map(|f| f.trim_end_matches('0')).filter(|f| !f.is_empty());
    let whole = thousands(whole);
    fraction.map_or_else(|| whole.clone(), |fraction| format!("{whole}.{fraction}"))
}

/// A ratio next to its bar: with so many digits that nobody wonders about the verdict.
pub(crate) fn ratio(value: f64, bar: f64) -> String {
    let shown = |decimals: usize| format!("{value:.decimals$}");
    let is_clear = |text: &String| {
        let shown: f64 = text.parse().unwrap_or(value);
        (shown >= bar) == (value >= bar) && (shown <= bar) == (value <= bar)
    };
    (2..6).map(shown).find(is_clear).unwrap_or_else(|| shown(6))
}

fn thousands(whole: &str) -> String {
    let (sign, number) = whole.strip_prefix('-').map_or(("", whole), |number| ("-", number));
    let mut out = sign.to_owned();
    for (at, digit) in number.chars().enumerate() {
        if at > 0 && (number.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// As on an axis, where there is little room: 10k, 2.5M.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{}M", digits(value / 1e6)),
        v if v >= 1e4 => format!("{}k", digits(value / 1e3)),
        _ => digits(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn the_spread_is_from_the_lowest_to_the_highest() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), (1.0, 3.0));
        assert_eq!(spread(&[]), (0.0, 0.0));
    }

    #[test]
    fn a_percentile_of_few_is_the_highest() {
        let hundred: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 50), 50.0);
        assert_eq!(percentile(&hundred, 99), 99.0);
        assert_eq!(percentile(&[1.0, 2.0], 99), 2.0);
        assert_eq!(percentile(&[], 99), 0.0);
    }

    #[test]
    fn a_ratio_that_misses_its_bar_does_not_look_as_if_it_did_not() {
        assert_eq!(ratio(0.5, 0.8), "0.50");
        assert_eq!(ratio(0.7996, 0.8), "0.7996");
        assert_eq!(ratio(0.798, 0.8), "0.798");
        assert_eq!(ratio(0.8, 0.8), "0.80");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(digits(61_234.5), "61,234");
        assert_eq!(digits(1_000_000.0), "1,000,000");
        assert_eq!(digits(0.862), "0.86");
        assert_eq!(digits(12.0), "12");
        assert_eq!(digits(-1234.0), "-1,234");
        assert_eq!(short(2_500_000.0), "2.5M");
        assert_eq!(Unit::Seconds.show(0.000_008), "8 µs");
        assert_eq!(Unit::Seconds.show(0.0027), "2.7 ms");
        assert_eq!(Unit::Seconds.show_spread(0.002, (0.000_5, 0.0027)), "0.5–2.7");
        assert_eq!(Unit::Bytes.show(1146.2), "1,146 B");
    }
}
