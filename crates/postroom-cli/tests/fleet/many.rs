//! Commands on all stores of a configuration, or on one of them by its name.

use serde_json::Value;

use super::world::World;

const STORES: &str = r#"
[stores.main]
url = "sqlite:main.db"
weight = 3
keys = ["a", "b"]

[stores.away]
url = "postgres://u:s3cret@127.0.0.1:1/x"

[discover.tenants.folder]
path = "tenants"
"#;

fn world() -> World {
    let world = World::new(STORES);
    world.tenant("acme");
    world.tenant("globex");
    world
}

/// The lines of a table, sorted: four are worked on at a time.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn cli_1_migrate_all_goes_on_after_a_failure_and_says_so_at_the_end() {
    let world = world();
    let foreseen = world.run(&["migrate", "--all", "--dry-run"]);
    assert_eq!(foreseen.code, Some(1), "{foreseen:?}");
    assert!(foreseen.stderr.contains("3 to migrate, 0 up to date, 1 failed."), "{foreseen:?}");
    assert!(foreseen.stdout.contains("acme    would migrate: the database has no"), "{foreseen:?}");
    assert!(!world.path().join("main.db").exists(), "a dry run made something");

    let ran = world.run(&["migrate", "--all"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let lines = sorted(&ran.stdout);
    assert_eq!(lines.len(), 4, "{ran:?}");
    assert!(lines[0].starts_with("acme    created at version "), "{ran:?}");
    let away = "away    error: no answer from postgres://u:***@127.0.0.1:1/x: Connection refused";
    assert!(lines[1].starts_with(away), "{ran:?}");
    assert!(lines[2].starts_with("globex  created") && lines[3].starts_with("main    created"));
    let summary = "3 migrated, 0 up to date, 1 failed.\n next: mend what failed and run it again";
    assert!(ran.stderr.contains(summary), "{ran:?}");
}

#[test]
fn cli_1_migrate_all_takes_every_database_however_many_there_are() {
    let world = world();
    // The one that is away fails before most of these have begun.
    (0..20).for_each(|n| world.tenant(&format!("tenant-{n}")));
    let ran = world.run(&["migrate", "--all"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("23 migrated, 0 up to date, 1 failed."), "{ran:?}");
}

#[test]
fn cli_1_migrate_all_gives_an_object_for_each_database() {
    let world = world();
    let ran = world.run(&["migrate", "--all", "--json"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let objects: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |name: &str| objects.iter().find(|object| object["store"] == name).expect(name);
    assert_eq!(objects.len(), 4);
    assert_eq!(of("acme")["from"], 0);
    assert!(of("acme")["to"].as_u64() > Some(0));
    assert!(of("away")["error"].as_str().expect("a text").contains("no answer"));

    // Again, without the one that is away.
    let config = STORES.replace("[stores.away]\nurl = \"postgres://u:s3cret@127.0.0.1:1/x\"", "");
    let again = World::new(&config);
    again.ok(&["migrate", "--all"]);
    let objects = again.ok(&["migrate", "--all", "--json"]);
    let object: Value = serde_json::from_str(objects.lines().next().expect("one")).expect("JSON");
    assert_eq!(object["from"], object["to"]);
    let foreseen = again.ok(&["migrate", "--all", "--dry-run", "--json"]);
    assert_eq!(foreseen, "{\"dry_run\":true,\"store\":\"main\",\"up_to_date\":true}\n");
}

#[test]
fn cli_1_migrate_all_does_not_bring_a_file_back_that_is_gone() {
    let query = "[discover.rows.query]\nurl = \"sqlite:master.db\"\n\
                 sql = \"select 'gone' as id, 'sqlite:tenants/gone.db' as url\"\n";
    let world = World::new(query);
    world.on_master("create table any_table (x)");
    let ran = world.run(&["migrate", "--all"]);
    assert_eq!((ran.code, world.file("gone").exists()), (Some(1), false));
    assert!(ran.stdout.contains("there is no database file tenants/gone.db"), "{ran:?}");
}

#[test]
fn cli_1_a_store_is_named_instead_of_its_url() {
    let world = world();
    let id = world.ok(&["enqueue", "greeting", "--payload", "{}", "--store", "acme"]);
    let listed = world.ok(&["--store", "acme", "list", "--json"]);
    assert!(listed.contains(id.trim()), "{listed}");
    assert!(world.ok(&["stats", "--store", "acme"]).contains("outbox of sqlite:tenants/acme.db"));
    let shown = world.ok(&["--config", "postroom.toml", "--store", "acme", "show", id.trim()]);
    assert!(shown.contains("greeting"), "{shown}");
    let inbox = world.ok(&["--store", "acme", "--queue", "inbox", "stats"]);
    assert!(inbox.contains("inbox of sqlite:tenants/acme.db"), "{inbox}");
    for arguments in [&["pause"][..], &["pauses"], &["resume"], &["migrate"], &["doctor"]] {
        world.ok(&[arguments, &["--store", "acme"]].concat());
    }
    // The other stores have nothing of it.
    assert_eq!(world.ok(&["--store", "globex", "list", "--json"]).trim(), "[]");
}

#[test]
fn cli_1_a_name_that_nobody_has_is_refused_with_those_that_there_are() {
    let world = world();
    for (arguments, told) in [
        (
            &["--store", "acne", "stats"][..],
            "error: there is no store \"acne\"; there is acme, away, main, globex\n \
             next: `postroom stores` lists them\n",
        ),
        (
            &["--config", "postroom.toml", "stats"],
            "error: which store of postroom.toml?\n \
             next: add --store NAME; `postroom stores` lists them\n",
        ),
        (
            &["--store", "acme", "--url", "sqlite:x.db", "stats"],
            "error: --store and --url name two databases\n next: leave one of them out\n",
        ),
        (
            &["stores", "--store", "acme"],
            "error: this is about all stores of the file, and --store names one\n \
             next: leave --store out\n",
        ),
    ] {
        let refused = world.run(arguments);
        assert_eq!((refused.code, refused.stderr.as_str()), (Some(2), told), "{arguments:?}");
    }
}

#[test]
fn cli_1_stores_are_listed_with_all_but_their_secrets() {
    let world = world();
    // Without the spaces that keep the columns apart.
    let listed = world.ok(&["stores"]);
    let words = listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    insta::assert_snapshot!(words.collect::<Vec<_>>().join("\n"), @r"
    STORE KIND IS WEIGHT KEYS FOUND BY
    away postgres outbox of postgres://u:***@127.0.0.1:1/x, schema postroom 1 the file
    main sqlite outbox of sqlite:main.db, schema postroom 3 a,b the file
    acme sqlite outbox of sqlite:tenants/acme.db, schema postroom 1 tenants
    globex sqlite outbox of sqlite:tenants/globex.db, schema postroom 1 tenants
    ");
    world.ok(&["migrate", "--store", "acme"]);
    let looked = world.run(&["stores", "--connect", "--json"]);
    assert_eq!(looked.code, Some(5), "{looked:?}");
    let document: Value = serde_json::from_str(&looked.stdout).expect("JSON");
    let of = |name: &str| {
        let stores = document["stores"].as_array().expect("an array");
        stores.iter().find(|store| store["store"] == name).expect(name).clone()
    };
    assert_eq!((&of("acme")["opens"], &of("acme")["schema_fits"]), (&true.into(), &true.into()));
    let globex = of("globex");
    assert_eq!((&globex["opens"], &globex["schema_fits"]), (&true.into(), &false.into()));
    assert!(globex["error"].as_str().expect("a text").contains("no Postroom schema"));
    assert_eq!(of("away")["opens"], false);
    assert_eq!((&of("main")["keys"], &of("main")["weight"]), (&vec!["a", "b"].into(), &3.into()));
}
