//! A database of its own for each test, whichever it is, and the binary that works on it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use postroom::MessageId;
use serde_json::Value;
use sqlx::{
    AssertSqlSafe, Connection as _, Executor as _, MySqlConnection, PgConnection, SqliteConnection,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Postgres,
    MySql,
    Sqlite,
}

pub(crate) struct World {
    pub(crate) kind: Kind,
    name: String,
    folder: tempfile::TempDir,
}

/// How one run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

fn server(kind: Kind) -> String {
    let name = match kind {
        Kind::Postgres => "POSTROOM_TEST_PG_URL",
        Kind::MySql => "POSTROOM_TEST_MYSQL_URL",
        Kind::Sqlite => unreachable!("it has no server"),
    };
    let url = std::env::var(name);
    url.unwrap_or_else(|_| panic!("{name} must be set; `cargo xtask test` does that"))
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

impl World {
    pub(crate) fn new(kind: Kind) -> Self {
        let name = format!("world_{}", MessageId::new().as_uuid().simple());
        let world = Self { kind, name, folder: tempfile::tempdir().expect("a folder") };
        if kind != Kind::Sqlite {
            world.on_server(&format!("create database {}", world.name));
        }
        world
    }

    pub(crate) fn migrated(kind: Kind) -> Self {
        let world = Self::new(kind);
        world.ok(&["migrate"]);
        world
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("world.db")
    }

    pub(crate) fn url(&self) -> String {
        match self.kind {
            Kind::Sqlite => format!("sqlite:{}", self.file().display()),
            Kind::MySql => format!("{}/{}", server(self.kind).trim_end_matches('/'), self.name),
            Kind::Postgres => {
                let server = server(self.kind);
                let (host, _) = server.rsplit_once('/').expect("a URL with a database");
                format!("{host}/{}", self.name)
            }
        }
    }

    fn on_server(&self, sql: &str) {
        let sql = AssertSqlSafe(sql.to_owned());
        run(async {
            match self.kind {
                Kind::Postgres => {
                    let conn = PgConnection::connect(&server(self.kind)).await;
                    conn.expect("connects").execute(sqlx::raw_sql(sql)).await.expect("runs");
                }
                _ => {
                    let conn = MySqlConnection::connect(&server(self.kind)).await;
                    conn.expect("connects").execute(sqlx::raw_sql(sql)).await.expect("runs");
                }
            }
        });
    }

    /// Runs statements in the database.
    pub(crate) fn sql(&self, sql: &str) {
        let sql = AssertSqlSafe(sql.to_owned());
        let url = self.url();
        run(async {
            match self.kind {
                Kind::Postgres => {
                    let mut conn = PgConnection::connect(&url).await.expect("connects");
                    conn.execute(sqlx::raw_sql(sql)).await.expect("runs");
                }
                Kind::MySql => {
                    let mut conn = MySqlConnection::connect(&url).await.expect("connects");
                    conn.execute(sqlx::raw_sql(sql)).await.expect("runs");
                }
                Kind::Sqlite => {
                    let url = format!("{url}?mode=rwc");
                    let mut conn = SqliteConnection::connect(&url).await.expect("connects");
                    conn.execute(sqlx::raw_sql(sql)).await.expect("runs");
                }
            }
        });
    }

    /// A number from the database.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        let sql = AssertSqlSafe(sql.to_owned());
        let url = self.url();
        run(async {
            match self.kind {
                Kind::Postgres => {
                    let mut conn = PgConnection::connect(&url).await.expect("connects");
                    sqlx::query_scalar(sql).fetch_one(&mut conn).await
                }
                Kind::MySql => {
                    let mut conn = MySqlConnection::connect(&url).await.expect("connects");
                    sqlx::query_scalar(sql).fetch_one(&mut conn).await
                }
                Kind::Sqlite => {
                    let mut conn = SqliteConnection::connect(&url).await.expect("connects");
                    sqlx::query_scalar(sql).fetch_one(&mut conn).await
                }
            }
        })
        .expect("a number")
    }

    /// A table of the schema, as SQL.
    pub(crate) fn table(&self, name: &str) -> String {
        match self.kind {
            Kind::Postgres => format!("postroom.{name}"),
            Kind::MySql | Kind::Sqlite => format!("postroom_{name}"),
        }
    }

    /// How many messages there are.
    pub(crate) fn messages(&self) -> i64 {
        self.number(&format!("select count(*) from {}", self.table("outbox_message")))
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postroom"));
        for name in ["POSTROOM_SCHEMA", "POSTROOM_PREFIX", "POSTROOM_SOURCE_URL", "NO_COLOR"] {
            command.env_remove(name);
        }
        command.env("POSTROOM_URL", self.url()).current_dir(self.folder.path()).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().expect("the binary starts")
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.start(arguments))
    }

    /// Standard output of a run that has to succeed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        ran.stdout
    }

    /// The document of a run with `--json`, whatever its code.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        self.run(&[arguments, &["--json"]].concat()).json()
    }
}

impl Ran {
    pub(crate) fn of(child: Child) -> Self {
        let output = child.wait_with_output().expect("the binary ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Self {
            code: output.status.code().expect("no signal"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("one document: {self:?}"))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        match self.kind {
            Kind::Sqlite => {}
            Kind::MySql => self.on_server(&format!("drop database if exists {}", self.name)),
            Kind::Postgres => {
                self.on_server(&format!("drop database if exists {} with (force)", self.name));
            }
        }
    }
}
