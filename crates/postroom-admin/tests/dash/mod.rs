//! A dashboard over a real SQLite file, for tests.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod demo;
pub(crate) mod driver;
pub(crate) mod fleet;
pub(crate) mod hostile;
pub(crate) mod html;
pub(crate) mod vectors;

use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, Response, StatusCode, header};
use postroom::store::AdminStore as _;
use postroom::{Outbox, SqliteStore, StoreConfig};
use postroom_admin::{Access, Admin, Database, Limits};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

/// A store in a file of its own.
pub(crate) struct Shop {
    pub(crate) store: SqliteStore,
    pub(crate) outbox: Outbox<SqliteStore>,
    _folder: TempDir,
}

impl Shop {
    pub(crate) async fn open() -> Self {
        Self::with(StoreConfig::default()).await
    }

    pub(crate) async fn with(config: StoreConfig) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("shop.db");
        let store = SqliteStore::open(path.to_str().expect("a plain path"), config).await;
        let store = store.expect("open");
        store.migrate().await.expect("migrate");
        let outbox = Outbox::new(Arc::new(store.clone()));
        Self { store, outbox, _folder: folder }
    }

    pub(crate) fn admin(&self, access: Access) -> Admin {
        // Tests look faster than people.
        let most = NonZeroU32::MAX;
        let limits = Limits { requests: most, changes: most, ..Limits::default() };
        Admin::new(vec![Database::new("shop", self.store.clone())], access).limits(limits)
    }

    pub(crate) fn router(&self) -> Router {
        self.admin(Access::local()).router()
    }
}

/// Serves a router on a loopback port until it is dropped.
pub(crate) struct Served {
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl Served {
    pub(crate) async fn start(router: Router) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("serve");
        });
        Self { url, task }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a browser sends for a page.
pub(crate) async fn get(router: &Router, path: &str) -> (StatusCode, String) {
    let request = Request::get(path)
        .header(header::HOST, "localhost")
        .header(header::ACCEPT, "text/html,*/*")
        .body(Body::empty())
        .expect("a request");
    let response = router.clone().oneshot(request).await.expect("an answer");
    (response.status(), text(response).await)
}

/// What a browser sends for a form.
pub(crate) async fn post(router: &Router, path: &str, form: &[(&str, &str)]) -> Response<Body> {
    let request = Request::post(path)
        .header(header::HOST, "localhost")
        .header(header::ACCEPT, "text/html,*/*")
        .header("sec-fetch-site", "same-origin")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(Body::from(encoded(form)))
        .expect("a request");
    router.clone().oneshot(request).await.expect("an answer")
}

/// Follows the redirect after a form, with the cookies that came with it.
pub(crate) async fn follow(router: &Router, response: Response<Body>) -> (StatusCode, String) {
    assert_eq!(response.status(), StatusCode::SEE_OTHER, "{}", text(response).await);
    let cookies = response.headers().get_all(header::SET_COOKIE).iter();
    let cookies = cookies.filter_map(|cookie| cookie.to_str().ok()?.split(';').next());
    let cookies = cookies.collect::<Vec<_>>().join("; ");
    let to = response.headers()[header::LOCATION].to_str().expect("text").to_owned();
    let request = Request::get(to)
        .header(header::HOST, "localhost")
        .header(header::ACCEPT, "text/html,*/*")
        .header(header::COOKIE, cookies)
        .body(Body::empty())
        .expect("a request");
    let response = router.clone().oneshot(request).await.expect("an answer");
    (response.status(), text(response).await)
}

pub(crate) async fn text(response: Response<Body>) -> String {
    let bytes = to_bytes(response.into_body(), 16 << 20).await.expect("a body");
    String::from_utf8(bytes.into()).expect("text")
}

pub(crate) fn encoded(form: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| format!("{name}={}", percent(value));
    form.iter().map(pair).collect::<Vec<_>>().join("&")
}

pub(crate) fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
