//! The dashboard without a browser: what pages say, what forms do, and what is never in them.

#[path = "../dash/mod.rs"]
mod dash;
mod forms;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use dash::hostile::Hostile;
use dash::vectors::VECTORS;
use dash::{Shop, follow, get, html, percent, post, text};
use postroom::store::AdminStore as _;
use postroom::{
    Delivery, Dispatcher, HandlerError, HandlerResult, Handlers, Join, Message, MessageId,
};
use postroom_admin::{Access, Person, Role, Token};
use tower::ServiceExt as _;

/// Every page that needs no id.
const PAGES: [&str; 13] = [
    "/",
    "/messages",
    "/failures",
    "/dead",
    "/topics",
    "/keys",
    "/messages?store=shop&box=inbox",
    "/joins",
    "/dispatchers",
    "/stores",
    "/jobs",
    "/audit",
    "/api",
];

/// Every page that is nothing but a form to change something.
const FORMS: [&str; 2] = ["/publish", "/purge"];

/// Waits until a page says something: figures are counted in the background.
async fn until(router: &Router, path: &str, wanted: &str) -> String {
    let mut last = String::new();
    for _ in 0..300 {
        last = get(router, path).await.1;
        if last.contains(wanted) {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{path} never says {wanted:?}: {last}");
}

/// One message that died of `order 7 is cursed`, delivered by a dispatcher that has ended.
async fn dead_letter(shop: &Shop) -> MessageId {
    let message = Message::builder("order.placed")
        .ordering_key("order-7")
        .header("x-secret", "hidden-value")
        .payload(r#"{"order":7,"total":1.10000000000000000001}"#);
    let id = shop.outbox.publish(message).await.expect("publish").id;
    let handlers = Handlers::new()
        .all(|_: Delivery| async { Err(HandlerError::dead("order 7 is cursed")) as HandlerResult });
    let running = Dispatcher::new(Arc::new(shop.store.clone()), handlers).start().expect("start");
    while shop.store.stats().await.expect("stats").dead == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(running.shutdown(Duration::from_secs(5)).await);
    id
}

#[tokio::test]
async fn adm_2_every_page_of_an_empty_store_says_what_to_do_next() {
    let shop = Shop::open().await;
    let router = shop.router();
    for path in PAGES.into_iter().chain(FORMS) {
        let (status, page) = get(&router, path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {page}");
        html::check(&page, path);
    }
    until(&router, "/", "postroom up").await;
    assert!(get(&router, "/messages").await.1.contains("postroom enqueue"));
    assert!(get(&router, "/dead").await.1.contains("No dead letters"));
}

#[tokio::test]
async fn adm_2_a_dead_letter_is_found_read_and_replayed_with_plain_forms() {
    let shop = Shop::open().await;
    let id = dead_letter(&shop).await.to_string();
    let router = shop.router();
    let list = get(&router, "/dead").await.1;
    assert!(list.contains("order 7 is cursed") && list.contains(&id), "{list}");
    let page = get(&router, &format!("/messages/{id}")).await.1;
    html::check(&page, "message");
    for part in ["order 7 is cursed", "permanent error", "x-secret", "hidden-value"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("1.10000000000000000001"), "the payload is shown on demand");
    let shown = get(&router, &format!("/messages/{id}?payload=1")).await.1;
    assert!(shown.contains("1.10000000000000000001"), "numbers are exact");

    let form = [("act", "replay"), ("id", &*id), ("back", "/dead?topic=order.placed")];
    let (status, page) = follow(&router, post(&router, "/messages/act", &form).await).await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("Replayed 1 message."), "{page}");
    let (_, page) = follow(&router, post(&router, "/messages/act", &form).await).await;
    assert!(page.contains("Replayed 0 messages, and not 1."), "{page}");
    assert!(page.contains("not dead"), "it says why: {page}");
    assert_eq!(shop.store.stats().await.expect("stats").dead, 0);
    let audit = get(&router, "/audit").await.1;
    assert!(audit.contains("replay") && audit.contains(&id), "{audit}");
}

#[tokio::test]
async fn adm_2_a_topic_is_paused_and_resumed_with_plain_forms() {
    let shop = Shop::open().await;
    let router = shop.router();
    let form = [("topic", "order.placed"), ("why", "stock-taking"), ("back", "/topics")];
    let (_, page) = follow(&router, post(&router, "/topics/pause", &form).await).await;
    assert!(page.contains("order.placed is paused."), "{page}");
    assert!(page.contains("stock-taking"), "{page}");
    assert_eq!(shop.store.pauses().await.expect("pauses").len(), 1);
    let (_, page) = follow(&router, post(&router, "/topics/resume", &form).await).await;
    assert!(page.contains("order.placed goes on."), "{page}");
    assert_eq!(shop.store.pauses().await.expect("pauses"), []);
}

#[tokio::test]
async fn adm_2_all_that_match_are_counted_first_and_then_replayed_by_a_job() {
    let shop = Shop::open().await;
    dead_letter(&shop).await;
    let router = shop.router();
    let plan = get(&router, "/plan?act=replay&status=dead&error=cursed").await.1;
    html::check(&plan, "plan");
    assert!(plan.contains("Replay 1 message<") && plan.contains("order.placed"), "{plan}");
    assert_eq!(shop.store.stats().await.expect("stats").dead, 1, "a plan changes nothing");
    let form = [
        ("act", "replay"),
        ("status", "dead"),
        ("error", "cursed"),
        ("rate", "100"),
        ("why", "lifted"),
    ];
    let begun = post(&router, "/jobs", &form).await;
    let job = begun.headers()[header::LOCATION].to_str().expect("text").to_owned();
    let (status, page) = follow(&router, begun).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    html::check(&until(&router, &job, ">Done<").await, "job");
    assert_eq!(shop.store.stats().await.expect("stats").dead, 0);
}

#[tokio::test]
async fn adm_2_a_copy_is_a_new_message_with_what_was_edited() {
    let shop = Shop::open().await;
    let id = dead_letter(&shop).await.to_string();
    let router = shop.router();
    let page = get(&router, &format!("/messages/{id}/copy")).await.1;
    html::check(&page, "copy");
    assert!(page.contains("x-secret: hidden-value"), "{page}");
    let form = [("id", &*id), ("payload", "{\"order\":8}\r\n"), ("headers", "a: b")];
    let (status, page) = follow(&router, post(&router, "/messages/copy", &form).await).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    assert!(page.contains("Published as a copy"), "{page}");
    let found = shop.store.list(&postroom::store::List::default()).await.expect("list").records;
    let copy = shop.store.get(found[0].id).await.expect("get").expect("the copy").record;
    let copy = copy.message.expect("a message");
    assert_eq!(copy.payload().as_ref(), b"{\"order\":8}\n");
    assert_eq!(copy.causation_id().map(|cause| cause.as_str()), Some(&*id));
    assert_eq!(copy.headers().get("a"), Some("b"));
}

#[tokio::test]
async fn adm_2_a_join_is_shown_with_its_members_and_cancelled() {
    let shop = Shop::open().await;
    let mut tx = shop.outbox.begin().await.expect("begin");
    let join = tx.start_join(Join::expecting(2)).expect("start");
    let member = Message::builder("parcel.packed").build().expect("a message");
    tx.attach(join, member.id());
    tx.publish(member.clone()).expect("publish");
    tx.commit().await.expect("commit");
    let router = shop.router();
    assert!(get(&router, "/joins?state=open").await.1.contains(&join.to_string()));
    let page = get(&router, &format!("/joins/{join}")).await.1;
    html::check(&page, "join");
    assert!(page.contains(&member.id().to_string()), "{page}");
    let back = format!("/joins/{join}");
    let form = [("id", &*join.to_string()), ("back", &back)];
    let (_, page) = follow(&router, post(&router, "/joins/cancel", &form).await).await;
    assert!(page.contains("The join is cancelled.") && page.contains("Cancelled"), "{page}");
}

#[tokio::test]
async fn adm_2_filters_stay_in_their_fields_and_in_links_to_further_pages() {
    let shop = Shop::open().await;
    let all = (0..120).map(|n| Message::builder("a b&c").tenant_id(format!("t{}", n % 2)));
    shop.outbox.publish_all(all).await.expect("publish");
    let router = shop.router();
    let path = "/messages?status=pending&topic=a%20b%26c&tenant=t1&within=1h";
    let page = get(&router, path).await.1;
    html::check(&page, path);
    for part in ["value=\"a b&#38;c\"", "value=\"t1\"", "<option value=\"1h\" selected>"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let (_, after) = page.split_once("rel=\"next\" href=\"").expect("an older page");
    let older = after.split('"').next().expect("a link").replace("&#38;", "&");
    let second = get(&router, &older).await.1;
    assert!(second.contains("10 on this page"), "60 of t1, 50 on the first: {second}");
    let (_, export) = page.split_once("/api/v1/export?").expect("an export");
    assert!(export.starts_with("status=pending&#38;topic=a%20b%26c&#38;tenant=t1&#38;since=1h"));
}

#[tokio::test]
async fn adm_2_an_id_or_a_topic_is_jumped_to() {
    let shop = Shop::open().await;
    let router = shop.router();
    let id = MessageId::new().to_string();
    for (to, there) in [
        (&*id, format!("/messages/{id}")),
        ("order.placed", "/messages?topic=order.placed".to_owned()),
        ("timed out", "/messages?error=timed%20out".to_owned()),
        ("", "/messages".to_owned()),
    ] {
        let request = Request::get(format!("/jump?to={}", percent(to)))
            .header(header::HOST, "localhost")
            .body(Body::empty())
            .expect("a request");
        let response = router.clone().oneshot(request).await.expect("an answer");
        assert_eq!(response.headers()[header::LOCATION], there);
    }
}

#[tokio::test]
async fn x02_payloads_and_header_values_are_only_for_who_may_see_them() {
    let shop = Shop::open().await;
    let id = dead_letter(&shop).await;
    let person = |payloads| Person { name: "ann".into(), role: Role::Operator, payloads };
    let tokens = vec![Token::new("blind", person(false)), Token::new("sees", person(true))];
    let router = shop.admin(Access::Tokens(tokens)).router();
    let ask = |token: &'static str, path: String| {
        let request = Request::get(path)
            .header(header::HOST, "admin.example")
            .header(header::ACCEPT, "text/html")
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .body(Body::empty())
            .expect("a request");
        let router = router.clone();
        async move {
            let response = router.oneshot(request).await.expect("an answer");
            (response.status(), text(response).await)
        }
    };
    let (status, page) = ask("blind", format!("/messages/{id}?payload=1")).await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("may not see payloads") && page.contains("x-secret"), "{page}");
    for secret in ["hidden-value", "1.10000000000000000001", "Edit as copy"] {
        assert!(!page.contains(secret), "{secret}");
    }
    for path in ["payload", "copy"] {
        let (status, page) = ask("blind", format!("/messages/{id}/{path}")).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
        html::check(&page, path);
    }
    let (_, page) = ask("sees", format!("/messages/{id}?payload=1")).await;
    assert!(page.contains("hidden-value") && page.contains("1.10000000000000000001"), "{page}");
    let (status, page) = ask("sees", "/audit".into()).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{page}");
    html::check(&page, "forbidden");
}

#[tokio::test]
async fn x05_a_payload_is_downloaded_as_a_file_and_never_shown() {
    let shop = Shop::open().await;
    let id = dead_letter(&shop).await;
    let request = Request::get(format!("/messages/{id}/payload"))
        .header(header::HOST, "localhost")
        .body(Body::empty())
        .expect("a request");
    let response = shop.router().oneshot(request).await.expect("an answer");
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/octet-stream");
    assert_eq!(response.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    let disposition = response.headers()[header::CONTENT_DISPOSITION].to_str().expect("text");
    assert!(disposition.starts_with("attachment; "));
}

#[tokio::test]
async fn adm_3_read_only_pages_have_no_buttons_that_change_anything() {
    let shop = Shop::open().await;
    let id = dead_letter(&shop).await;
    let router = shop.admin(Access::local()).read_only(true).router();
    for path in PAGES.into_iter().chain([&*format!("/messages/{id}")]) {
        let page = get(&router, path).await.1;
        assert!(!page.contains("method=\"post\""), "{path}");
        assert!(page.contains("Read-only"), "{path}");
    }
    for path in FORMS {
        assert_eq!(get(&router, path).await.0, StatusCode::FORBIDDEN, "{path}");
    }
    for path in FORMS.into_iter().chain(["/messages/act"]) {
        let response = post(&router, path, &[("act", "replay"), ("id", "x")]).await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "{path}");
        html::check(&text(response).await, "refused");
    }
}

#[tokio::test]
async fn adm_2_problems_are_pages_for_browsers() {
    let shop = Shop::open().await;
    let router = shop.router();
    for (path, expected) in [
        ("/nowhere", StatusCode::NOT_FOUND),
        ("/messages/not-an-id", StatusCode::UNPROCESSABLE_ENTITY),
        (&*format!("/messages/{}", MessageId::new()), StatusCode::NOT_FOUND),
        ("/messages?min_attempts=many", StatusCode::UNPROCESSABLE_ENTITY),
        ("/messages?store=none", StatusCode::NOT_FOUND),
        ("/joins?state=odd", StatusCode::UNPROCESSABLE_ENTITY),
        ("/plan?act=burn", StatusCode::UNPROCESSABLE_ENTITY),
    ] {
        let (status, page) = get(&router, path).await;
        assert_eq!(status, expected, "{path}: {page}");
        html::check(&page, path);
    }
}

#[tokio::test]
async fn adm_2_below_another_path_every_link_stays_below_it() {
    let shop = Shop::open().await;
    let id = dead_letter(&shop).await;
    let admin = shop.admin(Access::local()).base_path("/ops/mail").router();
    let router = Router::new().nest("/ops/mail", admin);
    for path in PAGES.into_iter().chain(FORMS).chain([&*format!("/messages/{id}")]) {
        let path = format!("/ops/mail{}", path.trim_end_matches('/'));
        let (status, page) = get(&router, &path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {page}");
        for attribute in ["href=\"/", "src=\"/", "action=\"/"] {
            for (_, link) in page.match_indices(attribute).map(|(at, _)| page.split_at(at)) {
                let link = &link[attribute.len() - 1..];
                assert!(link.starts_with("/ops/mail/"), "{path}: {link:.80}");
            }
        }
    }
    let form = [("act", "replay"), ("id", &*id.to_string()), ("back", "/dead")];
    let response = post(&router, "/ops/mail/messages/act", &form).await;
    assert_eq!(response.headers()[header::LOCATION], "/ops/mail/dead");
}

#[tokio::test]
async fn x24_assets_are_ours_and_kept_by_browsers_until_they_change() {
    let shop = Shop::open().await;
    let router = shop.router();
    let page = get(&router, "/").await.1;
    let (_, after) = page.split_once("rel=\"stylesheet\" href=\"").expect("a style");
    let path = after.split('"').next().expect("a path");
    let ask = |etag: &str| {
        let request = Request::get(path)
            .header(header::HOST, "localhost")
            .header(header::IF_NONE_MATCH, etag)
            .body(Body::empty())
            .expect("a request");
        router.clone().oneshot(request)
    };
    let response = ask("\"other\"").await.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()[header::CONTENT_TYPE], "text/css; charset=utf-8");
    let caching = response.headers()[header::CACHE_CONTROL].to_str().expect("text");
    assert!(caching.contains("immutable"), "{caching}");
    let etag = response.headers()[header::ETAG].to_str().expect("text").to_owned();
    assert_eq!(ask(&etag).await.expect("an answer").status(), StatusCode::NOT_MODIFIED);
    let style = text(response).await;
    assert!(!style.contains("prefers-color-scheme"), "a colour is named once, light and dark");
    assert!(!style.contains("http:") && !style.contains("https:") && !style.contains("@import"));
}

#[tokio::test]
async fn x04_hostile_texts_stay_texts_in_every_field_of_every_page() {
    let hostile = Hostile::open().await;
    let router = hostile.shop.router();
    until(&router, "/failures", "window.__xss").await;
    let mut pages: Vec<String> = PAGES.map(str::to_owned).into();
    for id in &hostile.dead {
        pages.push(format!("/messages/{id}?payload=1"));
        pages.push(format!("/messages/{id}/copy"));
    }
    for vector in VECTORS {
        let vector = percent(vector);
        pages.push(format!("/messages?topic={vector}&error={vector}&tenant={vector}"));
        pages.push(format!("/dead?ordering_key={vector}&aggregate_type={vector}"));
        pages.push(format!("/plan?act=replay&topic={vector}"));
    }
    let mut seen = String::new();
    for path in &pages {
        let (status, page) = get(&router, path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {page}");
        seen.push_str(&html::check(&page, path));
    }
    let escaped = |text: &str| {
        let marks =
            [("&", "&#38;"), ("<", "&#60;"), (">", "&#62;"), ("\"", "&#34;"), ("'", "&#39;")];
        marks.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    };
    for vector in VECTORS {
        assert!(seen.contains(&escaped(vector)), "it is shown: {vector}");
    }
}
