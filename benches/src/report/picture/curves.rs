//! Lines over a size or over time, a panel below the other.

use super::paper::{FAINT, GRID, INK, MARGIN, Paper, Pen, Side, WIDTH, color, fill, stroke, write};
use super::scale::Scale;
use crate::report::numbers::short;
use crate::report::{Figure, Panel, Role};

const HEIGHT: i32 = 300;
const TITLE: i32 = 26;
const LEGEND: i32 = 22;
const AXIS: i32 = 48;
const FROM: i32 = 100;
/// Numbers on the axis need so much room.
const ROOM: i32 = 46;
/// So many points are measurements of their own; more are a course of time.
const FEW: usize = 20;

pub(super) fn height(figure: &Figure) -> i32 {
    figure.panels.len() as i32 * HEIGHT
}

pub(super) fn draw(paper: &Paper<'_>, figure: &Figure, top: i32) -> anyhow::Result<()> {
    for (place, panel) in figure.panels.iter().enumerate() {
        panel_at(paper, panel, top + place as i32 * HEIGHT)?;
    }
    Ok(())
}

fn panel_at(paper: &Paper<'_>, panel: &Panel, top: i32) -> anyhow::Result<()> {
    let title = Pen { size: 16, bold: true, color: INK, side: Side::Left };
    write(paper, (MARGIN, top + TITLE / 2), &panel.title, title)?;
    legend(paper, panel, top + TITLE + LEGEND / 2)?;
    let (upper, lower) = (top + TITLE + LEGEND + 8, top + HEIGHT - AXIS);
    let values: Vec<f64> = points(panel).map(|(_, y)| y).collect();
    let y = Scale::covering(&values, lower, upper);
    let (first, last) = points(panel)
        .map(|(x, _)| x)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(first, last), x| (first.min(x), last.max(x)));
    if !first.is_finite() {
        return write(
            paper,
            (FROM, (upper + lower) / 2),
            "nothing was measured",
            plain(Side::Left),
        );
    }
    let x = Scale::between(first, last, panel.logarithmic, FROM, WIDTH - MARGIN - 12);
    for tick in y.ticks() {
        let at = y.place(tick);
        stroke(paper, vec![(FROM, at), (WIDTH - MARGIN, at)], GRID, 1)?;
        write(paper, (FROM - 8, at), &y.label(panel.unit, tick), plain(Side::Right))?;
    }
    write(paper, (FROM - 8, upper - 14), y.unit(panel.unit).1, plain(Side::Right))?;
    stroke(paper, vec![(FROM, lower), (WIDTH - MARGIN, lower)], FAINT, 1)?;
    below(paper, panel, x, lower)?;
    write(paper, ((FROM + WIDTH - MARGIN) / 2, lower + 34), &panel.x, plain(Side::Middle))?;
    lines(paper, panel, x, y)
}

/// Numbers where something was measured, or round ones along the course of time.
fn below(paper: &Paper<'_>, panel: &Panel, x: Scale, lower: i32) -> anyhow::Result<()> {
    let few = panel.lines.iter().all(|line| line.points.len() <= FEW);
    let mut ticks: Vec<f64> = if few { points(panel).map(|(x, _)| x).collect() } else { x.ticks() };
    ticks.sort_unstable_by(f64::total_cmp);
    ticks.dedup();
    let mut last = i32::MIN;
    for tick in ticks {
        let at = x.place(tick);
        stroke(paper, vec![(at, lower), (at, lower + 5)], FAINT, 1)?;
        if at.saturating_sub(last) >= ROOM {
            write(paper, (at, lower + 15), &short(tick), plain(Side::Middle))?;
            last = at;
        }
    }
    Ok(())
}

fn lines(paper: &Paper<'_>, panel: &Panel, x: Scale, y: Scale) -> anyhow::Result<()> {
    for (line, color) in panel.lines.iter().zip(colors(panel)) {
        let places: Vec<_> = line.points.iter().map(|(a, b)| (x.place(*a), y.place(*b))).collect();
        if line.points.len() <= FEW {
            for (a, b) in &places {
                fill(paper, [(a - 3, b - 3), (a + 3, b + 3)], color)?;
            }
        }
        stroke(paper, places, color, 2)?;
    }
    Ok(())
}

fn legend(paper: &Paper<'_>, panel: &Panel, y: i32) -> anyhow::Result<()> {
    let mut x = FROM;
    for (line, color) in panel.lines.iter().zip(colors(panel)) {
        fill(paper, [(x, y - 3), (x + 18, y + 3)], color)?;
        write(paper, (x + 24, y), &line.name, plain(Side::Left))?;
        x += 52 + 8 * line.name.chars().count() as i32;
    }
    Ok(())
}

/// Each line has its own among those of its kind.
fn colors(panel: &Panel) -> Vec<plotters::style::RGBColor> {
    let before = |place: usize, role: Role| {
        panel.lines[..place].iter().filter(|line| line.role == role).count()
    };
    let lines = panel.lines.iter().enumerate();
    lines.map(|(place, line)| color(line.role, before(place, line.role))).collect()
}

fn points(panel: &Panel) -> impl Iterator<Item = (f64, f64)> {
    panel.lines.iter().flat_map(|line| line.points.iter().copied())
}

fn plain(side: Side) -> Pen {
    Pen { size: 15, bold: false, color: FAINT, side }
}
