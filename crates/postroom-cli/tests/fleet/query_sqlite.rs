//! The relay on the stores that a query on a SQLite file lists.

use super::world::World;

const QUERY: &str = r#"
[discover.tenants.query]
url = "sqlite:master.db"
sql = "select name as id, weight from tenants where active"
template = "sqlite:tenants/{id}.db"
"#;

fn world() -> World {
    let world = World::new(QUERY);
    world.on_master("create table tenants (name text, weight int, active bool default 1)");
    world.on_master("insert into tenants (name, weight) values ('acme', 2), ('a b', null)");
    world
}

#[test]
fn fleet_1_the_rows_of_a_query_are_served_as_they_come_and_go() {
    let world = world();
    for tenant in ["acme", "a b", "new"] {
        world.enqueue(&tenant.replace(' ', "%20"), &format!("of.{tenant}"));
    }
    let up = world.up();
    up.says("discover.tenants found 2 stores: query on sqlite:master.db");
    world.wait_for_topic("of.acme");
    world.wait_for_topic("of.a b");
    assert!(!world.topics().contains("of.new"));

    world.on_master("insert into tenants (name) values ('new')");
    world.on_master("update tenants set active = 0 where name = 'acme'");
    up.signal("-HUP");
    up.says("looked for stores: 1 new, 1 gone, 1 as they were");
    world.wait_for_topic("of.new");
    up.stop();
}

#[test]
fn fleet_1_a_master_that_fails_leaves_the_stores_as_they_are() {
    let world = world();
    world.tenant("acme");
    let up = world.up();
    up.says("SIGHUP");
    world.on_master("alter table tenants rename to customers");
    up.signal("-HUP");
    let told = up.says("FLEET_SOURCE_FAILED");
    assert!(told.contains("source=tenants") && told.contains("no such table"), "{told}");
    up.says("looked for stores: 0 new, 0 gone, 2 as they were");
    world.enqueue("acme", "still");
    world.wait_for_topic("still");
    up.stop();
    assert!(!world.file("a b").exists(), "a file that is listed and missing was made");
}

#[test]
fn fleet_1_no_rows_after_some_are_believed_the_second_time() {
    let world = world();
    world.tenant("acme");
    let up = world.up();
    up.says("SIGHUP");
    world.on_master("update tenants set active = 0");
    up.signal("-HUP");
    up.says("the query found no store where there were 2");
    up.says("looked for stores: 0 new, 0 gone, 2 as they were");
    up.signal("-HUP");
    up.says("looked for stores: 0 new, 2 gone, 0 as they were");
    up.stop();
}

#[test]
fn fleet_1_a_row_that_is_wrong_is_named_without_its_secrets() {
    let world = World::new(
        "[discover.tenants.query]\nurl = \"sqlite:master.db\"\nsql = \"select * from tenants\"\n",
    );
    world.on_master("create table tenants (id text, url text)");
    world.on_master("insert into tenants values ('acme', 'oracle://u:s3cret@db/acme')");
    for arguments in [&["up", "--config", "postroom.toml"][..], &["stats", "--store", "acme"]] {
        let refused = world.run(arguments);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        let told = "discover.tenants: sqlite:master.db: row 1: store acme: column url must be";
        assert!(refused.stderr.contains(told), "{refused:?}");
    }
    let listed = world.run(&["stores"]);
    assert_eq!(listed.code, Some(5), "{listed:?}");
    assert!(listed.stdout.contains("row 1: store acme: column url"), "{listed:?}");
    assert!(listed.stderr.contains("1 source can not answer."), "{listed:?}");
}
