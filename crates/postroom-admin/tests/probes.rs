//! Health and metrics over HTTP: who is told how much.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use postroom_admin::{
    Access, Admin, Database, Exporter, Limit, Person, Role, SinkState, Thresholds, Token,
};
use postroom_core::observe::{Circuit, METRICS, MetricKind};
use postroom_core::{Delivery, Dispatcher, Handlers, Message, Outbox};
use postroom_testkit::SimStore;
use tower::ServiceExt as _;

const SECRET: &str = "a token that nobody guesses";

fn admin(store: &SimStore) -> Admin {
    let person = Person { name: "ann".into(), role: Role::Viewer, payloads: false };
    let access = Access::Tokens(vec![Token::new(SECRET, person)]);
    Admin::new(vec![Database::new("main", store.clone())], access)
}

/// Asks, and says what was answered. `token` and `accept` may be empty.
async fn ask(router: &Router, path: &str, token: &str, accept: &str) -> (StatusCode, String) {
    let mut request = Request::get(path).header(header::HOST, "localhost");
    if !token.is_empty() {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    if !accept.is_empty() {
        request = request.header(header::ACCEPT, accept);
    }
    let request = request.body(Body::empty()).expect("a request");
    let response = router.clone().oneshot(request).await.expect("infallible");
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
    (status, String::from_utf8(body.into()).expect("text"))
}

/// Until every queue has been counted once.
async fn counted(router: &Router) {
    while ask(router, "/startupz", "", "").await.0 != StatusCode::OK {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn obs_4_the_status_is_for_everybody_and_details_for_those_who_may_look() {
    let router = admin(&SimStore::default()).router();
    counted(&router).await;
    let healthy = (StatusCode::OK, "healthy\n".to_owned());
    for path in ["/livez", "/readyz", "/healthz", "/startupz"] {
        assert_eq!(ask(&router, path, "", "").await, healthy, "{path}");
        assert_eq!(ask(&router, &format!("{path}?verbose"), "", "").await, healthy, "no details");
        let wrong = ask(&router, &format!("{path}?verbose"), "wrong", "").await;
        assert_eq!(wrong, healthy, "a wrong token is none");
    }
    let (status, told) = ask(&router, "/readyz?verbose", SECRET, "").await;
    assert_eq!(status, StatusCode::OK);
    assert!(told.starts_with("[+]database main ok\n[+]backlog main/outbox ok\n"), "{told}");
    assert!(told.ends_with("\nhealthy\n"), "{told}");
    let json = "application/json";
    let (_, told) = ask(&router, "/readyz", "", json).await;
    assert_eq!(told, r#"{"status":"healthy"}"#);
    let (_, told) = ask(&router, "/readyz", SECRET, json).await;
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["checks"][0]["name"], "database");
}

#[tokio::test]
async fn obs_4_degraded_still_answers_200_and_unhealthy_503() {
    let store = SimStore::default();
    let outbox = Outbox::new(Arc::new(store.clone()));
    outbox.publish_all([Message::builder("a"), Message::builder("b")]).await.expect("publish");
    let of = async |backlog| {
        let thresholds = Thresholds { backlog, dispatcher: false, ..Thresholds::default() };
        let router = admin(&store).thresholds(thresholds).router();
        counted(&router).await;
        ask(&router, "/readyz", "", "").await
    };
    let degraded = of(Limit { degraded: Some(1), unhealthy: None }).await;
    assert_eq!(degraded, (StatusCode::OK, "degraded\n".to_owned()));
    let unhealthy = of(Limit { degraded: None, unhealthy: Some(1) }).await;
    assert_eq!(unhealthy, (StatusCode::SERVICE_UNAVAILABLE, "unhealthy\n".to_owned()));
}

#[tokio::test]
async fn obs_4_a_sink_that_is_away_is_told() {
    let away = || vec![SinkState { name: "n".into(), kind: "nats", circuit: Circuit::Open }];
    let router = admin(&SimStore::default()).sinks(away).router();
    counted(&router).await;
    let (status, told) = ask(&router, "/readyz?verbose", SECRET, "").await;
    assert_eq!(status, StatusCode::OK);
    assert!(told.contains("[!]sink n is away\n") && told.ends_with("degraded\n"), "{told}");
}

/// One recorder per process, so one test of all that it shows.
#[tokio::test]
async fn obs_5_metrics_are_prometheus_text_for_those_who_may_look() {
    let router = admin(&SimStore::default()).router();
    assert_eq!(ask(&router, "/metrics", SECRET, "").await.0, StatusCode::NOT_FOUND, "no exporter");
    let exporter = Exporter::install().expect("the first one");
    Exporter::install().expect_err("there is one");
    let store = SimStore::default();
    let outbox = Outbox::new(Arc::new(store.clone()));
    let handlers = Handlers::new().all(|_: Delivery| async { Ok(()) });
    let dispatcher = Dispatcher::new(Arc::new(store.clone()), handlers);
    let running = dispatcher.start().expect("legal settings");
    outbox.publish(Message::builder("order.placed")).await.expect("publish");
    while running.snapshot().counts.done == 0 {
        tokio::task::yield_now().await;
    }
    let up = || vec![SinkState { name: "n".into(), kind: "nats", circuit: Circuit::Closed }];
    let render = exporter.clone();
    let build = |public| {
        let render = render.clone();
        admin(&store).sinks(up).metrics(move || render.render()).public_metrics(public).router()
    };
    let router = build(false);
    counted(&router).await;
    assert_eq!(ask(&router, "/metrics", "", "").await.0, StatusCode::UNAUTHORIZED);
    let (status, text) = ask(&router, "/metrics", SECRET, "").await;
    assert_eq!(status, StatusCode::OK);
    let labels = r#"store="sim",queue="outbox""#;
    for line in [
        format!(r#"postroom_delivered_total{{{labels},topic="order.placed"}} 1"#),
        format!("postroom_dispatchers{{{labels}}} 1"),
        format!("postroom_store_up{{{labels}}} 1"),
        format!("postroom_poll_only{{{labels}}} 0"),
        format!("postroom_running{{{labels}}} 0"),
        format!(r#"postroom_build_info{{version="{}"}} 1"#, env!("CARGO_PKG_VERSION")),
        r#"postroom_sink_up{sink="n",kind="nats"} 1"#.to_owned(),
        r#"le="0.0001"}"#.to_owned(),
        "# TYPE postroom_delivery_lag_seconds histogram".to_owned(),
        "# HELP postroom_store_up 1 when the database answered".to_owned(),
    ] {
        assert!(text.contains(&line), "{line} in\n{text}");
    }
    // Whatever is exported is in the list, and of the kind that the list says.
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').expect("a name and a kind");
        let metric = METRICS.iter().find(|metric| metric.name == name);
        assert_eq!(metric.map(|metric| metric.kind.as_str()), Some(kind), "{name}");
    }
    assert!(METRICS.iter().any(|metric| metric.kind == MetricKind::Gauge));
    assert_eq!(ask(&build(true), "/metrics", "", "").await.0, StatusCode::OK, "public");
    running.shutdown(Duration::from_secs(1)).await;
}
