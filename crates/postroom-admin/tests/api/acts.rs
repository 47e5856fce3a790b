//! ADM-1, X16: what people do takes effect, and is written down.

use axum::http::StatusCode;
use postroom::lifecycle::State;
use postroom::store::AdminStore as _;
use postroom::{Message, MessageId};
use serde_json::{Value, json};

use crate::world::{Base, World};

on_every_store! {
    x16_a_replay_says_what_became_of_each_and_is_audited,
    x16_a_dry_run_changes_and_writes_nothing,
    adm_1_one_message_is_replayed_or_discarded_by_its_path,
    dsp_10_a_topic_or_the_whole_box_is_paused_and_resumed,
    adm_1_a_message_is_published_with_all_its_fields,
    adm_1_a_copy_is_a_new_message_that_names_the_old_one,
    x16_every_action_of_the_api_has_its_row,
}

async fn state<B: Base>(world: &World<B>, id: MessageId) -> State {
    world.store.get(id).await.expect("reads").expect("is there").record.state
}

/// The one entry that there is.
async fn only_entry<B: Base>(world: &World<B>) -> postroom::store::AuditEntry {
    let mut audit = world.audit().await;
    assert_eq!(audit.len(), 1, "{audit:?}");
    audit.remove(0).entry
}

async fn x16_a_replay_says_what_became_of_each_and_is_audited<B: Base>() {
    let world = World::<B>::fresh().await;
    let dead = world.dead("order.placed", 1, "no").await[0];
    let live = world.publish("order.placed").await;
    let missing = MessageId::new();
    let body = json!({ "ids": [dead, live, missing], "reason": "fixed it" });
    let outcome = world.post("operator", "/api/v1/messages/replay", body).await.ok();
    assert_eq!(outcome["applied"], json!([dead]));
    let refused = json!([
        { "id": live, "reason": "not_dead" },
        { "id": missing, "reason": "no_such_message" },
    ]);
    assert_eq!(outcome["refused"], refused);
    assert_eq!(state(&world, dead).await, State::Ready);
    let entry = only_entry(&world).await;
    assert_eq!((entry.actor.as_str(), entry.action.as_str()), ("operator", "replay"));
    assert_eq!(entry.target, format!("outbox: {dead} {live} {missing}"));
    let told = "1 replayed; not replayed: 1 no such message, 1 not dead; reason given: fixed it";
    assert_eq!((entry.outcome.as_str(), entry.changed), (told, 1));
}

async fn x16_a_dry_run_changes_and_writes_nothing<B: Base>() {
    let world = World::<B>::fresh().await;
    let dead = world.dead("order.placed", 2, "no").await;
    let body = json!({ "ids": dead, "dry_run": true });
    let outcome = world.post("operator", "/api/v1/messages/discard", body).await.ok();
    assert_eq!((&outcome["dry_run"], &outcome["applied"]), (&json!(true), &json!(dead)));
    let body = json!({ "filter": { "topic": "order.placed" }, "dry_run": true });
    let plan = world.post("operator", "/api/v1/messages/replay", body).await.ok();
    assert_eq!((&plan["matched"], &plan["more"]), (&json!(2), &json!(false)));
    assert_eq!(plan["topics"], json!({ "order.placed": 2 }));
    let body = json!({ "done": "30d", "dry_run": true });
    world.post("admin", "/api/v1/purge", body).await.ok();
    assert_eq!(state(&world, dead[0]).await, State::Dead);
    assert!(world.audit().await.is_empty());
}

async fn adm_1_one_message_is_replayed_or_discarded_by_its_path<B: Base>() {
    let world = World::<B>::fresh().await;
    let dead = world.dead("order.placed", 2, "no").await;
    for (id, act) in [(dead[0], "replay"), (dead[1], "discard")] {
        let path = format!("/api/v1/messages/{id}/{act}");
        assert_eq!(world.post("operator", &path, json!({})).await.ok()["applied"], json!([id]));
    }
    assert_eq!(state(&world, dead[0]).await, State::Ready);
    let found = world.get("viewer", "/api/v1/messages?reason=discarded").await.ok();
    assert_eq!(found["items"][0]["id"], dead[1].to_string());
    assert_eq!(world.audit().await.len(), 2);
    let path = format!("/api/v1/messages/{}/replay", MessageId::new());
    let answer = world.post("operator", &path, json!({})).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
}

async fn dsp_10_a_topic_or_the_whole_box_is_paused_and_resumed<B: Base>() {
    let world = World::<B>::fresh().await;
    let changed = |answer: Value| answer["changed"].as_bool().expect("a bool");
    let odd = "a%2Fb%20%3C";
    for (path, twice) in [(format!("/topics/{odd}"), false), (String::new(), true)] {
        let pause = format!("/api/v1{path}/pause");
        let resume = format!("/api/v1{path}/resume");
        assert!(changed(world.post("operator", &pause, json!({ "reason": "r" })).await.ok()));
        assert!(!changed(world.post("operator", &pause, json!({})).await.ok()));
        let topics = world.get("viewer", "/api/v1/topics").await.ok();
        let pause = match twice {
            true => &topics["pause"],
            false => {
                assert_eq!(topics["items"][0]["topic"], "a/b <");
                &topics["items"][0]["pause"]
            }
        };
        assert_eq!((&pause["by"], &pause["reason"]), (&json!("operator"), &json!("r")));
        assert!(changed(world.post("operator", &resume, json!({})).await.ok()));
        assert!(!changed(world.post("operator", &resume, json!({})).await.ok()));
    }
    let actions: Vec<_> = world.audit().await.into_iter().map(|row| row.entry.action).collect();
    assert_eq!(actions.iter().filter(|action| *action == "pause").count(), 4);
    assert_eq!(actions.iter().filter(|action| *action == "resume").count(), 4);
}

async fn adm_1_a_message_is_published_with_all_its_fields<B: Base>() {
    let world = World::<B>::fresh().await;
    let body = json!({
        "topic": "order.placed", "payload": { "order": 7 }, "headers": { "source": "shop" },
        "tenant_id": "acme", "ordering_key": "order/7", "aggregate_type": "order",
        "aggregate_id": "7", "correlation_id": "c", "priority": 3, "due_at": "15m",
        "idempotency_key": "019a8a00-0000-7000-8000-0000000000aa",
    });
    let first = world.post("operator", "/api/v1/messages", body.clone()).await.ok();
    assert_eq!(first["already_existed"], false);
    let again = world.post("operator", "/api/v1/messages", body).await.ok();
    assert_eq!((&again["already_existed"], &again["id"]), (&json!(true), &first["id"]));
    let id = first["id"].as_str().expect("an id");
    let shown = world.get("admin", &format!("/api/v1/messages/{id}")).await.ok();
    assert_eq!((&shown["tenant_id"], &shown["priority"]), (&json!("acme"), &json!(3)));
    assert_eq!(shown["headers"], json!({ "source": "shop" }));
    let payload = world.get("admin", &format!("/api/v1/messages/{id}/payload")).await;
    assert_eq!(payload.body, r#"{"order":7}"#);
    assert_eq!(world.audit().await.len(), 2);
    for (wrong, name) in [
        (json!({ "topic": "" }), "topic"),
        (json!({ "topic": "t", "priority": 101 }), "priority"),
        (json!({ "topic": "t", "text": "a", "hex": "61" }), "text"),
        (json!({ "topic": "t", "hex": "6" }), "hex"),
        (json!({ "topic": "t", "headers": { "a b": "" } }), "header"),
        (json!({ "topic": "t", "idempotency_key": "k" }), "idempotency_key"),
        (json!({ "topic": "t", "due_at": "soon" }), "due_at"),
        (json!({}), "topic"),
    ] {
        let answer = world.post("operator", "/api/v1/messages", wrong.clone()).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{wrong}");
        assert!(answer.json()["message"].as_str().expect("text").contains(name), "{wrong}");
    }
    let inbox = world.post("operator", "/api/v1/messages?box=inbox", json!({ "topic": "t" })).await;
    assert_eq!(inbox.status, StatusCode::UNPROCESSABLE_ENTITY);
}

async fn adm_1_a_copy_is_a_new_message_that_names_the_old_one<B: Base>() {
    let world = World::<B>::fresh().await;
    let old = Message::builder("order.placed").payload("broken").header("a", "1");
    let old = old.tenant_id("acme").correlation_id("c").idempotency_key(uuid::Uuid::from_u128(7));
    let old = world.publish_message(old.build().expect("legal")).await;
    let path = format!("/api/v1/messages/{old}/copy");
    let copy = world.post("operator", &path, json!({ "text": "mended" })).await.ok();
    assert_eq!(copy["already_existed"], false);
    let id: MessageId = copy["id"].as_str().expect("an id").parse().expect("an id");
    let (new, before) = (read(&world, id).await, read(&world, old).await);
    assert_eq!(
        (new.payload().as_ref(), before.payload().as_ref()),
        (&b"mended"[..], &b"broken"[..])
    );
    assert_eq!(new.causation_id().map(|it| it.as_str().to_owned()), Some(old.to_string()));
    assert_eq!(new.headers().get("a"), Some("1"));
    assert_eq!(new.tenant_id().map(|it| it.as_str()), Some("acme"));
    let entry = only_entry(&world).await;
    assert_eq!((entry.action.as_str(), entry.changed), ("copy", 1));
    assert_eq!(entry.target, format!("outbox: copy of {old} as {id}"));
}

async fn read<B: Base>(world: &World<B>, id: MessageId) -> Message {
    let detail = world.store.get(id).await.expect("reads").expect("is there");
    detail.record.message.expect("decodes")
}

async fn x16_every_action_of_the_api_has_its_row<B: Base>() {
    let world = World::<B>::fresh().await;
    let dead = world.dead("order.placed", 2, "no").await;
    let (one, other) = (dead[0], dead[1]);
    let acts = [
        (format!("/messages/{one}/replay"), json!({}), "replay"),
        (format!("/messages/{one}/discard"), json!({}), "discard"),
        (format!("/messages/{one}/copy"), json!({}), "copy"),
        ("/messages/replay".into(), json!({ "ids": [other] }), "replay"),
        ("/messages/discard".into(), json!({ "ids": [other] }), "discard"),
        ("/messages".into(), json!({ "topic": "t" }), "publish"),
        ("/topics/t/pause".into(), json!({}), "pause"),
        ("/topics/t/resume".into(), json!({}), "resume"),
        ("/pause".into(), json!({}), "pause"),
        ("/resume".into(), json!({}), "resume"),
        ("/purge".into(), json!({ "done": "30d" }), "purge"),
    ];
    let tried: std::collections::HashSet<_> = acts
        .iter()
        .map(|(path, ..)| {
            path.replace(&one.to_string(), "{id}").replace("/topics/t/", "/topics/{topic}/")
        })
        .collect();
    for route in postroom_admin::Admin::routes() {
        let Some(path) = route.path.strip_prefix("/api/v1") else { continue };
        let elsewhere = ["/jobs/{id}/cancel", "/joins/{id}/cancel"].contains(&path);
        let is_change = route.method != axum::http::Method::GET;
        assert!(!is_change || elsewhere || tried.contains(path), "{path} is not tried here");
    }
    for (path, body, action) in acts {
        let before = world.audit().await.len();
        world.post("admin", &format!("/api/v1{path}"), body).await.ok();
        // A job writes its row in its own time.
        let written = async {
            loop {
                let audit = world.audit().await;
                if audit.len() > before {
                    break audit[0].entry.clone();
                }
                tokio::task::yield_now().await;
            }
        };
        let entry = tokio::time::timeout(std::time::Duration::from_secs(30), written).await;
        let entry = entry.unwrap_or_else(|_| panic!("{path} wrote no row"));
        assert_eq!((entry.actor.as_str(), entry.action.as_str()), ("admin", action), "{path}");
    }
    let audit = world.get("admin", "/api/v1/audit?limit=3").await.ok();
    assert_eq!(audit["items"].as_array().expect("items").len(), 3);
    let next = audit["next"].as_str().expect("more");
    let more = world.get("admin", &format!("/api/v1/audit?before={next}")).await.ok();
    assert!(more["items"][0]["number"].as_i64() < audit["items"][2]["number"].as_i64());
}
