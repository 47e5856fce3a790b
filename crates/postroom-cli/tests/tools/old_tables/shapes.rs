//! The old tables as each database would have them, with rows in them.

use crate::world::{Kind, World};

/// A time as a literal; without a zone it is UTC.
pub(crate) fn time(kind: Kind, text: &str) -> String {
    match kind {
        Kind::Postgres => format!("'{text}+00'"),
        Kind::MySql | Kind::Sqlite => format!("'{text}'"),
    }
}

/// The shortest table of `OutboxMessages`; ids are bytes where there is no type for them.
pub(crate) fn outbox_messages(world: &World) {
    let columns = match world.kind {
        Kind::Postgres => {
            r#"create schema app;
            create table app."OutboxMessages" ("Id" uuid not null, "OccurredOn" timestamp not null,
            "Type" varchar(255) not null, "Data" text not null, "ProcessedDate" timestamp)"#
        }
        Kind::MySql => {
            "create table OutboxMessages (Id binary(16) not null, OccurredOn datetime(6) not null,
            Type text not null, Data longtext not null, ProcessedDate datetime(6))"
        }
        Kind::Sqlite => {
            "create table OutboxMessages (Id blob not null, OccurredOn text not null,
            Type text not null, Data text not null, ProcessedDate text)"
        }
    };
    world.sql(columns);
    let rows = [
        ("0e1f2a3b4c5d4e6f8a9b0c1d2e3f4a5b", "Orders.OrderPlaced", r#"{"n": 1}"#, "null"),
        ("ffffffffffff4fff8fffffffffffffff", "Orders.OrderPaid", r#"{"n": 2}"#, "null"),
        ("00000000000040008000000000000001", "Orders.Old", "{}", "'2026-11-15 15:00:00'"),
        ("00000000000040008000000000000002", "Orders.Note", "no JSON é", "null"),
    ];
    let mut second = 9;
    for (id, topic, data, processed) in rows {
        // The order of times is not the order of ids.
        second -= 1;
        let id = match world.kind {
            Kind::Postgres => format!("'{id}'"),
            Kind::MySql | Kind::Sqlite => format!("x'{id}'"),
        };
        let table = match world.kind {
            Kind::Postgres => r#"app."OutboxMessages""#,
            Kind::MySql | Kind::Sqlite => "OutboxMessages",
        };
        world.sql(&format!(
            "insert into {table} values ({id}, '2026-11-15 14:00:0{second}.123456', '{topic}', \
             '{data}', {processed})"
        ));
    }
}

/// The longer one, as an object mapper names it on this database: with tenants and keys.
pub(crate) fn keyed_messages(world: &World) {
    let (uuid, time, flag) = match world.kind {
        Kind::Postgres => ("uuid", "timestamptz", "boolean"),
        Kind::MySql => ("char(36)", "datetime(6)", "bit(1)"),
        Kind::Sqlite => ("text", "text", "integer"),
    };
    world.sql(&format!(
        "create table outbox_messages (id bigint primary key, tenant_id varchar(64), \
         event_type varchar(255), payload text, created_at {time}, retry_count int, \
         is_processed {flag}, idempotency_key {uuid}, processed_at {time}, error text)"
    ));
    let (no, yes) = match world.kind {
        Kind::Postgres => ("false", "true"),
        Kind::MySql | Kind::Sqlite => ("0", "1"),
    };
    let at = self::time(world.kind, "2026-11-15 14:00:00");
    let key = "'aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa'";
    for row in [
        format!("1, 'acme', 'task.done', '{{}}', {at}, 0, {no}, {key}, null, null"),
        format!("2, 'umbrella', 'task.done', '{{}}', {at}, 3, {no}, {key}, null, 'no route'"),
        format!("3, '', 'task.done', '{{}}', {at}, 0, {no}, null, null, null"),
        format!("4, 'acme', 'task.done', '{{}}', {at}, 0, {yes}, null, null, null"),
        format!("5, 'acme', 'task.done', '{{}}', {at}, 0, {no}, null, {at}, null"),
    ] {
        world.sql(&format!("insert into outbox_messages values ({row})"));
    }
}

pub(crate) fn outbox_event(world: &World) {
    let (json, time, status) = match world.kind {
        Kind::Postgres => ("jsonb", "timestamptz", "smallint"),
        Kind::MySql => ("json", "datetime(6)", "tinyint"),
        Kind::Sqlite => ("text", "text", "integer"),
    };
    world.sql(&format!(
        "create table outbox_event (event_id varchar(36) primary key, \
         event_type text not null, aggregate_type varchar(64), \
         aggregate_id varchar(128), tenant_id varchar(64), payload {json} not null, \
         headers {json}, status {status} not null, attempts int not null default 0, \
         available_at {time} not null, created_at {time} not null, done_at {time}, \
         last_error text)"
    ));
}

/// One row of `outbox_event`; times are in the past unless given.
pub(crate) fn event(world: &World, id: &str, topic: &str, status: u8, second: usize) {
    event_due(world, id, topic, status, second, "2026-11-15 14:00:00");
}

pub(crate) fn event_due(
    world: &World,
    id: &str,
    topic: &str,
    status: u8,
    second: usize,
    due: &str,
) {
    let due = time(world.kind, due);
    let created = time(world.kind, &format!("2026-11-15 14:00:{second:02}"));
    world.sql(&format!(
        "insert into outbox_event (event_id, event_type, aggregate_type, aggregate_id, tenant_id, \
         payload, headers, status, available_at, created_at) values ('{id}', '{topic}', 'order', \
         '7', 'acme', '{{\"id\": \"{id}\"}}', '{{\"trace\": \"abc\", \"n\": 5}}', {status}, {due}, \
         {created})"
    ));
}

/// Many rows of `outbox_event`, with so many bytes in each payload.
pub(crate) fn many_events(world: &World, rows: usize, bytes: usize) {
    outbox_event(world);
    let due = time(world.kind, "2026-11-15 14:00:00");
    let filling = "x".repeat(bytes);
    for first in (0..rows).step_by(500) {
        let values: Vec<_> = (first..rows.min(first + 500))
            .map(|n| {
                format!(
                    "('00000000-0000-4000-8000-{n:012}', 'order.placed', '{{\"n\": {n}, \
                     \"filling\": \"{filling}\"}}', 0, {due}, {due})"
                )
            })
            .collect();
        world.sql(&format!(
            "insert into outbox_event (event_id, event_type, payload, status, available_at, \
             created_at) values {}",
            values.join(", ")
        ));
    }
}

pub(crate) fn infra_outbox(world: &World) {
    let ddl = match world.kind {
        Kind::Postgres => {
            r#"create schema infra;
            create table infra."Outbox" ("Id" uuid primary key, "Topic" varchar(255) not null,
            "Payload" text not null, "CreatedAt" timestamptz not null,
            "Status" smallint not null default 0, "LockedUntil" timestamp,
            "OwnerToken" uuid, "IsProcessed" boolean not null default false,
            "ProcessedAt" timestamptz, "ProcessedBy" varchar(100),
            "RetryCount" int not null default 0, "LastError" text,
            "NextAttemptAt" timestamptz not null default now(), "MessageId" uuid not null,
            "CorrelationId" varchar(255), "DueTimeUtc" timestamptz)"#
        }
        Kind::MySql => {
            "create table infra_Outbox (Id char(36) primary key, Topic varchar(255) not null,
            Payload longtext not null, CreatedAt datetime(6) not null,
            Status tinyint not null default 0, LockedUntil datetime(3), OwnerToken char(36),
            IsProcessed bit not null default 0, ProcessedAt datetime(6), ProcessedBy varchar(100),
            RetryCount int not null default 0, LastError longtext,
            NextAttemptAt datetime(6) not null default '2026-01-01', MessageId char(36) not null,
            CorrelationId varchar(255), DueTimeUtc timestamp(6) null)"
        }
        Kind::Sqlite => {
            "create table infra_Outbox (Id text primary key, Topic text not null,
            Payload text not null, CreatedAt integer not null,
            Status integer not null default 0, LockedUntil integer, OwnerToken text,
            IsProcessed integer not null default 0, ProcessedAt integer, ProcessedBy text,
            RetryCount integer not null default 0, LastError text,
            NextAttemptAt integer not null default 0, MessageId text not null,
            CorrelationId text, DueTimeUtc integer)"
        }
    };
    world.sql(ddl);
    let far = match world.kind {
        Kind::Sqlite => "2145830400".to_owned(),
        _ => time(world.kind, "2037-12-31 00:00:00"),
    };
    for (n, status, processed, due) in [
        (1, 0, "0", "null".to_owned()),
        (2, 1, "0", far),
        (3, 2, "1", "null".to_owned()),
        (4, 3, "0", "null".to_owned()),
    ] {
        let processed = match (world.kind, processed) {
            (Kind::Postgres, "0") => "false",
            (Kind::Postgres, _) => "true",
            (_, other) => other,
        };
        let created = match world.kind {
            Kind::Sqlite => format!("179475120000{n}"),
            _ => time(world.kind, &format!("2026-11-15 14:00:00.00{n}")),
        };
        let names = "Id,Topic,Payload,CreatedAt,Status,IsProcessed,MessageId,CorrelationId,\
            DueTimeUtc";
        let (table, names) = match world.kind {
            Kind::Postgres => {
                let quoted: Vec<_> = names.split(',').map(|name| format!("\"{name}\"")).collect();
                ("infra.\"Outbox\"", quoted.join(","))
            }
            Kind::MySql | Kind::Sqlite => ("infra_Outbox", names.to_owned()),
        };
        world.sql(&format!(
            "insert into {table} ({names}) values ('1111111{n}-1111-4111-8111-111111111111', \
             'email.send', '{{\"to\": {n}}}', {created}, {status}, {processed}, \
             '2222222{n}-2222-4222-8222-222222222222', 'corr-{n}', {due})"
        ));
    }
}
