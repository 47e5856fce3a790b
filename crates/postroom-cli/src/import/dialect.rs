//! How each database is asked for its columns, and for their values in one form.
//!
//! Every value but the payload comes as text with a letter before it: `t` for text, `x` for bytes
//! in hexadecimal, `m` for microseconds since 1970 (UTC). So one reader serves all column types.

use super::table::Column;
use crate::url::Kind;

/// Tables whose names can be meant: schema, table, column, type, and whether it is looked into
/// without naming the schema. The place-holders stand for two plain names.
pub(crate) fn catalog(kind: Kind) -> &'static str {
    match kind {
        Kind::Postgres => {
            "select n.nspname::text, c.relname::text, a.attname::text,
                format_type(a.atttypid, null), n.nspname = any(current_schemas(false))
            from pg_catalog.pg_class c
            join pg_catalog.pg_namespace n on n.oid = c.relnamespace
            join pg_catalog.pg_attribute a on a.attrelid = c.oid
            where replace(lower(c.relname), '_', '') in ($1, $2)
                and c.relkind in ('r', 'p', 'v', 'm', 'f')
                and n.nspname not in ('pg_catalog', 'information_schema')
                and a.attnum > 0 and not a.attisdropped
            order by 1, 2, a.attnum"
        }
        Kind::MySql => {
            "select cast(table_schema as char), cast(table_name as char),
                cast(column_name as char), cast(data_type as char),
                table_schema = coalesce(database(), '')
            from information_schema.columns
            where replace(lower(table_name), '_', '') in (?, ?)
                and table_schema not in ('information_schema', 'mysql', 'performance_schema', 'sys')
            order by table_schema, table_name, ordinal_position"
        }
        Kind::Sqlite => {
            "select 'main', m.name, p.name, p.type, 1
            from sqlite_master m
            join pragma_table_info(m.name) p
            where m.type in ('table', 'view') and replace(lower(m.name), '_', '') in (?1, ?2)
            order by m.name, p.cid"
        }
    }
}

/// What the session that reads must have.
pub(crate) fn session(kind: Kind) -> &'static str {
    match kind {
        // One statement reads the whole table, however long that takes.
        Kind::Postgres => "set statement_timeout = 0",
        // Columns of type `timestamp` are shown in the zone of the session.
        Kind::MySql => "set session time_zone = '+00:00'",
        Kind::Sqlite => "select 1",
    }
}

/// A name from the catalog as SQL.
pub(crate) fn quoted(kind: Kind, name: &str) -> String {
    match kind {
        Kind::MySql => format!("`{}`", name.replace('`', "``")),
        Kind::Postgres | Kind::Sqlite => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// What a column holds, as far as reading it goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Bytes,
    Time,
    Bool,
    Other,
}

fn class(kind: Kind, column: &Column) -> Class {
    let is_time = column.kind.starts_with("timestamp") || column.kind == "datetime";
    match (kind, column.kind.as_str()) {
        // Its columns have no types, its values do.
        (Kind::Sqlite, _) => Class::Other,
        (_, _) if is_time => Class::Time,
        (Kind::Postgres, "bytea") | (Kind::MySql, "binary" | "varbinary") => Class::Bytes,
        (Kind::MySql, blob) if blob.ends_with("blob") => Class::Bytes,
        (Kind::Postgres, "boolean") => Class::Bool,
        _ => Class::Other,
    }
}

/// The value with its letter.
pub(crate) fn cell(kind: Kind, column: &Column) -> String {
    let name = quoted(kind, &column.name);
    match (kind, class(kind, column)) {
        (Kind::Postgres, Class::Bytes) => format!("'x' || encode({name}, 'hex')"),
        (Kind::Postgres, Class::Time) => format!(
            "case when isfinite({name}) then \
             'm' || (extract(epoch from {name}) * 1000000)::bigint end"
        ),
        (Kind::Postgres, _) => format!("'t' || {name}::text"),
        (Kind::MySql, Class::Bytes) => format!("concat('x', hex({name}))"),
        (Kind::MySql, Class::Time) => {
            format!("concat('m', timestampdiff(microsecond, '1970-01-01', {name}))")
        }
        (Kind::MySql, _) => format!("concat('t', convert({name} using utf8mb4))"),
        (Kind::Sqlite, _) => format!(
            "case typeof({name}) when 'null' then null when 'blob' then 'x' || hex({name}) \
             else 't' || cast({name} as text) end"
        ),
    }
}

/// The bytes of the payload, unless they are more than `max`, and how many there are.
pub(crate) fn payload(kind: Kind, column: &Column, max: usize) -> String {
    let name = quoted(kind, &column.name);
    let (bytes, length) = match (kind, class(kind, column)) {
        (Kind::Postgres | Kind::MySql, Class::Bytes) => (name, "octet_length"),
        (Kind::Postgres, _) => (format!("convert_to({name}::text, 'UTF8')"), "octet_length"),
        (Kind::MySql, _) => {
            (format!("cast(convert({name} using utf8mb4) as binary)"), "octet_length")
        }
        (Kind::Sqlite, _) => (format!("cast({name} as blob)"), "length"),
    };
    let count = match kind {
        Kind::Postgres => format!("{length}({bytes})::bigint"),
        Kind::MySql => format!("cast({length}({bytes}) as signed)"),
        Kind::Sqlite => format!("{length}({bytes})"),
    };
    format!("case when {length}({bytes}) <= {max} then {bytes} end, {count}")
}

/// True for rows whose flag is not set.
pub(crate) fn is_unset(kind: Kind, column: &Column) -> String {
    let name = quoted(kind, &column.name);
    match class(kind, column) {
        Class::Bool => format!("{name} is not true"),
        _ => format!("coalesce({name}, 0) = 0"),
    }
}
