//! `postroom doctor` on MySQL and MariaDB. Needs a server: `cargo xtask test` starts one.

use std::time::Duration;

use crate::patient::{self, complaint, follow, heals};
use crate::world::{Kind::MySql, World};
use sqlx::{Connection as _, Executor as _, MySqlConnection};

#[test]
fn cli_1_a_healthy_database_has_no_problem() {
    patient::a_healthy_database_has_no_problem(MySql);
}

#[test]
fn sch_2_names_are_those_that_are_configured() {
    patient::names_are_those_that_are_configured(MySql);
}

#[test]
fn sch_1_a_database_without_the_schema_gets_the_command() {
    patient::a_database_without_the_schema_gets_the_command(MySql);
}

#[test]
fn cli_1_the_queue_is_looked_at() {
    patient::the_queue_is_looked_at(MySql);
}

#[test]
fn sch_1_what_is_missing_in_the_schema_is_found_and_mended() {
    let world = World::migrated(MySql);
    let heals = |defect: &str, text: &str| heals(&world, defect, "schema", text, "problem");
    heals(
        "alter table postroom_outbox_key drop key message_id",
        "index postroom_outbox_key (message_id) is missing",
    );
    heals(
        "alter table postroom_outbox_message drop key id",
        "index postroom_outbox_message (id) is missing",
    );
    heals(
        "alter table postroom_inbox_node drop primary key",
        "index postroom_inbox_node (owner) is missing",
    );
    heals(
        "alter table postroom_outbox_message drop column causation_id",
        "column postroom_outbox_message.causation_id is missing",
    );
    heals(
        "alter table postroom_outbox_attempt modify column n bigint",
        "column postroom_outbox_attempt.n is bigint not null, not int not null",
    );
    heals("drop table postroom_inbox_halt", "table postroom_inbox_halt is missing");
    heals("drop view postroom_outbox", "view postroom_outbox is missing");
    heals("drop procedure postroom_outbox_ack", "procedure postroom_outbox_ack is missing");
    heals(
        "alter procedure postroom_outbox_ack comment 'mine'",
        "procedure postroom_outbox_ack is not as this version makes it",
    );
    assert_eq!(complaint(&world, &[], "schema", ""), None);
    // It still works.
    world.ok(&["enqueue", "t", "--payload={}"]);
    assert_eq!(world.messages(), 1);
}

#[test]
fn sch_6_missing_rights_are_found_and_mended() {
    let world = World::migrated(MySql);
    let id = postroom::MessageId::new().as_uuid().simple().to_string();
    let (user, role) = (format!("doc_{}", &id[16..]), format!("rol_{}", &id[16..]));
    let names = ["producer", "admin", "reader"].map(|name| format!("{role}{}", &name[..2]));
    let roles = ["producer", "admin", "reader"].iter().zip(&names);
    let roles: Vec<_> = roles.map(|(option, name)| format!("--{option}={name}")).collect();
    let worker = format!("--worker={role}");
    let mut arguments = vec!["roles", &worker];
    arguments.extend(roles.iter().map(String::as_str));
    world.sql(&world.ok(&arguments));
    world.sql(&format!(
        "create user {user}@'%' identified by 'pw'; grant {role} to {user}@'%'; \
         set default role {role} for {user}@'%'"
    ));
    let (_, place) = world
        .url()
        .split_once('@')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .expect("there is one");
    let url = format!("--url=mysql://{user}:pw@{place}");
    let options = [url.as_str()];
    assert_eq!(complaint(&world, &options, "rights", ""), None);
    for (right, table) in [
        ("insert", "postroom_outbox_message"),
        ("update", "postroom_outbox_key"),
        ("delete", "postroom_inbox_key"),
        ("select", "postroom_outbox_attempt"),
    ] {
        world.sql(&format!("revoke {right} on {table} from {role}"));
        let text = format!("lacks {right} on {table}");
        let found = complaint(&world, &options, "rights", &text).expect(&text);
        assert_eq!(found["level"], "problem");
        follow(&world, &found);
        assert_eq!(complaint(&world, &options, "rights", &text), None, "{found:#}");
    }
    let unseen = "procedure postroom_outbox_run_claim is missing";
    world.sql(&format!("revoke execute on procedure postroom_outbox_run_claim from {role}"));
    let found = complaint(&world, &options, "schema", unseen).expect("found");
    assert!(
        found["why"].as_str().expect("there is one").contains("this account may not see it"),
        "{found:#}"
    );
    world.sql(&format!("drop user {user}@'%'; drop role {role}, {}", names.join(", ")));
}

#[test]
fn cli_1_a_long_transaction_is_found_and_ended() {
    let world = World::migrated(MySql);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    world.sql("create table mine (a int) engine = InnoDB");
    let mut conn = runtime.block_on(async {
        let mut conn = MySqlConnection::connect(&world.url()).await.expect("connects");
        conn.execute("start transaction").await.expect("begins");
        conn.execute("insert into mine values (1)").await.expect("writes");
        conn
    });
    assert_eq!(complaint(&world, &[], "transactions", ""), None, "it is not long by default");
    let options = ["--long-transaction=0s"];
    // The server shows an old list while anybody has looked at it in the last tenth of a second,
    // and other tests do.
    let look = |_| {
        std::thread::sleep(Duration::from_millis(150));
        complaint(&world, &options, "transactions", "has had one open for")
    };
    let found = (0..200).find_map(look);
    follow(&world, &found.expect("found"));
    let ended = runtime.block_on(async { conn.execute("select 1").await });
    ended.expect_err("its connection was ended");
}
