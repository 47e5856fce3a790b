//! What the documents say about the suite is true.

use std::collections::BTreeSet;

use postroom_testkit::conformance::CASES;

fn says(document: &str, text: &str, expected: &str) {
    assert!(text.contains(expected), "{document} must say {expected:?}");
}

#[test]
fn the_number_of_cases_is_the_one_in_the_documents() {
    let n = CASES.len();
    says("README", include_str!("../../../../README.md"), &format!("| {n} | {n} | {n} |"));
    says("ARCHITECTURE", include_str!("../../../../ARCHITECTURE.md"), &format!("({n} cases"));
    let guide = include_str!("../../../../docs/guide/testing.md");
    says("the guide", guide, &format!("There are {n} in this version"));
    let area_of = |case: &&'static str| case.split("::").next().unwrap_or_default();
    let areas: BTreeSet<&str> = CASES.iter().map(area_of).collect();
    for area in areas {
        let cases = CASES.iter().filter(|case| area_of(case) == area).count();
        says("the guide", guide, &format!("| `{area}` | {cases} |"));
    }
}
