//! The report for people: where it was measured, a table of ratios, a line per figure and case.

use comfy_table::{Table, presets};

use super::numbers::{digits, ratio, short};
use super::{Case, Figure, Panel, Role, Series, Verdict};

/// Everything about these figures.
pub(crate) fn text(figures: &[Figure]) -> String {
    let mut parts = Vec::new();
    if let Some(setup) = figures.iter().find_map(|figure| figure.setup.as_ref()) {
        parts.push(setup.to_string());
    }
    for figure in figures {
        let others = figure
            .others
            .map(|share| format!("others used {:.0} % of the processor", share * 100.0));
        let notes = figure.notes.iter().chain(&others).map(|note| format!("\n  {note}"));
        parts.push(format!("{} {}{}", figure.id, figure.title, notes.collect::<String>()));
    }
    if figures.iter().any(|figure| !figure.cases.is_empty()) {
        parts.push(ratios(figures));
    }
    parts.extend(settings(figures));
    parts.push(lines(figures).join("\n"));
    parts.push(summary(figures));
    parts.join("\n\n")
}

/// Everybody's median, and how many times that ours is.
fn ratios(figures: &[Figure]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["id", "case", "who", "median", "lowest–highest", "ours ÷ it"]);
    for figure in figures {
        for case in &figure.cases {
            for (place, series) in case.series.iter().enumerate() {
                let what = if place == 0 { case.what.as_str() } else { "" };
                let [median, spread] = shown(case, series);
                let ratio = ratio_to(case, series);
                table.add_row([&figure.id, what, &series.name(), &median, &spread, &ratio]);
            }
        }
    }
    table.to_string()
}

fn shown(case: &Case, series: &Series) -> [String; 2] {
    if !series.is_measured() {
        return ["left out".to_owned(), "–".to_owned()];
    }
    let spread = match series.rounds.len() {
        0 | 1 => "–".to_owned(),
        _ => case.unit.show_spread(series.median(), series.spread()),
    };
    [case.unit.show(series.median()), spread]
}

/// Ours is the first of us with the same kind of number.
fn ratio_to(case: &Case, series: &Series) -> String {
    if series.role == Role::Ours {
        return "–".to_owned();
    }
    let like = |ours: &&Series| series.which.is_none() || ours.which == series.which;
    match case.ours().find(like) {
        Some(ours) if series.median() > 0.0 => format!("{:.2}", ours.median() / series.median()),
        _ => "–".to_owned(),
    }
}

/// Versions and settings, once for everybody who has some.
fn settings(figures: &[Figure]) -> Option<String> {
    let mut known = Vec::new();
    let series = figures.iter().flat_map(|figure| &figure.cases).flat_map(|case| &case.series);
    for series in series {
        if let Some(note) = &series.note {
            let line = format!("{}: {note}", series.name());
            if !known.contains(&line) {
                known.push(line);
            }
        }
    }
    (!known.is_empty()).then(|| known.join("\n"))
}

/// A line per case and per point of a curve, each beginning with the id of its figure.
pub(crate) fn lines(figures: &[Figure]) -> Vec<String> {
    let mut lines = Vec::new();
    for figure in figures {
        lines.extend(figure.cases.iter().map(|case| format!("{} {}", figure.id, line(case))));
        if figure.cases.is_empty() {
            lines.extend(points(figure));
        }
    }
    lines
}

/// What we reached, and of each bar whether that is enough.
fn line(case: &Case) -> String {
    let ours = case.ours().map(|series| {
        let mut parts = vec![value(case, series)];
        let about = case.verdicts.iter().filter(|verdict| verdict.of == series.name());
        parts.extend(about.filter(|one| one.against.is_some()).map(against));
        parts.join(", ")
    });
    format!("{}: {}", case.what, ours.collect::<Vec<_>>().join("; "))
}

fn value(case: &Case, series: &Series) -> String {
    let name = series.which.as_ref().map(|which| format!("{which} ")).unwrap_or_default();
    let [median, spread] = shown(case, series);
    let spread = if series.rounds.len() > 1 { format!(" ({spread})") } else { String::new() };
    let fixed = |one: &&Verdict| one.against.is_none() && one.of == series.name();
    let bar = case.verdicts.iter().find(fixed).map(|verdict| {
        let (bar, met) = (case.unit.show(verdict.bar), met(verdict));
        format!(" [bar {} {bar}, {met}]", verdict.sign())
    });
    format!("{name}{median}{spread}{}", bar.unwrap_or_default())
}

fn against(verdict: &Verdict) -> String {
    let other = verdict.against.as_deref().unwrap_or_default();
    let (value, sign, bar) =
        (ratio(verdict.value, verdict.bar), verdict.sign(), digits(verdict.bar));
    format!("{value} × {other} [bar {sign} {bar}, {}]", met(verdict))
}

fn met(verdict: &Verdict) -> &'static str {
    match (verdict.met, verdict.noisy) {
        (true, false) => "met",
        (false, false) => "NOT met",
        (true, true) => "met, but NOISY",
        (false, true) => "NOT met, but NOISY",
    }
}

/// The curves, point by point: everything that was measured at the same place.
fn points(figure: &Figure) -> Vec<String> {
    let mut places: Vec<(&str, f64)> = Vec::new();
    for panel in &figure.panels {
        for (x, _) in panel.lines.iter().flat_map(|line| &line.points) {
            if !places.contains(&(&panel.x, *x)) {
                places.push((&panel.x, *x));
            }
        }
    }
    let line = |(name, x): &(&str, f64)| {
        let panels = figure.panels.iter().filter(|panel| panel.x == *name);
        let values = panels.flat_map(|panel| at(panel, *x)).collect::<Vec<_>>();
        format!("{} {name} {}: {}", figure.id, short(*x), values.join(", "))
    };
    places.iter().map(line).collect()
}

fn at(panel: &Panel, x: f64) -> Vec<String> {
    let value = |line: &super::Line| {
        let (_, y) = line.points.iter().find(|(place, _)| *place == x)?;
        Some(format!("{} {}", line.name, panel.unit.show(*y)))
    };
    panel.lines.iter().filter_map(value).collect()
}

/// How many bars are met, which are not, and which of all that says little.
pub(crate) fn summary(figures: &[Figure]) -> String {
    let verdicts: Vec<_> = figures
        .iter()
        .flat_map(|figure| figure.verdicts().map(move |(case, one)| (figure, case, one)))
        .collect();
    let missed = verdicts.iter().filter(|(_, _, verdict)| !verdict.met);
    let missed: Vec<_> = missed.map(|(figure, case, one)| told(figure, case, one)).collect();
    let noisy = verdicts.iter().filter(|(_, _, verdict)| verdict.noisy);
    let mut noisy: Vec<_> = noisy.map(|(figure, ..)| figure.id.as_str()).collect();
    noisy.dedup();
    let all = verdicts.len();
    let mut text = match (all, missed.len()) {
        (0, _) => return "bars: none of these figures has one".to_owned(),
        (_, 0) => format!("bars: all {all} met"),
        (_, not) => format!("bars: {} of {all} met; not met: {}", all - not, missed.join("; ")),
    };
    if !noisy.is_empty() {
        text += "\nnoisy, measure again on a quiet machine: ";
        text += &noisy.join(", ");
    }
    text
}

fn told(figure: &Figure, case: &Case, verdict: &Verdict) -> String {
    let (value, bar) = match &verdict.against {
        Some(other) => {
            let value = ratio(verdict.value, verdict.bar);
            (format!("{value} × {other}"), digits(verdict.bar))
        }
        None => (case.unit.show(verdict.value), case.unit.show(verdict.bar)),
    };
    format!("{} {} ({value}, bar {} {bar})", figure.id, case.what, verdict.sign())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Line, Unit};

    fn figure() -> Figure {
        let ours = Series::ours().rounds(vec![58_900.0, 63_000.0, 61_200.0]);
        let control = Series::control().rounds(vec![71_000.0]);
        let case = Case::new("history kept", Unit::MessagesPerSecond, vec![ours, control]);
        Figure::new("P1", "Draining").case(case.bar_over("Postroom", "control", 0.8))
    }

    #[test]
    fn a_line_begins_with_its_id_and_says_what_is_met() {
        let expected = "P1 history kept: 61,200 msg/s (58,900–63,000), \
            0.86 × control [bar ≥ 0.8, met]";
        assert_eq!(lines(&[figure()]), [expected]);
        assert_eq!(summary(&[figure()]), "bars: all 1 met");
    }

    #[test]
    fn several_numbers_of_ours_have_their_names_and_bars() {
        let p50 = Series::ours().which("p50").rounds(vec![0.000_008]);
        let p99 = Series::ours().which("p99").rounds(vec![0.003]);
        let case = Case::new("hot", Unit::Seconds, vec![p50, p99])
            .bar("Postroom, p50", 0.0001)
            .bar("Postroom, p99", 0.002);
        let figure = Figure::new("P3", "Latency").case(case);
        let expected = "P3 hot: p50 8 µs [bar ≤ 100 µs, met]; p99 3 ms [bar ≤ 2 ms, NOT met]";
        assert_eq!(lines(std::slice::from_ref(&figure)), [expected]);
        let expected = "bars: 1 of 2 met; not met: P3 hot (3 ms, bar ≤ 2 ms)";
        assert_eq!(summary(&[figure]), expected);
    }

    #[test]
    fn a_curve_has_a_line_per_point() {
        let panel = |title: &str, unit, points| Panel {
            title: title.to_owned(),
            x: "backlog".to_owned(),
            logarithmic: true,
            unit,
            lines: vec![Line { name: title.to_owned(), role: Role::Ours, points }],
        };
        let figure = Figure::new("C1", "Backlogs")
            .panel(panel("drain", Unit::MessagesPerSecond, vec![(10_000.0, 41_000.0)]))
            .panel(panel("claim", Unit::Seconds, vec![(10_000.0, 0.005), (20_000.0, 0.006)]));
        let expected =
            ["C1 backlog 10k: drain 41,000 msg/s, claim 5 ms", "C1 backlog 20k: claim 6 ms"];
        assert_eq!(lines(&[figure]), expected);
    }

    #[test]
    fn what_is_noisy_is_told_even_if_it_is_met() {
        let ours = Series::ours().rounds(vec![70.0, 76.0, 75.0]);
        let control = Series::control().rounds(vec![39.0, 38.0, 89.0]);
        let case = Case::new("drain", Unit::MessagesPerSecond, vec![ours, control]);
        let figure = Figure::new("P1", "Draining").case(case.bar_over("Postroom", "control", 0.8));
        let line = &lines(std::slice::from_ref(&figure))[0];
        assert!(line.ends_with("[bar ≥ 0.8, met, but NOISY]"), "{line}");
        let expected = "bars: all 1 met\nnoisy, measure again on a quiet machine: P1";
        assert_eq!(summary(&[figure]), expected);
    }
}
