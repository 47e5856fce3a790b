//! How `top` looks; made for 80 columns and 24 lines, and wider or higher ones.

use postroom::Timestamp;
use postroom::store::{PauseRecord, Record};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, TableState, Wrap};

use super::model::{Mode, Model, Rates};
use crate::render::{inert, status, thousands, time};

const KEYS: &str = "q quit  up/down choose  enter show  r replay  p pause topic  P pause all";

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, now: Timestamp) {
    let rows = [Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)];
    let [title, body, foot] = Layout::vertical(rows).areas(frame.area());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Line::styled(inert(&model.place), bold), title);
    frame.render_widget(footer(model), foot);
    if let Mode::Reading { page, from } = &model.mode {
        let text = Paragraph::new(page.as_str()).wrap(Wrap { trim: false }).scroll((*from, 0));
        frame.render_widget(text.block(Block::bordered().title(" Message ")), body);
        return;
    }
    let [top, below] = Layout::vertical([Constraint::Length(8), Constraint::Min(3)]).areas(body);
    let halves = [Constraint::Length(42), Constraint::Min(20)];
    let [left, right] = Layout::horizontal(halves).areas(top);
    draw_states(frame, left, model);
    draw_pauses(frame, right, &model.look.pauses, now);
    draw_troubles(frame, below, model, now);
}

fn footer(model: &Model) -> Line<'_> {
    let bad = Style::new().fg(color(model, Color::Red)).add_modifier(Modifier::BOLD);
    match (&model.mode, &model.problem, &model.said) {
        (Mode::Asking { question, .. }, _, _) => {
            let strong = Style::new().add_modifier(Modifier::REVERSED);
            Line::styled(format!("{question} y does it, any other key does not"), strong)
        }
        (Mode::Reading { .. }, _, _) => Line::from("q back  up/down scroll"),
        (_, Some(problem), _) => Line::styled(format!("error: {}", inert(problem)), bad),
        (_, _, Some(said)) => Line::from(said.as_str()),
        _ => Line::from(KEYS),
    }
}

/// The colour, or the terminal's own when there are to be none.
fn color(model: &Model, color: Color) -> Color {
    if model.color { color } else { Color::Reset }
}

fn draw_states(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let stats = &model.look.stats;
    let rate = |of: fn(&Rates) -> f64| match &model.rates {
        Some(rates) => format!("{:.1}/s", of(rates)),
        None => String::new(),
    };
    let oldest = stats.oldest_ready.map(|age| format!("oldest {}", time::short(age)));
    let rows = [
        ("ready", stats.ready, oldest.unwrap_or_default(), Color::Reset),
        ("waiting", stats.waiting, String::new(), Color::Reset),
        ("leased", stats.leased, String::new(), Color::Blue),
        ("failed", stats.failed, "to be retried".to_owned(), Color::Yellow),
        ("done", stats.done, rate(|rates| rates.done), Color::Green),
        ("dead", stats.dead, rate(|rates| rates.dead), Color::Red),
    ];
    let rows = rows.map(|(name, count, more, hue)| {
        let hue = if count > 0 { color(model, hue) } else { Color::Reset };
        let count = Line::from(thousands(count as usize)).right_aligned();
        Row::new([Cell::from(Span::styled(name, hue)), Cell::from(count), Cell::from(more)])
    });
    let widths = [Constraint::Length(8), Constraint::Length(11), Constraint::Min(10)];
    let title = match rate(|rates| rates.written) {
        rate if rate.is_empty() => " States ".to_owned(),
        rate => format!(" States, {rate} written "),
    };
    frame.render_widget(Table::new(rows, widths).block(Block::bordered().title(title)), area);
}

fn draw_pauses(frame: &mut Frame<'_>, area: Rect, pauses: &[PauseRecord], now: Timestamp) {
    let block = Block::bordered().title(" Paused ");
    if pauses.is_empty() {
        frame.render_widget(Paragraph::new("nothing").block(block), area);
        return;
    }
    let line = |pause: &PauseRecord| {
        let topic = pause.topic.as_deref().map_or_else(|| "(all)".to_owned(), inert);
        let by = pause.by.as_deref().map_or(String::new(), |by| format!(" by {}", inert(by)));
        let why = pause.reason.as_deref().map_or(String::new(), |why| format!(": {}", inert(why)));
        Line::from(format!("{topic} {}{by}{why}", time::relative(pause.since, now)))
    };
    let lines: Vec<_> = pauses.iter().map(line).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_troubles(frame: &mut Frame<'_>, area: Rect, model: &Model, now: Timestamp) {
    let block = Block::bordered().title(" Newest dead and failed messages ");
    if model.look.troubles.is_empty() {
        frame.render_widget(Paragraph::new("none").block(block), area);
        return;
    }
    let row = |record: &Record| {
        let hue = if status(record) == "dead" { Color::Red } else { Color::Yellow };
        let why = match (&record.last_error, record.reason) {
            (Some(error), _) => inert(error),
            (None, Some(reason)) => reason.as_str().to_owned(),
            (None, None) => String::new(),
        };
        Row::new([
            Cell::from(Span::styled(status(record), color(model, hue))),
            Cell::from(time::relative(record.created_at, now)),
            Cell::from(inert(&record.topic)),
            Cell::from(record.attempts.to_string()),
            Cell::from(why),
        ])
    };
    let widths = [
        Constraint::Length(6),
        Constraint::Length(10),
        Constraint::Fill(2),
        Constraint::Length(5),
        Constraint::Fill(3),
    ];
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let table = Table::new(model.look.troubles.iter().map(row), widths)
        .header(Row::new(["STATUS", "WRITTEN", "TOPIC", "TRIES", "ERROR"]).style(bold))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .highlight_symbol("> ")
        .block(block);
    let mut state = TableState::new().with_selected(model.place_of_choice());
    frame.render_stateful_widget(table, area, &mut state);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;

    use super::super::model::tests::{look, model, press};
    use super::*;
    use crate::render::tests::{now, seconds};

    fn screen(model: &Model, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("in memory");
        terminal.draw(|frame| draw(frame, model, now())).expect("draws");
        terminal.backend().to_string()
    }

    #[test]
    fn cli_1_top_fits_80_columns_and_24_lines() {
        let mut model = model();
        let mut next = look();
        next.stats.done += 1_200;
        model.looked(next, Some(seconds(1)));
        press(&mut model, KeyCode::Down);
        insta::assert_snapshot!(screen(&model, 80, 24));
    }

    #[test]
    fn cli_1_top_of_an_empty_queue() {
        let mut model = model();
        model.looked(Default::default(), None);
        insta::assert_snapshot!(screen(&model, 80, 16));
    }

    #[test]
    fn cli_1_top_asks_and_shows_and_tells_of_errors() {
        let mut model = model();
        press(&mut model, KeyCode::Char('r'));
        let asked = screen(&model, 80, 24);
        assert!(
            asked.contains("Replay 019a8a00-0000-7000-8000-000000000003? y does it"),
            "{asked}"
        );
        press(&mut model, KeyCode::Esc);
        model.failed("no\u{1b}[2J answer".into());
        let failed = screen(&model, 80, 24);
        assert!(failed.contains("error: no\\u{1b}[2J answer"), "{failed}");
        model.show((0..40).map(|n| format!("line {n}\n")).collect());
        press(&mut model, KeyCode::Down);
        let shown = screen(&model, 80, 24);
        assert!(!shown.contains("line 0 ") && shown.contains("line 1 "), "{shown}");
        assert!(shown.contains("q back  up/down scroll"), "{shown}");
    }

    #[test]
    fn cli_1_top_survives_any_size() {
        for (width, height) in [(1, 1), (10, 3), (20, 5), (40, 10), (200, 60)] {
            screen(&model(), width, height);
        }
    }

    #[test]
    fn cli_1_top_without_colours_has_none() {
        let colors = |model: &Model| {
            let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("in memory");
            terminal.draw(|frame| draw(frame, model, now())).expect("draws");
            let cells = terminal.backend().buffer().content().to_vec();
            cells.iter().filter(|cell| cell.fg != Color::Reset).count()
        };
        let mut model = model();
        assert_eq!(colors(&model), 0);
        model.color = true;
        assert!(colors(&model) > 0);
    }
}
