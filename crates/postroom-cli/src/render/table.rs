//! Tables that fit the terminal.

use std::collections::BTreeMap;

use comfy_table::{
    Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Row, Table, Width,
};
use postroom::Timestamp;
use postroom::store::{Changed, PauseRecord, Record, Stats};

use super::{Screen, count, inert, outlook, paint, status, style, thousands, time};

/// From this width on there is room for when and how often.
const MEDIUM: u16 = 100;
/// From this width on there is room for absolute times.
const WIDE: u16 = 132;
/// An error in a list is cut here; `show` has all of it.
const MAX_ERROR_CHARS: usize = 120;
/// A plan names so many topics.
const MAX_TOPICS: usize = 10;

/// Messages, one a row. A narrow terminal gets fewer columns and never a broken id.
pub(crate) fn records(records: &[Record], screen: &Screen) -> String {
    let fits = |width| screen.width.is_none_or(|have| have >= width);
    let (medium, wide) = (fits(MEDIUM), fits(WIDE));
    let tenants = medium && records.iter().any(|record| record.tenant_id.is_some());
    let mut table = bare(screen);
    let mut header = vec!["ID", "STATUS", "TOPIC"];
    header.extend(tenants.then_some("TENANT"));
    header.extend(medium.then_some(["TRIES", "CREATED"]).into_iter().flatten());
    table.set_header(header.into_iter().chain(["WHAT NEXT"]).map(head));
    for record in records {
        let mut row =
            vec![Cell::new(record.id), colored(status(record)), Cell::new(inert(&record.topic))];
        if tenants {
            row.push(Cell::new(inert(record.tenant_id.as_deref().unwrap_or("-"))));
        }
        if medium {
            let created = match wide {
                true => time::both(record.created_at, screen.now),
                false => time::relative(record.created_at, screen.now),
            };
            row.extend([Cell::new(record.attempts), Cell::new(created)]);
        }
        row.push(Cell::new(what_next(record, screen)));
        let mut row = Row::from(row);
        if screen.width.is_some() {
            row.max_height(2);
        }
        table.add_row(row);
    }
    keep_whole(&mut table, tenants, medium);
    lines(&mut table)
}

fn what_next(record: &Record, screen: &Screen) -> String {
    let outlook = outlook(record, screen.now);
    let Some(error) = &record.last_error else { return outlook };
    let mut error = inert(error);
    if let Some((end, _)) = error.char_indices().nth(MAX_ERROR_CHARS) {
        error.truncate(end);
        error.push('…');
    }
    format!("{outlook}: {error}")
}

/// Ids, words and numbers stay whole; topics, tenants and errors share the rest.
fn keep_whole(table: &mut Table, tenants: bool, medium: bool) {
    let last_texts = if tenants { 3 } else { 2 };
    let columns = table.column_count();
    for (index, column) in table.column_iter_mut().enumerate() {
        let text = (2..=last_texts).contains(&index) || index + 1 == columns;
        if !text {
            column.set_constraint(ColumnConstraint::ContentWidth);
        } else if index == 2 && medium {
            column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(32)));
        }
    }
}

/// Counts by state, below a line that says where.
pub(crate) fn stats(title: &str, stats: &Stats, screen: &Screen) -> String {
    let oldest = stats.oldest_ready.map(|age| format!("; the oldest is {} old", time::short(age)));
    let oldest = oldest.unwrap_or_default();
    let mut table = bare(screen);
    for (name, count, meaning) in [
        ("ready", stats.ready, format!("can be delivered now{oldest}")),
        ("waiting", stats.waiting, "wait for their time or their next attempt".into()),
        ("leased", stats.leased, "are being delivered".into()),
        ("failed", stats.failed, "of the ready and waiting: had a bad attempt".into()),
        ("done", stats.done, "were delivered".into()),
        ("dead", stats.dead, "will not be tried again by themselves".into()),
    ] {
        let any = count > 0;
        let count = Cell::new(count).set_alignment(comfy_table::CellAlignment::Right);
        let name = if any { colored(name) } else { Cell::new(name) };
        table.add_row([name, count, Cell::new(meaning)]);
    }
    let title = paint(&inert(title), style::HEAD, screen.color);
    format!("{title}\n{}", lines(&mut table))
}

/// Messages and what became of each.
pub(crate) fn changed(changed: &Changed, done: &str) -> String {
    let applied = changed.applied.iter().map(|id| format!("{id}  {done}\n"));
    let refused =
        changed.refused.iter().map(|(id, why)| format!("{id}  not {done}: {}\n", why.as_str()));
    applied.chain(refused).collect()
}

/// How many messages a plan is about, of which topics, and how old.
pub(crate) fn plan(
    what: &str,
    topics: &BTreeMap<String, usize>,
    oldest: Option<Timestamp>,
    more: bool,
    screen: &Screen,
) -> String {
    let mut by_count: Vec<_> = topics.iter().collect();
    by_count.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    let mut table = bare(screen);
    for (topic, n) in by_count.iter().take(MAX_TOPICS) {
        let n = Cell::new(thousands(**n)).set_alignment(comfy_table::CellAlignment::Right);
        table.add_row([n, Cell::new(inert(topic))]);
    }
    let mut text = format!("{}:\n", inert(what));
    text.extend(lines(&mut table).lines().map(|line| format!("  {line}\n")));
    if by_count.len() > MAX_TOPICS {
        text += &format!("  and {}\n", count(by_count.len() - MAX_TOPICS, "other topic"));
    }
    if let Some(oldest) = oldest {
        text += &format!("The oldest was written {}.\n", time::both(oldest, screen.now));
    }
    if more {
        text += "These are the newest; more match, for which it has to be run again.\n";
    }
    text
}

/// What is paused, one a row.
pub(crate) fn pauses(pauses: &[PauseRecord], screen: &Screen) -> String {
    let mut table = bare(screen);
    table.set_header(["TOPIC", "SINCE", "BY", "REASON"].map(head));
    for pause in pauses {
        let text = |text: &Option<String>| inert(text.as_deref().unwrap_or("-"));
        table.add_row([
            pause.topic.as_deref().map_or_else(|| "(all)".to_owned(), inert),
            time::both(pause.since, screen.now),
            text(&pause.by),
            text(&pause.reason),
        ]);
    }
    lines(&mut table)
}

/// Texts in columns, with a name over each.
pub(crate) fn plain<const N: usize>(
    header: [&str; N],
    rows: &[[String; N]],
    screen: &Screen,
) -> String {
    let mut table = bare(screen);
    table.set_header(header.map(head));
    for row in rows {
        table.add_row(row.each_ref().map(|text| inert(text)));
    }
    lines(&mut table)
}

fn bare(screen: &Screen) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).force_no_tty().set_truncation_indicator("…");
    if let Some(width) = screen.width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    if screen.color {
        table.enforce_styling();
    }
    table
}

fn head(name: &str) -> Cell {
    Cell::new(name).add_attribute(Attribute::Bold)
}

fn colored(status: &str) -> Cell {
    let cell = Cell::new(status);
    match status {
        "dead" => cell.fg(Color::Red),
        "failed" => cell.fg(Color::Yellow),
        "leased" => cell.fg(Color::Blue),
        "done" => cell.fg(Color::Green),
        _ => cell,
    }
}

/// The table without the space around it.
fn lines(table: &mut Table) -> String {
    if let Some(first) = table.column_mut(0) {
        first.set_padding((0, 1));
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use postroom::lifecycle::{DeadReason, State};

    use super::super::tests::{now, record, screen, seconds};
    use super::*;

    fn some_records() -> [Record; 3] {
        let failed = Record {
            attempts: 2,
            next_attempt_at: Some(now().saturating_add(seconds(12))),
            last_error: Some("connection refused\nby \u{1b}[31mthe broker".into()),
            ..record()
        };
        let dead = Record {
            state: State::Dead,
            reason: Some(DeadReason::Expired),
            processed_at: Some(now().saturating_sub(seconds(7_200))),
            tenant_id: None,
            ..record()
        };
        [record(), failed, dead]
    }

    #[test]
    fn cli_1_a_pipe_gets_one_line_per_message() {
        let lines = [
            "ID                                    STATUS   TOPIC         TENANT  TRIES  \
             CREATED                        WHAT NEXT",
            "019a8a00-0000-7000-8000-000000000001  pending  order.placed  acme    0      \
             2026-11-15 13:58:00Z (2m ago)  due now",
            "019a8a00-0000-7000-8000-000000000001  failed   order.placed  acme    2      \
             2026-11-15 13:58:00Z (2m ago)  retry in 12s: connection refused\\nby \\u{1b}[31mthe \
             broker",
            "019a8a00-0000-7000-8000-000000000001  dead     order.placed  -       0      \
             2026-11-15 13:58:00Z (2m ago)  expired 2h ago",
            "",
        ];
        let expected = lines.join("\n");
        assert_eq!(records(&some_records(), &screen(None)), expected);
    }

    #[test]
    fn cli_1_tables_fit_a_terminal_of_any_width() {
        for width in [60, 80, 100, 120, 140] {
            let text = records(&some_records(), &screen(Some(width)));
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width.into()), "{width}:\n{text}");
            assert_eq!(text.matches(&record().id.to_string()).count(), 3, "{text}");
        }
    }

    #[test]
    fn colours_are_used_only_when_asked_for() {
        let colored = Screen { color: true, ..screen(None) };
        assert!(records(&some_records(), &colored).contains("\u{1b}["));
        assert!(!records(&some_records(), &screen(None)).contains('\u{1b}'));
    }

    #[test]
    fn pauses_say_who_and_why() {
        let since = now().saturating_sub(seconds(120));
        let pauses = [
            PauseRecord { topic: None, since, by: None, reason: None },
            PauseRecord {
                topic: Some("order.placed".into()),
                since,
                by: Some("ann".into()),
                reason: Some("broker\u{1b}[2J full".into()),
            },
        ];
        let expected = "\
TOPIC         SINCE                          BY   REASON
(all)         2026-11-15 13:58:00Z (2m ago)  -    -
order.placed  2026-11-15 13:58:00Z (2m ago)  ann  broker\\u{1b}[2J full
";
        assert_eq!(super::pauses(&pauses, &screen(None)), expected);
    }

    #[test]
    fn stats_say_what_the_states_mean() {
        let stats = Stats {
            ready: 3,
            waiting: 10,
            failed: 1,
            oldest_ready: Some(seconds(125)),
            ..Stats::default()
        };
        let expected = "\
outbox of sqlite:postroom.db
ready     3  can be delivered now; the oldest is 2m5s old
waiting  10  wait for their time or their next attempt
leased    0  are being delivered
failed    1  of the ready and waiting: had a bad attempt
done      0  were delivered
dead      0  will not be tried again by themselves
";
        assert_eq!(
            super::stats("outbox of sqlite:postroom.db", &stats, &screen(Some(80))),
            expected
        );
    }
}
