//! A database for one test, as one of the roles sees it.

use std::marker::PhantomData;
use std::sync::Arc;

use postroom_core::{Clock, ManualClock, MessageId};
use postroom_stores::mysql::roles_sql;
use postroom_stores::{MySqlStore, Roles, StoreConfig};
use postroom_testkit::{Harness, Options};
use sqlx::mysql::{MySqlConnection, MySqlPool, MySqlPoolOptions};
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Executor, MySql};

use crate::mysql_support::{My, url};

/// A role that a test works as. The account of the same name has that role and no other right.
pub(crate) trait Who: Send + Sync + 'static {
    const NAME: &'static str;
}

/// Publishes by procedure.
#[derive(Debug)]
pub(crate) struct Producer;
/// Runs a dispatcher.
#[derive(Debug)]
pub(crate) struct Worker;
/// Helps.
#[derive(Debug)]
pub(crate) struct Admin;
/// Looks.
#[derive(Debug)]
pub(crate) struct Reader;

impl Who for Producer {
    const NAME: &'static str = "producer";
}
impl Who for Worker {
    const NAME: &'static str = "worker";
}
impl Who for Admin {
    const NAME: &'static str = "admin";
}
impl Who for Reader {
    const NAME: &'static str = "reader";
}

/// The role of a server that a test works as, and the account that has it.
fn role_and_account(name: &str) -> (String, String) {
    (format!("postroom_test_{name}"), format!("postroom_as_{name}"))
}

/// A store in sessions of a role, beside the one of its owner.
pub(crate) struct As<W> {
    pub(crate) owner: My,
    pub(crate) store: Arc<MySqlStore>,
    /// Sessions of the role.
    pub(crate) pool: MySqlPool,
    who: PhantomData<W>,
}

impl<W: Who> As<W> {
    pub(crate) async fn with(config: StoreConfig) -> Self {
        let owner = My::with(config.clone()).await;
        give_rights::<W>(&owner, &config).await;
        let pool = MySqlPoolOptions::new().connect_lazy(&url_as::<W>(&owner)).expect("a URL");
        let store = MySqlStore::connect(&url_as::<W>(&owner), config).await.expect("connects");
        Self { owner, store: Arc::new(store), pool, who: PhantomData }
    }

    pub(crate) async fn on_database_time() -> Self {
        Self::with(StoreConfig::default()).await
    }
}

/// Runs the script of the roles, and makes an account that has the role.
async fn give_rights<W: Who>(owner: &My, config: &StoreConfig) {
    let name = |name| role_and_account(name).0;
    let roles = Roles {
        producer: name(Producer::NAME),
        worker: name(Worker::NAME),
        admin: name(Admin::NAME),
        reader: name(Reader::NAME),
    };
    let script = roles_sql(config, &roles).expect("legal names");
    owner.pool.execute(sqlx::raw_sql(AssertSqlSafe(script))).await.expect("the script");
    let (role, account) = role_and_account(W::NAME);
    let account = format!("'{account}'@'%'");
    let has_role = format!(
        "create user if not exists {account};
        grant {role} to {account};
        set default role {role} for {account};
        grant all on business to {account}"
    );
    owner.pool.execute(sqlx::raw_sql(AssertSqlSafe(has_role))).await.expect("an account");
}

/// The URL of the test's database for the account of a role.
pub(crate) fn url_as<W: Who>(owner: &My) -> String {
    let url = url(&owner.database);
    let (_, host) = url.split_once('@').expect("the URL names a user");
    format!("mysql://{}@{host}", role_and_account(W::NAME).1)
}

impl<W: Who> Harness for As<W> {
    type Store = MySqlStore;
    type Plain = PoolConnection<MySql>;

    async fn fresh(clock: ManualClock, options: Options) -> Self {
        Self::with(StoreConfig {
            keep_done: options.keep_done,
            halt: options.halt,
            clock: Clock::Manual(clock),
            ..StoreConfig::default()
        })
        .await
    }

    fn store(&self) -> Arc<MySqlStore> {
        Arc::clone(&self.store)
    }

    async fn connection(&self) -> PoolConnection<MySql> {
        self.pool.acquire().await.expect("a connection")
    }

    async fn begin(&self, conn: &mut MySqlConnection) {
        self.owner.begin(conn).await;
    }

    async fn commit(&self, conn: &mut MySqlConnection) {
        self.owner.commit(conn).await;
    }

    async fn rollback(&self, conn: &mut MySqlConnection) {
        self.owner.rollback(conn).await;
    }

    async fn write_business_row(&self, conn: &mut MySqlConnection, row: i64) {
        self.owner.write_business_row(conn, row).await;
    }

    async fn business_rows(&self) -> Vec<i64> {
        self.owner.business_rows().await
    }

    async fn make_undecodable(&self, id: MessageId) {
        self.owner.make_undecodable(id).await;
    }

    async fn finish(self) {
        self.store.close().await;
        self.pool.close().await;
        self.owner.finish().await;
    }
}
