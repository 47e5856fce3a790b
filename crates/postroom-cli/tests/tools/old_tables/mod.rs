//! What an import has to do on every database.

mod shapes;

use std::os::unix::process::ExitStatusExt as _;

use serde_json::{Value, json};

use crate::world::{Kind, Ran, World};
use shapes::outbox_messages;
use shapes::{event, event_due, infra_outbox, keyed_messages, many_events, outbox_event};

const FIRST: &str = "0e1f2a3b-4c5d-4e6f-8a9b-0c1d2e3f4a5b";

/// The figures of a run that has to go well.
fn import(world: &World, arguments: &[&str]) -> (u64, u64) {
    let ran = world.run(&[&["import", "--json"], arguments].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let report = ran.json();
    assert_eq!((&report["refused"], &report["refusals"]), (&0.into(), &json!([])), "{report:#}");
    let figure = |name: &str| report[name].as_u64().expect("a number");
    assert_eq!(figure("rows"), figure("imported") + figure("already_there"), "{report:#}");
    (figure("imported"), figure("already_there"))
}

fn show(world: &World, id: &str) -> Value {
    world.json(&["show", id, "--payload"])
}

fn payload(shown: &Value) -> Value {
    let text = match &shown["payload"] {
        Value::String(text) => text.clone(),
        other => return other.clone(),
    };
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

/// Topics in the order of delivery.
fn topics(world: &World) -> Vec<String> {
    let listed = world.json(&["list"]);
    let mut listed = listed.as_array().expect("a list").clone();
    listed.sort_by_key(|record| record["work_id"].as_u64());
    listed.iter().map(|record| record["topic"].as_str().expect("a topic").to_owned()).collect()
}

pub(crate) fn outbox_messages_keep_every_field(kind: Kind) {
    let world = World::migrated(kind);
    outbox_messages(&world);
    assert_eq!(import(&world, &["--from=OutboxMessages"]), (3, 0));
    let first = show(&world, FIRST);
    assert_eq!(first["id"], FIRST);
    assert_eq!(first["topic"], "Orders.OrderPlaced");
    assert_eq!(payload(&first), json!({ "n": 1 }));
    assert_eq!(first["occurred_at"], "2026-11-15T14:00:08.123456Z");
    assert_eq!((&first["status"], &first["attempts"]), (&"pending".into(), &0.into()));
    assert_eq!(first["idempotency_key"], FIRST, "keys are filled in");
    assert_eq!((&first["headers"], &first["due_at"]), (&json!({}), &Value::Null));
    let note = show(&world, "00000000-0000-4000-8000-000000000002");
    assert_eq!(payload(&note), "no JSON é");
    assert_eq!(note["content_type"], "text/plain");
    // The old table's own order, which is by time here.
    assert_eq!(topics(&world), ["Orders.Note", "Orders.OrderPaid", "Orders.OrderPlaced"]);

    assert_eq!(import(&world, &["--from=OutboxMessages"]), (0, 3), "a second run writes nothing");
    assert_eq!(world.messages(), 3);
    let left = if kind == Kind::Postgres { r#"app."OutboxMessages""# } else { "OutboxMessages" };
    assert_eq!(world.number(&format!("select count(*) from {left}")), 4, "it is only read");
}

pub(crate) fn keys_and_tenants_are_kept(kind: Kind) {
    let world = World::migrated(kind);
    keyed_messages(&world);
    assert_eq!(import(&world, &["--from=OutboxMessages"]), (3, 0));
    assert_eq!(import(&world, &["--from=OutboxMessages"]), (0, 3));
    let listed = world.json(&["list"]);
    let mut seen: Vec<_> = listed
        .as_array()
        .expect("a list")
        .iter()
        .map(|record| show(&world, record["id"].as_str().expect("an id")))
        .map(|shown| {
            let old = shown["headers"]["x-imported-id"].as_str().expect("the old id").to_owned();
            let keyed_by_itself = shown["idempotency_key"] == shown["id"];
            (old, shown["tenant_id"].clone(), keyed_by_itself)
        })
        .collect();
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [
        ("1".to_owned(), Value::from("acme"), false),
        ("2".to_owned(), Value::from("umbrella"), false),
        ("3".to_owned(), Value::Null, true),
    ];
    assert_eq!(seen, expected);

    // One key for two different things: nothing is lost in silence.
    let again = "insert into outbox_messages (id, tenant_id, event_type, payload, idempotency_key) \
        values (6, 'acme', 'task.other', '{}', 'aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa')";
    world.sql(again);
    let ran = world.run(&["import", "--from=OutboxMessages"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("refused 6: message "), "{ran:?}");
    assert!(ran.stderr.contains("has its key and says something else"), "{ran:?}");
    assert_eq!(world.messages(), 3);
}

pub(crate) fn outbox_event_keeps_every_field(kind: Kind) {
    let world = World::migrated(kind);
    outbox_event(&world);
    let (ulid, far) = ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "2037-12-31 00:00:00");
    event(&world, FIRST, "order.placed", 0, 1);
    event(&world, ulid, "order.paid", 2, 2);
    event_due(&world, "00000000-0000-4000-8000-000000000003", "order.later", 0, 3, far);
    event(&world, "00000000-0000-4000-8000-000000000004", "order.done", 1, 4);
    event(&world, "00000000-0000-4000-8000-000000000005", "order.dead", 3, 5);
    assert_eq!(import(&world, &["--from=outbox_event"]), (3, 0));
    let first = show(&world, FIRST);
    for (field, expected) in [
        ("topic", json!("order.placed")),
        ("aggregate_type", json!("order")),
        ("aggregate_id", json!("7")),
        ("tenant_id", json!("acme")),
        ("headers", json!({ "trace": "abc", "n": "5" })),
        ("occurred_at", json!("2026-11-15T14:00:01.000000Z")),
        ("ordering_key", Value::Null),
        ("content_type", json!("application/json")),
    ] {
        assert_eq!(first[field], expected, "{field}: {first:#}");
    }
    assert_eq!(payload(&first), json!({ "id": FIRST }));
    let later = show(&world, "00000000-0000-4000-8000-000000000003");
    assert_eq!(later["due_at"], "2037-12-31T00:00:00.000000Z");
    let stats = world.json(&["stats"]);
    assert_eq!((&stats["ready"], &stats["waiting"]), (&2.into(), &1.into()));

    // Those that were given up come when they are asked for, and by their own order.
    assert_eq!(import(&world, &["--from=outbox_event", "--status=dead"]), (1, 0));
    assert_eq!(import(&world, &["--from=outbox_event"]), (0, 3));
    let expected = ["order.placed", "order.paid", "order.later", "order.dead"];
    assert_eq!(topics(&world), expected);
    let ordered = ["--from=outbox_event", "--status=any", "--map=ordering_key=aggregate_id"];
    let again = world.run(&[&["import"], &ordered[..]].concat());
    assert_eq!(again.code, 1, "what is there says something else: {again:?}");
    assert!(again.stderr.contains("is there and says something else"), "{again:?}");
}

pub(crate) fn infra_outbox_keeps_every_field(kind: Kind) {
    let world = World::migrated(kind);
    infra_outbox(&world);
    assert_eq!(import(&world, &["--from=infra.Outbox"]), (2, 0));
    let known = "22222221-2222-4222-8222-222222222222";
    let first = show(&world, known);
    for (field, expected) in [
        ("id", json!(known)),
        ("topic", json!("email.send")),
        ("correlation_id", json!("corr-1")),
        ("occurred_at", json!("2026-11-15T14:00:00.001000Z")),
        ("headers", json!({ "x-imported-id": "11111111-1111-4111-8111-111111111111" })),
    ] {
        assert_eq!(first[field], expected, "{field}: {first:#}");
    }
    assert_eq!(payload(&first), json!({ "to": 1 }));
    let second = show(&world, "22222222-2222-4222-8222-222222222222");
    assert_eq!(second["due_at"], "2037-12-31T00:00:00.000000Z");
    assert_eq!(import(&world, &["--from=infra.Outbox"]), (0, 2));
    assert_eq!(import(&world, &["--from=infra.Outbox", "--status=dead"]), (1, 0));
    assert_eq!(world.messages(), 3);
}

/// Killed when a part is written, it goes on where it was, and nothing is there twice.
pub(crate) fn a_killed_import_is_run_again(kind: Kind) {
    const ROWS: usize = 3_000;
    let world = World::migrated(kind);
    many_events(&world, ROWS, 10);
    let mut child = world.start(&["import", "--from=outbox_event", "--chunk=5"]);
    while world.messages() < 50 {
        let ended = child.try_wait().expect("a child");
        assert_eq!(ended, None, "it ended before it could be killed");
    }
    child.kill().expect("it can be killed");
    assert_eq!(child.wait().expect("a child").signal(), Some(9));
    let written = u64::try_from(world.messages()).expect("a count");
    assert!((50..ROWS as u64).contains(&written), "{written}");
    let (imported, already_there) = import(&world, &["--from=outbox_event"]);
    assert_eq!((imported, already_there), (ROWS as u64 - written, written));
    every_row_is_there_once(&world, ROWS);
}

/// Two at once write each row once.
pub(crate) fn imports_may_race(kind: Kind) {
    const ROWS: usize = 2_000;
    let world = World::migrated(kind);
    many_events(&world, ROWS, 10);
    let arguments = ["import", "--from=outbox_event", "--chunk=50", "--json"];
    let racers: Vec<_> = (0..3).map(|_| world.start(&arguments)).collect();
    let mut imported = 0;
    for racer in racers {
        let ran = Ran::of(racer);
        assert_eq!(ran.code, 0, "{ran:?}");
        imported += ran.json()["imported"].as_u64().expect("a number");
    }
    assert_eq!(imported, ROWS as u64);
    every_row_is_there_once(&world, ROWS);
}

fn every_row_is_there_once(world: &World, rows: usize) {
    let (table, queue) = (world.table("outbox_message"), world.table("outbox_queue"));
    let rows = i64::try_from(rows).expect("few");
    for count in ["count(*)", "count(distinct id)"] {
        assert_eq!(world.number(&format!("select {count} from {table}")), rows, "{count}");
        assert_eq!(world.number(&format!("select {count} from {queue}")), rows, "{count}");
    }
}

/// Rows that break a limit are named, and the others come.
pub(crate) fn bad_rows_do_not_stop_the_others(kind: Kind) {
    let world = World::migrated(kind);
    outbox_event(&world);
    event(&world, "00000000-0000-4000-8000-000000000001", "order.placed", 0, 1);
    event(&world, "00000000-0000-4000-8000-000000000002", &"x".repeat(256), 0, 2);
    event(&world, "00000000-0000-4000-8000-000000000003", "order.paid", 0, 3);
    event(&world, "00000000-0000-4000-8000-000000000004", "order.big", 0, 4);
    let big = format!("[\"{}\"]", "x".repeat(1024 * 1024));
    world.sql(&format!("update outbox_event set payload = '{big}' where event_type = 'order.big'"));
    // An id that somebody else's message has.
    let taken = "00000000-0000-4000-8000-000000000005";
    world.ok(&["enqueue", "another", "--payload={}", &format!("--id={taken}")]);
    event(&world, taken, "order.taken", 0, 5);
    event(&world, "00000000-0000-4000-8000-000000000006", "order.sent", 0, 6);
    for (imported, already_there) in [(3, 0), (0, 3)] {
        let ran = world.run(&["import", "--from=outbox_event", "--json"]);
        assert_eq!(ran.code, 1, "{ran:?}");
        let report = ran.json();
        let figures = ["rows", "imported", "already_there", "refused"].map(|name| &report[name]);
        let expected = [6, imported, already_there, 3].map(Value::from);
        assert_eq!(figures, expected.each_ref(), "{report:#}");
        let reasons = report["refusals"].as_array().expect("a list").iter();
        let mut reasons: Vec<_> = reasons
            .map(|one| {
                (one["id"].as_str().expect("a text"), one["reason"].as_str().expect("a text"))
            })
            .collect();
        reasons.sort_unstable();
        assert_eq!(reasons[0].0, "00000000-0000-4000-8000-000000000002");
        assert_eq!(reasons[0].1, "topic must be 1 to 255 characters, got 256 characters");
        assert!(reasons[1].1.starts_with("payload must be at most 1048576 bytes"), "{reasons:?}");
        assert_eq!(reasons[2].0, taken);
        assert!(ran.stderr.contains(&format!("refused {taken}: ")), "{ran:?}");
    }
    let expected = ["another", "order.placed", "order.paid", "order.sent"];
    assert_eq!(topics(&world), expected);
}

pub(crate) fn a_dry_run_writes_nothing(kind: Kind) {
    let world = World::migrated(kind);
    outbox_event(&world);
    event(&world, FIRST, "order.placed", 0, 1);
    event(&world, "not-a-uuid", "order.paid", 0, 2);
    event(&world, "00000000-0000-4000-8000-000000000003", "", 0, 3);
    let dry = ["import", "--from=outbox_event", "--dry-run"];
    for (imported, already_there) in [(2, 0), (0, 2)] {
        let before = world.messages();
        let report = world.json(&dry);
        let figures = ["rows", "imported", "already_there", "refused"].map(|name| &report[name]);
        let expected = [3, imported, already_there, 1].map(Value::from);
        assert_eq!(figures, expected.each_ref(), "{report:#}");
        assert_eq!(world.messages(), before);
        let ran = world.run(&dry);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.stdout.ends_with("Nothing was written.\n"), "{ran:?}");
        assert!(!ran.stderr.contains("old relay"), "{ran:?}");
        let real = world.run(&["import", "--from=outbox_event"]);
        assert!(real.stderr.contains("The old relay must not run any more"), "{real:?}");
    }
    assert_eq!(world.messages(), 2);
}

/// A table that nobody has seen before, in another database.
pub(crate) fn other_tables_are_mapped(kind: Kind) {
    let (old, new) = (World::new(kind), World::migrated(kind));
    old.sql(
        "create table events_out (nr int, name text, body text, who text);
        insert into events_out values (2, 'second', '{}', 'acme');
        insert into events_out values (10, 'third', '{}', 'acme');
        insert into events_out values (1, 'first', '{}', null);",
    );
    let url = old.url();
    let arguments = [
        "--from=outbox_event",
        "--table=events_out",
        "--source-url",
        &url,
        "--map=id=nr,topic=name,payload=body,tenant_id=who",
    ];
    let undecided = new.run(&[&["import"], &arguments[..]].concat());
    assert_eq!(undecided.code, 2, "{undecided:?}");
    assert!(undecided.stderr.contains("--status any"), "{undecided:?}");
    let every = [&arguments[..], &["--status=any"]].concat();
    assert_eq!(import(&new, &every), (3, 0));
    assert_eq!(import(&new, &every), (0, 3));
    assert_eq!(topics(&new), ["first", "second", "third"]);
}

/// What is missing is named before anything is touched.
pub(crate) fn what_is_missing_is_named(kind: Kind) {
    let world = World::new(kind);
    world.sql("create table outbox_event (event_id int, kind text, payload text, status int)");
    let ran = world.run(&["import", "--from=outbox_event"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
    assert!(ran.stderr.contains("has no column event_type for the topic"), "{ran:?}");
    assert!(ran.stderr.contains("choose among event_id, kind, payload, status"), "{ran:?}");
    let ran = world.run(&["import", "--from=OutboxMessages"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("there is no table OutboxMessages"), "{ran:?}");
    let hostile = "outbox_event\"; drop table outbox_event; --";
    let ran = world.run(&["import", "--from=outbox_event", "--table", hostile]);
    assert_eq!(ran.code, 2, "{ran:?}");
    let hostile = "--map=topic=kind\"; drop table outbox_event; --";
    assert_eq!(world.run(&["import", "--from=outbox_event", hostile]).code, 2);
    assert_eq!(world.number("select count(*) from outbox_event"), 0);
    let tables = match kind {
        Kind::Postgres => "select count(*) from pg_namespace where nspname = 'postroom'",
        Kind::MySql => {
            "select count(*) from information_schema.tables \
             where table_schema = database() and table_name like 'postroom%'"
        }
        Kind::Sqlite => "select count(*) from sqlite_master where name like 'postroom%'",
    };
    assert_eq!(world.number(tables), 0, "nothing was created");
}

/// The memory of a run does not grow with the table.
#[cfg(target_os = "linux")]
pub(crate) fn memory_is_bounded(kind: Kind) {
    const ROWS: usize = 20_000;
    let world = World::migrated(kind);
    // 160 MB of payloads.
    many_events(&world, ROWS, 8_000);
    let mut child = world.start(&["import", "--from=outbox_event"]);
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().expect("a child").is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak = peak.max(kib.unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let ran = Ran::of(child);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.starts_with("Imported 20000 of 20000 rows of "), "{ran:?}");
    every_row_is_there_once(&world, ROWS);
    assert!((1..100_000).contains(&peak), "at most {peak} KiB");
}
