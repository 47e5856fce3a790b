//! The command line on MySQL and MariaDB. Needs a server: `cargo xtask test` starts one.

mod cli;

use std::sync::Arc;

use cli::Cli;
use postroom::{MessageId, MySqlStore, StoreConfig};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection};

/// A database of its own, dropped at the end.
struct Database {
    name: String,
    cli: Cli,
}

fn server() -> String {
    let url = std::env::var("POSTROOM_TEST_MYSQL_URL").expect(
        "POSTROOM_TEST_MYSQL_URL must be the URL of a MySQL or MariaDB server; \
         `cargo xtask test` sets it",
    );
    url.trim_end_matches('/').to_owned()
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

fn on_server(sql: String) {
    run(async {
        let mut conn = MySqlConnection::connect(&server()).await.expect("connects");
        conn.execute(AssertSqlSafe(sql)).await.expect("runs");
    });
}

impl Database {
    fn empty() -> Self {
        let name = format!("cli_{}", MessageId::new().as_uuid().simple());
        on_server(format!("create database {name}"));
        let cli = Cli::new(&["--url", &format!("{}/{name}", server())]);
        Self { name, cli }
    }

    fn migrated() -> Self {
        let database = Self::empty();
        database.cli.ok(&["migrate"]);
        database
    }

    /// The store behind a command line.
    fn store(&self) -> Arc<MySqlStore> {
        let pool = sqlx::mysql::MySqlPoolOptions::new().max_connections(2);
        let url = format!("{}/{}", server(), self.name);
        // Lazily, because the flow has a runtime of its own.
        let pool = run(async { pool.connect_lazy(&url) }).expect("a URL");
        Arc::new(MySqlStore::new(pool, StoreConfig::default()).expect("legal"))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        on_server(format!("drop database if exists {}", self.name));
    }
}

#[test]
fn cli_1_enqueue_takes_every_field_of_a_message() {
    cli::enqueue_takes_every_field(&Database::migrated().cli);
}

#[test]
fn cli_1_lists_and_stats_agree() {
    cli::lists_and_stats_agree(&Database::migrated().cli);
}

#[test]
fn adm_1_show_tells_what_happened() {
    let database = Database::migrated();
    cli::show_tells_what_happened(&database.cli, database.store());
}

#[test]
fn adm_1_show_tells_where_a_message_came_from() {
    let database = Database::migrated();
    cli::show_tells_the_origin(&database.cli, database.store());
}

#[test]
fn adm_1_dead_letters_are_helped() {
    cli::dead_letters_are_helped(&Database::migrated().cli);
}

#[test]
fn cli_1_filters_find_and_change() {
    let database = Database::migrated();
    cli::filters::find_and_change(&database.cli, database.store());
}

#[test]
fn cli_1_dry_runs_change_nothing() {
    cli::filters::dry_runs_change_nothing(&Database::migrated().cli);
}

#[test]
fn ret_1_purge_deletes_what_is_old() {
    cli::filters::purge_deletes_what_is_old(&Database::migrated().cli);
}

#[test]
fn dsp_10_pauses_are_kept() {
    let database = Database::migrated();
    cli::pauses_are_kept(&database.cli, database.store());
}

#[test]
fn sch_6_the_printed_roles_have_their_rights() {
    let database = Database::migrated();
    let roles = "--producer=postroom_cli_producer --worker=postroom_cli_worker \
        --admin=postroom_cli_admin --reader=postroom_cli_reader";
    let arguments: Vec<_> = std::iter::once("roles").chain(roles.split_whitespace()).collect();
    let sql = database.cli.ok(&arguments);
    assert_eq!(database.cli.json(&arguments)["sql"], sql);
    on_server(format!(
        "use {}; {sql} create user if not exists postroom_cli_account@'%';
        grant postroom_cli_producer to postroom_cli_account@'%';
        set default role postroom_cli_producer for postroom_cli_account@'%'",
        database.name
    ));
    let url = format!("{}/{}", server(), database.name);
    let (_, host) = url.split_once('@').expect("the URL names a user");
    run(async {
        let url = format!("mysql://postroom_cli_account@{host}");
        let mut conn = MySqlConnection::connect(&url).await.expect("connects");
        let publish = "start transaction; call postroom_outbox_enqueue('t', '{}', null); commit";
        conn.execute(publish).await.expect("a producer publishes");
        conn.execute("select 1 from postroom_outbox").await.expect_err("and does not look");
    });
    assert_eq!(database.cli.count(), 1);
}

#[test]
fn sch_1_a_server_never_gets_a_schema_by_itself() {
    let database = Database::empty();
    for arguments in [&["list"][..], &["stats"], &["enqueue", "t", "--payload={}"]] {
        let ran = database.cli.run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (4, ""), "{ran:?}");
        assert!(ran.stderr.contains("next: run `postroom migrate`"), "{ran:?}");
    }
    assert_eq!(database.cli.json(&["migrate"])["from"], 0);
    assert!(database.cli.ok(&["migrate"]).starts_with("The schema is up to date"));
    assert_eq!(database.cli.count(), 0);
}

#[test]
fn cli_1_a_server_that_does_not_answer_is_exit_code_5_without_its_password() {
    let cli = Cli::new(&["--url", "mysql://app:s3cret@127.0.0.1:1/app"]);
    let ran = cli.run(&["stats"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (5, ""), "{ran:?}");
    assert!(ran.stderr.contains("why: ") && ran.stderr.contains("refused"), "{ran:?}");
    assert!(ran.stderr.contains("next: ") && !ran.stderr.contains("s3cret"), "{ran:?}");
}

#[test]
fn sec_2_a_refused_login_does_not_show_the_password() {
    let host = server().rsplit_once(['@', '/']).map(|(_, host)| host.to_owned()).expect("a host");
    let cli = Cli::new(&["--url", &format!("mysql://nobody_here:s3cret@{host}/app")]);
    let ran = cli.run(&["stats"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(ran.stderr.contains("nobody_here"), "{ran:?}");
    assert!(ran.stderr.contains("next: check the user, the password"), "{ran:?}");
    assert!(!ran.stderr.contains("s3cret"), "{ran:?}");
}
