//! X01, X02, X03, X17, X24: who gets in, and how.

use std::num::NonZeroU32;

use axum::body::Body;
use axum::http::{Method, StatusCode};
use postroom_admin::{Access, Admin, Limits, Need, Right, Role, Route};
use serde_json::json;

use crate::world::{Answer, World, everybody, person, tokens, unlimited};

/// A path with something in each of its parameters.
pub(crate) fn filled(route: &Route) -> String {
    let parts = route.path.split('/').map(|part| match part {
        "{topic}" => "order.placed",
        part if part.starts_with('{') => "019a8a00-0000-7000-8000-000000000001",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

const HTML: (&str, &str) = ("accept", "text/html");

#[tokio::test]
async fn x01_without_a_token_every_route_but_the_public_ones_is_closed() {
    let world = World::new().await;
    for route in Admin::routes() {
        let path = filled(&route);
        let tries: [&[(&str, &str)]; 3] = [
            &[],
            &[("authorization", "Bearer nonsense")],
            &[("cookie", "postroom_session=nonsense"), ("sec-fetch-site", "same-origin")],
        ];
        for headers in tries {
            let begun = world.begin(route.method.clone(), &path, headers, Body::empty()).await;
            let closed = begun.0 == StatusCode::UNAUTHORIZED;
            assert_eq!(closed, route.need != Need::Public, "{route:?} {headers:?}: {}", begun.0);
        }
    }
}

#[tokio::test]
async fn x02_every_role_gets_what_it_may_and_nothing_else() {
    let world = World::new().await;
    let mut checked = 0;
    for route in Admin::routes() {
        for person in everybody() {
            let bearer = format!("Bearer {}", person.name);
            let headers = [("authorization", bearer.as_str())];
            let (status, ..) =
                world.begin(route.method.clone(), &filled(&route), &headers, Body::empty()).await;
            if route.need == Need::Public {
                continue;
            }
            let may = route.need.rights().all(|right| person.may(right));
            assert_ne!(status, StatusCode::UNAUTHORIZED, "{route:?} {}", person.name);
            let refused = status == StatusCode::FORBIDDEN;
            assert_eq!(refused, !may, "{route:?} {}: {status}", person.name);
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked}");
}

#[test]
fn x02_what_changes_something_needs_more_than_to_look() {
    for route in Admin::routes() {
        let is_open = ["/login", "/logout"].contains(&route.path.as_str());
        let is_change = route.method != Method::GET;
        let acts = |right| matches!(right, Right::Operate | Right::Administer);
        assert!(!is_change || is_open || route.need.rights().any(acts), "{route:?}");
    }
}

#[tokio::test]
async fn adm_3_read_only_refuses_every_change_of_everybody() {
    let world = World::with(tokens(), |admin| admin.limits(unlimited()).read_only(true)).await;
    for route in Admin::routes().into_iter().filter(|route| route.method != Method::GET) {
        let headers = [("authorization", "Bearer admin")];
        let path = filled(&route);
        let answer = world.call(route.method.clone(), &path, &headers, Body::empty()).await;
        if route.need == Need::Public {
            assert_ne!(answer.status, StatusCode::FORBIDDEN, "{route:?}");
        } else {
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{route:?}");
            assert_eq!(answer.json()["code"], "read_only", "{route:?}");
        }
    }
    assert_eq!(world.get("viewer", "/api/v1/messages").await.status, StatusCode::OK);
    assert!(world.audit().await.is_empty());
}

#[tokio::test]
async fn x03_a_change_from_another_site_is_refused_also_without_tokens() {
    let open = World::with(Access::local(), |admin| admin.limits(unlimited())).await;
    let closed = World::new().await;
    let cookie = log_in(&closed).await;
    for (world, cookie) in [(&open, String::new()), (&closed, cookie)] {
        for route in Admin::routes().into_iter().filter(|route| route.method != Method::GET) {
            for foreign in [
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-site", "same-site"),
                ("origin", "http://evil.example"),
                ("origin", "null"),
                ("x-nothing", "at all"),
            ] {
                let headers = [foreign, ("cookie", cookie.as_str())];
                let path = filled(&route);
                let answer = world.call(Method::POST, &path, &headers, Body::empty()).await;
                assert_eq!(answer.status, StatusCode::FORBIDDEN, "{route:?} {foreign:?}");
                assert_eq!(answer.json()["code"], "cross_origin", "{route:?} {foreign:?}");
            }
        }
        assert!(world.audit().await.is_empty());
        for own in [("sec-fetch-site", "same-origin"), ("origin", "http://localhost:7070")] {
            let headers = [own, ("cookie", cookie.as_str())];
            let answer = world.call(Method::POST, "/api/v1/pause", &headers, Body::empty()).await;
            assert_eq!(answer.status, StatusCode::OK, "{own:?}: {:?}", answer.body);
        }
    }
}

#[tokio::test]
async fn x03_no_get_changes_the_database() {
    let world = World::new().await;
    world.dead("order.placed", 3, "no").await;
    world.publish("order.placed").await;
    let settle = || async {
        let pool = world.store.writer();
        sqlx::query("pragma wal_checkpoint(truncate)").execute(pool).await.expect("checkpoint");
        std::fs::read(world.base.folder.path().join("shop.db")).expect("the file")
    };
    let before = settle().await;
    for route in Admin::routes().into_iter().filter(|route| route.method == Method::GET) {
        let headers = [("authorization", "Bearer admin")];
        for method in [Method::GET, Method::HEAD] {
            let path = filled(&route);
            let (status, _, body) = world.begin(method, &path, &headers, Body::empty()).await;
            // `/readyz` may well say that nothing delivers here.
            assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{route:?}");
            drop(body);
        }
    }
    assert!(before == settle().await, "a GET has changed something");
}

#[tokio::test]
async fn x01_without_tokens_only_loopback_hosts_are_answered() {
    let world = World::with(Access::local(), |admin| admin).await;
    let stores = |host: &'static str| {
        let world = &world;
        async move {
            let headers = [("host", host)];
            world.call(Method::GET, "/api/v1/stores", &headers, Body::empty()).await.status
        }
    };
    assert_eq!(stores("127.0.0.1:7070").await, StatusCode::OK);
    assert_eq!(stores("rebound.evil.example").await, StatusCode::FORBIDDEN);
    let guarded = World::with(Access::local(), |admin| admin.guarded_elsewhere(true)).await;
    let headers = [("host", "admin.example")];
    let answer = guarded.call(Method::GET, "/api/v1/stores", &headers, Body::empty()).await;
    assert_eq!(answer.status, StatusCode::OK);
}

async fn log_in(world: &World) -> String {
    let headers =
        [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")];
    let form = Body::from("token=admin&next=/messages%3Fstatus%3Ddead");
    let answer = world.call(Method::POST, "/login", &headers, form).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    assert_eq!(answer.header("location"), "/messages?status=dead");
    let cookie = answer.header("set-cookie").to_owned();
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    cookie.split(';').next().expect("a pair").to_owned()
}

#[tokio::test]
async fn x24_a_login_gives_a_cookie_that_logout_revokes() {
    let world = World::new().await;
    let cookie = log_in(&world).await;
    let with_cookie = [("cookie", cookie.as_str()), ("sec-fetch-site", "same-origin")];
    let stores = || world.call(Method::GET, "/api/v1/stores", &with_cookie, Body::empty());
    assert_eq!(stores().await.status, StatusCode::OK);
    let out = world.call(Method::POST, "/logout", &with_cookie, Body::empty()).await;
    assert_eq!(out.status, StatusCode::SEE_OTHER);
    assert!(out.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(stores().await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn x24_the_cookie_is_secure_unless_the_host_is_loopback() {
    let world = World::new().await;
    for (host, secure) in [("localhost:7070", false), ("admin.example", true)] {
        let headers = [
            ("host", host),
            ("content-type", "application/x-www-form-urlencoded"),
            ("sec-fetch-site", "same-origin"),
        ];
        let answer = world.call(Method::POST, "/login", &headers, Body::from("token=viewer")).await;
        assert_eq!(answer.header("set-cookie").contains("; Secure"), secure, "{host}");
    }
}

/// The answers to so many different wrong tokens, by header or by login.
async fn guess(world: &World, count: usize, by_login: bool) -> Vec<Answer> {
    let mut answers = Vec::new();
    for n in 0..count {
        answers.push(match by_login {
            false => world.get(&format!("guess-{n}"), "/api/v1/stores").await,
            true => {
                let headers = [
                    ("content-type", "application/x-www-form-urlencoded"),
                    ("sec-fetch-site", "same-origin"),
                ];
                let form = Body::from(format!("token=guess-{n}"));
                world.call(Method::POST, "/login", &headers, form).await
            }
        });
    }
    answers
}

#[tokio::test]
async fn x17_wrong_tokens_are_counted_however_they_come() {
    for by_login in [false, true] {
        let world = World::with(tokens(), |admin| admin).await;
        assert_eq!(world.get("viewer", "/api/v1/stores").await.status, StatusCode::OK);
        let answers = guess(&world, 11, by_login).await;
        let (wrong, last) = (&answers[..10], &answers[10]);
        assert!(wrong.iter().all(|answer| answer.status == StatusCode::UNAUTHORIZED));
        assert_eq!(last.status, StatusCode::TOO_MANY_REQUESTS);
        let wait: u64 = last.header("retry-after").parse().expect("seconds");
        assert!((1..=60).contains(&wait), "{wait}");
        let strange = world.get("admin", "/api/v1/stores").await;
        assert_eq!(strange.status, StatusCode::TOO_MANY_REQUESTS, "a lucky guess is not seen");
        let verbose = world.get("admin", "/readyz?verbose").await;
        assert!(!String::from_utf8_lossy(&verbose.body).contains("[+]"), "nor elsewhere");
        let known = world.get("viewer", "/api/v1/stores").await;
        assert_eq!(known.status, StatusCode::OK, "who was there before is not locked out");
        assert_eq!(world.get("guess-3", "/livez").await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn x17_a_neighbour_behind_a_proxy_is_told_apart() {
    let world = World::with(tokens(), |admin| admin.trust_forwarded_for(true)).await;
    let ask = async |token: &str, forwarded: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("x-forwarded-for", forwarded)];
        world.call(Method::GET, "/api/v1/stores", &headers, Body::empty()).await.status
    };
    for n in 0..10 {
        // Whatever they say themselves, the proxy adds where they really are.
        let forwarded = format!("203.0.113.{n}, 198.51.100.1");
        assert_eq!(ask(&format!("guess-{n}"), &forwarded).await, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(ask("admin", "198.51.100.1").await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(ask("admin", "198.51.100.2").await, StatusCode::OK);
}

#[tokio::test]
async fn x17_a_login_takes_no_large_body() {
    let world = World::new().await;
    let headers =
        [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")];
    let form = Body::from(format!("token={}", "a".repeat(17_000)));
    let answer = world.call(Method::POST, "/login", &headers, form).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
}

/// Who is everybody must not be able to ask so much that nobody knows how things are.
#[tokio::test]
async fn x17_health_is_told_however_much_is_asked() {
    let one = NonZeroU32::MIN;
    let limits = Limits { requests: one, changes: one, ..unlimited() };
    let world = World::with(Access::local(), |admin| admin.limits(limits)).await;
    let host = [("host", "localhost")];
    let ask = async |path: &str| world.call(Method::GET, path, &host, Body::empty()).await.status;
    for _ in 0..3 {
        ask("/api/v1/stores").await;
    }
    assert_eq!(ask("/api/v1/stores").await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(ask("/livez").await, StatusCode::OK);
}

#[tokio::test]
async fn x17_one_who_asks_too_often_is_told_when_to_come_again() {
    let few = NonZeroU32::new(2).expect("not zero");
    let limits = Limits { requests: few, changes: few, ..unlimited() };
    let world = World::with(tokens(), |admin| admin.limits(limits)).await;
    let mut last = world.get("viewer", "/api/v1/jobs").await;
    for _ in 0..50 {
        last = world.get("viewer", "/api/v1/jobs").await;
        if last.status == StatusCode::TOO_MANY_REQUESTS {
            break;
        }
    }
    assert_eq!(last.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(!last.header("retry-after").is_empty());
    assert_eq!(world.get("admin", "/api/v1/jobs").await.status, StatusCode::OK);
}

#[tokio::test]
async fn x17_streams_are_bounded_and_end_when_the_server_stops() {
    let limits = Limits { streams: 1, ..unlimited() };
    let stop = tokio_util::sync::CancellationToken::new();
    let token = stop.clone();
    let world = World::with(tokens(), |admin| admin.limits(limits).shutdown(token)).await;
    let headers = [("authorization", "Bearer viewer")];
    let open = || world.begin(Method::GET, "/api/v1/events", &headers, Body::empty());
    let (status, _, first) = open().await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(open().await.0, StatusCode::SERVICE_UNAVAILABLE);
    stop.cancel();
    let events = axum::body::to_bytes(first, usize::MAX).await.expect("it ends");
    let text = String::from_utf8(events.to_vec()).expect("UTF-8");
    assert!(text.is_empty() || text.starts_with("event: sample\ndata: {"), "{text}");
    assert_eq!(open().await.0, StatusCode::OK, "its place is free again");
}

#[tokio::test]
async fn adm_3_a_browser_without_a_token_is_sent_to_the_login() {
    let set = |admin: Admin| admin.limits(unlimited()).base_path("/postroom/");
    let world = World::with(tokens(), set).await;
    let pages = Admin::routes().into_iter().filter(|route| {
        let is_api = route.path == "/api" || route.path.starts_with("/api/");
        route.method == Method::GET && route.need != Need::Public && !is_api
    });
    for route in pages {
        let path = format!("{}?x=%3C1&y=2", filled(&route));
        let answer = world.call(Method::GET, &path, &[HTML], Body::empty()).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{route:?}");
        let to = answer.header("location");
        assert!(to.starts_with("/postroom/login?next=/"), "{to}");
        assert!(to.ends_with("%3Fx%3D%253C1%26y%3D2"), "{to}");
    }
    let api = world.call(Method::GET, "/api/v1/stores", &[HTML], Body::empty()).await;
    assert_eq!(api.status, StatusCode::UNAUTHORIZED);
    assert_eq!(api.header("www-authenticate"), "Bearer");
}

#[tokio::test]
async fn x04_every_answer_is_sealed() {
    let world = World::new().await;
    for path in ["/api/v1/stores", "/api/v1/messages/x", "/nowhere", "/api", "/login"] {
        let answer = world.get("viewer", path).await;
        let csp = answer.header("content-security-policy");
        assert!(csp.starts_with("default-src 'none'; script-src 'self';"), "{path}: {csp}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        assert_eq!(answer.header("x-frame-options"), "DENY", "{path}");
    }
}

#[tokio::test]
async fn x02_header_values_and_payloads_are_a_right_of_their_own() {
    let world = World::new().await;
    let id = world.publish("order.placed").await;
    let path = format!("/api/v1/messages/{id}");
    let shown = world.get("viewer", &path).await.ok();
    assert_eq!(shown["headers"], json!({ "h": null }));
    let shown = world.get("viewer-with-payloads", &path).await.ok();
    assert_eq!(shown["headers"], json!({ "h": crate::world::SECRET }));
    for path in [format!("{path}/payload"), "/api/v1/export?payloads=true".to_owned()] {
        assert_eq!(world.get("operator", &path).await.status, StatusCode::FORBIDDEN, "{path}");
        assert_eq!(world.get("admin", &path).await.status, StatusCode::OK, "{path}");
    }
    let everything = world.get("operator", "/api/v1/export").await.body;
    assert!(!String::from_utf8_lossy(&everything).contains(crate::world::SECRET));
}

#[tokio::test]
async fn x17_a_body_that_is_too_large_is_refused() {
    let world = World::new().await;
    let reason = "x".repeat(2 * 1024 * 1024);
    let answer = world.post("admin", "/api/v1/pause", json!({ "reason": reason })).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    let text = "x".repeat(900 * 1024);
    let answer =
        world.post("admin", "/api/v1/messages", json!({ "topic": "t", "text": text })).await;
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
}

#[test]
fn x02_each_role_may_what_the_one_before_it_may() {
    let rights = [Right::View, Right::Operate, Right::Administer];
    let count = |role| rights.iter().filter(|it| person("x", role, false).may(**it)).count();
    assert_eq!([Role::Viewer, Role::Operator, Role::Admin].map(count), [1, 2, 3]);
    assert!(!person("x", Role::Admin, false).may(Right::Payload));
}
