//! Rules about which files exist and which texts must agree.

use std::collections::BTreeSet;

use super::{Problem, Tree};

const ROOT_FILES: [&str; 14] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "Cargo.toml",
    "Cargo.lock",
    "clippy.toml",
    "rustfmt.toml",
    "deny.toml",
    "compose.yaml",
    ".gitignore",
];

const ROOT_FOLDERS: [&str; 12] = [
    "crates",
    "examples",
    "docs",
    "benches",
    "servers",
    "xtask",
    "deploy",
    ".cargo",
    ".ci",
    ".config",
    ".githooks",
    ".github",
];

const ADRS: &str = "docs/adr/";
const ADR_INDEX: &str = "docs/adr/README.md";
const QUICKSTART: &str = "examples/quickstart.rs";

/// Nothing lies around in the root.
pub(super) fn root_entries(tree: &Tree) -> Vec<Problem> {
    let strange: BTreeSet<&str> = tree
        .0
        .iter()
        .filter_map(|file| match file.path.split_once('/') {
            Some((folder, _)) => (!ROOT_FOLDERS.contains(&folder)).then_some(folder),
            None => (!ROOT_FILES.contains(&file.path.as_str())).then_some(file.path.as_str()),
        })
        .collect();
    let message = "not a known entry of the root (move it, or extend xtask/src/tidy/layout.rs)";
    strange.into_iter().map(|name| Problem::new(name, 1, message)).collect()
}

/// Every decision record is in the index.
pub(super) fn adr_index(tree: &Tree) -> Vec<Problem> {
    let index = tree.get(ADR_INDEX).map_or("", |file| file.text.as_str());
    let numbered = |name: &&str| {
        let (number, rest) = name.split_once('-').unwrap_or_default();
        let digits = number.len() == 4 && number.chars().all(|digit| digit.is_ascii_digit());
        digits && rest.ends_with(".md")
    };
    let missing = tree.below(ADRS).filter(numbered).filter(|name| !index.contains(*name));
    let message = format!("not in the index (add a line to {ADR_INDEX})");
    missing.map(|name| Problem::new(format!("{ADRS}{name}"), 1, &*message)).collect()
}

/// The quickstart in the README is the example that the compiler sees.
pub(super) fn quickstart(tree: &Tree) -> Vec<Problem> {
    let (Some(readme), Some(example)) = (tree.get("README.md"), tree.get(QUICKSTART)) else {
        return Vec::new();
    };
    let Some((before, after)) = readme.text.split_once("<!-- quickstart -->") else {
        return Vec::new();
    };
    let fenced = after.split_once("```rust\n").and_then(|(_, rest)| rest.split_once("```"));
    if fenced.is_some_and(|(code, _)| code.trim_end() == example.text.trim_end()) {
        return Vec::new();
    }
    let message = format!("differs from {QUICKSTART} (copy the example into the rust block)");
    vec![Problem::new("README.md", before.lines().count(), message)]
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    #[test]
    fn stray_root_entry_is_a_problem() {
        let tree = planted(&[
            ("Cargo.toml", ""),
            ("crates/a/src/lib.rs", ""),
            ("notes.txt", ""),
            ("scripts/a.sh", ""),
            ("scripts/b.sh", ""),
        ]);
        let paths: Vec<_> = root_entries(&tree).into_iter().map(|p| p.path).collect();
        assert_eq!(paths, ["notes.txt", "scripts"]);
    }

    #[test]
    fn record_outside_the_index_is_a_problem() {
        let tree = planted(&[
            ("docs/adr/README.md", "- [leases](0001-leases.md)\n"),
            ("docs/adr/0001-leases.md", ""),
            ("docs/adr/0002-clock.md", ""),
            ("docs/adr/template.md", ""),
        ]);
        let paths: Vec<_> = adr_index(&tree).into_iter().map(|p| p.path).collect();
        assert_eq!(paths, ["docs/adr/0002-clock.md"]);
    }

    #[test]
    fn quickstart_that_differs_is_a_problem() {
        let readme = "# Postroom\n<!-- quickstart -->\n```rust\nfn main() {}\n```\n";
        let check = |example| quickstart(&planted(&[("README.md", readme), (QUICKSTART, example)]));
        assert_eq!(check("fn main() {}\n"), []);
        assert_eq!(check("fn main() { run(); }\n").len(), 1);
        assert_eq!(quickstart(&planted(&[("README.md", readme)])), []);
    }
}
