//! Rules about the text of single files.

use super::{Problem, Tree};

const MAX_COLUMNS: usize = 100;
const MAX_LINES: usize = 500;

/// Written in two parts, so that this file obeys its own rule.
const BANNED: [(&str, &str); 4] = [
    (concat!("to", "do!"), "write the code, or return an error that says it is unsupported"),
    (concat!("unimpl", "emented!"), "write the code, or return an error"),
    (concat!("db", "g!"), "remove it, or use tracing"),
    (concat!("#[ign", "ore"), "make the test run everywhere, or delete it"),
];

const OPEN_ENDS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// Lines are at most 100 characters wide.
pub(super) fn long_lines(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.ending(&[".rs", ".sql"]) {
        for (index, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > MAX_COLUMNS {
                let message = format!("{columns} characters (break it; {MAX_COLUMNS} are allowed)");
                problems.push(Problem::new(&file.path, index + 1, message));
            }
        }
    }
    problems
}

/// Files are at most 500 lines long; tests do not count.
pub(super) fn long_files(tree: &Tree) -> Vec<Problem> {
    let code = tree.ending(&[".rs"]).filter(|file| !is_test(&file.path));
    let long = code.map(|file| (file, code_lines(&file.text))).filter(|(_, n)| *n > MAX_LINES);
    let problem = |path: &String, lines: usize| {
        let message = format!("{lines} lines before the tests (split it by concern)");
        Problem::new(path, lines, message)
    };
    long.map(|(file, lines)| problem(&file.path, lines)).collect()
}

/// Leftovers that must not be committed.
pub(super) fn banned_words(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.ending(&[".rs"]) {
        for (index, line) in file.text.lines().enumerate() {
            for (word, advice) in BANNED.iter().filter(|(word, _)| has_word(line, word)) {
                let message = format!("`{word}` is not allowed ({advice})");
                problems.push(Problem::new(&file.path, index + 1, message));
            }
        }
    }
    problems
}

/// Notes about open work name the issue in which it is tracked.
pub(super) fn open_ends(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.ending(&[".rs", ".sql", ".toml"]) {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(word) = OPEN_ENDS.iter().find(|word| has_word(line, word))
                && !names_issue(line)
            {
                let message = format!("{word} without an issue (do it, or write {word}(#123))");
                problems.push(Problem::new(&file.path, index + 1, message));
            }
        }
    }
    problems
}

fn is_test(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// The number of lines before the test module.
fn code_lines(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let starts_tests = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ");
    lines.windows(2).position(starts_tests).unwrap_or(lines.len())
}

/// Whether the word stands in the line and is not the end of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    let joins = |before: char| before.is_alphanumeric() || before == '_';
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(joins))
}

fn names_issue(line: &str) -> bool {
    line.split('#').skip(1).any(|rest| rest.starts_with(|next: char| next.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    #[test]
    fn line_of_101_characters_is_too_long() {
        let (fits, long) = ("é".repeat(100), "x".repeat(101));
        let text = format!("{fits}\n{long}\n");
        let tree = planted(&[("a.rs", &text), ("b.sql", &text), ("c.md", &text)]);
        let places: Vec<_> = long_lines(&tree).into_iter().map(|p| (p.path, p.line)).collect();
        assert_eq!(places, [("a.rs".into(), 2), ("b.sql".into(), 2)]);
    }

    #[test]
    fn file_of_501_lines_is_too_long() {
        let long = "x\n".repeat(501);
        let mostly_tests = format!("{}#[cfg(test)]\nmod tests {{\n{long}", "x\n".repeat(500));
        let early_item = format!("#[cfg(test)]\nuse std::fmt;\n{long}");
        let tree = planted(&[
            ("src/long.rs", &long),
            ("src/ok.rs", &mostly_tests),
            ("src/early.rs", &early_item),
            ("tests/long.rs", &long),
            ("src/store/tests.rs", &long),
        ]);
        let paths: Vec<_> = long_files(&tree).into_iter().map(|p| p.path).collect();
        assert_eq!(paths, ["src/long.rs", "src/early.rs"]);
    }

    #[test]
    fn leftovers_are_found() {
        for (word, _) in BANNED {
            let line = format!("    {word}(1);");
            assert_eq!(banned_words(&planted(&[("a.rs", &line)])).len(), 1, "{word}");
        }
        let longer_word = format!("my_{}(1);", BANNED[2].0);
        assert_eq!(banned_words(&planted(&[("a.rs", &longer_word)])), []);
    }

    #[test]
    fn open_end_needs_an_issue() {
        for word in OPEN_ENDS {
            let text = format!("// {word}: later\n// {word}(#12): later\n");
            let problems = open_ends(&planted(&[("a.sql", &text)]));
            assert_eq!(problems.len(), 1);
            assert_eq!(problems[0].line, 1);
        }
    }
}
