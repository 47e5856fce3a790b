//! The arguments of `postroom import`.

use clap::{Args, ValueEnum};

use crate::import::{Field, Mapping, Shape};

const EXAMPLES: &str = "\
Stop the relay of the old table first: what it still sends is delivered by both.

Ids are kept. A row that was imported before is found again and not written twice, so a run that
was interrupted is simply started once more, and two may run at once. The old table is only read.
Rows that break a limit are named with the reason; the others are imported, and the exit code is 1.

Examples:
  postroom import --from outbox_event --dry-run
  postroom import --from OutboxMessages --source-url postgres://app@db/shop
  postroom import --from outbox_event --table events_out --map topic=event_name,payload=body";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Import {
    /// What the old table looks like
    #[arg(long, value_name = "SHAPE", ignore_case = true)]
    pub(crate) from: Shape,

    /// The name of the old table, or SCHEMA.TABLE; by default that of the shape
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,

    /// The database of the old table, when it is another one than that of --url
    #[arg(long, value_name = "URL", env = "POSTROOM_SOURCE_URL", hide_env_values = true)]
    pub(crate) source_url: Option<String>,

    /// Columns with other names than the shape's, such as topic=event_name,payload=body
    #[arg(long, value_name = "FIELD=COLUMN", value_delimiter = ',', value_parser = mapping)]
    pub(crate) map: Vec<Mapping>,

    /// Which rows
    #[arg(long, value_name = "STATUS", default_value = "pending")]
    pub(crate) status: Rows,

    /// How many rows are written in one transaction, up to 1000; also ended by 4 MiB of payload
    #[arg(
        long,
        value_name = "N",
        default_value = "1000",
        value_parser = clap::value_parser!(u16).range(1..=1000)
    )]
    pub(crate) chunk: u16,

    /// Read everything and tell what would happen, but write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Which rows of the old table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rows {
    /// Those that were not sent yet
    Pending,
    /// Those that the old relay gave up: they are tried again from the beginning
    Dead,
    /// Every row, for a table that sent rows are deleted from
    Any,
}

fn mapping(text: &str) -> Result<Mapping, String> {
    let (field, column) = text
        .split_once('=')
        .filter(|(_, column)| !column.is_empty())
        .ok_or("expected FIELD=COLUMN, such as topic=event_name")?;
    let Some(field) = Field::named(field) else {
        let names: Vec<_> = Field::ALL.iter().map(|field| field.name()).collect();
        return Err(format!("there is no field {field:?}; fields are {}", names.join(", ")));
    };
    Ok(Mapping { field, column: column.to_owned() })
}
