//! What is wrong with a configuration file, and where.

use std::ops::Range;
use std::path::Path;

use crate::failure::{Exit, Failure};

/// Something wrong at a place of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) at: Option<Range<usize>>,
    pub(crate) what: String,
}

impl Problem {
    pub(crate) fn new(at: Option<Range<usize>>, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }
}

/// The failure of a command whose file has problems. No line of the file is shown: it may hold a
/// secret.
pub(crate) fn failure(path: &Path, text: &str, problems: &[Problem]) -> Failure {
    let place = |problem: &Problem| match &problem.at {
        Some(at) => {
            let (line, column) = position(text, at.start);
            format!("{}:{line}:{column}: {}", path.display(), problem.what)
        }
        None => format!("{}: {}", path.display(), problem.what),
    };
    let all: Vec<_> = problems.iter().map(place).collect();
    let next =
        "`postroom config schema` describes every key; docs/reference/config.md explains them";
    Failure::new(Exit::Invalid, all.join("; ")).next(next)
}

/// What is wrong with something that is not in a file.
pub(crate) fn list(problems: &[Problem]) -> String {
    let all: Vec<_> = problems.iter().map(|problem| problem.what.as_str()).collect();
    all.join("; ")
}

/// Line and column of a byte, counted from 1, in characters.
fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_as_people_do() {
        let text = "a = 1\nbü = 2\n";
        assert_eq!(position(text, 0), (1, 1));
        assert_eq!(position(text, 6), (2, 1));
        assert_eq!(position(text, text.find('2').expect("there")), (2, 6));
        assert_eq!(position(text, 999), (3, 1));
    }
}
