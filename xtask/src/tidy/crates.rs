//! Which crate may depend on which: towards the core, never away from it.

use serde_json::Value;

use super::Problem;
use crate::workspace::{items, text};

const CORE: &str = "postroom-core";
const TESTKIT: &str = "postroom-testkit";
const SERVERS: &str = "postroom-servers";

/// Libraries beside each other: each knows the core and none knows another.
const SIBLINGS: [&str; 5] =
    ["postroom-stores", "postroom-sinks", "postroom-testkit", "postroom-admin", "postroom-otel"];

/// What people install; test code has no place in it.
const SHIPPED: [&str; 5] =
    ["postroom", "postroom-adapters", "postroom-cli", "postroom-admin", "postroom-otel"];

/// Dependencies point from the edges to the core.
pub(super) fn direction(metadata: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in items(&metadata["packages"]) {
        let name = text(&package["name"]);
        for dependency in items(&package["dependencies"]) {
            let target = text(&dependency["name"]);
            if let Some(reason) = forbidden(name, target, dependency["kind"] == "dev") {
                let message = format!("depends on {target} ({reason})");
                problems.push(Problem::new(format!("crates/{name}/Cargo.toml"), 1, message));
            }
        }
    }
    problems
}

/// Why `name` may not depend on `target`, if so.
fn forbidden(name: &str, target: &str, for_tests: bool) -> Option<&'static str> {
    let ours = target == "postroom" || target.starts_with("postroom-");
    if name == CORE && (ours || ["sqlx", "axum"].contains(&target)) {
        return Some("the core knows no database, no HTTP and no other postroom crate");
    }
    if SHIPPED.contains(&name) && [TESTKIT, SERVERS].contains(&target) && !for_tests {
        return Some("that is for tests: make it a dev-dependency");
    }
    // Tests may be an application, which knows the whole.
    let of_tests = [TESTKIT, SERVERS, "postroom"];
    let allowed = target == CORE || (for_tests && of_tests.contains(&target));
    if SIBLINGS.contains(&name) && ours && !allowed {
        return Some("this crate may know postroom-core only; move the code, or go through it");
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(name: &str, target: &str, kind: Option<&str>) -> usize {
        let package = json!({"name": name, "dependencies": [{"name": target, "kind": kind}]});
        direction(&json!({"packages": [package]})).len()
    }

    #[test]
    fn core_knows_nobody() {
        assert_eq!(problems(CORE, "sqlx", None), 1);
        assert_eq!(problems(CORE, "axum", Some("dev")), 1);
        assert_eq!(problems(CORE, "postroom-derive", None), 1);
        assert_eq!(problems(CORE, "serde", None), 0);
    }

    #[test]
    fn siblings_know_the_core_only() {
        assert_eq!(problems("postroom-stores", CORE, None), 0);
        assert_eq!(problems("postroom-stores", "postroom-sinks", None), 1);
        assert_eq!(problems("postroom-admin", "postroom", None), 1);
        assert_eq!(problems("postroom-admin", "postroom", Some("dev")), 0);
        assert_eq!(problems(TESTKIT, "postroom-stores", Some("dev")), 1);
        assert_eq!(problems("postroom-stores", TESTKIT, Some("dev")), 0);
        assert_eq!(problems("postroom-stores", TESTKIT, None), 1);
    }

    #[test]
    fn testkit_is_not_shipped() {
        for name in SHIPPED {
            assert_eq!(problems(name, TESTKIT, None), 1, "{name}");
            assert_eq!(problems(name, TESTKIT, Some("dev")), 0, "{name}");
        }
        assert_eq!(problems("postroom", "postroom-stores", None), 0);
    }
}
