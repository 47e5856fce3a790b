//! Which tests run, in the words of nextest and of plain `cargo test`.
//!
//! The rule that both share: a test needs a server when the name of its test binary, or of a
//! module it is in, contains the name of that server.

use serde_json::Value;

use crate::process;
use crate::workspace::{self, items, text};

/// The servers by the names that tests carry.
const SERVERS: [&str; 2] = ["postgres", "mysql"];

/// The packages whose tests are worth running many times an hour.
const QUICK: [&str; 3] = ["postroom-core", "postroom-testkit", "postroom-stores"];

/// How much of the tests to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// Everything.
    All,
    /// What needs no server.
    WithoutServers,
    /// What needs no server, of the packages at the bottom.
    Quick,
}

/// Whether cargo-nextest is installed.
pub(super) fn has_nextest() -> bool {
    process::succeeds(workspace::cargo().args(["nextest", "--version"]))
}

/// Arguments of cargo that run the selection with nextest.
pub(super) fn nextest(selection: Selection, words: &[String]) -> Vec<String> {
    let mut arguments = ["nextest", "run", "--workspace"].map(String::from).to_vec();
    if let Some(expression) = expression(selection) {
        arguments.extend(["-E".into(), expression]);
    }
    arguments.extend(words.iter().cloned());
    arguments
}

/// Arguments of cargo that run the selection without nextest. Test binaries are named one by
/// one, because libtest can leave out tests but not binaries.
pub(super) fn libtest(selection: Selection, words: &[String], metadata: &Value) -> Vec<String> {
    let mut arguments = ["test", "--workspace", "--lib", "--bins"].map(String::from).to_vec();
    if selection == Selection::Quick {
        arguments = ["test", "--lib"].map(String::from).to_vec();
        let present = packages(metadata).filter(|name| QUICK.contains(name));
        arguments.extend(present.flat_map(|name| ["--package".into(), name.to_owned()]));
    }
    if selection == Selection::All {
        arguments.push("--tests".into());
    } else {
        let names = test_binaries(metadata).filter(|(_, binary)| !needs_server(binary));
        let chosen =
            names.filter(|(name, _)| selection != Selection::Quick || QUICK.contains(name));
        arguments.extend(chosen.flat_map(|(_, binary)| ["--test".into(), binary.to_owned()]));
    }
    arguments.push("--".into());
    if selection != Selection::All {
        arguments.extend(SERVERS.iter().flat_map(|name| ["--skip".into(), (*name).to_owned()]));
    }
    arguments.extend(words.iter().cloned());
    arguments
}

/// What a selection without servers leaves out, in words.
pub(super) fn left_out(selection: Selection, metadata: &Value) -> String {
    let binaries: Vec<_> = test_binaries(metadata)
        .filter(|(_, binary)| needs_server(binary))
        .map(|(package, binary)| format!("{package}::{binary}"))
        .collect();
    let list = if binaries.is_empty() { "none".into() } else { binaries.join(", ") };
    let mut sentence = format!(
        "NOT RUN, because they need a server: test binaries {list}; tests in modules named \
         after {}. `cargo xtask test` runs them.",
        SERVERS.join(" or ")
    );
    if selection == Selection::Quick {
        sentence.push_str(&format!(
            "\nNOT RUN, because this was quick: packages other than {}; doctests; docs; conform.",
            QUICK.join(", ")
        ));
    }
    sentence
}

/// The selection as a nextest filter. Our own unit tests about servers need none.
fn expression(selection: Selection) -> Option<String> {
    let names = SERVERS.join("|");
    let without = format!("(package(xtask) or not (binary(/{names}/) or test(/({names}).*::/)))");
    match selection {
        Selection::All => None,
        Selection::WithoutServers => Some(without),
        Selection::Quick => {
            let packages = QUICK.map(|name| format!("package(={name})"));
            Some(format!("({}) and {without}", packages.join(" or ")))
        }
    }
}

fn needs_server(binary: &str) -> bool {
    SERVERS.iter().any(|name| binary.contains(name))
}

fn packages(metadata: &Value) -> impl Iterator<Item = &str> {
    items(&metadata["packages"]).iter().map(|package| text(&package["name"]))
}

/// Package and name of every integration test binary.
fn test_binaries(metadata: &Value) -> impl Iterator<Item = (&str, &str)> {
    items(&metadata["packages"]).iter().flat_map(|package| {
        items(&package["targets"])
            .iter()
            .filter(|target| items(&target["kind"]).iter().any(|kind| kind == "test"))
            .map(|target| (text(&package["name"]), text(&target["name"])))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata() -> Value {
        let test = |name: &str| json!({"name": name, "kind": ["test"]});
        json!({"packages": [
            {"name": "postroom-core", "targets": [{"name": "postroom_core", "kind": ["lib"]}]},
            {"name": "postroom-stores", "targets": [test("sqlite"), test("postgres")]},
            {"name": "postroom-cli", "targets": [test("run_mysql"), test("help")]},
        ]})
    }

    #[test]
    fn whole_suite_has_no_filter() {
        assert_eq!(nextest(Selection::All, &[]), ["nextest", "run", "--workspace"]);
        let expected = ["test", "--workspace", "--lib", "--bins", "--tests", "--"];
        assert_eq!(libtest(Selection::All, &[], &metadata()), expected);
    }

    #[test]
    fn words_are_passed_on() {
        assert_eq!(nextest(Selection::All, &["claim".into()])[3], "claim");
        assert_eq!(libtest(Selection::All, &["claim".into()], &metadata())[6], "claim");
    }

    #[test]
    fn server_binaries_are_left_out_by_name() {
        let arguments = libtest(Selection::WithoutServers, &[], &metadata()).join(" ");
        assert!(arguments.contains("--test sqlite --test help --"), "{arguments}");
        assert!(arguments.ends_with("--skip postgres --skip mysql"), "{arguments}");
    }

    #[test]
    fn quick_keeps_to_its_packages() {
        let arguments = libtest(Selection::Quick, &[], &metadata()).join(" ");
        let expected = "test --lib --package postroom-core --package postroom-stores \
                        --test sqlite -- --skip postgres --skip mysql";
        assert_eq!(arguments, expected);
    }

    #[test]
    fn what_is_left_out_is_said() {
        let sentence = left_out(Selection::WithoutServers, &metadata());
        assert!(sentence.contains("postroom-stores::postgres, postroom-cli::run_mysql"));
        let quick = left_out(Selection::Quick, &metadata());
        assert!(quick.contains("doctests; docs; conform"), "{quick}");
    }
}
