//! Compares what a database has with what the migrations make.

use std::collections::HashMap;

use super::Finding;

const CHECK: &str = "schema";

/// A thing that a schema is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    /// `table`, `column`, `index` and so on.
    pub(crate) kind: String,
    /// What it is known by.
    pub(crate) name: String,
    /// What must be equal, such as the type of a column.
    pub(crate) shape: String,
}

impl Object {
    pub(crate) fn new(
        kind: impl Into<String>,
        name: impl Into<String>,
        shape: impl Into<String>,
    ) -> Self {
        Self { kind: kind.into(), name: name.into(), shape: shape.into() }
    }

    fn key(&self) -> (&str, &str) {
        (&self.kind, &self.name)
    }

    /// A line of a list that is kept with the source.
    #[cfg(test)]
    pub(crate) fn line(&self) -> String {
        let Self { kind, name, shape } = self;
        format!("{kind}\t{name}\t{shape}").trim_end().to_owned() + "\n"
    }
}

/// The list that is kept with the source, with names as they are configured.
pub(crate) fn parse(list: &str, rename: impl Fn(&str) -> String) -> Vec<Object> {
    let read = |line: &str| {
        let mut parts = line.splitn(3, '\t');
        let kind = parts.next()?;
        let (name, shape) = (parts.next()?, parts.next().unwrap_or_default());
        Some(Object::new(kind, rename(name), shape))
    };
    list.lines().filter_map(read).collect()
}

/// How an object differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drift<'a> {
    Missing,
    /// It has this shape.
    Changed(&'a str),
}

/// What is missing or has another shape; `fix` knows what mends it. The columns and indexes of a
/// table that is missing are not named one by one.
pub(crate) fn compare(
    expected: &[Object],
    actual: &[Object],
    fix: impl Fn(&Object, Drift<'_>, Finding) -> Finding,
) -> Vec<Finding> {
    let there: HashMap<_, _> =
        actual.iter().map(|object| (object.key(), object.shape.as_str())).collect();
    let has_table = |object: &Object| {
        let table = object.name.split(['.', ' ']).next().unwrap_or_default();
        // On SQLite indexes have names of their own.
        let is_part = match object.kind.as_str() {
            "index" => object.name.contains(' '),
            kind => kind == "column",
        };
        !is_part || there.contains_key(&("table", table))
    };
    let mut findings = Vec::new();
    for object in expected.iter().filter(|object| has_table(object)) {
        let Object { kind, name, shape } = object;
        let (drift, what) = match there.get(&object.key()) {
            None => (Drift::Missing, format!("{kind} {name} is missing")),
            Some(found) if found != shape => {
                let what = match kind.as_str() {
                    "column" => format!("{kind} {name} is {found}, not {shape}"),
                    _ => format!("{kind} {name} is not as this version makes it"),
                };
                (Drift::Changed(found), what)
            }
            Some(_) => continue,
        };
        findings.push(fix(object, drift, Finding::problem(CHECK, what)));
    }
    super::or_ok(findings, CHECK, "tables, columns, indexes and routines are as they should be")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn sch_1_what_is_missing_or_changed_is_found() {
        let expected = parse("table\tt\ncolumn\tt.a\ttext\nindex\tt (a)\nindex\tu (a)\n", |name| {
            name.to_owned()
        });
        let keep = |_: &Object, _: Drift<'_>, finding: Finding| finding;
        let whats = |actual: &[Object]| -> Vec<String> {
            let found = compare(&expected, actual, keep);
            found.into_iter().map(|finding| finding.what).collect()
        };
        assert_eq!(whats(&[]), ["table t is missing"], "and not each of its parts");
        let mut actual = expected.clone();
        assert_eq!(compare(&expected, &actual, keep)[0].level, Level::Ok);
        actual[1].shape = "integer".to_owned();
        assert_eq!(whats(&actual), ["column t.a is integer, not text"]);
        actual.remove(2);
        assert_eq!(whats(&actual)[1], "index t (a) is missing");
    }
}
