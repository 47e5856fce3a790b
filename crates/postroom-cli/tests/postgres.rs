//! The command line on PostgreSQL. Needs a server: `cargo xtask test` starts one.

mod cli;
mod postgres_stops;

use std::sync::Arc;

use cli::Cli;
use postroom::{MessageId, PgStore, StoreConfig};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

/// A schema of its own, dropped at the end.
struct Schema {
    name: String,
    cli: Cli,
}

fn url() -> String {
    std::env::var("POSTROOM_TEST_PG_URL").expect(
        "POSTROOM_TEST_PG_URL must be the URL of a PostgreSQL server; `cargo xtask test` sets it",
    )
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

impl Schema {
    fn empty() -> Self {
        let name = format!("cli_{}", MessageId::new().as_uuid().simple());
        let cli = Cli::new(&["--url", &url(), "--schema", &name]);
        Self { name, cli }
    }

    fn migrated() -> Self {
        let schema = Self::empty();
        schema.cli.ok(&["migrate"]);
        schema
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        run(async {
            let mut conn = PgConnection::connect(&url()).await.expect("connects");
            let sql = format!("drop schema if exists {} cascade", self.name);
            conn.execute(AssertSqlSafe(sql)).await.expect("drops");
        });
    }
}

#[test]
fn cli_1_enqueue_takes_every_field_of_a_message() {
    cli::enqueue_takes_every_field(&Schema::migrated().cli);
}

#[test]
fn cli_1_lists_and_stats_agree() {
    cli::lists_and_stats_agree(&Schema::migrated().cli);
}

/// The store behind a command line.
fn store(schema: &Schema) -> Arc<PgStore> {
    let config = StoreConfig { schema: schema.name.clone(), ..StoreConfig::default() };
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(2);
    // Lazily, because the flow has a runtime of its own.
    let pool = run(async { pool.connect_lazy(&url()) }).expect("a URL");
    Arc::new(PgStore::new(pool, config).expect("legal"))
}

#[test]
fn adm_1_show_tells_what_happened() {
    let schema = Schema::migrated();
    cli::show_tells_what_happened(&schema.cli, store(&schema));
}

#[test]
fn adm_1_show_tells_where_a_message_came_from() {
    let schema = Schema::migrated();
    cli::show_tells_the_origin(&schema.cli, store(&schema));
}

#[test]
fn adm_1_dead_letters_are_helped() {
    cli::dead_letters_are_helped(&Schema::migrated().cli);
}

#[test]
fn cli_1_filters_find_and_change() {
    let schema = Schema::migrated();
    cli::filters::find_and_change(&schema.cli, store(&schema));
}

#[test]
fn cli_1_dry_runs_change_nothing() {
    cli::filters::dry_runs_change_nothing(&Schema::migrated().cli);
    let empty = Schema::empty();
    let ran = empty.cli.run(&["migrate", "--dry-run"]);
    assert_eq!(ran.stdout, "Would migrate: the database has no Postroom schema.\n");
    assert_eq!(empty.cli.run(&["stats"]).code, 4, "and it has none");
}

#[test]
fn ret_1_purge_deletes_what_is_old() {
    cli::filters::purge_deletes_what_is_old(&Schema::migrated().cli);
}

#[test]
fn dsp_10_pauses_are_kept() {
    let schema = Schema::migrated();
    cli::pauses_are_kept(&schema.cli, store(&schema));
}

#[test]
fn sch_1_a_server_never_gets_a_schema_by_itself() {
    let schema = Schema::empty();
    for arguments in [&["list"][..], &["stats"], &["enqueue", "t", "--payload={}"]] {
        let ran = schema.cli.run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (4, ""), "{ran:?}");
        assert!(ran.stderr.contains("next: run `postroom migrate`"), "{ran:?}");
    }
    assert_eq!(schema.cli.json(&["migrate"])["from"], 0);
    assert!(schema.cli.ok(&["migrate"]).starts_with("The schema is up to date"));
    assert_eq!(schema.cli.count(), 0);
}

#[test]
fn sch_2_the_printed_sql_is_a_working_migration() {
    let schema = Schema::empty();
    let sql = schema.cli.ok(&["migrate", "--print"]);
    run(async {
        let mut conn = PgConnection::connect(&url()).await.expect("connects");
        conn.execute(AssertSqlSafe(sql)).await.expect("runs");
    });
    assert!(schema.cli.ok(&["migrate"]).starts_with("The schema is up to date"));
    schema.cli.enqueue(&["t", "--payload={}"]);
    assert_eq!(schema.cli.count(), 1);
}

#[test]
fn sch_6_the_printed_roles_have_their_rights() {
    let schema = Schema::migrated();
    let names =
        ["producer", "worker", "admin", "reader"].map(|role| format!("postroom_cli_{role}"));
    let options = ["--producer", "--worker", "--admin", "--reader"];
    let mut arguments = vec!["roles"];
    arguments.extend(options.iter().zip(&names).flat_map(|(option, name)| [*option, name]));
    let sql = schema.cli.ok(&arguments);
    assert_eq!(schema.cli.json(&arguments)["sql"], sql);
    run(async {
        let mut conn = PgConnection::connect(&url()).await.expect("connects");
        conn.execute(AssertSqlSafe(sql)).await.expect("runs");
        conn.execute("set role postroom_cli_producer").await.expect("there is such a role");
        let enqueue = format!("select {}.outbox_enqueue('t', '{{}}')", schema.name);
        conn.execute(AssertSqlSafe(enqueue)).await.expect("a producer publishes");
        let look = format!("select from {}.outbox", schema.name);
        conn.execute(AssertSqlSafe(look)).await.expect_err("and does not look");
    });
    assert_eq!(schema.cli.count(), 1);
}

#[test]
fn cli_1_a_server_that_does_not_answer_is_exit_code_5_without_its_password() {
    let cli = Cli::new(&["--url", "postgres://app:s3cret@127.0.0.1:1/app"]);
    let ran = cli.run(&["stats"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (5, ""), "{ran:?}");
    assert!(ran.stderr.contains("why: ") && ran.stderr.contains("refused"), "{ran:?}");
    assert!(ran.stderr.contains("next: "), "{ran:?}");
    assert!(!ran.stderr.contains("s3cret"), "{ran:?}");
}

#[test]
fn sec_2_a_refused_login_does_not_show_the_password() {
    let (scheme, rest) =
        url().split_once("://").map(|(s, r)| (s.to_owned(), r.to_owned())).unwrap();
    let host = rest.rsplit_once('@').map_or(rest.clone(), |(_, host)| host.to_owned());
    let cli = Cli::new(&["--url", &format!("{scheme}://nobody_here:s3cret@{host}")]);
    let ran = cli.run(&["stats"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(ran.stderr.contains("nobody_here"), "{ran:?}");
    assert!(ran.stderr.contains("next: check the user, the password"), "{ran:?}");
    assert!(!ran.stderr.contains("s3cret"), "{ran:?}");
}
