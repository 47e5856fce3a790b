//! Forms to publish and to purge: what they ask for, what they refuse, and what they do.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use postroom::Message;
use postroom::store::{AdminStore as _, List, Status};
use postroom_admin::{Access, Limit, Person, Role, Thresholds, Token};
use tower::ServiceExt as _;

use crate::dash::vectors::VECTORS;
use crate::dash::{Shop, encoded, follow, get, html, percent, post, text};
use crate::{dead_letter, until};

#[tokio::test]
async fn adm_1_a_message_is_published_with_a_form() {
    let shop = Shop::open().await;
    let router = shop.router();
    let page = get(&router, "/publish?topic=order.placed").await.1;
    html::check(&page, "publish");
    assert!(page.contains("value=\"order.placed\""), "{page}");
    let form = [
        ("topic", "order.placed"),
        ("ordering_key", "order-7"),
        ("payload", "{\"total\": 1.10000000000000000001}\r\n"),
        ("headers", "x-channel: web\r\n"),
        ("idempotency_key", "019a8a00-0000-7000-8000-000000000001"),
        ("due_at", "1h"),
        ("priority", "5"),
        ("tenant_id", ""),
    ];
    let (status, page) = follow(&router, post(&router, "/publish", &form).await).await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("Published.") && page.contains("order-7"), "{page}");
    let found = shop.store.list(&List::default()).await.expect("list").records;
    let detail = shop.store.get(found[0].id).await.expect("get").expect("the message");
    let message = detail.record.message.expect("a message");
    assert_eq!(message.payload().as_ref(), b"{\"total\": 1.10000000000000000001}\n");
    assert_eq!(message.headers().get("x-channel"), Some("web"));
    assert_eq!((message.priority(), message.tenant_id()), (5, None));
    assert!(detail.record.next_attempt_at > Some(detail.record.created_at), "it is due later");
    let (_, page) = follow(&router, post(&router, "/publish", &form).await).await;
    assert!(page.contains("Nothing was written"), "{page}");
    let audit = shop.store.audit(None, 10).await.expect("audit");
    let changed: Vec<_> = audit.iter().map(|row| (&*row.entry.action, row.entry.changed)).collect();
    assert_eq!(changed, [("publish", 0), ("publish", 1)]);
}

/// What the form says next to a field.
fn said<'a>(page: &'a str, field: &str) -> &'a str {
    let start = format!("id=\"about-{field}\">");
    let (_, after) = page.split_once(&start).unwrap_or_else(|| panic!("no {field}: {page}"));
    after.split("</p>").next().expect("an end")
}

#[tokio::test]
async fn adm_1_a_form_says_next_to_the_field_what_is_wrong_and_keeps_the_input() {
    let shop = Shop::open().await;
    let router = shop.router();
    let long = "x".repeat(256);
    let huge = format!("\"{}\"", "x".repeat(1 << 20));
    for (field, value, told) in [
        ("topic", &*long, "Must be 1 to 255 characters, got 256 characters."),
        ("payload", "{\"order\": 7,}", "key must be a string at line 1 column 13"),
        ("payload", &*huge, "Must be at most 1048576 bytes (max_payload_bytes), got 1048578"),
        ("headers", "no colon", "A header must be name: value"),
        ("headers", "a b: c", "Header name must be visible ASCII"),
        ("idempotency_key", "7", "Must be a UUID"),
        ("due_at", "tomorrow", "Must be an RFC 3339 time since 1970 or a duration such as 15m"),
        ("priority", "101", "Must be -100 to 100, got 101."),
        ("priority", "high", "Must be a number, -100 to 100"),
        ("tenant_id", &long[..65], "Must be 1 to 64 characters"),
    ] {
        let topic = if field == "topic" { value } else { "order.placed" };
        let others = [("content_type", "application/json"), ("correlation_id", "checkout-7")];
        let form = others.into_iter().chain([("topic", topic), (field, value)]);
        let response = post(&router, "/publish", &form.collect::<Vec<_>>()).await;
        assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY, "{field}");
        let page = text(response).await;
        html::check(&page, field);
        let said = said(&page, field);
        assert!(said.contains(told) && said.contains("class=\"bad"), "{field}: {said}");
        assert_eq!(page.matches("aria-invalid").count(), 1, "{field}");
        assert!(page.contains("value=\"checkout-7\""), "{field}: the input stays");
        assert!(page.contains("<details id=\"more-fields\" open>"), "{field}");
    }
    let plain = [("topic", "a"), ("payload", "{oops"), ("content_type", "text/plain")];
    assert_eq!(post(&router, "/publish", &plain).await.status(), StatusCode::SEE_OTHER);
    assert_eq!(shop.store.list(&List::default()).await.expect("list").records.len(), 1);
}

#[tokio::test]
async fn adm_1_old_messages_are_counted_first_and_then_purged_by_a_job() {
    let shop = Shop::open().await;
    let dead = dead_letter(&shop).await;
    shop.outbox.publish(Message::builder("order.paid")).await.expect("publish");
    let router = shop.router();
    let page = get(&router, "/purge").await.1;
    html::check(&page, "purge");
    assert!(page.contains("name=\"done\" value=\"30d\"") && !page.contains("method=\"post\""));
    let page = get(&router, "/purge?done=30d&dead=&keys=30d").await.1;
    assert!(page.contains("No message is that old."), "{page}");
    let page = get(&router, "/purge?dead=0s").await.1;
    html::check(&page, "plan");
    assert!(page.contains("Delete 1 message for good"), "{page}");
    assert!(!page.contains("<td>Done</td>"), "only what has an age: {page}");
    assert!(shop.store.get(dead).await.expect("get").is_some(), "a plan changes nothing");

    let begun = post(&router, "/purge", &[("dead", "0s"), ("why", "all is lost")]).await;
    let job = begun.headers()[header::LOCATION].to_str().expect("text").to_owned();
    let (_, page) = follow(&router, begun).await;
    assert!(page.contains("It has begun."), "{page}");
    let page = until(&router, &job, ">Done<").await;
    html::check(&page, "job");
    assert!(page.contains(">1</span> message deleted"), "{page}");
    assert!(shop.store.get(dead).await.expect("get").is_none());
    let pending = List { status: Some(Status::Pending), ..List::default() };
    assert_eq!(shop.store.list(&pending).await.expect("list").records.len(), 1, "it stays");
    let audit = get(&router, "/audit").await.1;
    assert!(audit.contains("purge") && audit.contains("all is lost"), "{audit}");
}

#[tokio::test]
async fn adm_1_an_age_that_is_none_is_refused_next_to_its_field() {
    let shop = Shop::open().await;
    let router = shop.router();
    let told = "Must be like 12h or 30d";
    let (status, page) = get(&router, "/purge?done=soon&keys=30d").await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    html::check(&page, "refused");
    assert!(said(&page, "done").contains(told) && page.contains("value=\"soon\""), "{page}");
    let response = post(&router, "/purge", &[("dead", "old")]).await;
    assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert!(said(&text(response).await, "dead").contains(told));
    let (status, page) = get(&router, "/purge?done=&dead=").await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(page.contains("give an age for done, dead or keys"), "{page}");
    assert!(shop.store.audit(None, 10).await.expect("audit").is_empty());
}

#[tokio::test]
async fn x02_to_publish_and_to_purge_need_the_rights_of_the_api() {
    let shop = Shop::open().await;
    let person =
        |role| Token::new(&format!("{role:?}"), Person { name: "a".into(), role, payloads: false });
    let roles = [Role::Viewer, Role::Operator, Role::Admin];
    let router = shop.admin(Access::Tokens(roles.map(person).into())).router();
    for (role, path, may) in [
        (Role::Viewer, "/publish", false),
        (Role::Operator, "/publish", true),
        (Role::Operator, "/purge", false),
        (Role::Admin, "/purge", true),
    ] {
        for form in [None, Some(encoded(&[("topic", "t"), ("dead", "1h")]))] {
            let request = if form.is_some() { Request::post(path) } else { Request::get(path) };
            let request = request
                .header(header::HOST, "admin.example")
                .header(header::AUTHORIZATION, format!("Bearer {role:?}"))
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(form.map_or_else(Body::empty, Body::from))
                .expect("a request");
            let status = router.clone().oneshot(request).await.expect("an answer").status();
            assert_eq!(status != StatusCode::FORBIDDEN, may, "{role:?} {path}: {status}");
        }
    }
    let pages = [(Role::Operator, "/stores"), (Role::Viewer, "/messages")];
    for (role, path) in pages {
        let request = Request::get(path)
            .header(header::HOST, "admin.example")
            .header(header::AUTHORIZATION, format!("Bearer {role:?}"))
            .body(Body::empty())
            .expect("a request");
        let page = text(router.clone().oneshot(request).await.expect("an answer")).await;
        assert!(!page.contains("/purge") && !page.contains("/publish"), "{role:?}: {page}");
    }
}

#[tokio::test]
async fn x02_a_refused_copy_shows_the_message_only_to_who_may_see_it() {
    let shop = Shop::open().await;
    let id = dead_letter(&shop).await.to_string();
    let person = |name: &str, payloads| {
        let person = Person { name: name.into(), role: Role::Operator, payloads };
        Token::new(name, person)
    };
    let tokens = vec![person("blind", false), person("sees", true)];
    let router = shop.admin(Access::Tokens(tokens)).router();
    for (token, may) in [("blind", false), ("sees", true)] {
        let request = Request::post("/messages/copy")
            .header(header::HOST, "admin.example")
            .header(header::ACCEPT, "text/html")
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Body::from(encoded(&[("id", &*id), ("headers", "no colon")])))
            .expect("a request");
        let response = router.clone().oneshot(request).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY);
        let page = text(response).await;
        html::check(&page, token);
        assert!(page.contains("A header must be name: value"), "{page}");
        assert_eq!(page.contains("1.10000000000000000001"), may, "{token}: {page}");
        assert_eq!(page.contains(">\nno colon</textarea>"), may, "the input stays: {page}");
    }
}

#[tokio::test]
async fn x04_hostile_input_stays_text_in_a_refused_form() {
    let shop = Shop::open().await;
    let router = shop.router();
    for vector in VECTORS {
        let form = [("topic", vector), ("payload", vector), ("headers", vector), ("due_at", "no")];
        let response = post(&router, "/publish", &form).await;
        assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY, "{vector}");
        html::check(&text(response).await, "publish");
        let (status, page) = get(&router, &format!("/purge?done={}", percent(vector))).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{vector}");
        html::check(&page, "purge");
    }
}

#[tokio::test]
async fn obs_4_what_needs_attention_is_what_health_judges() {
    let shop = Shop::open().await;
    let all = (0..3).map(|_| Message::builder("order.placed"));
    shop.outbox.publish_all(all).await.expect("publish");
    let backlog = Limit { degraded: Some(2), unhealthy: None };
    let limits = Thresholds { backlog, dispatcher: false, ..Thresholds::default() };
    let strict = shop.admin(Access::local()).thresholds(limits).router();
    let page = until(&strict, "/", "3 messages wait").await;
    assert!(page.contains("More than 2 counts as degraded."), "{page}");
    assert!(!page.contains("No dispatcher is running"), "nobody asked for one: {page}");
    let ready = get(&strict, "/readyz?verbose").await.1;
    assert!(ready.contains("[!]backlog shop/outbox 3 messages wait"), "{ready}");

    let usual = shop.router();
    let page = until(&usual, "/", "No dispatcher is running").await;
    assert!(!page.contains("counts as degraded"), "{page}");
    let (status, ready) = get(&usual, "/readyz?verbose").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(ready.contains("[-]dispatcher shop/outbox"), "{ready}");

    let oldest = Limit { degraded: None, unhealthy: Some(Duration::ZERO) };
    let limits = Thresholds { oldest, dispatcher: false, ..Thresholds::default() };
    let strict = shop.admin(Access::local()).thresholds(limits).router();
    let page = until(&strict, "/", "The oldest message has waited").await;
    assert!(page.contains("<span class=\"dot bad\">"), "{page}");
}
