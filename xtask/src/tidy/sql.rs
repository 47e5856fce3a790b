//! Rules about the SQL files of the stores, which must stay the same set on every database.

use std::collections::{BTreeMap, BTreeSet};

use super::{Problem, Tree};

const STATEMENTS: &str = "crates/postroom-stores/sql/";
const MIGRATIONS: &str = "crates/postroom-stores/migrations/";
const EXCEPTIONS: &str = "crates/postroom-stores/sql/EXCEPTIONS";

/// Only in one place per crate may text become SQL without the compiler's consent.
const UNCHECKED: &str = "AssertSqlSafe";

/// Every statement is included by some source file.
pub(super) fn dead_statements(tree: &Tree) -> Vec<Problem> {
    let included: Vec<&str> = tree.ending(&[".rs"]).flat_map(|file| includes(&file.text)).collect();
    let statements = tree.below(STATEMENTS).filter(|path| path.contains('/'));
    let dead = statements.filter(|path| !included.iter().any(|text| text.contains(*path)));
    let message = "no include_str! names this file (use it or delete it)";
    dead.map(|path| Problem::new(format!("{STATEMENTS}{path}"), 1, message)).collect()
}

/// Every database has the same statements and the same migrations.
pub(super) fn equal_names(tree: &Tree) -> Vec<Problem> {
    let (excused, mut problems) = exceptions(tree);
    let mut useful = BTreeSet::new();
    for folder in [STATEMENTS, MIGRATIONS] {
        let databases = names_by_database(tree, folder);
        let names: BTreeSet<&str> = databases.values().flatten().copied().collect();
        for name in names {
            let (with, without): (Vec<&str>, Vec<&str>) =
                databases.keys().partition(|database| databases[*database].contains(name));
            let is_excused = |database: &&str| excused.contains_key(&(*database, name));
            if !without.is_empty() {
                useful.extend(with.iter().chain(&without).map(|database| (*database, name)));
            }
            if with.iter().all(is_excused) {
                continue;
            }
            for database in without.into_iter().filter(|database| !is_excused(database)) {
                let message = format!("missing, others have it (write it, or see {EXCEPTIONS})");
                problems.push(Problem::new(format!("{folder}{database}/{name}"), 1, message));
            }
        }
    }
    let stale = excused.iter().filter(|(entry, _)| !useful.contains(*entry));
    let message = "nothing differs there (remove the exception)";
    problems.extend(stale.map(|(_, &line)| Problem::new(EXCEPTIONS, line, message)));
    problems
}

/// At most one file per crate turns text into SQL. Tests may, as no name of a user reaches them.
pub(super) fn unchecked_sql(tree: &Tree) -> Vec<Problem> {
    let mut first: BTreeMap<String, &str> = BTreeMap::new();
    let mut problems = Vec::new();
    for file in tree.ending(&[".rs"]).filter(|file| file.text.contains(UNCHECKED)) {
        let parts: Vec<&str> = file.path.split('/').collect();
        if parts.contains(&"tests") {
            continue;
        }
        let depth = if parts[0] == "crates" { 2 } else { 1 };
        let owner = parts[..depth.min(parts.len())].join("/");
        let known = *first.entry(owner).or_insert(&file.path);
        if known != file.path {
            let line = file.text.lines().position(|line| line.contains(UNCHECKED));
            let message = format!("{UNCHECKED} is already in {known} (call that place)");
            problems.push(Problem::new(&file.path, line.unwrap_or(0) + 1, message));
        }
    }
    problems
}

/// The arguments of each `include_str!`, which may span lines.
fn includes(text: &str) -> impl Iterator<Item = &str> {
    text.split("include_str!").skip(1).map(|rest| rest.split(')').next().unwrap_or_default())
}

fn names_by_database<'a>(tree: &'a Tree, folder: &'a str) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut databases = BTreeMap::<_, BTreeSet<_>>::new();
    for path in tree.below(folder).filter(|path| path.ends_with(".sql")) {
        if let Some((database, name)) = path.split_once('/') {
            databases.entry(database).or_default().insert(name);
        }
    }
    databases
}

/// Excused (database, name) pairs with their lines, and the entries that nobody can read.
fn exceptions(tree: &Tree) -> (BTreeMap<(&str, &str), usize>, Vec<Problem>) {
    let text = tree.get(EXCEPTIONS).map_or("", |file| file.text.as_str());
    let (mut excused, mut problems) = (BTreeMap::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = line.split_once(char::is_whitespace);
        let reasoned = entry.filter(|(_, reason)| !reason.trim().is_empty());
        match reasoned.and_then(|(path, _)| path.split_once('/')) {
            Some(pair) => _ = excused.insert(pair, index + 1),
            None => {
                let message = "not an exception (write `<database>/<name>  reason`)";
                problems.push(Problem::new(EXCEPTIONS, index + 1, message));
            }
        }
    }
    (excused, problems)
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    const PG: &str = "crates/postroom-stores/sql/postgres/claim.sql";
    const PG_NOTIFY: &str = "crates/postroom-stores/sql/postgres/notify.sql";
    const LITE: &str = "crates/postroom-stores/sql/sqlite/claim.sql";

    fn messages(problems: &[Problem]) -> Vec<String> {
        problems.iter().map(|problem| format!("{}:{}", problem.path, problem.line)).collect()
    }

    #[test]
    fn statement_without_include_is_dead() {
        let source = "const CLAIM: &str = include_str!(\n  \"../sql/postgres/claim.sql\"\n);";
        let tree = planted(&[("a.rs", source), (PG, ""), (LITE, ""), (EXCEPTIONS, "")]);
        assert_eq!(messages(&dead_statements(&tree)), [format!("{LITE}:1")]);
    }

    #[test]
    fn name_missing_on_one_database_is_a_problem() {
        let tree = planted(&[(PG, ""), (PG_NOTIFY, ""), (LITE, "")]);
        let missing = "crates/postroom-stores/sql/sqlite/notify.sql:1";
        assert_eq!(messages(&equal_names(&tree)), [missing]);
    }

    #[test]
    fn migrations_are_compared_too() {
        let tree = planted(&[
            ("crates/postroom-stores/migrations/postgres/0001_messages.sql", ""),
            ("crates/postroom-stores/migrations/sqlite/0001_message.sql", ""),
        ]);
        assert_eq!(equal_names(&tree).len(), 2);
    }

    #[test]
    fn exception_excuses_both_presence_and_absence() {
        for entry in ["postgres/notify.sql", "sqlite/notify.sql"] {
            let exceptions = format!("{entry}  SQLite has no NOTIFY\n");
            let tree = planted(&[(PG, ""), (PG_NOTIFY, ""), (LITE, ""), (EXCEPTIONS, &exceptions)]);
            assert_eq!(equal_names(&tree), [], "{entry}");
        }
    }

    #[test]
    fn exception_needs_a_reason_and_a_difference() {
        let exceptions = "# comment\npostgres/notify.sql\npostgres/claim.sql  the same\n";
        let tree = planted(&[(PG, ""), (LITE, ""), (EXCEPTIONS, exceptions)]);
        let expected = [format!("{EXCEPTIONS}:2"), format!("{EXCEPTIONS}:3")];
        assert_eq!(messages(&equal_names(&tree)), expected);
    }

    #[test]
    fn second_file_with_unchecked_sql_is_a_problem() {
        let tree = planted(&[
            ("crates/a/src/sql.rs", UNCHECKED),
            ("crates/a/src/other.rs", UNCHECKED),
            ("crates/b/src/sql.rs", UNCHECKED),
        ]);
        assert_eq!(messages(&unchecked_sql(&tree)), ["crates/a/src/other.rs:1"]);
    }
}
