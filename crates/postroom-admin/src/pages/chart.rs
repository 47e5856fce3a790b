//! Charts as SVG, drawn here: no script, no inline style. Colours come from classes.
//!
//! The plot is stretched to its place; what is to be read stands beside it as text, so that it has
//! the same size everywhere.

use std::fmt::Write as _;

use askama::Template;
use askama::filters::HtmlSafe;
use postroom_core::Timestamp;

use super::words;

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;
/// Places to hover over, and rows of the table behind the chart.
const STOPS: usize = 40;

/// One line of a chart.
pub(super) struct Series {
    pub(super) name: &'static str,
    /// Which colour.
    pub(super) class: &'static str,
    /// Whether the space below is filled.
    pub(super) filled: bool,
    pub(super) values: Vec<f64>,
}

/// A drawn chart.
#[derive(Template)]
#[template(path = "part/chart.html")]
pub(super) struct Chart {
    id: &'static str,
    title: &'static str,
    unit: &'static str,
    width: f64,
    height: f64,
    grid: Vec<String>,
    lines: Vec<Line>,
    stops: Vec<Stop>,
    /// From the top to the bottom.
    ticks: Vec<String>,
    /// From left to right.
    hours: Vec<String>,
}

impl HtmlSafe for Chart {}

struct Line {
    name: &'static str,
    class: &'static str,
    stroke: String,
    fill: Option<String>,
    last: String,
    least: String,
    most: String,
}

struct Stop {
    x: String,
    width: String,
    at: String,
    iso: String,
    values: Vec<String>,
    title: String,
}

impl Chart {
    /// Draws the series over the times, which are in order. With fewer than two points there is
    /// nothing to draw.
    pub(super) fn draw(
        id: &'static str,
        title: &'static str,
        unit: &'static str,
        times: &[Timestamp],
        series: &[Series],
    ) -> Option<Self> {
        let (first, last) = (*times.first()?, *times.last()?);
        let span = last.since(first).as_secs_f64();
        if times.len() < 2 || span <= 0.0 {
            return None;
        }
        let most = series.iter().flat_map(|series| &series.values).copied().fold(0.0, f64::max);
        let top = nice(most);
        let scale = Scale { first, span, top };
        let middle = Timestamp::from_micros(i64::midpoint(first.as_micros(), last.as_micros()));
        Some(Self {
            id,
            title,
            unit,
            width: WIDTH,
            height: HEIGHT,
            grid: [0.0, 0.5, 1.0].map(|share| number(scale.y(top * share))).into(),
            lines: series.iter().map(|series| scale.line(times, series)).collect(),
            stops: scale.stops(times, series),
            ticks: [top, top / 2.0, 0.0].map(label).into(),
            hours: [first, middle, last].map(words::hour).into(),
        })
    }
}

struct Scale {
    first: Timestamp,
    span: f64,
    top: f64,
}

impl Scale {
    fn x(&self, at: Timestamp) -> f64 {
        at.since(self.first).as_secs_f64() / self.span * WIDTH
    }

    fn y(&self, value: f64) -> f64 {
        // Half a stroke stays free above and below, so that no line is cut.
        1.0 + (HEIGHT - 2.0) * (1.0 - value.clamp(0.0, self.top) / self.top)
    }

    fn line(&self, times: &[Timestamp], series: &Series) -> Line {
        let mut stroke = String::new();
        for (at, value) in times.iter().zip(&series.values) {
            let command = if stroke.is_empty() { 'M' } else { 'L' };
            let (x, y) = (number(self.x(*at)), number(self.y(*value)));
            let _ = write!(stroke, "{command}{x} {y}");
        }
        let ground = number(self.y(0.0));
        let fill = series.filled.then(|| format!("{stroke}L{WIDTH} {ground}L0 {ground}Z"));
        let fold = |pick: fn(f64, f64) -> f64| series.values.iter().copied().reduce(pick);
        Line {
            name: series.name,
            class: series.class,
            stroke,
            fill,
            last: label(series.values.last().copied().unwrap_or_default()),
            least: label(fold(f64::min).unwrap_or_default()),
            most: label(fold(f64::max).unwrap_or_default()),
        }
    }

    /// Strips over the whole width that say what the values are there: the mean of the points in
    /// each.
    fn stops(&self, times: &[Timestamp], series: &[Series]) -> Vec<Stop> {
        let step = times.len().div_ceil(STOPS);
        let starts: Vec<usize> = (0..times.len()).step_by(step).collect();
        let stop = |&start: &usize| {
            let end = (start + step).min(times.len());
            let x = self.x(times[start]);
            let right = times.get(end).map_or(WIDTH, |at| self.x(*at));
            let mean = |series: &Series| {
                let values = series.values.get(start..end).unwrap_or_default();
                label(values.iter().sum::<f64>() / values.len().max(1) as f64)
            };
            let values: Vec<String> = series.iter().map(mean).collect();
            let at = words::hour(times[start]);
            let mut title = format!("{at} UTC");
            for (series, value) in series.iter().zip(&values) {
                let _ = write!(title, "\n{}: {value}", series.name);
            }
            let iso = words::iso(times[start]);
            Stop { x: number(x), width: number((right - x).max(0.0)), at, iso, values, title }
        };
        starts.iter().map(stop).collect()
    }
}

/// The next round number, so that ticks are round too: 1, 2, 4, 6, 8 or 10 times a power of ten.
fn nice(most: f64) -> f64 {
    if !most.is_finite() || most <= 1.0 {
        return 1.0;
    }
    let power = 10f64.powf(most.log10().floor());
    let steps = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0];
    steps.iter().map(|step| step * power).find(|top| *top >= most).unwrap_or(10.0 * power)
}

/// A value of an axis: `0`, `0.5`, `1,200`, `12k`, `3.4M`.
fn label(value: f64) -> String {
    match value {
        value if value >= 1_000_000.0 => format!("{}M", trimmed(value / 1_000_000.0)),
        value if value >= 10_000.0 => format!("{}k", trimmed(value / 1_000.0)),
        value if value >= 100.0 => words::count(value.round() as u64),
        value => trimmed(value),
    }
}

/// One digit after the point, unless it is a zero.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(ToOwned::to_owned).unwrap_or(text)
}

/// A coordinate.
fn number(value: f64) -> String {
    trimmed(value)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn times(number: u64) -> Vec<Timestamp> {
        let start = Timestamp::from_micros(1_700_000_000_000_000);
        (0..number).map(|at| start.saturating_add(Duration::from_secs(2 * at))).collect()
    }

    fn series(values: Vec<f64>) -> Series {
        Series { name: "Delivered", class: "a", filled: true, values }
    }

    #[test]
    fn a_line_goes_through_its_points_from_edge_to_edge() {
        let drawn = Chart::draw("c", "Rate", "/s", &times(3), &[series(vec![0.0, 10.0, 5.0])]);
        let html = drawn.expect("three points").to_string();
        assert!(html.contains(r#"d="M0 119L300 1L600 60""#), "{html}");
        assert!(html.contains(r#"d="M0 119L300 1L600 60L600 119L0 119Z""#), "{html}");
        assert!(html.contains("22:13:20 UTC\nDelivered: 0</title>"), "{html}");
        assert!(html.contains("<table"), "values for who can not see the lines");
    }

    #[test]
    fn ticks_are_round() {
        let tops = [0.0, 0.3, 1.1, 3.0, 7.0, 9.5, 11.0, 58.0, 4_100.0].map(nice);
        assert_eq!(tops, [1.0, 1.0, 2.0, 4.0, 8.0, 10.0, 20.0, 60.0, 6_000.0]);
        let labels = [0.0, 0.5, 12.0, 1_234.0, 12_500.0, 3_400_000.0].map(label);
        assert_eq!(labels, ["0", "0.5", "12", "1,234", "12.5k", "3.4M"]);
    }

    #[test]
    fn one_point_is_no_chart() {
        assert!(Chart::draw("c", "t", "", &times(1), &[series(vec![1.0])]).is_none());
        assert!(Chart::draw("c", "t", "", &[], &[]).is_none());
    }

    #[test]
    fn there_are_never_more_stops_than_a_table_can_show() {
        let drawn = Chart::draw("c", "t", "", &times(300), &[series(vec![1.0; 300])]);
        assert!(drawn.expect("points").stops.len() <= STOPS);
    }
}
