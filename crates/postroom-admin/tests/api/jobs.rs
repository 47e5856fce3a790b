//! X16: everything that matches a filter, in the background, not too fast, and stopped at will.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use postroom::store::{AdminStore as _, List, Status};
use serde_json::{Value, json};

use crate::world::{Base, World};

on_every_store! {
    x16_a_job_replays_all_that_match_and_is_audited_with_its_counts,
    x16_a_canary_takes_no_more_than_its_limit,
    x16_a_job_keeps_its_rate_and_stops_when_told,
    x16_what_died_again_or_later_is_left_alone,
    x16_a_purge_deletes_what_is_old,
    x16_a_filter_has_to_mean_what_can_be_done,
}

async fn begin<B: Base>(world: &World<B>, act: &str, body: Value) -> String {
    let answer = world.post("operator", &format!("/api/v1/messages/{act}"), body).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED, "{:?}", answer.body);
    answer.json()["id"].as_str().expect("an id").to_owned()
}

async fn job<B: Base>(world: &World<B>, id: &str) -> Value {
    world.get("viewer", &format!("/api/v1/jobs/{id}")).await.ok()
}

async fn ended<B: Base>(world: &World<B>, id: &str) -> Value {
    loop {
        let job = job(world, id).await;
        if job["state"] != "running" {
            return job;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn count<B: Base>(world: &World<B>, status: Status) -> usize {
    let list = List { status: Some(status), limit: 500, ..List::default() };
    world.store.list(&list).await.expect("lists").records.len()
}

async fn x16_a_job_replays_all_that_match_and_is_audited_with_its_counts<B: Base>() {
    let world = World::<B>::fresh().await;
    // More than one page.
    world.dead("order.placed", 510, "timeout").await;
    world.dead("mail.sent", 3, "timeout").await;
    let discarded = world.dead("order.placed", 1, "timeout").await;
    world.post("operator", "/api/v1/messages/discard", json!({ "ids": discarded })).await.ok();
    let body = json!({ "filter": { "topic": "order.placed" }, "reason": "mended" });
    let ended = ended(&world, &begin(&world, "replay", body).await).await;
    assert_eq!((&ended["state"], &ended["applied"]), (&json!("done"), &json!(510)));
    assert_eq!((&ended["by"], &ended["reason"]), (&json!("operator"), &json!("mended")));
    assert_eq!(count(&world, Status::Dead).await, 4, "other topics and discarded ones stay dead");
    let audit = world.audit().await;
    let (end, begin) = (&audit[0].entry, &audit[1].entry);
    assert!(begin.outcome.contains(" began"), "{}", begin.outcome);
    assert!(end.outcome.contains("510 replayed; reason given: mended"), "{}", end.outcome);
    assert_eq!((end.action.as_str(), end.changed), ("replay", 510));
    assert!(end.target.contains("status=dead topic=order.placed"), "{}", end.target);
}

async fn x16_a_canary_takes_no_more_than_its_limit<B: Base>() {
    let world = World::<B>::fresh().await;
    world.dead("order.placed", 20, "timeout").await;
    let body = json!({ "filter": {}, "limit": 5 });
    let job = ended(&world, &begin(&world, "replay", body).await).await;
    assert_eq!((&job["state"], &job["applied"]), (&json!("done"), &json!(5)));
    assert_eq!(count(&world, Status::Dead).await, 15);
    let body = json!({ "filter": {} });
    let job = ended(&world, &begin(&world, "replay", body).await).await;
    assert_eq!(job["applied"], 15);
}

async fn x16_a_job_keeps_its_rate_and_stops_when_told<B: Base>() {
    let world = World::<B>::fresh().await;
    world.dead("order.placed", 400, "timeout").await;
    let start = Instant::now();
    let id = begin(&world, "discard", json!({ "filter": { "status": "dead" }, "rate": 20 })).await;
    // Two chunks of twenty are there no sooner than after a second: the clock can only be late.
    loop {
        let job = job(&world, &id).await;
        assert_eq!(job["state"], "running");
        if job["applied"].as_u64().expect("a number") >= 40 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    let body = json!({ "filter": {} });
    let second = world.post("operator", "/api/v1/messages/replay", body).await;
    assert_eq!(second.status, StatusCode::CONFLICT);
    assert_eq!(second.json()["job"], id);
    let cancelled = world.post("operator", &format!("/api/v1/jobs/{id}/cancel"), json!({})).await;
    assert_eq!(cancelled.ok()["changed"], true);
    let job = ended(&world, &id).await;
    assert_eq!(job["state"], "cancelled");
    let applied = job["applied"].as_u64().expect("a number");
    assert!(applied < 400, "{applied}");
    let list = List {
        reason: Some(postroom::lifecycle::DeadReason::Discarded),
        limit: 500,
        ..List::default()
    };
    let discarded = world.store.list(&list).await.expect("lists").records.len();
    assert_eq!(discarded as u64, applied);
    // The row of who told it to stop may come before its own.
    let audit = world.audit().await;
    let mut ends = audit.iter().filter(|row| row.entry.outcome.contains("stopped before the end"));
    assert_eq!(ends.next().expect("its end").entry.changed, applied);
}

async fn x16_what_died_again_or_later_is_left_alone<B: Base>() {
    let world = World::<B>::fresh().await;
    let first = world.dead("order.placed", 20, "timeout").await;
    let id = begin(&world, "replay", json!({ "filter": {}, "rate": 10 })).await;
    while job(&world, &id).await["applied"] != 10 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The first ten are ready again. They die again, with one that is new.
    world.dead("order.placed", 11, "timeout").await;
    let job = ended(&world, &id).await;
    assert_eq!((&job["state"], &job["applied"]), (&json!("done"), &json!(20)));
    let list = List { status: Some(Status::Pending), limit: 500, ..List::default() };
    let live = world.store.list(&list).await.expect("lists").records;
    assert!(live.iter().all(|record| first[..10].contains(&record.id) || record.attempts == 0));
    assert_eq!(count(&world, Status::Dead).await, 11);
}

async fn x16_a_purge_deletes_what_is_old<B: Base>() {
    let world = World::<B>::fresh().await;
    let dead = world.dead("order.placed", 3, "no").await;
    world.post("operator", "/api/v1/messages/discard", json!({ "ids": dead[..2] })).await.ok();
    let answer = world.post("admin", "/api/v1/purge", json!({ "done": "0s" })).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED);
    let id = answer.json()["id"].as_str().expect("an id").to_owned();
    let job = ended(&world, &id).await;
    assert_eq!((&job["action"], &job["applied"]), (&json!("purge"), &json!(2)));
    assert!(world.store.get(dead[0]).await.expect("reads").is_none());
    assert!(world.store.get(dead[2]).await.expect("reads").is_some());
    let nothing = world.post("admin", "/api/v1/purge", json!({})).await;
    assert_eq!(nothing.status, StatusCode::UNPROCESSABLE_ENTITY);
}

async fn x16_a_filter_has_to_mean_what_can_be_done<B: Base>() {
    let world = World::<B>::fresh().await;
    for (act, body) in [
        ("replay", json!({ "filter": { "status": "failed" } })),
        ("discard", json!({ "filter": {} })),
        ("discard", json!({ "filter": { "status": "done" } })),
        ("replay", json!({})),
        ("replay", json!({ "ids": [], "filter": {} })),
        ("replay", json!({ "ids": [] })),
        ("replay", json!({ "filter": {}, "rate": 0 })),
        ("replay", json!({ "filter": {}, "limit": 0 })),
        ("replay", json!({ "filter": {}, "limit": u64::MAX })),
        ("replay", json!({ "ids": [], "rate": 5 })),
    ] {
        let answer = world.post("operator", &format!("/api/v1/messages/{act}"), body.clone()).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{act} {body}");
    }
    assert!(world.audit().await.is_empty());
}
