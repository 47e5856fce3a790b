//! Reading what Rust's test harness prints.

use std::collections::BTreeMap;

/// The module of the conformance cases in every test binary.
pub(super) const PREFIX: &str = "conformance::";

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It exists; nothing was run.
    Listed,
    Passed,
    Failed,
    /// It exists and was not run, which no case may ask for.
    Ignored,
}

impl Outcome {
    pub(super) fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Ignored)
    }
}

/// Cases by `area::case`.
pub(super) type Cases = BTreeMap<String, Outcome>;

/// Reads the output of `--list --format terse`.
pub(super) fn listed(output: &str) -> Cases {
    let names = output.lines().filter_map(|line| line.strip_suffix(": test"));
    names.filter_map(case).map(|case| (case, Outcome::Listed)).collect()
}

/// Reads the output of a run in the default format.
pub(super) fn results(output: &str) -> Cases {
    output.lines().filter_map(result).collect()
}

fn result(line: &str) -> Option<(String, Outcome)> {
    let (name, word) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let outcome = match word.split([' ', ',']).next()? {
        "ok" => Outcome::Passed,
        "ignored" => Outcome::Ignored,
        _ => Outcome::Failed,
    };
    Some((case(name.strip_suffix(" - should panic").unwrap_or(name))?, outcome))
}

fn case(name: &str) -> Option<String> {
    let case = name.trim().strip_prefix(PREFIX)?;
    case.contains("::").then(|| case.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_keeps_conformance_cases_only() {
        let output = "conformance::claim::expired_lease_is_taken_over: test\n\
                      conformance::settle::is_fenced: test\n\
                      url_is_parsed: test\n\
                      conformance::claim::speed: benchmark\n";
        let cases = listed(output);
        let names: Vec<_> = cases.keys().map(String::as_str).collect();
        assert_eq!(names, ["claim::expired_lease_is_taken_over", "settle::is_fenced"]);
        assert_eq!(cases["settle::is_fenced"], Outcome::Listed);
    }

    #[test]
    fn run_gives_one_outcome_per_case() {
        let output = "\nrunning 5 tests\n\
            test conformance::claim::a ... ok\n\
            test conformance::claim::b ... FAILED\n\
            test conformance::settle::c ... ignored, later\n\
            test conformance::settle::d - should panic ... ok\n\
            test other ... FAILED\n\n\
            failures:\n\n---- conformance::claim::b stdout ----\n\
            test result: FAILED. 2 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out\n";
        let expected = [
            ("claim::a", Outcome::Passed),
            ("claim::b", Outcome::Failed),
            ("settle::c", Outcome::Ignored),
            ("settle::d", Outcome::Passed),
        ];
        assert_eq!(results(output), expected.map(|(name, end)| (name.to_owned(), end)).into());
    }

    #[test]
    fn silent_end_gives_no_outcomes() {
        assert!(results("running 3 tests\n").is_empty());
    }
}
