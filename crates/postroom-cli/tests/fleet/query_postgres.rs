//! The relay on the stores that a query on PostgreSQL lists: a schema for each tenant.

use postroom::MessageId;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use super::world::{World, block_on};

fn url() -> String {
    std::env::var("POSTROOM_TEST_PG_URL").expect(
        "POSTROOM_TEST_PG_URL must be the URL of a PostgreSQL server; `cargo xtask test` sets it",
    )
}

/// Two tenants and a schema with the list of them, dropped at the end.
struct Schemas(String);

impl Schemas {
    fn new() -> Self {
        // Without a server there is nothing to drop.
        let _ = url();
        let schemas = Self(format!("fleet_{}", MessageId::new().as_uuid().simple()));
        let Self(name) = &schemas;
        run(format!(
            "create schema {name};
            create table {name}.tenants (id text, schema text, keys text[]);
            insert into {name}.tenants values
                ('acme', '{name}_a', '{{acme,\"acme, inc\"}}'), ('globex', '{name}_g', null)"
        ));
        schemas
    }

    fn config(&self) -> String {
        // Whoever is trusted may give any password.
        let url = url().replacen("postgres@", "postgres:s3cret@", 1);
        // Stores that share connections hear of commits at once only with a doorbell.
        let doorbell = url.rsplit_once('/').expect("a database").1;
        format!(
            "[fleet]\ndoorbell = \"{doorbell}\"\n[discover.tenants.query]\nurl = \"{url}\"\n\
             sql = \"select id, schema, keys, current_database() as db from {0}.tenants\"\n\
             template = \"{1}/{{db}}\"\n",
            self.0,
            url.rsplit_once('/').expect("a database").0,
        )
    }
}

impl Drop for Schemas {
    fn drop(&mut self) {
        for end in ["", "_a", "_g", "_n"] {
            run(format!("drop schema if exists {}{end} cascade", self.0));
        }
    }
}

fn run(sql: String) {
    block_on(async {
        let mut conn = PgConnection::connect(&url()).await.expect("connects");
        conn.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.expect("the statement of the test");
    });
}

#[test]
fn fleet_1_schemas_that_a_query_lists_are_migrated_and_served() {
    let schemas = Schemas::new();
    let world = World::new(&schemas.config());
    let listed = world.ok(&["stores", "--json"]);
    assert!(listed.contains("acme, inc") && listed.contains("postgres:***@"), "{listed}");

    // A server gets no schema by the way.
    let up = world.up();
    let told = up.says("FLEET_STORE_FAILING");
    assert!(told.contains("the database has no Postroom schema"), "{told}");
    up.stop();
    let migrated = world.ok(&["migrate", "--all"]);
    assert_eq!(migrated.matches("created at version").count(), 2, "{migrated}");

    let up = world.up();
    up.says("discover.tenants found 2 stores: query on postgres://postgres:***@");
    for store in ["acme", "globex"] {
        world.ok(&["--store", store, "enqueue", store, "--payload", "{}"]);
        world.wait_for_topic(store);
    }
    run(format!("insert into {0}.tenants values ('new', '{0}_n', null)", schemas.0));
    world.ok(&["--store", "new", "migrate"]);
    world.ok(&["--store", "new", "enqueue", "new", "--payload", "{}"]);
    up.signal("-HUP");
    up.says("looked for stores: 1 new, 0 gone, 2 as they were");
    world.wait_for_topic("new");
    up.stop();
}
