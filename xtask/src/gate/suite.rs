//! Which tests run, in the words of nextest and of plain `cargo test`.
//!
//! The rule that both share: a test needs a server when the name of its test binary, or of a
//! module it is in, contains the name of that server.

use serde_json::Value;

use crate::workspace::{self, items, text};
use postroom_servers::process;

/// The servers by the names that tests carry.
const SERVERS: [&str; 6] = ["postgres", "mysql", "nats", "rabbitmq", "redis", "chromium"];

/// The packages whose tests are worth running many times an hour.
const QUICK: [&str; 3] = ["postroom-core", "postroom-testkit", "postroom-stores"];

/// The adapters that cost little to build. The gate switches them on everywhere, so that everything
/// is built once.
pub(crate) const LIGHT_ADAPTERS: &str =
    "postroom-adapters/tokio-postgres,postroom-adapters/rusqlite";

/// The sinks that the command line switches on, and with it every build of the workspace.
const SINKS: [&str; 4] = ["http", "nats", "amqp", "redis"];

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
    let mut arguments =
        ["nextest", "run", "--workspace", "--features", LIGHT_ADAPTERS].map(String::from).to_vec();
    if let Some(expression) = expression(selection) {
        arguments.extend(["-E".into(), expression]);
    }
    arguments.extend(words.iter().cloned());
    arguments
}

/// Arguments of cargo that run the selection without nextest. Test binaries are named one by
/// one, because libtest can leave out tests but not binaries.
pub(super) fn libtest(selection: Selection, words: &[String], metadata: &Value) -> Vec<String> {
    let mut arguments = ["test", "--workspace", "--features", LIGHT_ADAPTERS, "--lib", "--bins"]
        .map(String::from)
        .to_vec();
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
    let ours = "package(xtask) or (package(postroom-servers) and kind(lib))";
    let without = format!("({ours} or not (binary(/{names}/) or test(/({names}).*::/)))");
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

/// Package and name of every integration test binary that the workspace's build has.
fn test_binaries(metadata: &Value) -> impl Iterator<Item = (&str, &str)> {
    items(&metadata["packages"]).iter().flat_map(|package| {
        items(&package["targets"])
            .iter()
            .filter(|target| items(&target["kind"]).iter().any(|kind| kind == "test"))
            .filter(|target| items(&target["required-features"]).iter().all(is_switched_on))
            .map(|target| (text(&package["name"]), text(&target["name"])))
    })
}

fn is_switched_on(feature: &Value) -> bool {
    LIGHT_ADAPTERS.split([',', '/']).chain(SINKS).any(|name| feature == name)
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
        let expected = ["nextest", "run", "--workspace", "--features", LIGHT_ADAPTERS];
        assert_eq!(nextest(Selection::All, &[]), expected);
        let arguments = libtest(Selection::All, &[], &metadata());
        assert_eq!(arguments[..2], ["test", "--workspace"]);
        assert_eq!(arguments[4..], ["--lib", "--bins", "--tests", "--"]);
    }

    #[test]
    fn words_are_passed_on() {
        let words = ["claim".into()];
        assert_eq!(nextest(Selection::All, &words).last(), Some(&words[0]));
        assert_eq!(libtest(Selection::All, &words, &metadata()).last(), Some(&words[0]));
    }

    #[test]
    fn server_binaries_are_left_out_by_name() {
        let arguments = libtest(Selection::WithoutServers, &[], &metadata()).join(" ");
        assert!(arguments.contains("--test sqlite --test help --"), "{arguments}");
        assert!(arguments.contains("--skip postgres --skip mysql --skip nats"), "{arguments}");
    }

    #[test]
    fn binaries_that_are_not_built_are_not_named() {
        let test =
            |name: &str| json!({"name": name, "kind": ["test"], "required-features": [name]});
        let targets = ["rusqlite", "diesel"].map(test);
        let metadata = json!({"packages": [{"name": "postroom-adapters", "targets": targets}]});
        let arguments = libtest(Selection::WithoutServers, &[], &metadata);
        assert!(arguments.contains(&"rusqlite".into()), "{arguments:?}");
        assert!(!arguments.contains(&"diesel".into()), "{arguments:?}");
    }

    #[test]
    fn quick_keeps_to_its_packages() {
        let arguments = libtest(Selection::Quick, &[], &metadata()).join(" ");
        let expected = "test --lib --package postroom-core --package postroom-stores \
                        --test sqlite -- --skip postgres --skip mysql --skip nats --skip rabbitmq \
                        --skip redis --skip chromium";
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
