//! The relay on a folder of SQLite files.

use std::collections::BTreeSet;

use super::world::{World, wait_until};

const TENANTS: &str = "[discover.tenants.folder]\npath = \"tenants\"\n";

#[test]
fn fleet_1_files_come_and_go_while_the_relay_runs() {
    let world = World::new(TENANTS);
    world.enqueue("acme", "first.of.acme");
    world.tenant("globex");
    let up = world.up();
    up.says("discover.tenants found 2 stores: files of tenants");
    world.wait_for_topic("first.of.acme");
    // A file without tables gets them when it is opened.
    world.enqueue("globex", "first.of.globex");
    world.wait_for_topic("first.of.globex");

    world.enqueue("initech", "first.of.initech");
    up.signal("-HUP");
    up.says("looked for stores: 1 new, 0 gone, 2 as they were");
    world.wait_for_topic("first.of.initech");

    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", world.file("globex").display()));
    }
    up.signal("-HUP");
    up.says("looked for stores: 0 new, 1 gone, 2 as they were");
    world.enqueue("acme", "last.of.acme");
    world.wait_for_topic("last.of.acme");
    up.stop();
    assert!(!world.file("globex").exists(), "a tenant that is gone came back");
}

#[test]
fn fleet_2_a_file_that_is_garbage_is_told_and_keeps_nobody_waiting() {
    let world = World::new(TENANTS);
    std::fs::write(world.file("bad"), "this is no database ".repeat(500)).expect("a file");
    world.enqueue("acme", "of.acme");
    let up = world.up();
    let told = up.says("FLEET_STORE_FAILING");
    assert!(told.contains("store=bad") && told.contains("not a database"), "{told}");
    world.wait_for_topic("of.acme");
    up.stop();
}

#[test]
fn rly_3_of_two_relays_on_a_folder_one_is_killed_and_everything_arrives() {
    let world = World::new(TENANTS);
    let mut ids = BTreeSet::new();
    let tenants = ["acme", "globex", "initech"];
    for n in 0..8 {
        ids.extend(tenants.map(|tenant| world.enqueue(tenant, &format!("t{n}"))));
    }
    let (one, two) = (world.up(), world.up());
    one.says("SIGHUP looks for stores");
    two.says("SIGHUP looks for stores");
    for n in 8..12 {
        ids.extend(tenants.map(|tenant| world.enqueue(tenant, &format!("t{n}"))));
    }
    wait_until("the first events", || !world.events("id").is_empty());
    one.kill();
    for n in 12..14 {
        ids.extend(tenants.map(|tenant| world.enqueue(tenant, &format!("t{n}"))));
    }
    wait_until("every event", || ids.is_subset(&world.events("id")));
    two.stop();
}

#[test]
fn fleet_5_relays_divide_the_files_and_one_that_is_killed_is_replaced() {
    let home = "[fleet]\nhome = \"sqlite:home.db\"\nshare_lease = \"1s\"\n";
    let world = World::new(&format!("{home}{TENANTS}"));
    let tenants: Vec<_> = (0..6).map(|n| format!("tenant-{n}")).collect();
    tenants.iter().for_each(|tenant| world.tenant(tenant));
    let (one, two) = (world.up(), world.up());
    // Each file has one owner, and both have some.
    let shares = "select count(*) from postroom_fleet_share group by node order by 1";
    wait_until("equal parts", || world.numbers("home.db", shares) == [3, 3]);
    let mut ids: BTreeSet<_> = tenants.iter().map(|tenant| world.enqueue(tenant, "a")).collect();
    wait_until("every event", || ids.is_subset(&world.events("id")));
    one.kill();
    ids.extend(tenants.iter().map(|tenant| world.enqueue(tenant, "b")));
    wait_until("every event after that", || ids.is_subset(&world.events("id")));
    assert_eq!(world.numbers("home.db", shares), [6]);
    two.stop();
    assert!(world.numbers("home.db", shares).is_empty(), "who stops leaves");
}

#[test]
fn rly_1_what_the_file_names_has_to_open_at_the_start() {
    let world = World::new("[stores.away]\nurl = \"postgres://u:s3cret@127.0.0.1:1/x\"\n");
    let refused = world.run(&["up", "--config", "postroom.toml"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    let told = "error: store away: no answer from postgres://u:***@127.0.0.1:1/x";
    assert!(refused.stderr.contains(told), "{refused:?}");

    let world = World::new("[discover.tenants.folder]\npath = \"nowhere\"\n");
    let refused = world.run(&["up", "--config", "postroom.toml"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    let told = "error: discover.tenants: the folder nowhere can not be read";
    assert!(refused.stderr.contains(told), "{refused:?}");
    assert!(refused.stderr.contains("next: check [discover.tenants] in the file"), "{refused:?}");
}

#[test]
fn rly_1_many_stores_are_counted_and_an_empty_folder_is_fine() {
    let world = World::new(TENANTS);
    let up = world.up();
    up.says("discover.tenants found 0 stores: files of tenants");
    for n in 0..12 {
        world.tenant(&format!("tenant-{n}"));
    }
    up.signal("-HUP");
    up.says("looked for stores: 12 new, 0 gone, 0 as they were");
    world.enqueue("tenant-7", "of.seven");
    world.wait_for_topic("of.seven");
    up.stop();
    let up = world.up();
    assert_eq!(up.says("delivering"), "delivering 12 stores");
    up.stop();
}
