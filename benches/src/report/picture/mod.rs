//! A picture per figure: bars for what was measured in rounds, lines for what depends on a size or
//! on time. SVG needs no fonts here; whoever looks at it has some.

mod bars;
mod curves;
mod paper;
mod scale;

use super::Figure;

pub(crate) fn draw(figure: &Figure) -> anyhow::Result<String> {
    let bars = bars::Layout::new(figure);
    let curves = curves::height(figure);
    let paper = paper::Size { width: paper::WIDTH, height: paper::HEAD + bars.height() + curves };
    let mut svg = String::new();
    {
        let root = paper::begin(&mut svg, paper, figure)?;
        bars.draw(&root)?;
        curves::draw(&root, figure, paper::HEAD + bars.height())?;
        root.present().map_err(paper::broken)?;
    }
    Ok(svg)
}
