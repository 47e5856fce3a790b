//! What a doctor has to find on every database, and that what it prescribes helps.

use serde_json::Value;

use crate::world::{Kind, World};

/// What `doctor` says with these options.
pub(crate) fn findings(world: &World, options: &[&str]) -> Vec<Value> {
    let ran = world.run(&[&["doctor", "--json"], options].concat());
    let report = ran.json();
    let worst = report["worst"].as_str().expect("a level");
    assert_eq!(ran.code, i32::from(worst == "problem"), "{ran:?}");
    report["findings"].as_array().expect("a list").clone()
}

/// Those that are not fine.
pub(crate) fn complaints(world: &World, options: &[&str]) -> Vec<Value> {
    let bad = |finding: &Value| finding["level"] != "ok";
    findings(world, options).into_iter().filter(bad).collect()
}

/// The one complaint of a check that contains a text.
pub(crate) fn complaint(world: &World, options: &[&str], check: &str, text: &str) -> Option<Value> {
    let is_meant = |finding: &Value| {
        finding["check"] == check && finding["what"].as_str().expect("a text").contains(text)
    };
    let mut found: Vec<_> =
        complaints(world, options).into_iter().filter(|finding| is_meant(finding)).collect();
    assert!(found.len() < 2, "{found:#?}");
    found.pop()
}

/// Does what was prescribed, to the letter.
pub(crate) fn follow(world: &World, finding: &Value) {
    match (finding["fix"]["sql"].as_str(), finding["fix"]["command"].as_str()) {
        (Some(sql), _) => world.sql(sql),
        (_, Some(command)) => {
            let rest = command.strip_prefix("postroom ").expect("a command of ours");
            let arguments: Vec<_> = rest.split(' ').map(|part| part.trim_matches('\'')).collect();
            world.ok(&arguments);
        }
        _ => panic!("it prescribes nothing: {finding:#}"),
    }
}

/// Plants a defect, and sees it found and mended.
pub(crate) fn heals(world: &World, defect: &str, check: &str, text: &str, level: &str) {
    assert_eq!(complaint(world, &[], check, text), None, "before it is planted");
    world.sql(defect);
    let found = complaint(world, &[], check, text);
    let found = found.unwrap_or_else(|| panic!("{defect:?} is not found: {:#?}", all(world)));
    assert_eq!(found["level"], level, "{found:#}");
    follow(world, &found);
    assert_eq!(complaint(world, &[], check, text), None, "{defect:?} is not mended: {found:#}");
}

fn all(world: &World) -> Vec<Value> {
    complaints(world, &[])
}

pub(crate) fn a_healthy_database_has_no_problem(kind: Kind) {
    let world = World::migrated(kind);
    world.ok(&["enqueue", "t", "--payload={}"]);
    let problems: Vec<_> =
        findings(&world, &[]).into_iter().filter(|found| found["level"] == "problem").collect();
    assert!(problems.is_empty(), "{problems:#?}");
    let page = world.ok(&["doctor"]);
    assert!(page.starts_with("outbox of ") && page.contains("\n✓ schema version  "), "{page}");
    assert!(!page.contains('\u{1b}'), "a pipe gets no colours: {page}");
}

/// Other names of schema and prefix are looked at as well.
pub(crate) fn names_are_those_that_are_configured(kind: Kind) {
    let world = World::new(kind);
    let options = ["--schema=mail", "--prefix=eu_"];
    world.ok(&[&["migrate"], &options[..]].concat());
    let problems = |found: Vec<Value>| {
        found.into_iter().filter(|found| found["level"] == "problem").collect::<Vec<_>>()
    };
    assert_eq!(problems(findings(&world, &options)), Vec::<Value>::new());
    let table = match kind {
        Kind::Postgres => "mail.eu_outbox_halt",
        Kind::MySql | Kind::Sqlite => "mail_eu_outbox_halt",
    };
    world.sql(&format!("drop table {table}"));
    let found = problems(findings(&world, &options));
    let whats: Vec<_> = found.iter().map(|found| found["what"].as_str().expect("a text")).collect();
    assert!(whats[0].contains("eu_outbox_halt is missing"), "{found:#?}");
    found.iter().for_each(|finding| follow(&world, finding));
    assert_eq!(problems(findings(&world, &options)), Vec::<Value>::new());
}

pub(crate) fn a_database_without_the_schema_gets_the_command(kind: Kind) {
    let world = World::new(kind);
    world.sql("create table mine (a int)");
    let found = complaint(&world, &[], "schema version", "no Postroom schema").expect("found");
    assert_eq!(found["level"], "problem");
    follow(&world, &found);
    assert_eq!(complaint(&world, &[], "schema version", ""), None);
}

/// Dead letters, pauses, old messages and lost leases.
pub(crate) fn the_queue_is_looked_at(kind: Kind) {
    let world = World::migrated(kind);
    let id = world.ok(&["enqueue", "t", "--payload={}"]);
    assert_eq!(complaint(&world, &[], "oldest ready", ""), None);
    let old = complaint(&world, &["--oldest-ready=0s"], "oldest ready", "has been ready for");
    assert_eq!(old.expect("found")["level"], "warning");
    world.ok(&["discard", id.trim()]);
    let dead = complaint(&world, &[], "dead letters", "messages that are dead: 1").expect("found");
    assert_eq!(dead["fix"]["command"], "postroom list --status dead");
    world.ok(&["pause", "--topic=it's", "--reason=broker full"]);
    world.ok(&["pause"]);
    let paused = complaint(&world, &[], "pauses", "topic it's is paused").expect("found");
    assert_eq!(paused["why"], "broker full");
    assert_eq!(paused["fix"]["command"], r"postroom resume --topic 'it'\''s'");
    let whole = complaint(&world, &[], "pauses", "the whole queue is paused").expect("found");
    follow(&world, &whole);
    assert_eq!(complaint(&world, &[], "pauses", "the whole queue"), None);

    world.ok(&["enqueue", "u", "--payload={}"]);
    assert_eq!(complaint(&world, &[], "leases", ""), None);
    let queue = world.table("outbox_queue");
    world.sql(&match kind {
        Kind::Postgres => format!(
            "update {queue} set token = gen_random_uuid(), owner = gen_random_uuid(), \
             locked_until = now() - interval '2 minutes'"
        ),
        Kind::MySql => format!("update {queue} set leased = 1, locked_until = 1"),
        Kind::Sqlite => {
            format!("update {queue} set token = x'01', owner = x'01', locked_until = 1")
        }
    });
    let lost = complaint(&world, &[], "leases", "leases that ran out a minute ago: 1");
    assert_eq!(lost.expect("found")["level"], "warning");
}
