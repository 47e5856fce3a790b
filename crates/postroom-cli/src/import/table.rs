//! Finds the old table and its columns, and writes the statement that reads it.
//!
//! Nothing that a person typed becomes SQL: names are looked up in the catalog, and what the
//! catalog calls them is quoted.

use std::fmt;

use super::dialect::{cell, is_unset, payload, quoted};
use super::shape::{Field, Mapping, Shape, plain};
use crate::args::Rows;
use crate::failure::{Exit, Failure};
use crate::url::Kind;

/// A column as the catalog has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
}

/// A table as the catalog has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) schema: String,
    pub(crate) name: String,
    /// Whether it is found without naming its schema.
    pub(crate) here: bool,
    pub(crate) columns: Vec<Column>,
}

/// The name of a table as somebody wrote it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    schema: Option<String>,
    name: String,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{schema}.")?;
        }
        f.write_str(&self.name)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SQLite calls its only schema so.
        if self.schema != "main" {
            write!(f, "{}.", self.schema)?;
        }
        f.write_str(&self.name)
    }
}

impl Wanted {
    pub(crate) fn new(name: &str) -> Self {
        match name.split_once('.') {
            Some((schema, name)) => Self { schema: Some(schema.to_owned()), name: name.to_owned() },
            None => Self { schema: None, name: name.to_owned() },
        }
    }

    /// The two plain names that it can have: where there are no schemas, they are put in front.
    pub(crate) fn plain_names(&self) -> [String; 2] {
        let name = plain(&self.name);
        [format!("{}{name}", self.schema.as_deref().map(plain).unwrap_or_default()), name]
    }

    /// The table that is meant: the best match, if there is just one. On MySQL a schema is another
    /// database, and somebody else's perhaps: there it has to be named.
    pub(crate) fn choose(&self, kind: Kind, tables: Vec<Table>) -> Result<Table, Failure> {
        let (near, far): (Vec<_>, Vec<_>) = tables
            .into_iter()
            .partition(|table| kind != Kind::MySql || self.distance(table).0 < ELSEWHERE);
        let best = near.iter().map(|table| self.distance(table)).min();
        let mut close: Vec<_> =
            near.into_iter().filter(|table| Some(self.distance(table)) == best).collect();
        match (close.len(), close.pop()) {
            (1, Some(table)) => Ok(table),
            (_, None) => {
                let what = format!("there is no table {self} in the source database");
                let elsewhere: Vec<_> = far.iter().map(Table::to_string).collect();
                let next = match elsewhere.is_empty() {
                    true => "name it with --table, its database with --source-url".to_owned(),
                    false => format!("name it with --table: there is {}", elsewhere.join(", ")),
                };
                Err(Failure::new(Exit::Invalid, what).next(next))
            }
            (_, Some(last)) => {
                close.push(last);
                let names: Vec<_> = close.iter().map(Table::to_string).collect();
                let what = format!("{self} can be any of {}", names.join(", "));
                Err(Failure::new(Exit::Invalid, what).next("name one of them with --table"))
            }
        }
    }

    /// How far a table is from what was written: its schema, then where it is, then its letters.
    fn distance(&self, table: &Table) -> (u8, bool) {
        let same_schema = self.schema.as_ref().map(|schema| plain(schema) == plain(&table.schema));
        let same_name = plain(&self.name) == plain(&table.name);
        let place = match (same_schema, same_name, table.here) {
            (Some(true), true, _) => 0,
            (Some(false), false, true) => 1,
            (_, _, true) => 2,
            _ => ELSEWHERE,
        };
        (place, self.name != table.name)
    }
}

/// The distance of a table that is neither here nor in the schema that was named.
const ELSEWHERE: u8 = 3;

/// Which columns are read, and how.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    kind: Kind,
    table: Table,
    columns: Vec<(Field, Column)>,
    filter: String,
}

impl Plan {
    /// Finds the columns of the shape in the table.
    pub(crate) fn new(
        kind: Kind,
        table: Table,
        shape: Shape,
        map: &[Mapping],
        rows: Rows,
    ) -> Result<Self, Failure> {
        let mut columns = Vec::new();
        let mut missing = Vec::new();
        for &field in Field::ALL {
            let mapped = map.iter().rev().find(|mapping| mapping.field == field);
            let names: Vec<&str> = match mapped {
                Some(mapping) => vec![&mapping.column],
                None => shape.columns(field).to_vec(),
            };
            match names.iter().find_map(|name| table.column(name)) {
                Some(column) => columns.push((field, column.clone())),
                None if mapped.is_some() || field.is_required() => {
                    missing.push(format!("{} for the {}", names.join(" or "), field.name()));
                }
                None => {}
            }
        }
        if !missing.is_empty() {
            return Err(lacks(&table, &missing.join(", ")));
        }
        let filter = filter(kind, shape, rows, &columns, &table)?;
        Ok(Self { kind, table, columns, filter })
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// The fields in the order of the columns of [`select`](Self::select), without the payload,
    /// which comes last with its length.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field> {
        self.cells().map(|(field, _)| field)
    }

    fn cells(&self) -> impl Iterator<Item = (Field, &Column)> {
        let read = self.columns.iter().map(|(field, column)| (*field, column));
        read.filter(|(field, _)| field.is_said() && *field != Field::Payload)
    }

    fn get(&self, field: Field) -> Option<&Column> {
        find(&self.columns, field)
    }

    pub(crate) fn count(&self) -> String {
        let counted =
            if self.kind == Kind::MySql { "cast(count(*) as signed)" } else { "count(*)" };
        format!("select {counted} from {} where {}", self.from(), self.filter)
    }

    /// All rows in the old table's own order.
    pub(crate) fn select(&self, max_payload: usize) -> String {
        let mut cells: Vec<_> = self.cells().map(|(_, column)| cell(self.kind, column)).collect();
        let body = self.get(Field::Payload).map(|column| payload(self.kind, column, max_payload));
        cells.extend(body);
        let order: Vec<_> = [Field::Sequence, Field::OccurredAt, Field::Id]
            .into_iter()
            .filter_map(|field| self.get(field))
            .map(|column| quoted(self.kind, &column.name))
            .collect();
        format!(
            "select {} from {} where {} order by {}",
            cells.join(", "),
            self.from(),
            self.filter,
            order.join(", ")
        )
    }

    fn from(&self) -> String {
        let name = quoted(self.kind, &self.table.name);
        match self.kind {
            Kind::Sqlite => name,
            _ => format!("{}.{name}", quoted(self.kind, &self.table.schema)),
        }
    }
}

impl Table {
    /// By its letters, else by its plain name.
    fn column(&self, name: &str) -> Option<&Column> {
        let exact = self.columns.iter().find(|column| column.name == name);
        exact.or_else(|| self.columns.iter().find(|column| plain(&column.name) == plain(name)))
    }
}

fn find(columns: &[(Field, Column)], field: Field) -> Option<&Column> {
    columns.iter().find(|(found, _)| *found == field).map(|(_, column)| column)
}

fn filter(
    kind: Kind,
    shape: Shape,
    rows: Rows,
    columns: &[(Field, Column)],
    table: &Table,
) -> Result<String, Failure> {
    let (pending, dead) = shape.statuses();
    let among = |values: &[u8]| {
        let values: Vec<_> = values.iter().map(u8::to_string).collect();
        let column = find(columns, Field::Status)?;
        Some(format!("{} in ({})", quoted(kind, &column.name), values.join(", ")))
    };
    let unset = find(columns, Field::Processed).map(|column| is_unset(kind, column));
    let not_yet = find(columns, Field::ProcessedAt)
        .map(|column| format!("{} is null", quoted(kind, &column.name)));
    let conditions: Vec<_> = match rows {
        Rows::Any => return Ok("1 = 1".to_owned()),
        Rows::Dead => among(dead).into_iter().collect(),
        Rows::Pending => [among(pending), unset, not_yet].into_iter().flatten().collect(),
    };
    if conditions.is_empty() {
        let what = format!("no column of {table} tells which rows were not sent");
        let next = "name one with --map status=, processed= or processed_at=; or take every row \
            with --status any";
        return Err(Failure::new(Exit::Invalid, what).next(next));
    }
    Ok(conditions.join(" and "))
}

fn lacks(table: &Table, missing: &str) -> Failure {
    let has: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let what = format!("{table} has no column {missing}");
    let next = format!("choose among {} with --map FIELD=COLUMN", has.join(", "));
    Failure::new(Exit::Invalid, what).next(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(schema: &str, name: &str, here: bool) -> Table {
        Table { schema: schema.to_owned(), name: name.to_owned(), here, columns: Vec::new() }
    }

    fn chosen(wanted: &str, tables: &[Table]) -> Result<String, Failure> {
        chosen_on(Kind::Postgres, wanted, tables)
    }

    fn chosen_on(kind: Kind, wanted: &str, tables: &[Table]) -> Result<String, Failure> {
        Wanted::new(wanted).choose(kind, tables.to_vec()).map(|table| table.to_string())
    }

    #[test]
    fn sch_4_the_table_that_fits_best_is_meant() {
        let tables = [
            table("infra", "Outbox", false),
            table("public", "outbox", true),
            table("public", "infra_outbox", true),
        ];
        assert_eq!(chosen("infra.Outbox", &tables).unwrap(), "infra.Outbox");
        assert_eq!(chosen("infra.Outbox", &tables[1..]).unwrap(), "public.infra_outbox");
        assert_eq!(chosen("infra.Outbox", &tables[1..2]).unwrap(), "public.outbox");
        assert_eq!(chosen("outbox", &tables[..2]).unwrap(), "public.outbox");
        let elsewhere = [table("a", "t", false), table("b", "t", false)];
        let failure = chosen("t", &elsewhere).unwrap_err().render(false);
        assert!(failure.contains("t can be any of a.t, b.t"), "{failure}");
        assert_eq!(chosen("t", &elsewhere[..1]).unwrap(), "a.t");
        let failure = chosen_on(Kind::MySql, "t", &elsewhere[..1]).unwrap_err().render(false);
        assert!(failure.contains("there is no table t"), "{failure}");
        assert!(failure.contains("name it with --table: there is a.t"), "{failure}");
        assert_eq!(chosen_on(Kind::MySql, "a.t", &elsewhere).unwrap(), "a.t");
        assert!(chosen("t", &[]).unwrap_err().render(false).contains("there is no table t"));
    }

    #[test]
    fn sec_1_names_of_the_catalog_are_quoted() {
        let name = "x\"; drop table y; --`";
        let mut odd = table("s\"", name, true);
        let names = ["event_id", "event_type", "payload", "status"];
        let column = |name: &str| Column { name: name.to_owned(), kind: "text".to_owned() };
        odd.columns = names.map(column).to_vec();
        for kind in [Kind::Postgres, Kind::MySql, Kind::Sqlite] {
            let plan = Plan::new(kind, odd.clone(), Shape::OutboxEvent, &[], Rows::Pending);
            let sql = plan.unwrap().select(9);
            let safe = match kind {
                Kind::MySql => "`x\"; drop table y; --```",
                Kind::Postgres | Kind::Sqlite => "\"x\"\"; drop table y; --`\"",
            };
            assert!(sql.contains(safe), "{sql}");
        }
    }

    #[test]
    fn sch_4_missing_columns_are_named_with_those_that_are_there() {
        let mut old = table("public", "outbox_event", true);
        old.columns = vec![Column { name: "event_id".to_owned(), kind: "text".to_owned() }];
        let plan = Plan::new(Kind::Postgres, old, Shape::OutboxEvent, &[], Rows::Pending);
        let failure = plan.unwrap_err();
        let expected = "error: public.outbox_event has no column event_type for the topic, \
            payload for the payload\n next: choose among event_id with --map FIELD=COLUMN";
        assert_eq!(failure.render(false), expected);
        assert_eq!(failure.exit(), Exit::Invalid);
    }
}
