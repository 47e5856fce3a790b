//! Transactions that stand in each other's way, and how a test knows that one really waits.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::MessageId;
use postroom_core::store::AdminStore;
use postroom_stores::{MySqlStore, StoreConfig};
use sqlx::mysql::{MySqlConnection, MySqlDatabaseError, MySqlPool, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, Executor, MySql, Row, Transaction};

use crate::mysql_support::{My, run, server};

/// How the engine begins.
pub(crate) const READ_COMMITTED: &str =
    "set transaction isolation level read committed; start transaction";

/// An open transaction.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) session: i64,
    pub(crate) waits: bool,
    pub(crate) row_locks: u64,
}

/// Those in the database of a test. The server's monitor tells; what `innodb_trx` shows is not
/// renewed while other tests look at it.
pub(crate) async fn open_transactions(my: &My) -> Vec<Open> {
    let sessions = "select cast(id as signed) from information_schema.processlist where db = ?";
    let sessions = sqlx::query_scalar(sessions).bind(&my.database).fetch_all(&my.pool).await;
    let sessions: Vec<i64> = sessions.expect("the server tells");
    let monitor = sqlx::raw_sql("show engine innodb status").fetch_one(&my.pool).await;
    // It shows rows of deadlocks as they are.
    let text: Vec<u8> = monitor.expect("the server tells").get(2);
    let text = String::from_utf8_lossy(&text);
    let (_, list) = text.split_once("LIST OF TRANSACTIONS").expect("a list");
    let list = list.split("FILE I/O").next().unwrap_or_default();
    let open =
        list.split("---TRANSACTION ").filter(|text| text.contains("ACTIVE")).map(|text| Open {
            session: number_after(text, "thread id "),
            waits: text.contains("LOCK WAIT"),
            row_locks: text
                .split(" row lock(s)")
                .next()
                .and_then(|before| before.rsplit(' ').next()?.parse().ok())
                .unwrap_or(0),
        });
    open.filter(|open| sessions.contains(&open.session)).collect()
}

fn number_after(text: &str, mark: &str) -> i64 {
    let digits = text.split_once(mark).map_or("", |(_, rest)| rest);
    digits.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Waits until nobody has a transaction: one whose connection was killed is rolled back later.
pub(crate) async fn until_idle(my: &My) {
    for _ in 0..3_000 {
        if open_transactions(my).await.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("somebody has a transaction open");
}

/// Waits until so many sessions wait for a lock; answers with their ids.
pub(crate) async fn until_waiting(my: &My, sessions: usize) -> Vec<i64> {
    for _ in 0..3_000 {
        let open = open_transactions(my).await;
        let waiting: Vec<_> = open.iter().filter(|open| open.waits).collect();
        if waiting.len() == sessions {
            return waiting.into_iter().map(|open| open.session).collect();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("there are never {sessions} that wait");
}

pub(crate) async fn count(my: &My, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(&my.pool).await.expect("a count")
}

pub(crate) async fn ready(my: &My) -> u64 {
    my.store.stats().await.expect("stats").ready
}

pub(crate) async fn kill(my: &My, session: i64) {
    my.pool.execute(AssertSqlSafe(format!("kill {session}"))).await.expect("kills");
}

pub(crate) async fn session_of(conn: &mut MySqlConnection) -> i64 {
    let sql = "select cast(connection_id() as signed)";
    sqlx::query_scalar(sql).fetch_one(conn).await.expect("an id")
}

/// Sessions as an application has them, at the server's own isolation level.
pub(crate) fn plain_pool(my: &My) -> MySqlPool {
    pool_set(my, "set session innodb_lock_wait_timeout = 50")
}

/// The same, where a lock that is never given up is an error soon.
pub(crate) fn impatient_pool(my: &My) -> MySqlPool {
    pool_set(my, "set session innodb_lock_wait_timeout = 2")
}

/// With a setting.
pub(crate) fn pool_set(my: &My, setting: &'static str) -> MySqlPool {
    MySqlPoolOptions::new()
        .max_connections(20)
        .acquire_timeout(Duration::from_secs(60))
        .after_connect(move |conn, _| {
            Box::pin(async move { conn.execute(setting).await.map(drop) })
        })
        .connect_lazy_with(server().database(&my.database))
}

/// A store on a pool that is not its own.
pub(crate) fn on_pool(pool: MySqlPool) -> Arc<MySqlStore> {
    Arc::new(MySqlStore::new(pool, StoreConfig::default()).expect("legal names"))
}

/// The number of the server's error.
pub(crate) fn number(error: &sqlx::Error) -> Option<u16> {
    let error = error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(error.number())
}

/// A transaction that has written so much that no deadlock makes it the victim. Also in a table
/// that does not roll back: MariaDB spares those who did, as the engine's procedures do.
pub(crate) async fn heavy(my: &My) -> Transaction<'static, MySql> {
    let mut tx = my.pool.begin().await.expect("begins");
    let sql = "create temporary table if not exists lasting (n int not null) engine = memory;
        insert into lasting values (1)";
    tx.execute(sqlx::raw_sql(sql)).await.expect("writes");
    let sql = "insert into business
        with recursive numbered (n) as (select 1 union all select n + 1 from numbered where n < 70)
        select a.n from numbered as a cross join numbered as b";
    tx.execute(sql).await.expect("writes");
    tx
}

/// A database with two rows to lock.
pub(crate) async fn with_contested_rows() -> My {
    let my = My::on_database_time().await;
    let sql = "create table if not exists contested (id int not null primary key);
        insert into contested values (1), (2)";
    run(&my.pool, sql).await;
    my
}

pub(crate) async fn lock_row(conn: &mut MySqlConnection, row: i32) -> sqlx::Result<()> {
    let sql = "select id from contested where id = ? for update";
    sqlx::query(sql).bind(row).execute(conn).await.map(drop)
}

/// Makes the open transaction of this connection the victim of a deadlock.
pub(crate) async fn make_victim(my: &My, victim: &mut MySqlConnection) {
    lock_row(victim, 1).await.expect("nobody has it");
    let mut rival = heavy(my).await;
    lock_row(&mut rival, 2).await.expect("nobody has it");
    let cross = async {
        until_waiting(my, 1).await;
        lock_row(&mut rival, 1).await
    };
    let (lost, won) = tokio::join!(lock_row(victim, 2), cross);
    won.expect("the heavier one goes on");
    let lost = lost.expect_err("one of the two is the victim");
    assert_eq!(number(&lost), Some(1213), "{lost}");
    rival.rollback().await.expect("rolls back");
}

/// Whether there is any trace of a message.
pub(crate) async fn is_there(my: &My, id: MessageId) -> bool {
    my.store.get(id).await.expect("get").is_some()
}
