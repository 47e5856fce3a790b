//! The parity table: areas down, stores across, and what is wrong with it.

use std::collections::BTreeSet;

use super::libtest::{Cases, Outcome};

/// The cases of all stores, side by side.
#[derive(Debug, Default)]
pub(super) struct Parity(Vec<(&'static str, Cases)>);

impl Parity {
    /// Adds the column of one store.
    pub(super) fn add(&mut self, store: &'static str, cases: Cases) {
        self.0.push((store, cases));
    }

    /// The table: one row per area, a total, and the stores as the heading. Failed cases do not
    /// count.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let areas: BTreeSet<&str> = self.names().into_iter().filter_map(area).collect();
        let heading = std::iter::once("area").chain(self.0.iter().map(|(store, _)| *store));
        let mut rows = vec![heading.map(String::from).collect()];
        rows.extend(areas.into_iter().map(|name| self.row(name, |case| area(case) == Some(name))));
        rows.push(self.row("total", |_| true));
        rows
    }

    /// Everything that makes the parity fail, as sentences.
    pub(super) fn problems(&self, minimum: usize) -> Vec<String> {
        let names = self.names();
        let mut problems = Vec::new();
        for (store, cases) in &self.0 {
            let missing = names.iter().filter(|name| !cases.contains_key(**name));
            problems.extend(missing.map(|name| format!("{store}: {name} is missing")));
            let failed = cases.iter().filter(|(_, outcome)| outcome.is_failure());
            problems.extend(failed.map(|(name, outcome)| match outcome {
                Outcome::Ignored => format!("{store}: {name} is ignored"),
                _ => format!("{store}: {name} failed"),
            }));
        }
        if names.len() < minimum {
            problems.push(format!("only {} cases; at least {minimum} are expected", names.len()));
        }
        problems
    }

    fn names(&self) -> BTreeSet<&str> {
        self.0.iter().flat_map(|(_, cases)| cases.keys().map(String::as_str)).collect()
    }

    fn row(&self, title: &str, belongs: impl Fn(&str) -> bool) -> Vec<String> {
        let count = |cases: &Cases| {
            let good = cases.iter().filter(|(name, end)| belongs(name) && !end.is_failure());
            good.count().to_string()
        };
        let counts = self.0.iter().map(|(_, cases)| count(cases));
        std::iter::once(title.to_owned()).chain(counts).collect()
    }
}

fn area(case: &str) -> Option<&str> {
    case.split("::").next()
}

#[cfg(test)]
mod tests {
    use super::super::libtest::Outcome::{Failed, Ignored, Passed};
    use super::*;

    fn cases(list: &[(&str, Outcome)]) -> Cases {
        list.iter().map(|&(name, outcome)| (name.to_owned(), outcome)).collect()
    }

    #[test]
    fn table_counts_good_cases_by_area() {
        let mut parity = Parity::default();
        parity.add("sim", cases(&[("claim::a", Passed), ("claim::b", Passed)]));
        parity.add("sqlite", cases(&[("claim::a", Failed), ("settle::c", Passed)]));
        let expected = [
            ["area", "sim", "sqlite"],
            ["claim", "2", "0"],
            ["settle", "0", "1"],
            ["total", "2", "1"],
        ];
        assert_eq!(parity.rows(), expected);
    }

    #[test]
    fn equal_columns_have_no_problems() {
        let mut parity = Parity::default();
        parity.add("sim", cases(&[("claim::a", Passed)]));
        parity.add("sqlite", cases(&[("claim::a", Passed)]));
        assert_eq!(parity.problems(1), Vec::<String>::new());
    }

    #[test]
    fn missing_failed_and_too_few_cases_are_problems() {
        let mut parity = Parity::default();
        parity.add("sim", cases(&[("claim::a", Passed), ("claim::b", Passed)]));
        parity.add("sqlite", cases(&[("claim::a", Failed), ("claim::c", Ignored)]));
        let expected = [
            "sim: claim::c is missing",
            "sqlite: claim::b is missing",
            "sqlite: claim::a failed",
            "sqlite: claim::c is ignored",
            "only 3 cases; at least 80 are expected",
        ];
        assert_eq!(parity.problems(80), expected);
    }
}
