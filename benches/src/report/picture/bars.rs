//! Bars that lie, a group per case, so that names have room. A whisker spans the rounds, and a mark
//! says where the bar to reach is.

use plotters::style::RGBColor;

use super::paper::{
    BAR, FAINT, GRID, HEAD, INK, MARGIN, Paper, Pen, Side, WIDTH, color, fill, stroke, write,
};
use super::scale::Scale;
use crate::report::numbers::{digits, ratio};
use crate::report::{Better, Case, Figure, Role, Series, Unit, Verdict};

/// Where names end, where bars begin and end, and where numbers begin.
const NAMES: i32 = 228;
const FROM: i32 = 238;
const TO: i32 = 590;
const NUMBERS: i32 = 606;

const AXIS: i32 = 26;
const CASE: i32 = 26;
const ROW: i32 = 22;
const GAP: i32 = 8;
/// Between groups.
const APART: i32 = 14;
const LEGEND: i32 = 34;

/// Cases of one unit that share an axis.
struct Group<'a> {
    unit: Unit,
    cases: Vec<&'a Case>,
}

pub(super) struct Layout<'a> {
    groups: Vec<Group<'a>>,
}

impl<'a> Layout<'a> {
    pub(super) fn new(figure: &'a Figure) -> Self {
        let mut groups: Vec<Group<'a>> = Vec::new();
        for case in &figure.cases {
            match groups.iter_mut().find(|group| group.takes(case)) {
                Some(group) => group.cases.push(case),
                None => groups.push(Group { unit: case.unit, cases: vec![case] }),
            }
        }
        Self { groups }
    }

    pub(super) fn height(&self) -> i32 {
        let legend = if self.groups.is_empty() { 0 } else { LEGEND };
        let groups = self.groups.iter().map(|group| group.height() + APART);
        groups.sum::<i32>() + legend
    }

    pub(super) fn draw(&self, paper: &Paper<'_>) -> anyhow::Result<()> {
        let mut top = HEAD;
        for group in &self.groups {
            group.draw(paper, top)?;
            top += group.height() + APART;
        }
        if self.groups.is_empty() { Ok(()) } else { self.legend(paper, top + LEGEND / 2 - 4) }
    }

    fn legend(&self, paper: &Paper<'_>, y: i32) -> anyhow::Result<()> {
        let series = || self.groups.iter().flat_map(|group| &group.cases).flat_map(|c| &c.series);
        let names = [(Role::Ours, "Postroom"), (Role::Control, "control"), (Role::Peer, "peers")];
        let mut x = FROM;
        for (role, name) in names {
            if series().any(|series| series.role == role) {
                fill(paper, [(x, y - 6), (x + 12, y + 6)], color(role, 0))?;
                write(paper, (x + 18, y), name, pen(FAINT, Side::Left))?;
                x += 110;
            }
        }
        let mut cases = self.groups.iter().flat_map(|group| &group.cases);
        if cases.any(|case| !case.verdicts.is_empty()) {
            stroke(paper, vec![(x + 6, y - 8), (x + 6, y + 8)], BAR, 2)?;
            write(paper, (x + 18, y), "bar to reach", pen(FAINT, Side::Left))?;
        }
        Ok(())
    }
}

impl Group<'_> {
    /// Rates of other sizes need an axis of their own, or they could not be told apart.
    fn takes(&self, case: &Case) -> bool {
        let most = |case: &Case| measured(case).map(Series::median).fold(0.0, f64::max);
        let group = self.cases.iter().map(|case| most(case)).fold(0.0, f64::max);
        let is_rate = case.unit.better() == Better::Higher;
        let is_like = (group / 8.0..=group * 8.0).contains(&most(case));
        self.unit == case.unit && (is_like || !is_rate)
    }

    fn height(&self) -> i32 {
        let rows = |case: &Case| measured(case).map(|one| height(case, one)).sum::<i32>();
        AXIS + self.cases.iter().map(|case| CASE + rows(case) + GAP).sum::<i32>()
    }

    /// Bars to reach that lie far off are left out, or nothing else could be seen.
    fn scale(&self) -> Scale {
        let series = self.cases.iter().flat_map(|case| &case.series);
        let mut values: Vec<f64> =
            series.flat_map(|series| [series.median(), series.spread().1]).collect();
        let most = values.iter().copied().fold(0.0, f64::max);
        let marks = self
            .cases
            .iter()
            .flat_map(|case| case.verdicts.iter().filter_map(|verdict| mark(case, verdict)));
        values.extend(marks.filter(|mark| *mark <= most * 4.0));
        match self.unit {
            Unit::Seconds => Scale::covering(&values, FROM, TO),
            // Twice as fast is twice as long.
            _ => Scale::from_zero(&values, FROM, TO),
        }
    }

    fn draw(&self, paper: &Paper<'_>, top: i32) -> anyhow::Result<()> {
        let scale = self.scale();
        let bottom = top + self.height() - GAP;
        for tick in scale.ticks() {
            let x = scale.place(tick);
            stroke(paper, vec![(x, top + AXIS - 8), (x, bottom)], GRID, 1)?;
            write(
                paper,
                (x, top + AXIS / 2 - 4),
                &scale.label(self.unit, tick),
                pen(FAINT, Side::Middle),
            )?;
        }
        write(
            paper,
            (NAMES, top + AXIS / 2 - 4),
            scale.unit(self.unit).1,
            pen(FAINT, Side::Right),
        )?;
        let mut y = top + AXIS;
        for case in &self.cases {
            let title = Pen { bold: true, ..pen(INK, Side::Left) };
            write(paper, (MARGIN, y + CASE / 2), &case.what, title)?;
            y += CASE;
            for series in measured(case) {
                row(paper, case, series, scale, y)?;
                y += height(case, series);
            }
            y += GAP;
        }
        Ok(())
    }
}

fn measured(case: &Case) -> impl Iterator<Item = &Series> {
    case.series.iter().filter(|series| series.is_measured())
}

/// Each verdict has a line of its own.
fn height(case: &Case, series: &Series) -> i32 {
    ROW * verdicts(case, series).count().max(1) as i32
}

fn verdicts<'a>(case: &'a Case, series: &Series) -> impl Iterator<Item = &'a Verdict> {
    let name = series.name();
    case.verdicts.iter().filter(move |verdict| verdict.of == name)
}

fn row(
    paper: &Paper<'_>,
    case: &Case,
    series: &Series,
    scale: Scale,
    top: i32,
) -> anyhow::Result<()> {
    let middle = top + ROW / 2;
    let end = scale.place(series.median()).max(FROM + 1);
    let name = match (series.role, &series.which) {
        (Role::Ours, Some(which)) => which.clone(),
        _ => series.name(),
    };
    write(paper, (NAMES, middle), &name, pen(INK, Side::Right))?;
    fill(paper, [(FROM, top + 3), (end, top + ROW - 3)], color(series.role, 0))?;
    if series.rounds.len() > 1 {
        let (low, high) = series.spread();
        let (low, high) = (scale.place(low), scale.place(high));
        stroke(paper, vec![(low, middle), (high, middle)], INK, 1)?;
        for x in [low, high] {
            stroke(paper, vec![(x, middle - 4), (x, middle + 4)], INK, 1)?;
        }
    }
    let number = case.unit.show(series.median());
    write(paper, (NUMBERS, middle), &number, pen(INK, Side::Left))?;
    for (line, verdict) in verdicts(case, series).enumerate() {
        let at = (WIDTH - MARGIN, middle + ROW * line as i32);
        write(paper, at, &said(case.unit, verdict), pen(FAINT, Side::Right))?;
        if let Some(bar) = mark(case, verdict).filter(|bar| scale.covers(*bar)) {
            let x = scale.place(bar);
            stroke(paper, vec![(x, top), (x, top + ROW)], BAR, 2)?;
        }
    }
    Ok(())
}

/// Where the bar of a verdict is, in the unit of the case.
fn mark(case: &Case, verdict: &Verdict) -> Option<f64> {
    match &verdict.against {
        Some(other) => Some(case.median_of(other)? * verdict.bar),
        None => Some(verdict.bar),
    }
}

fn said(unit: Unit, verdict: &Verdict) -> String {
    // Where rounds differ much, whiskers are long and the verdict says little.
    let tick = match (verdict.met, verdict.noisy) {
        (_, true) => "noisy",
        (true, _) => "✓",
        (false, _) => "✗",
    };
    match &verdict.against {
        Some(other) => {
            let (value, bar) = (ratio(verdict.value, verdict.bar), digits(verdict.bar));
            format!("{value} × {other}, {} {bar} {tick}", verdict.sign())
        }
        None => format!("{} {} {tick}", verdict.sign(), unit.show(verdict.bar)),
    }
}

fn pen(color: RGBColor, side: Side) -> Pen {
    Pen { size: 15, bold: false, color, side }
}
