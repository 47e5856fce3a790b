//! Databases that come and go, and many of them: pages, API, health and metrics.

mod dash;

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use dash::vectors::VECTORS;
use dash::{encoded, get, html, percent, post, text};
use futures_util::StreamExt as _;
use postroom_admin::{Access, Admin, Database, Databases, Exporter, Limits, Need};
use postroom_core::fleet::{MemberState, MemberStatus, StoreId};
use postroom_core::{Message, Outbox};
use postroom_testkit::{Answering, SimStore};
use serde_json::Value;
use tower::ServiceExt as _;

fn admin(databases: &Databases) -> Admin {
    let most = NonZeroU32::MAX;
    let limits = Limits { requests: most, changes: most, ..Limits::default() };
    Admin::new(databases.clone(), Access::local()).limits(limits)
}

/// A store with so many messages that wait.
async fn store(name: &str, waiting: usize) -> SimStore {
    let store = SimStore::default().named(name);
    let outbox = Outbox::new(Arc::new(store.clone()));
    if waiting > 0 {
        outbox.publish_all((0..waiting).map(|_| Message::builder("a"))).await.expect("publish");
    }
    store
}

async fn many(count: usize) -> Databases {
    let databases = Databases::default();
    for number in 0..count {
        let name = format!("tenant-{number:03}");
        databases.add(Database::new(&name, store(&name, number % 3).await));
    }
    databases
}

fn member(name: &str, state: MemberState) -> MemberStatus {
    MemberStatus { id: StoreId::new(name).expect("an id"), state }
}

async fn json(router: &Router, path: &str) -> (StatusCode, Value) {
    let (status, body) = get(router, path).await;
    (status, serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: {body}")))
}

/// Asks again until something is so.
async fn until<T>(mut ask: impl AsyncFnMut() -> T, is_so: impl Fn(&T) -> bool) -> T {
    let asking = async {
        loop {
            let answer = ask().await;
            if is_so(&answer) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), asking).await.expect("it is never so")
}

/// Until every box was counted once.
async fn counted(router: &Router) {
    let ask = async || get(router, "/startupz").await.0;
    until(ask, |status| *status == StatusCode::OK).await;
}

#[tokio::test]
async fn fleet_1_without_a_database_everything_answers_well() {
    let router = admin(&Databases::default()).router();
    for path in ["/", "/stores", "/jobs", "/api"] {
        let (status, page) = get(&router, path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {page}");
        html::check(&page, path);
    }
    assert!(get(&router, "/").await.1.contains("There is no database yet"));
    for route in Admin::routes().into_iter().filter(|route| route.method == Method::GET) {
        let path = route.path.replace("{id}", "019a8a00-0000-7000-8000-000000000001");
        let request = Request::get(&path).header(header::HOST, "localhost");
        let request = request.header(header::ACCEPT, "text/html");
        let request = request.body(Body::empty()).expect("a request");
        let response = router.clone().oneshot(request).await.expect("an answer");
        assert!(!response.status().is_server_error(), "{path}: {}", response.status());
        if response.status() == StatusCode::NOT_FOUND && route.need != Need::Public {
            let told = text(response).await;
            let words = ["no database yet", "no exporter", "there is no job"];
            let said = told.to_lowercase();
            assert!(words.iter().any(|word| said.contains(word)), "{path}: {told}");
        }
    }
    assert_eq!(json(&router, "/api/v1/stores").await.1["items"], serde_json::json!([]));
    assert_eq!(json(&router, "/api/v1/fleet").await.1["totals"]["stores"], 0);
    let response = post(&router, "/topics/pause", &[("topic", "a")]).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    for path in ["/readyz", "/startupz", "/livez"] {
        assert_eq!(get(&router, path).await, (StatusCode::OK, "healthy\n".into()), "{path}");
    }
}

#[tokio::test]
async fn fleet_1_databases_come_and_go_while_requests_run() {
    let databases = Databases::default();
    databases.add(Database::new("stays", store("stays", 1).await));
    let router = admin(&databases).router();
    // On another thread, without a runtime.
    let changes = std::thread::spawn(move || {
        for round in 0..200 {
            let name = format!("comes-{}", round % 7);
            databases.add(Database::new(&name, SimStore::default().named(&name)));
            if round % 2 == 1 {
                databases.remove(&format!("comes-{}", (round * 3) % 7));
            }
        }
        for number in 0..7 {
            databases.remove(&format!("comes-{number}"));
        }
    });
    let mut rounds = 0;
    while !changes.is_finished() || rounds < 5 {
        for path in ["/", "/stores", "/api/v1/stores", "/api/v1/fleet", "/readyz", "/messages"] {
            let (status, body) = get(&router, path).await;
            let is_fine = status == StatusCode::OK || path == "/readyz";
            assert!(is_fine, "{path}: {status} {body}");
        }
        let named = "/api/v1/stats?store=stays";
        assert_eq!(get(&router, named).await.0, StatusCode::OK);
        rounds += 1;
    }
    changes.join().expect("no panic");
    let items = json(&router, "/api/v1/stores").await.1["items"].clone();
    let left: Vec<_> =
        items.as_array().expect("a list").iter().map(|i| i["store"].clone()).collect();
    assert_eq!(left, ["stays", "stays"]);
}

#[tokio::test]
async fn fleet_1_where_databases_change_a_change_names_its_store() {
    let databases = many(1).await;
    let router = admin(&databases).router();
    let pause = async |query: &str, form: &[(&str, &str)]| {
        let api = Request::post(format!("/api/v1/pause{query}"))
            .header(header::HOST, "localhost")
            .header("sec-fetch-site", "same-origin")
            .body(Body::empty())
            .expect("a request");
        let api = router.clone().oneshot(api).await.expect("an answer").status();
        (api, post(&router, "/topics/pause", form).await.status())
    };
    let (fine, seen) = (StatusCode::OK, StatusCode::SEE_OTHER);
    assert_eq!(pause("", &[("topic", "a")]).await, (fine, seen), "the only one is meant");
    databases.add(Database::new("b", SimStore::default()));
    let refused = StatusCode::UNPROCESSABLE_ENTITY;
    assert_eq!(pause("", &[("topic", "a")]).await, (refused, refused));
    let named = [("topic", "a"), ("store", "b")];
    assert_eq!(pause("?store=b", &named).await, (fine, seen));
    // So every form of a page does.
    let page = get(&router, "/topics").await.1;
    let forms = page.matches("method=\"post\"").count();
    assert!(forms > 0 && page.matches("name=\"store\" value=\"tenant-000\"").count() >= forms);
    assert!(page.contains("/messages?store=tenant-000&#38;box=outbox"), "{page}");
}

#[tokio::test]
async fn fleet_1_a_job_ends_when_its_database_goes() {
    let databases = many(0).await;
    let busy = store("busy", 300).await;
    databases.add(Database::new("busy", busy));
    let router = admin(&databases).router();
    let form = [("store", "busy"), ("act", "discard"), ("status", "pending"), ("rate", "1")];
    let response = post(&router, "/jobs", &form).await;
    assert_eq!(response.status(), StatusCode::SEE_OTHER, "{}", text(response).await);
    let job = async || json(&router, "/api/v1/jobs").await.1["items"][0].clone();
    until(job, |job| job["applied"].as_u64() >= Some(1)).await;
    assert_eq!(job().await["state"], "running");
    assert!(databases.remove("busy"));
    let ended = until(job, |job| job["state"] != "running").await;
    assert_eq!(ended["state"], "failed");
    assert_eq!(ended["error"], "its database is not here any more");
    let page = get(&router, "/jobs").await.1;
    assert!(page.contains("Its database is not here any more") || page.contains("its database"));
}

#[tokio::test]
async fn fleet_1_a_stream_goes_on_without_what_is_gone_and_with_what_comes() {
    let databases = many(2).await;
    let router = admin(&databases).router();
    let request = Request::get("/api/v1/events").header(header::HOST, "localhost");
    let request = request.body(Body::empty()).expect("a request");
    let response = router.clone().oneshot(request).await.expect("an answer");
    let mut body = response.into_body().into_data_stream();
    let mut next_of = async |name: &str| {
        let wanted = format!("\"store\":\"{name}\"");
        let reading = async {
            loop {
                let chunk = body.next().await.expect("it goes on").expect("a chunk");
                if String::from_utf8_lossy(&chunk).contains(&wanted) {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), reading).await.expect(name);
    };
    next_of("tenant-000").await;
    databases.remove("tenant-000");
    next_of("tenant-001").await;
    databases.add(Database::new("new", SimStore::default()));
    next_of("new").await;
    let (status, _) = get(&router, "/api/v1/events?store=tenant-000").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn obs_5_figures_of_what_is_gone_are_not_among_the_metrics() {
    let exporter = Exporter::install().expect("the first one");
    let render = exporter.clone();
    let databases = Databases::default();
    let odd = "odd \"one\\s";
    for name in ["acme", "globex", odd] {
        databases.add(Database::new(name, store(name, 2).await));
    }
    let failing = || vec![member("x", MemberState::Failing("no".into()))];
    let router = admin(&databases).members(failing).metrics(move || render.render()).router();
    counted(&router).await;
    let metrics = async || get(&router, "/metrics").await.1;
    let of = |text: &str, name: &str| text.matches(&format!("store=\"{name}\"")).count();
    let before = metrics().await;
    assert!(of(&before, "acme") > 20 && of(&before, "odd \\\"one\\\\s") > 20, "{before}");
    assert!(before.contains("postroom_fleet_stores{state=\"failing\"} 1"), "{before}");
    assert!(before.contains("postroom_fleet_stores{state=\"serving\"} 0"), "{before}");
    databases.remove("acme");
    databases.remove(odd);
    let after = metrics().await;
    assert_eq!((of(&after, "acme"), of(&after, "odd \\\"one\\\\s")), (0, 0), "{after}");
    assert_eq!(of(&after, "globex"), of(&before, "globex"));
    // Who exports by other means finds that they are no numbers any more.
    let plain = async || exporter.render();
    until(plain, |text| text.contains("postroom_pending{store=\"acme\",queue=\"outbox\"} NaN"))
        .await;
    let back = store("acme", 5).await;
    databases.add(Database::new("acme", back));
    let line = "postroom_pending{store=\"acme\",queue=\"outbox\"} 5";
    until(metrics, |text| text.contains(line)).await;
}

#[tokio::test]
async fn adm_2_pages_of_five_hundred_databases_answer_and_stay_small() {
    let databases = many(500).await;
    let router = admin(&databases).router();
    counted(&router).await;
    for path in ["/", "/messages", "/dead", "/topics", "/stores", "/jobs", "/dispatchers"] {
        let (status, page) = get(&router, path).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        html::check(&page, path);
        let most = if path == "/stores" { 80_000 } else { 20_000 };
        assert!(page.len() < most, "{path}: {} bytes", page.len());
        assert!(page.contains(">All stores<") && page.contains("action=\"/switch\""), "{path}");
    }
    let (_, told) = get(&router, "/messages?store=none").await;
    assert!(told.len() < 3_000 && told.contains("and 990 more"), "{told}");
    let verbose = get(&router, "/readyz?verbose").await;
    assert!(verbose.1.len() < 40_000, "{}", verbose.1.len());
}

#[tokio::test]
async fn adm_2_the_stores_page_searches_filters_and_turns_over() {
    let databases = many(120).await;
    let away = store("zz-away", 0).await;
    away.answer_looks(Answering::Failing);
    databases.add(Database::new("zz-away", away));
    let why = "password authentication failed".to_owned();
    let members = move || {
        let same = MemberState::SameAs(StoreId::new("tenant-001").expect("an id"));
        vec![
            member("zz-failing", MemberState::Failing(why.clone())),
            member("zz-elsewhere", MemberState::Elsewhere),
            member("zz-same", same),
            member("tenant-001", MemberState::Serving),
        ]
    };
    let thresholds = postroom_admin::Thresholds { dispatcher: false, ..Default::default() };
    let router = admin(&databases).members(members).thresholds(thresholds).router();
    until(async || get(&router, "/stores").await.1, |page| page.contains("No answer")).await;
    let rows = |page: &str| page.matches("<tr><td").count();
    let first = get(&router, "/stores").await.1;
    html::check(&first, "/stores");
    // The inbox of the one that is away may be in use.
    assert_eq!(rows(&first), 51);
    assert!(first.contains("1 to 50 of 124") && first.contains("rel=\"next\""));
    let at = |page: &str, name: &str| page.find(&format!(">{name}<")).expect(name);
    let table = first.split("<tbody>").nth(1).expect("a table");
    assert!(at(table, "zz-failing") < at(table, "zz-away"), "trouble first");
    assert!(at(table, "zz-away") < at(table, "tenant-000"));
    assert!(first.contains("password authentication failed"));
    let third = get(&router, "/stores?page=3").await.1;
    assert_eq!(rows(&third), 24);
    assert!(third.contains("101 to 124 of 124") && !third.contains("rel=\"next\""));
    assert!(get(&router, "/stores?page=99").await.1.contains("101 to 124 of 124"));
    let found = get(&router, "/stores?q=ANT-11").await.1;
    assert_eq!(rows(&found), 10);
    let trouble = get(&router, "/stores?state=trouble").await.1;
    assert_eq!(rows(&trouble), 3);
    let elsewhere = get(&router, "/stores?state=elsewhere&q=zz").await.1;
    assert!(rows(&elsewhere) == 1 && elsewhere.contains("Another process serves it."));
    let same = get(&router, "/stores?state=same").await.1;
    assert!(same.contains("It is the same database as tenant-001."), "{same}");
    assert!(get(&router, "/stores?q=nobody").await.1.contains("No store fits"));
    let (status, _) = get(&router, "/stores?state=odd").await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn adm_2_the_switch_leads_to_a_store_or_to_a_search() {
    let databases = many(20).await;
    let router = admin(&databases).router();
    let to = async |query: &[(&str, &str)]| {
        let request = Request::get(format!("/switch?{}", encoded(query)));
        let request = request.header(header::HOST, "localhost").body(Body::empty());
        let response = router.clone().oneshot(request.expect("a request")).await;
        let response = response.expect("an answer");
        response.headers()[header::LOCATION].to_str().expect("text").to_owned()
    };
    let there = to(&[("to", "tenant-007"), ("box", "inbox"), ("at", "/dead")]).await;
    assert_eq!(there, "/dead?store=tenant-007&box=inbox");
    let there = to(&[("to", "tenant-007"), ("at", "https://evil.example")]).await;
    assert_eq!(there, "/?store=tenant-007&box=outbox");
    assert_eq!(to(&[("to", "00 7&x")]).await, "/stores?q=00%207%26x");
    let page = get(&router, "/").await.1;
    assert!(page.contains("<datalist") && page.contains("<option value=\"tenant-019\">"));
}

#[tokio::test]
async fn adm_1_the_fleet_is_told_in_pages_with_its_sums_and_its_worst() {
    let databases = many(7).await;
    databases.add(Database::new("large", store("large", 40).await));
    let state = Arc::new(Mutex::new(MemberState::Opening));
    let told = Arc::clone(&state);
    let members = move || vec![member("late", told.lock().expect("no panic").clone())];
    let router = admin(&databases).members(members).router();
    let fleet = async || json(&router, "/api/v1/fleet?limit=3").await.1;
    let fleet = until(fleet, |fleet| fleet["totals"]["states"]["opening"] == 1).await;
    assert_eq!(fleet["totals"]["stores"], 9);
    // 0, 1, 2, 0, 1, 2, 0 and 40.
    assert_eq!(fleet["totals"]["backlog"], 46);
    assert_eq!(fleet["largest"][0]["store"], "large");
    assert_eq!(fleet["largest"][0]["backlog"], 40);
    let names = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().expect("a list").iter();
        items.map(|item| item["store"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names(&fleet), ["large", "late", "tenant-000"]);
    assert_eq!(fleet["items"][1]["state"], "opening");
    assert_eq!(fleet["next"], "tenant-000");
    let rest = json(&router, "/api/v1/fleet?after=tenant-000&limit=500").await.1;
    assert_eq!(names(&rest).len(), 6);
    assert_eq!(rest["next"], Value::Null);
    *state.lock().expect("no panic") = MemberState::Failing("no such host".into());
    let failing = json(&router, "/api/v1/fleet?state=failing").await.1;
    assert_eq!(failing["items"][0]["why"], "no such host");
    assert_eq!(json(&router, "/api/v1/fleet?search=LAR").await.1["items"][0]["state"], "attention");
    let (status, _) = get(&router, "/api/v1/fleet?state=odd").await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let (status, told) = get(&router, "/readyz?verbose").await;
    assert!(told.contains("[!]store late can not be opened: no such host"), "{status} {told}");
}

#[tokio::test]
async fn adm_1_boxes_are_told_in_pages_that_survive_changes() {
    let databases = many(30).await;
    let router = admin(&databases).router();
    let all = json(&router, "/api/v1/stores").await.1;
    assert_eq!((all["items"].as_array().map(Vec::len), &all["next"]), (Some(60), &Value::Null));
    let mut names = Vec::new();
    let mut path = "/api/v1/stores?limit=4".to_owned();
    loop {
        let page = json(&router, &path).await.1;
        let items = page["items"].as_array().expect("a list");
        names.extend(items.iter().map(|item| format!("{}{}", item["store"], item["box"])));
        assert!(items.len() == 8 || page["next"].is_null(), "{page}");
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/stores?limit=4&after={next}");
        // The last one of the page is gone when the next page is asked for.
        databases.remove(items[7]["store"].as_str().expect("a name"));
    }
    let count = names.len();
    names.dedup();
    assert_eq!((names.len(), count), (60, 60), "{names:?}");
}

#[tokio::test]
async fn x04_names_of_stores_are_data() {
    let databases = Databases::default();
    for vector in VECTORS {
        databases.add(Database::new(vector, SimStore::default()));
    }
    let members = || {
        let why = MemberState::Failing(VECTORS[0].to_owned());
        let failing = VECTORS.iter().map(|vector| member(&format!("{vector:.60}+"), why.clone()));
        failing.collect()
    };
    let router = admin(&databases).members(members).router();
    let mut seen = String::new();
    let mut paths = vec!["/stores".to_owned(), "/stores?page=2".to_owned(), "/".to_owned()];
    for vector in VECTORS {
        let vector = percent(vector);
        paths.push(format!("/?store={vector}"));
        paths.push(format!("/stores?q={vector}"));
        paths.push(format!("/topics?store={vector}&box=inbox"));
        paths.push(format!("/messages?store={vector}x"));
    }
    for path in &paths {
        let (status, page) = get(&router, path).await;
        assert!(status == StatusCode::OK || status == StatusCode::NOT_FOUND, "{path}: {status}");
        seen.push_str(&html::check(&page, path));
    }
    assert!(seen.contains("&#60;script&#62;window.__xss=1&#60;/script&#62;"));
    for path in ["/api/v1/fleet", "/api/v1/stores"] {
        assert!(!get(&router, path).await.1.contains('<'), "{path}");
    }
}
