//! The relay on the stores that a query on MySQL or MariaDB lists: a database for each tenant.

use postroom::MessageId;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection};

use super::world::{World, block_on};

fn server() -> String {
    let url = std::env::var("POSTROOM_TEST_MYSQL_URL").expect(
        "POSTROOM_TEST_MYSQL_URL must be the URL of a MySQL or MariaDB server; \
         `cargo xtask test` sets it",
    );
    url.trim_end_matches('/').to_owned()
}

/// A master database and two of tenants, dropped at the end.
struct Databases(String);

impl Databases {
    fn new() -> Self {
        // Without a server there is nothing to drop.
        let _ = server();
        let databases = Self(format!("fleet_{}", MessageId::new().as_uuid().simple()));
        let Self(name) = &databases;
        for end in ["", "_a", "_g"] {
            run(format!("create database {name}{end}"));
        }
        run(format!("create table {name}.tenants (id int, db varchar(80), weight int)"));
        run(format!("insert into {name}.tenants values (1, '{name}_a', 2), (2, '{name}_g', 1)"));
        databases
    }

    fn config(&self) -> String {
        let server = server();
        format!(
            "[discover.tenants.query]\nurl = \"{server}/{}\"\n\
             sql = \"select id, db, weight from tenants\"\ntemplate = \"{server}/{{db}}\"\n",
            self.0
        )
    }
}

impl Drop for Databases {
    fn drop(&mut self) {
        for end in ["", "_a", "_g"] {
            run(format!("drop database if exists {}{end}", self.0));
        }
    }
}

fn run(sql: String) {
    block_on(async {
        let mut conn = MySqlConnection::connect(&server()).await.expect("connects");
        conn.execute(AssertSqlSafe(sql)).await.expect("the statement of the test");
    });
}

#[test]
fn fleet_1_databases_that_a_query_lists_are_migrated_and_served() {
    let databases = Databases::new();
    let world = World::new(&databases.config());
    let migrated = world.ok(&["migrate", "--all"]);
    assert_eq!(migrated.matches("created at version").count(), 2, "{migrated}");
    let up = world.up();
    up.says("discover.tenants found 2 stores: query on mysql://");
    for store in ["1", "2"] {
        let topic = format!("of.{store}");
        world.ok(&["--store", store, "enqueue", &topic, "--payload", "{}"]);
        world.wait_for_topic(&topic);
    }
    run(format!("delete from {}.tenants where id = 2", databases.0));
    up.signal("-HUP");
    up.says("looked for stores: 0 new, 1 gone, 1 as they were");
    up.stop();
}
