//! White paper with a title, and what is drawn on it. White also where the page around it is dark.

use plotters::coord::Shift;
use plotters::prelude::{
    DrawingArea, IntoDrawingArea as _, IntoFont as _, PathElement, RGBColor, Rectangle, SVGBackend,
    Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, FontStyle, TextStyle};

use crate::report::{Figure, Role};

pub(super) type Paper<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Everything fits into the width of a page of documentation.
pub(super) const WIDTH: i32 = 960;
/// The title and what is below it.
pub(super) const HEAD: i32 = 76;
pub(super) const MARGIN: i32 = 24;

pub(super) const INK: RGBColor = RGBColor(31, 41, 55);
pub(super) const FAINT: RGBColor = RGBColor(107, 114, 128);
pub(super) const GRID: RGBColor = RGBColor(229, 231, 235);
pub(super) const BAR: RGBColor = RGBColor(190, 18, 60);

const OURS: [RGBColor; 4] =
    [RGBColor(37, 99, 235), RGBColor(124, 58, 237), RGBColor(8, 145, 178), RGBColor(22, 163, 74)];
const CONTROL: [RGBColor; 2] = [RGBColor(156, 163, 175), RGBColor(75, 85, 99)];
const PEERS: [RGBColor; 4] =
    [RGBColor(217, 119, 6), RGBColor(180, 83, 9), RGBColor(234, 179, 8), RGBColor(146, 64, 14)];

#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) width: i32,
    pub(super) height: i32,
}

/// Where text stands from the point that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Middle,
    Right,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Pen {
    pub(super) size: i32,
    pub(super) bold: bool,
    pub(super) color: RGBColor,
    pub(super) side: Side,
}

/// The colour of the n-th of its kind.
pub(super) fn color(role: Role, n: usize) -> RGBColor {
    match role {
        Role::Ours => OURS[n % OURS.len()],
        Role::Control => CONTROL[n % CONTROL.len()],
        Role::Peer => PEERS[n % PEERS.len()],
    }
}

pub(super) fn begin<'a>(
    svg: &'a mut String,
    size: Size,
    figure: &Figure,
) -> anyhow::Result<Paper<'a>> {
    let pixels = (u32::try_from(size.width)?, u32::try_from(size.height)?);
    let paper = SVGBackend::with_string(svg, pixels).into_drawing_area();
    paper.fill(&RGBColor(255, 255, 255)).map_err(broken)?;
    let title = Pen { size: 24, bold: true, color: INK, side: Side::Left };
    write(&paper, (MARGIN, 26), &format!("{} {}", figure.id, figure.title), title)?;
    let pen = Pen { size: 15, bold: false, color: FAINT, side: Side::Left };
    let mut below = figure.notes.first().cloned().unwrap_or_default();
    if let Some(setup) = &figure.setup {
        below += &format!(" · {} cores", setup.cores);
    }
    write(&paper, (MARGIN, 52), &below, pen)?;
    Ok(paper)
}

pub(super) fn write(paper: &Paper<'_>, at: (i32, i32), text: &str, pen: Pen) -> anyhow::Result<()> {
    let font = ("sans-serif", pen.size).into_font();
    let font = if pen.bold { font.style(FontStyle::Bold) } else { font };
    let side = match pen.side {
        Side::Left => HPos::Left,
        Side::Middle => HPos::Center,
        Side::Right => HPos::Right,
    };
    let style: TextStyle<'_> = font.color(&pen.color);
    paper
        .draw(&Text::new(text.to_owned(), at, style.pos(Pos::new(side, VPos::Center))))
        .map_err(broken)
}

pub(super) fn stroke(
    paper: &Paper<'_>,
    points: Vec<(i32, i32)>,
    color: RGBColor,
    width: u32,
) -> anyhow::Result<()> {
    paper.draw(&PathElement::new(points, color.stroke_width(width))).map_err(broken)
}

pub(super) fn fill(
    paper: &Paper<'_>,
    corners: [(i32, i32); 2],
    color: RGBColor,
) -> anyhow::Result<()> {
    paper.draw(&Rectangle::new(corners, color.filled())).map_err(broken)
}

/// What goes wrong on paper in memory has no cause worth keeping.
pub(super) fn broken(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow::anyhow!("cannot draw: {error}")
}
