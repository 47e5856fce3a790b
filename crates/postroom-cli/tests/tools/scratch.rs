//! What a measurement has to do on every database: to leave no trace.

use std::process::Command;

use crate::world::{Kind, Ran, World};

/// How many tables of a measurement there are, or files.
fn traces(world: &World) -> i64 {
    match world.kind {
        Kind::Postgres => world.number(
            "select count(*) from pg_namespace where starts_with(nspname, 'postroom_bench')",
        ),
        Kind::MySql => world.number(
            "select cast((select count(*) from information_schema.tables
                where table_schema = database() and table_name like 'postroom_bench%')
            + (select count(*) from information_schema.routines
                where routine_schema = database() and routine_name like 'postroom_bench%')
            as signed)",
        ),
        Kind::Sqlite => {
            let folder = world.file();
            let folder = std::fs::read_dir(folder.parent().expect("a folder")).expect("reads");
            let names = folder.map(|entry| entry.expect("an entry").file_name());
            let is_trace = |name: &std::ffi::OsString| {
                name.to_str().is_some_and(|name| name.contains("postroom_bench"))
            };
            i64::try_from(names.filter(is_trace).count()).expect("few")
        }
    }
}

pub(crate) fn figures_are_there_and_no_trace_is(kind: Kind) {
    let world = World::migrated(kind);
    let id = world.ok(&["enqueue", "mine", "--payload={}"]);
    let report = world.json(&["bench", "--messages=700", "--bytes=50", "--chunk=300"]);
    assert_eq!((&report["messages"], &report["payload_bytes"]), (&700.into(), &50.into()));
    for figure in ["publish_per_second", "deliver_per_second"] {
        assert!(report[figure].as_u64().expect("a number") > 0, "{report:#}");
    }
    for latency in ["commit_micros", "handler_micros"] {
        let at = |name: &str| report[latency][name].as_u64().expect("a number");
        assert!(at("p50") <= at("p99") && at("p99") <= at("max"), "{report:#}");
    }
    assert!(report["commit_micros"]["p50"].as_u64() > Some(0), "{report:#}");
    assert_eq!(traces(&world), 0);
    // Nobody else's messages are delivered.
    assert_eq!(world.json(&["show", id.trim()])["status"], "pending");
    assert_eq!(world.messages(), 1);
    let page = world.ok(&["bench", "--messages=10"]);
    assert!(page.starts_with("10 messages of 200 bytes\npublish "), "{page}");
}

pub(crate) fn an_interrupted_measurement_leaves_no_trace(kind: Kind) {
    let world = World::migrated(kind);
    let mut child = world.start(&["bench", "--messages=5000000", "--chunk=10"]);
    while traces(&world) == 0 {
        assert_eq!(child.try_wait().expect("a child"), None, "it ended by itself");
    }
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status().expect("kill runs");
    assert!(sent.success());
    let ran = Ran::of(child);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
    assert!(ran.stderr.contains("interrupted"), "{ran:?}");
    assert_eq!(traces(&world), 0);
}
