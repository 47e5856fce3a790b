//! ADM-1: lists, details, figures.

use axum::http::StatusCode;
use postroom::Message;
use serde_json::json;

use crate::world::{Base, World};

on_every_store! {
    adm_1_pages_follow_each_other_and_filters_hold,
    adm_1_what_is_unknown_or_out_of_range_is_named,
    adm_1_the_history_tells_what_happened,
    x05_payloads_are_downloads_or_views,
    obs_3_figures_and_failures_come_from_the_last_sample,
    adm_1_an_export_is_a_line_per_message,
}

async fn adm_1_pages_follow_each_other_and_filters_hold<B: Base>() {
    let world = World::<B>::fresh().await;
    let dead = world.dead("order.placed", 5, "gateway <timeout>").await;
    world.dead("mail.sent", 2, "no such mailbox").await;
    world.publish("order.placed").await;
    let mut found = Vec::new();
    let mut path = "/api/v1/messages?status=dead&topic=order.placed&limit=2".to_owned();
    loop {
        let page = world.get("viewer", &path).await.ok();
        let items = page["items"].as_array().expect("items");
        found.extend(items.iter().map(|item| item["id"].as_str().expect("id").to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/messages?status=dead&topic=order.placed&limit=2&before={next}");
    }
    let expected: Vec<_> = dead.iter().rev().map(ToString::to_string).collect();
    assert_eq!(found, expected);
    for (filter, count) in [
        ("", 8),
        ("status=pending", 1),
        ("topic_prefix=mail.", 2),
        ("error=mailbox", 2),
        ("error=%3Ctimeout%3E", 5),
        ("reason=permanent_error", 7),
        ("since=1h", 8),
        ("until=1h", 0),
        ("tenant=acme", 0),
        ("status=&topic=", 8),
    ] {
        let page = world.get("viewer", &format!("/api/v1/messages?{filter}")).await.ok();
        assert_eq!(page["items"].as_array().expect("items").len(), count, "{filter}");
    }
}

async fn adm_1_what_is_unknown_or_out_of_range_is_named<B: Base>() {
    let world = World::<B>::fresh().await;
    for (query, name) in [
        ("colour=red", "colour"),
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=many", "limit"),
        ("status=alive", "status"),
        ("reason=boredom", "reason"),
        ("since=yesterday", "since"),
        ("before=7", "before"),
        ("min_attempts=-1", "min_attempts"),
        ("topic=%00", "topic"),
        ("topic=a&topic=b", "topic"),
    ] {
        let answer = world.get("viewer", &format!("/api/v1/messages?{query}")).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{query}");
        let problem = answer.json();
        let message = problem["message"].as_str().expect("a message");
        assert!(message.contains(name), "{query}: {message}");
    }
    let body = json!({ "ids": [], "colour": "red" });
    let answer = world.post("admin", "/api/v1/messages/replay", body).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(answer.json()["message"].as_str().expect("text").contains("colour"));
    for path in ["/api/v1/messages/7", "/api/v1/joins/7", "/api/v1/jobs/7"] {
        assert_eq!(world.get("viewer", path).await.status, StatusCode::UNPROCESSABLE_ENTITY);
    }
    for kind in ["messages", "joins", "jobs"] {
        let path = format!("/api/v1/{kind}/019a8a00-0000-7000-8000-000000000001");
        assert_eq!(world.get("viewer", &path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    let answer = world.get("viewer", "/api/v1/messages?store=shop&box=attic").await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    let message = answer.json()["message"].as_str().expect("text").to_owned();
    assert!(message.contains("shop/outbox, shop/inbox"), "{message}");
}

async fn adm_1_the_history_tells_what_happened<B: Base>() {
    let world = World::<B>::fresh().await;
    let id = world.dead("order.placed", 1, "no <b>").await[0];
    let answer = world.get("viewer", &format!("/api/v1/messages/{id}")).await;
    let detail = answer.ok();
    assert_eq!(detail["status"], "dead");
    assert_eq!(detail["reason"], "permanent_error");
    assert_eq!(detail["history"][0]["error"], "no <b>");
    assert!(detail.get("payload").is_none());
    assert!(!String::from_utf8_lossy(&answer.body).contains('<'), "X05");
}

async fn x05_payloads_are_downloads_or_views<B: Base>() {
    let world = World::<B>::fresh().await;
    let bytes = b"{\"n\":9007199254740993,\"t\":\"<script>\"}".to_vec();
    let message = Message::builder("t").payload(bytes.clone()).build().expect("legal");
    let id = world.publish_message(message).await;
    let path = format!("/api/v1/messages/{id}/payload");
    let raw = world.get("admin", &path).await;
    assert_eq!(raw.body, bytes);
    assert_eq!(raw.header("content-type"), "application/octet-stream");
    assert_eq!(raw.header("content-disposition"), format!("attachment; filename=\"{id}.bin\""));
    let view = world.get("admin", &format!("{path}?as=json")).await;
    assert_eq!(view.ok()["value"], json!({ "n": "9007199254740993", "t": "<script>" }));
    assert!(!String::from_utf8_lossy(&view.body).contains('<'));
    let hex = world.get("admin", &format!("{path}?as=hex")).await.ok();
    assert!(hex["value"].as_str().expect("text").starts_with("7b226e22"));
    let wrong = world.get("admin", &format!("{path}?as=html")).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
}

async fn obs_3_figures_and_failures_come_from_the_last_sample<B: Base>() {
    let world = World::<B>::fresh().await;
    world.dead("order.placed", 3, "order 17 timed out after 30s").await;
    world.publish("mail.sent").await;
    // The sampler looks in its own time; ask until it has seen all.
    loop {
        let stats = world.get("viewer", "/api/v1/stats").await.ok();
        if stats["stats"]["dead"] == 3 && stats["stats"]["ready"] == 1 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let groups = world.get("viewer", "/api/v1/failures").await.ok();
    let group = &groups["items"][0];
    assert_eq!(group["pattern"], "order <n> timed out after <n>");
    assert_eq!((&group["count"], &group["topic"]), (&json!(3), &json!("order.placed")));
    let topics = world.get("viewer", "/api/v1/topics").await.ok();
    let named = |name: &str| {
        let items = topics["items"].as_array().expect("items");
        items.iter().find(|topic| topic["topic"] == name).cloned().expect(name)
    };
    assert_eq!(named("order.placed")["dead"], 3);
    assert_eq!(named("mail.sent")["live"], 1);
    let snapshot = world.get("viewer", "/api/v1/snapshot").await.ok();
    assert_eq!(snapshot["stats"]["dead"], 3);
    assert_eq!(world.get("viewer", "/api/v1/stores").await.ok()["items"][1]["box"], "inbox");
    for path in ["/api/v1/keys", "/api/v1/nodes", "/api/v1/joins", "/api/v1/jobs"] {
        assert_eq!(world.get("viewer", path).await.ok()["items"], json!([]), "{path}");
    }
}

async fn adm_1_an_export_is_a_line_per_message<B: Base>() {
    let world = World::<B>::fresh().await;
    let dead = world.dead("order.placed", 3, "no").await;
    world.publish("other").await;
    let export = |query: &'static str| {
        let world = &world;
        async move {
            let answer = world.get("admin", &format!("/api/v1/export?{query}")).await;
            assert_eq!(answer.header("content-type"), "application/x-ndjson");
            let text = String::from_utf8(answer.body.to_vec()).expect("UTF-8");
            let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
            lines.collect::<Vec<serde_json::Value>>()
        }
    };
    let lines = export("status=dead").await;
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["id"], dead[2].to_string());
    assert!(lines[0].get("payload").is_none());
    assert_eq!(export("limit=2").await.len(), 2);
    let with = export("status=dead&payloads=true").await;
    assert_eq!(with[0]["payload"], r#"{"order":7}"#);
    assert_eq!(with[0]["headers"], json!({ "h": crate::world::SECRET }));
}
