//! A database with messages in every state, and a router in front of it.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use postroom::store::{AdminStore, AuditRecord, TransactionalStore};
use postroom::{
    Message, MessageId, MySqlStore, Outbox, OwnerToken, PgStore, SqliteStore, StoreConfig,
    WorkQueue,
};
use postroom_admin::{Access, Admin, Database, Limits, Person, Role, Token};
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt as _;

use crate::mysql_support::My;
use crate::postgres_support::Pg;

pub(crate) const SECRET: &str = "s3cret";

/// A database of its own for a test.
pub(crate) trait Base: Sized {
    type Store: AdminStore + TransactionalStore + Clone;

    async fn open() -> Self;
    fn store(&self) -> Self::Store;
}

pub(crate) struct Sqlite {
    pub(crate) folder: TempDir,
    store: SqliteStore,
}

impl Base for Sqlite {
    type Store = SqliteStore;

    async fn open() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("shop.db");
        let path = path.to_str().expect("UTF-8");
        let store = SqliteStore::open(path, StoreConfig::default()).await.expect("opens");
        store.migrate().await.expect("migrates");
        Self { folder, store }
    }

    fn store(&self) -> SqliteStore {
        self.store.clone()
    }
}

impl Base for Pg {
    type Store = PgStore;

    async fn open() -> Self {
        Self::lent("api", StoreConfig::default()).await.0
    }

    fn store(&self) -> PgStore {
        (*self.store).clone()
    }
}

impl Base for My {
    type Store = MySqlStore;

    async fn open() -> Self {
        Self::on_database_time().await
    }

    fn store(&self) -> MySqlStore {
        (*self.store).clone()
    }
}

pub(crate) struct World<B: Base = Sqlite> {
    pub(crate) base: B,
    pub(crate) store: B::Store,
    pub(crate) router: Router,
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {:?}", self.body))
    }

    /// Its JSON, if it went well.
    pub(crate) fn ok(&self) -> Value {
        assert!(self.status.is_success(), "{}: {:?}", self.status, self.body);
        self.json()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }
}

pub(crate) fn person(name: &str, role: Role, payloads: bool) -> Person {
    Person { name: name.into(), role, payloads }
}

/// One token of each kind; the secret is the name.
pub(crate) fn everybody() -> Vec<Person> {
    vec![
        person("viewer", Role::Viewer, false),
        person("viewer-with-payloads", Role::Viewer, true),
        person("operator", Role::Operator, false),
        person("admin", Role::Admin, true),
    ]
}

pub(crate) fn tokens() -> Access {
    Access::Tokens(everybody().into_iter().map(|it| Token::new(&it.name.clone(), it)).collect())
}

/// As much as a test wants.
pub(crate) fn unlimited() -> Limits {
    let most = NonZeroU32::new(1_000_000).expect("not zero");
    Limits { requests: most, changes: most, streams: 64, guesses: most }
}

impl World {
    /// On SQLite.
    pub(crate) async fn new() -> Self {
        Self::fresh().await
    }

    pub(crate) async fn with(access: Access, set: impl FnOnce(Admin) -> Admin) -> Self {
        Self::fresh_with(access, set).await
    }
}

impl<B: Base> World<B> {
    pub(crate) async fn fresh() -> Self {
        Self::fresh_with(tokens(), |admin| admin.limits(unlimited())).await
    }

    async fn fresh_with(access: Access, set: impl FnOnce(Admin) -> Admin) -> Self {
        let base = B::open().await;
        let store = base.store();
        let database = Database::new("shop", store.clone());
        let router = set(Admin::new(vec![database], access)).router();
        Self { base, store, router }
    }

    pub(crate) async fn publish(&self, topic: &str) -> MessageId {
        let message = Message::builder(topic).payload(r#"{"order":7}"#).header("h", SECRET);
        self.publish_message(message.build().expect("legal")).await
    }

    pub(crate) async fn publish_message(&self, message: Message) -> MessageId {
        let outbox = Outbox::<B::Store>::new(Arc::new(self.store.clone()));
        outbox.publish(message).await.expect("published").id
    }

    /// So many dead letters, oldest first.
    pub(crate) async fn dead(&self, topic: &str, count: u32, error: &str) -> Vec<MessageId> {
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(self.publish(topic).await);
        }
        let (queue, owner) = (WorkQueue::new(Arc::new(self.store.clone())), OwnerToken::random());
        let claimed = queue.claim(owner, Duration::from_secs(60), count).await.expect("claims");
        let leases: Vec<_> = claimed.items.iter().map(|item| item.lease).collect();
        assert_eq!(leases.len(), count as usize);
        assert_eq!(queue.fail(owner, &leases, error).await.expect("fails").applied, leases.len());
        ids
    }

    pub(crate) async fn audit(&self) -> Vec<AuditRecord> {
        self.store.audit(None, 500).await.expect("audit")
    }

    /// As the person with this name.
    pub(crate) async fn get(&self, name: &str, path: &str) -> Answer {
        let bearer = format!("Bearer {name}");
        self.call(Method::GET, path, &[("authorization", &bearer)], Body::empty()).await
    }

    pub(crate) async fn post(&self, name: &str, path: &str, body: Value) -> Answer {
        let bearer = format!("Bearer {name}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        self.call(Method::POST, path, &headers, Body::from(body.to_string())).await
    }

    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Answer {
        let (status, headers, body) = self.begin(method, path, headers, body).await;
        let body = to_bytes(body, usize::MAX).await.expect("a whole body");
        Answer { status, headers, body }
    }

    /// The answer as it begins: for streams.
    pub(crate) async fn begin(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> (StatusCode, HeaderMap, Body) {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "localhost:7070");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body).expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("infallible");
        let (parts, body) = response.into_parts();
        (parts.status, parts.headers, body)
    }
}
