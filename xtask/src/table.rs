//! Text tables: the first column is aligned to the left, the others to the right.

/// Renders rows as aligned lines; the first row is the heading.
pub(crate) fn render(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        text.push_str(&line(row, &widths));
        if index == 0 {
            text.push_str(&"-".repeat(widths.iter().sum::<usize>() + 2 * (columns.max(1) - 1)));
            text.push('\n');
        }
    }
    text
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, &width))| {
        if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    });
    let text = cells.collect::<Vec<_>>().join("  ");
    format!("{}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let row = |cells: [&str; 3]| cells.map(String::from).to_vec();
        let text = render(&[row(["step", "result", "s"]), row(["tests", "ok", "12.3"])]);
        assert_eq!(text, "step   result     s\n-------------------\ntests      ok  12.3\n");
    }

    #[test]
    fn no_rows_are_no_text() {
        assert_eq!(render(&[]), "");
    }
}
