//! Postroom from plain SQL, as any other language uses it.

use postroom_core::store::AdminStore;
use postroom_core::{IdempotencyKey, Message, MessageId, Outbox, lifecycle::State};
use postroom_testkit::Harness;
use sqlx::{Connection, Executor, Row};
use uuid::Uuid;

use crate::postgres_support::{Pg, run};

async fn count(pg: &Pg, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(&pg.pool).await.expect("a count")
}

async fn refused(pg: &Pg, sql: &'static str) -> String {
    let error = sqlx::query(sql).execute(&pg.pool).await.expect_err(sql);
    error.as_database_error().expect("the server's own error").message().to_owned()
}

#[tokio::test]
async fn pub_8_enqueue_shares_the_callers_transaction() {
    let pg = Pg::on_database_time().await;
    let mut conn = pg.connection().await;
    for (end, rows) in [("rollback", 0), ("commit", 1)] {
        conn.execute("begin").await.expect("begin");
        conn.execute("insert into business values (1)").await.expect("business row");
        conn.execute("select outbox_enqueue('order.placed', '{\"order\": 7}')").await.expect("enq");
        conn.execute(end).await.expect("end");
        assert_eq!(count(&pg, "select count(*) from business").await, rows);
        assert_eq!(count(&pg, "select count(*) from outbox_queue").await, rows);
    }
    let view = "select topic, status, retry_count, payload_text from outbox";
    let row = sqlx::query(view).fetch_one(&pg.pool).await.expect("the view");
    assert_eq!(row.get::<&str, _>("status"), "ready");
    assert_eq!(row.get::<&str, _>("payload_text"), "{\"order\": 7}");
    pg.finish().await;
}

#[tokio::test]
async fn pub_8_every_field_arrives_as_rust_would_have_written_it() {
    let pg = Pg::on_database_time().await;
    let (key, id) = (Uuid::from_u128(7), Uuid::from_u128(8));
    let message = Message::builder("order.placed")
        .id(MessageId::from(id))
        .payload("\u{e4}{}")
        .content_type("text/plain")
        .header("h", "v\u{e4}")
        .header("a-first", "\"x\"")
        .aggregate("order", "7")
        .ordering_key("order-7")
        .tenant_id("acme")
        .correlation_id("c")
        .causation_id("d")
        .idempotency_key(IdempotencyKey::from(key))
        .priority(-5)
        .build()
        .expect("legal");
    let enqueue = sqlx::query_scalar::<_, Uuid>(
        "select outbox_enqueue('order.placed', $1::text, content_type => 'text/plain',
            headers => $2::text::jsonb, aggregate_type => 'order', aggregate_id => '7',
            ordering_key => 'order-7', tenant_id => 'acme', correlation_id => 'c',
            causation_id => 'd', idempotency_key => $3, priority => -5, id => $4)",
    );
    let enqueue = enqueue.bind("\u{e4}{}").bind(message.headers().to_json()).bind(key).bind(id);
    assert_eq!(enqueue.fetch_one(&pg.pool).await.expect("enqueues"), id);

    let record = pg.store.get(MessageId::from(id)).await.expect("get").expect("is there").record;
    let stored = record.message.expect("decodes");
    assert_eq!(stored.content_hash(), message.content_hash());
    let row = sqlx::query(
        "select queue.*, key.hash, key.content_hash
        from outbox_queue as queue, outbox_key as key",
    );
    let row = row.fetch_one(&pg.pool).await.expect("one row of each");
    let lane = message.lane().expect("ordered");
    assert_eq!(row.get::<i16, _>("slot"), lane.slot);
    assert_eq!(row.get::<i64, _>("key_hash"), lane.key_hash);
    assert_eq!(row.get::<i64, _>("topic_hash"), message.topic_hash());
    assert_eq!(row.get::<Option<i64>, _>("tenant_hash"), message.tenant_hash());
    let scoped = IdempotencyKey::from(key).scoped(message.tenant_id());
    assert_eq!(row.get::<Vec<u8>, _>("hash"), scoped);
    assert_eq!(row.get::<Vec<u8>, _>("content_hash"), message.content_hash());

    // The other way round: Rust finds what SQL wrote.
    let again = Outbox::new(pg.store()).publish(message).await.expect("a duplicate is success");
    assert!(again.already_existed);
    pg.finish().await;
}

#[tokio::test]
async fn pub_8_hashes_of_plain_messages_agree_too() {
    let pg = Pg::on_database_time().await;
    let plain = Message::builder("\u{fc}ber").payload("").build().expect("legal");
    let enqueue = "select outbox_enqueue('\u{fc}ber', ''::bytea, id => $1)";
    let enqueue = sqlx::query(enqueue).bind(plain.id().as_uuid());
    enqueue.execute(&pg.pool).await.expect("enqueues");
    let hash = "select topic_hash from outbox_queue";
    let hash: i64 = sqlx::query_scalar(hash).fetch_one(&pg.pool).await.expect("one row");
    assert_eq!(hash, plain.topic_hash());
    let again = Outbox::new(pg.store()).publish(plain).await.expect("a duplicate is success");
    assert!(again.already_existed);
    pg.finish().await;
}

#[tokio::test]
async fn pub_6_a_duplicate_key_answers_with_the_first_id_and_keeps_the_transaction() {
    let pg = Pg::on_database_time().await;
    let mut conn = pg.connection().await;
    let mut tx = conn.begin().await.expect("begin");
    let enqueue = "select outbox_enqueue('t', $1, idempotency_key => $2)";
    let mut ids = Vec::new();
    for payload in ["first", "second"] {
        let query = sqlx::query_scalar::<_, Uuid>(enqueue).bind(payload).bind(Uuid::from_u128(1));
        ids.push(query.fetch_one(&mut *tx).await.expect("a duplicate is success"));
    }
    tx.commit().await.expect("the transaction is whole");
    assert_eq!(ids[0], ids[1]);
    assert_eq!(ids[0].get_version_num(), 7);
    assert_eq!(count(&pg, "select count(*) from outbox_message").await, 1);
    let taken = "select outbox_enqueue('other', 'x', id => (select id from outbox_message))";
    assert!(refused(&pg, taken).await.contains("belongs to a message with other content"));
    pg.finish().await;
}

#[tokio::test]
async fn msg_2_limits_name_the_field() {
    let pg = Pg::on_database_time().await;
    for (sql, expected) in [
        ("select outbox_enqueue('', 'x')", "topic must be 1 to 255 characters, got 0 characters"),
        (
            "select outbox_enqueue(repeat('t', 256), 'x')",
            "topic must be 1 to 255 characters, got 256 characters",
        ),
        ("select outbox_enqueue(E'a\\nb', 'x')", "topic must be free of control characters"),
        ("select outbox_enqueue('t', null::bytea)", "payload must not be null"),
        (
            "select outbox_enqueue('t', 'abc', max_payload_bytes => 2)",
            "payload must be at most 2 bytes (max_payload_bytes), got 3 bytes",
        ),
        (
            "select outbox_enqueue('t', 'x', tenant_id => repeat('x', 65))",
            "tenant_id must be 1 to 64 characters, got 65 characters",
        ),
        (
            "select outbox_enqueue('t', 'x', priority => 101)",
            "priority must be -100 to 100, got 101",
        ),
        (
            "select outbox_enqueue('t', 'x', headers => '[]')",
            "headers must be a JSON object of strings",
        ),
        (
            "select outbox_enqueue('t', 'x', headers => '{\"n\": 1}')",
            "headers must be a JSON object of strings",
        ),
        (
            "select outbox_enqueue('t', 'x', headers => '{\"n\": \"a\\nb\"}')",
            "value of header n must be free of CR, LF and NUL",
        ),
        (
            "select outbox_enqueue('t', 'x', \
             headers => jsonb_build_object('n', repeat('v', 16384)))",
            "headers must be at most 16384 bytes in all, got 16385 bytes",
        ),
        (
            "select * from outbox_claim('00000000-0000-0000-0000-000000000000')",
            "owner must be a UUID other than nil, got 00000000-0000-0000-0000-000000000000",
        ),
        (
            "select * from outbox_claim(gen_random_uuid(), '0')",
            "lease must be more than 0 and at most 24 h, got 00:00:00",
        ),
        (
            "select * from outbox_claim(gen_random_uuid(), batch => 0)",
            "batch must be 1 to 10000, got 0",
        ),
    ] {
        assert_eq!(refused(&pg, sql).await, expected, "{sql}");
    }
    let fits =
        "select outbox_enqueue(repeat('\u{e4}', 255), 'x', tenant_id => repeat('\u{e4}', 64),
        headers => jsonb_build_object('n', repeat('v', 16383)), correlation_id => '')";
    sqlx::query(fits).execute(&pg.pool).await.expect("each limit itself is legal");
    assert_eq!(count(&pg, "select count(*) from outbox_message").await, 1);
    pg.finish().await;
}

struct Claimed {
    seq: i64,
    token: Uuid,
    id: MessageId,
}

async fn claim_one(pg: &Pg, owner: Uuid) -> Claimed {
    let rows = sqlx::query("select * from outbox_claim($1)").bind(owner);
    let rows = rows.fetch_all(&pg.pool).await.expect("claims");
    assert_eq!(rows.len(), 1, "exactly one item to claim");
    let id: Uuid = rows[0].get("id");
    Claimed { seq: rows[0].get("seq"), token: rows[0].get("token"), id: MessageId::from(id) }
}

async fn settle(pg: &Pg, sql: &'static str, owner: Uuid, item: &Claimed) -> Vec<i64> {
    let query = sqlx::query_scalar(sql).bind(owner).bind(vec![item.seq]).bind(vec![item.token]);
    query.fetch_all(&pg.pool).await.expect("settles")
}

#[tokio::test]
async fn wq_3_claim_and_settle_from_sql() {
    let pg = Pg::on_database_time().await;
    let owner = Uuid::from_u128(1);
    let state = async |id| pg.store.get(id).await.expect("get").expect("is there").record;
    let enqueue = "select outbox_enqueue('t', 'x')";
    for (sql, expected, attempts) in [
        ("select outbox_ack($1, $2, $3)", State::Done, 0),
        ("select outbox_fail($1, $2, $3, 'no good')", State::Dead, 1),
        ("select outbox_abandon($1, $2, $3, 'later', '1 hour')", State::Ready, 1),
    ] {
        sqlx::query(enqueue).execute(&pg.pool).await.expect("enqueues");
        let item = claim_one(&pg, owner).await;
        let stranger = settle(&pg, sql, Uuid::from_u128(2), &item).await;
        assert!(stranger.is_empty(), "not theirs");
        let renew = "select outbox_renew($1, $2, $3, '2 hours')";
        assert_eq!(settle(&pg, renew, owner, &item).await, [item.seq]);
        assert_eq!(settle(&pg, sql, owner, &item).await, [item.seq], "{sql}");
        assert!(settle(&pg, sql, owner, &item).await.is_empty(), "settled before");
        let record = state(item.id).await;
        assert_eq!((record.state, record.attempts), (expected, attempts), "{sql}");
    }
    sqlx::query(enqueue).execute(&pg.pool).await.expect("enqueues");
    let item = claim_one(&pg, owner).await;
    assert_eq!(settle(&pg, "select outbox_release($1, $2, $3)", owner, &item).await, [item.seq]);
    let item = claim_one(&pg, owner).await;
    assert_eq!(state(item.id).await.attempts, 0);
    pg.finish().await;
}

#[tokio::test]
async fn dsp_7_abandon_backs_off_and_the_last_attempt_is_dead() {
    let pg = Pg::on_database_time().await;
    let owner = Uuid::from_u128(1);
    sqlx::query("select outbox_enqueue('t', 'x')").execute(&pg.pool).await.expect("enqueues");
    let item = claim_one(&pg, owner).await;
    assert_eq!(settle(&pg, "select outbox_abandon($1, $2, $3)", owner, &item).await, [item.seq]);
    let wait = "select extract(epoch from wake_at - clock_timestamp())::float8 from outbox_parked";
    let wait: f64 = sqlx::query_scalar(wait).fetch_one(&pg.pool).await.expect("waits");
    assert!(wait > -1.0 && wait <= 0.3, "200 ms with jitter, got {wait}");
    sqlx::query("update outbox_parked set wake_at = clock_timestamp()")
        .execute(&pg.pool)
        .await
        .expect("time passes");
    let item = claim_one(&pg, owner).await;
    let last = "select outbox_abandon($1, $2, $3, 'boom', max_attempts => 2)";
    assert_eq!(settle(&pg, last, owner, &item).await, [item.seq]);
    let view = "select dead_reason || ': ' || last_error from outbox";
    let view: String = sqlx::query_scalar(view).fetch_one(&pg.pool).await.expect("the view");
    assert_eq!(view, "attempts used up: boom");
    pg.finish().await;
}

#[tokio::test]
async fn wq_8_reap_from_sql() {
    let pg = Pg::on_database_time().await;
    sqlx::query("select outbox_enqueue('t', 'x')").execute(&pg.pool).await.expect("enqueues");
    let claim = "select count(*) from outbox_claim(gen_random_uuid(), '1 microsecond')";
    assert_eq!(count(&pg, claim).await, 1);
    assert_eq!(count(&pg, "select released from outbox_reap()").await, 1);
    assert_eq!(count(&pg, "select lost_leases::bigint from outbox").await, 1);
    pg.finish().await;
}

#[tokio::test]
async fn pub_8_the_inbox_has_the_same_functions() {
    let pg = Pg::on_database_time().await;
    let sql = "select count(inbox_enqueue('t', '{}'::jsonb)) from generate_series(1, 5)";
    assert_eq!(count(&pg, sql).await, 5);
    let claim = "create table held as
        select '00000000-0000-4000-8000-000000000001'::uuid as owner, row_number() over () as n, *
        from inbox_claim('00000000-0000-4000-8000-000000000001')";
    run(&pg.pool, claim).await;
    for settle in [
        "select count(*) from held, inbox_renew(owner, array[seq], array[token]) where n = 1",
        "select count(*) from held, inbox_ack(owner, array[seq], array[token]) where n = 1",
        "select count(*) from held, inbox_abandon(owner, array[seq], array[token]) where n = 2",
        "select count(*) from held, inbox_fail(owner, array[seq], array[token]) where n = 3",
        "select count(*) from held, inbox_release(owner, array[seq], array[token]) where n = 4",
    ] {
        assert_eq!(count(&pg, settle).await, 1, "{settle}");
    }
    run(&pg.pool, "select * from inbox_reap()").await;
    assert_eq!(count(&pg, "select count(*) from outbox_queue").await, 0);
    pg.finish().await;
}
