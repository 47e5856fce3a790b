//! Postroom from plain SQL, as any other language uses it.

use std::time::{Duration, UNIX_EPOCH};

use postroom_core::lifecycle::{DeadReason, State};
use postroom_core::store::{AdminStore, JoinState, Record, Store};
use postroom_core::{
    IdempotencyKey, Join, Message, MessageBuilder, MessageId, Outbox, OwnerToken, WorkQueue,
};
use postroom_testkit::Harness;
use serde_json::{Value, json};
use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{Executor, Row};
use uuid::Uuid;

use crate::mysql_support::{My, run};
use crate::own::rivals::{count, make_victim, with_contested_rows};

/// Publishes in the transaction of this session; the id, and whether it was there.
async fn enqueue(
    conn: &mut MySqlConnection,
    topic: &str,
    payload: &[u8],
    options: Option<Value>,
) -> sqlx::Result<(Uuid, bool)> {
    let sql = "call postroom_outbox_enqueue(?, ?, ?)";
    let call = sqlx::query(sql).bind(topic.to_owned()).bind(payload.to_vec());
    let row = call.bind(options.map(|options| options.to_string())).fetch_one(conn).await?;
    let id = row.get::<String, _>("id").parse().expect("a UUID");
    Ok((id, row.get::<i8, _>("already_existed") == 1))
}

/// The same in a transaction of its own.
async fn enqueue_alone(my: &My, topic: &str, options: Option<Value>) -> (Uuid, bool) {
    let mut tx = my.pool.begin().await.expect("begins");
    let answer = enqueue(&mut tx, topic, b"x", options).await.expect("enqueues");
    tx.commit().await.expect("commits");
    answer
}

fn message_of(error: sqlx::Error) -> (String, String) {
    let error = error.as_database_error().expect("the server's own error");
    (error.code().expect("a state").into_owned(), error.message().to_owned())
}

#[tokio::test]
async fn pub_8_enqueue_shares_the_callers_transaction() {
    let my = My::on_database_time().await;
    let mut conn = my.connection().await;
    for (end, rows) in [("rollback", 0), ("commit", 1)] {
        conn.execute("start transaction").await.expect("begins");
        conn.execute("insert into business values (1)").await.expect("business row");
        enqueue(&mut conn, "order.placed", b"{\"order\": 7}", None).await.expect("enqueues");
        conn.execute(end).await.expect("ends");
        assert_eq!(count(&my, "select count(*) from business").await, rows);
        assert_eq!(count(&my, "select count(*) from postroom_outbox_queue").await, rows);
    }
    let view = "select topic, status, retry_count, payload_text from postroom_outbox";
    let row = sqlx::query(view).fetch_one(&my.pool).await.expect("the view");
    assert_eq!(row.get::<String, _>("status"), "ready");
    assert_eq!(row.get::<String, _>("payload_text"), "{\"order\": 7}");
    drop(conn);
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b07_enqueue_outside_a_transaction_is_refused() {
    let my = with_contested_rows().await;
    let refusal = "no transaction is open: begin one, publish in it, then commit";
    let mut conn = my.connection().await;
    let error = enqueue(&mut conn, "t", b"x", None).await.expect_err("none was begun");
    assert_eq!(message_of(error), ("25000".to_owned(), refusal.to_owned()));
    conn.execute("start transaction").await.expect("begins");
    my.write_business_row(&mut conn, 1).await;
    enqueue(&mut conn, "t", b"x", None).await.expect("enqueues");
    make_victim(&my, &mut conn).await;
    let error = enqueue(&mut conn, "t", b"x", None).await.expect_err("the deadlock ended it");
    assert_eq!(message_of(error), ("25000".to_owned(), refusal.to_owned()));
    conn.execute("commit").await.expect("there is nothing to commit");
    assert_eq!(count(&my, "select count(*) from postroom_outbox_message").await, 0);
    assert!(my.business_rows().await.is_empty());
    drop(conn);
    my.finish().await;
}

fn odd() -> MessageBuilder {
    Message::builder("\u{dc}ber.\u{1f4ee} placed")
        .payload("\u{e4}{}\0\"\\")
        .content_type("text/plain; charset=utf-8")
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .header("tracestate", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")
        .header("h", "v\u{e4} \u{1f600} \"quoted\" \\ back")
        .header("$.a[0]", "a path")
        .header("qu\"ote\\d", "")
        .header("UPPER", "1")
        .header("upper", "2")
        .aggregate("\u{f6}rder", "7 ")
        .correlation_id("c ")
        .causation_id("\u{1f4a1}")
        .priority(-5)
        .occurred_at(UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456))
        .expires_at(UNIX_EPOCH + Duration::from_micros(4_000_000_000_000_001))
}

fn options(message: &Message) -> Value {
    let headers = message.headers().to_json();
    let text = |text: Option<&str>| text.map(str::to_owned);
    let iso = |micros: i64| {
        // Of the few times that these tests have.
        match micros {
            1_700_000_000_123_456 => "2023-11-14T22:13:20.123456Z",
            4_000_000_000_000_001 => "2096-10-02T09:06:40.000001+02:00",
            4_000_000_000_000_000 => "2096-10-02 07:06:40",
            other => panic!("{other}"),
        }
    };
    json!({
        "id": message.id().as_uuid(),
        "content_type": message.content_type(),
        "headers": headers.map(|headers| serde_json::from_str::<Value>(&headers).expect("JSON")),
        "aggregate_type": text(message.aggregate_type().map(AsRef::as_ref)),
        "aggregate_id": text(message.aggregate_id().map(AsRef::as_ref)),
        "ordering_key": text(message.ordering_key().map(AsRef::as_ref)),
        "tenant_id": text(message.tenant_id().map(AsRef::as_ref)),
        "correlation_id": text(message.correlation_id().map(AsRef::as_ref)),
        "causation_id": text(message.causation_id().map(AsRef::as_ref)),
        "idempotency_key": message.idempotency_key().map(|key| key.as_uuid()),
        "occurred_at": message.occurred_at().map(|at| iso(at.as_micros())),
        "due_at": message.due().map(|at| iso(at.resolve(at_zero()).as_micros())),
        "expires_at": message.expires().map(|at| iso(at.resolve(at_zero()).as_micros())),
        "priority": message.priority(),
    })
}

fn at_zero() -> postroom_core::Timestamp {
    postroom_core::Timestamp::from_micros(0)
}

/// What the tables say of one message, whichever of them has it.
const PLACES: &str = "
    select seq, cast(null as signed) as slot, cast(null as signed) as key_hash, topic_hash,
        tenant_hash, -band as priority, expires_at, cast(null as signed) as wake_at
    from postroom_outbox_queue where id = ?
    union all
    select seq, slot, key_hash, topic_hash, tenant_hash, priority, expires_at, null
    from postroom_outbox_ordered where id = ?
    union all
    select seq, slot, key_hash, topic_hash, tenant_hash, priority, expires_at, wake_at
    from postroom_outbox_parked where id = ?";

async fn place(my: &My, id: MessageId) -> MySqlRow {
    let id = id.as_uuid();
    let rows = sqlx::query(PLACES).bind(id).bind(id).bind(id).fetch_all(&my.pool).await;
    let mut rows = rows.expect("rows");
    assert_eq!(rows.len(), 1, "a message has one place");
    rows.remove(0)
}

/// Everything that is derived, from one that Rust wrote or SQL did.
async fn derived(my: &My, message: &Message) -> Vec<Option<i64>> {
    let row = place(my, message.id()).await;
    let columns =
        ["slot", "key_hash", "topic_hash", "tenant_hash", "priority", "expires_at", "wake_at"];
    columns.into_iter().map(|column| row.get(column)).collect()
}

async fn key_row(my: &My, message: &Message) -> Option<(Vec<u8>, Vec<u8>)> {
    let sql = "select hash, content_hash from postroom_outbox_key where message_id = ?";
    let row = sqlx::query(sql).bind(message.id().as_uuid()).fetch_optional(&my.pool).await;
    row.expect("a row").map(|row| (row.get("hash"), row.get("content_hash")))
}

#[tokio::test]
async fn pub_8_what_sql_writes_is_what_rust_would_have_written() {
    let my = My::on_database_time().await;
    let outbox = Outbox::new(my.store());
    let later = UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    let kinds: [fn(MessageBuilder) -> MessageBuilder; 6] = [
        |message| message,
        |message| message.tenant_id("\u{e4}cme ").idempotency_key(Uuid::new_v4()),
        |message| message.ordering_key("Order-7 "),
        |message| message.ordering_key("order-7").tenant_id("acme"),
        |message| message.idempotency_key(Uuid::new_v4()),
        |message| {
            message.tenant_id("acme").ordering_key("\u{1f511}").idempotency_key(Uuid::new_v4())
        },
    ];
    for (kind, due) in kinds.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let build = || kind(if due { odd().due_at(later) } else { odd() });
        let message = build().build().expect("legal");
        let (topic, payload) = (message.topic().as_str(), message.payload());
        let mut tx = my.pool.begin().await.expect("begins");
        let answer = enqueue(&mut tx, topic, payload, Some(options(&message))).await;
        assert_eq!(answer.expect("enqueues"), (message.id().as_uuid(), false));
        tx.commit().await.expect("commits");

        let row = place(&my, message.id()).await;
        let lane = message.lane();
        assert_eq!(row.get::<Option<i64>, _>("slot"), lane.map(|lane| i64::from(lane.slot)));
        assert_eq!(row.get::<Option<i64>, _>("key_hash"), lane.map(|lane| lane.key_hash));
        assert_eq!(row.get::<i64, _>("topic_hash"), message.topic_hash());
        assert_eq!(row.get::<Option<i64>, _>("tenant_hash"), message.tenant_hash());
        let key = key_row(&my, &message).await;
        let wanted = message.idempotency_key().map(|key: IdempotencyKey| {
            (key.scoped(message.tenant_id()).to_vec(), message.content_hash().to_vec())
        });
        assert_eq!(key, wanted);
        let stored = my.store.get(message.id()).await.expect("get").expect("is there").record;
        assert_eq!(stored.message.as_ref(), Some(&message));

        // A twin that Rust writes has the same of everything but its id and its place.
        let twin = build().id(MessageId::new()).build().expect("legal");
        outbox.publish(twin.clone()).await.expect("publishes");
        assert_eq!(derived(&my, &twin).await, derived(&my, &message).await);
        // And Rust finds what SQL wrote.
        let again = outbox.publish(message.clone()).await.expect("a duplicate is success");
        assert_eq!((again.already_existed, again.id), (true, message.id()));
    }
    my.finish().await;
}

#[tokio::test]
async fn pub_8_a_rust_worker_claims_what_sql_published() {
    let my = My::on_database_time().await;
    let messages = [
        odd().build().expect("legal"),
        odd().ordering_key("a").tenant_id("acme").build().expect("legal"),
        odd().idempotency_key(Uuid::new_v4()).build().expect("legal"),
        Message::builder("t").payload("").build().expect("legal"),
    ];
    let mut tx = my.pool.begin().await.expect("begins");
    for message in &messages {
        let (topic, payload) = (message.topic().as_str(), message.payload());
        enqueue(&mut tx, topic, payload, Some(options(message))).await.expect("enqueues");
    }
    tx.commit().await.expect("commits");
    let queue = WorkQueue::new(my.store());
    let me = OwnerToken::random();
    let items = queue.claim(me, Duration::from_secs(30), 10).await.expect("claims").items;
    assert_eq!(items.len(), messages.len());
    for message in &messages {
        let item = items.iter().find(|item| item.message.id() == message.id());
        let got = &item.expect("it is among them").message;
        // Without a time of its own it happened when it was written.
        let wanted = match message.occurred_at() {
            Some(_) => message.clone(),
            None => message.as_written(got.occurred_at().expect("a time")),
        };
        assert_eq!(*got, wanted);
    }
    my.finish().await;
}

#[tokio::test]
async fn pub_6_a_duplicate_key_answers_with_the_first_id_and_keeps_the_transaction() {
    let my = My::on_database_time().await;
    let options = json!({"idempotency_key": Uuid::from_u128(1), "tenant_id": "acme"});
    let mut tx = my.pool.begin().await.expect("begins");
    let first = enqueue(&mut tx, "t", b"first", Some(options.clone())).await.expect("enqueues");
    let second = enqueue(&mut tx, "t", b"second", Some(options)).await.expect("a duplicate");
    my.write_business_row(&mut tx, 1).await;
    tx.commit().await.expect("the transaction is whole");
    assert_eq!((first.1, second.1, first.0 == second.0), (false, true, true));
    assert_eq!(first.0.get_version_num(), 7);
    let other = json!({"idempotency_key": Uuid::from_u128(1), "tenant_id": "Acme"});
    assert!(!enqueue_alone(&my, "t", Some(other)).await.1, "another tenant");
    assert_eq!(count(&my, "select count(*) from postroom_outbox_message").await, 2);

    let mut tx = my.pool.begin().await.expect("begins");
    let taken = enqueue(&mut tx, "other", b"x", Some(json!({"id": first.0}))).await;
    let (code, text) = message_of(taken.expect_err("has other content"));
    assert!(code == "23000" && text.contains("belongs to a message with other content"), "{text}");
    tx.commit().await.expect("the transaction is whole");
    assert_eq!(my.business_rows().await, [1]);
    my.finish().await;
}

#[tokio::test]
async fn msg_2_limits_name_the_field_and_keep_the_transaction() {
    let my = My::on_database_time().await;
    let mut tx = my.pool.begin().await.expect("begins");
    my.write_business_row(&mut tx, 1).await;
    let long = "\u{e4}".repeat(256);
    for (topic, options, expected) in [
        ("", json!({}), "topic must be 1 to 255 characters, got 0 characters"),
        (&long, json!({}), "topic must be 1 to 255 characters, got 256 characters"),
        ("a\nb", json!({}), "topic must be free of control characters"),
        (
            "t",
            json!({"max_payload_bytes": 2}),
            "payload must be at most 2 bytes (max_payload_bytes), got 3 bytes",
        ),
        (
            "t",
            json!({"tenant_id": &long[..130]}),
            "tenant_id must be 1 to 64 characters, got 65 characters",
        ),
        ("t", json!({"priority": 101}), "priority must be -100 to 100, got 101"),
        ("t", json!({"headers": []}), "headers must be a JSON object of strings"),
        ("t", json!({"headers": {"n": 1}}), "headers must be a JSON object of strings"),
        (
            "t",
            json!({"headers": {"n": "a\nb"}}),
            "value of header n must be free of CR, LF and NUL",
        ),
        ("t", json!({"tenant": "acme"}), "unknown option \"tenant\""),
    ] {
        let error = enqueue(&mut tx, topic, b"abc", Some(options.clone())).await;
        let (code, text) = message_of(error.expect_err(expected));
        assert_eq!((code.as_str(), text.as_str()), ("22023", expected), "{options}");
    }
    let fits = json!({
        "tenant_id": &long[..128], "correlation_id": "", "headers": {"n": "v".repeat(16_383)},
    });
    enqueue(&mut tx, &long[..510], b"x", Some(fits)).await.expect("each limit itself is legal");
    tx.commit().await.expect("the transaction is whole");
    assert_eq!(count(&my, "select count(*) from postroom_outbox_message").await, 1);
    assert_eq!(my.business_rows().await, [1]);
    my.finish().await;
}

struct Claimed {
    seq: i64,
    token: String,
    id: MessageId,
}

const ME: &str = "00000000-0000-4000-8000-000000000001";
const STRANGER: &str = "00000000-0000-4000-8000-000000000002";

async fn claim(my: &My, batch: i32) -> Vec<Claimed> {
    let rows = sqlx::query("call postroom_outbox_claim(?, 30, ?, null)").bind(ME).bind(batch);
    let rows = rows.fetch_all(&my.pool).await.expect("claims");
    let claimed = rows.iter().map(|row| Claimed {
        seq: row.get("seq"),
        token: row.get("token"),
        id: row.get::<String, _>("id").parse::<Uuid>().expect("a UUID").into(),
    });
    claimed.collect()
}

/// The seqs that a call answers with.
async fn settle(my: &My, sql: &'static str, owner: &'static str, items: &[&Claimed]) -> Vec<i64> {
    let items: Vec<_> = items.iter().map(|item| json!([item.seq, item.token])).collect();
    let query = sqlx::query_scalar(sql).bind(owner).bind(json!(items).to_string());
    query.fetch_all(&my.pool).await.expect(sql)
}

async fn record(my: &My, id: MessageId) -> Record {
    my.store.get(id).await.expect("get").expect("is there").record
}

#[tokio::test]
async fn wq_3_a_worker_in_sql_settles_what_rust_published() {
    let my = My::on_database_time().await;
    let outbox = Outbox::new(my.store());
    let ack = "call postroom_outbox_ack(?, ?, null)";
    let fail = "call postroom_outbox_fail(?, ?, '{\"error\": \"no good\"}')";
    let abandon =
        "call postroom_outbox_abandon(?, ?, '{\"error\": \"later\", \"delay_seconds\": 3600}')";
    let release = "call postroom_outbox_release(?, ?)";
    let renew = "call postroom_outbox_renew(?, ?, 7200)";
    for ordered in [false, true] {
        for (sql, expected, attempts, error) in [
            (ack, State::Done, 0, None),
            (fail, State::Dead, 1, Some("no good")),
            (abandon, State::Ready, 1, Some("later")),
            (release, State::Ready, 0, None),
        ] {
            let message = Message::builder("t");
            let message = if ordered { message.ordering_key(sql) } else { message };
            let id = outbox.publish(message).await.expect("publishes").id;
            let claimed = claim(&my, 10).await;
            assert_eq!(claimed.iter().map(|item| item.id).collect::<Vec<_>>(), [id], "{sql}");
            let item = &claimed[0];
            assert_eq!(record(&my, id).await.owner.expect("held").to_string(), ME);
            assert!(settle(&my, sql, STRANGER, &[item]).await.is_empty(), "not theirs");
            let before = record(&my, id).await.locked_until.expect("held");
            assert_eq!(settle(&my, renew, ME, &[item]).await, [item.seq]);
            let after = record(&my, id).await.locked_until.expect("held");
            // A slot is renewed with its rows.
            assert!(after.since(before) > Duration::from_secs(3_600), "{sql}");
            assert_eq!(settle(&my, sql, ME, &[item, item]).await, [item.seq], "{sql}");
            assert!(settle(&my, sql, ME, &[item]).await.is_empty(), "settled before");
            let record = record(&my, id).await;
            let got = (record.state, record.attempts, record.last_error.as_deref());
            assert_eq!(got, (expected, attempts, error), "{sql}");
            if sql == release {
                let again = claim(&my, 10).await;
                assert_eq!(settle(&my, ack, ME, &[&again[0]]).await, [item.seq]);
            }
        }
    }
    run(&my.pool, "call postroom_outbox_leave('00000000-0000-4000-8000-000000000001')").await;
    let owned = "select count(*) from postroom_outbox_slot where owner is not null";
    assert_eq!(count(&my, owned).await, 0);
    my.finish().await;
}

#[tokio::test]
async fn dsp_7_abandon_backs_off_and_the_last_attempt_is_dead() {
    let my = My::on_database_time().await;
    let (id, _) = enqueue_alone(&my, "t", None).await;
    let items = claim(&my, 10).await;
    let abandon = "call postroom_outbox_abandon(?, ?, null)";
    assert_eq!(settle(&my, abandon, ME, &[&items[0]]).await, [items[0].seq]);
    let wait = "select wake_at - timestampdiff(
            microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6)
        ) from postroom_outbox_parked";
    assert!(count(&my, wait).await <= 300_000, "200 ms with jitter");
    run(&my.pool, "update postroom_outbox_parked set wake_at = 1").await;
    let items = claim(&my, 10).await;
    let last = "call postroom_outbox_abandon(?, ?, '{\"error\": \"boom\", \"max_attempts\": 2}')";
    assert_eq!(settle(&my, last, ME, &[&items[0]]).await, [items[0].seq]);
    let record = record(&my, id.into()).await;
    assert_eq!((record.state, record.attempts), (State::Dead, 2));
    assert_eq!(record.reason, Some(DeadReason::Attempts));
    let view = "select cast(concat(dead_reason, ': ', last_error) as char) from postroom_outbox";
    let view: String = sqlx::query_scalar(view).fetch_one(&my.pool).await.expect("the view");
    assert_eq!(view, "attempts used up: boom");
    my.finish().await;
}

#[tokio::test]
async fn wq_8_reap_from_sql() {
    let my = My::on_database_time().await;
    let (id, _) = enqueue_alone(&my, "t", None).await;
    assert_eq!(claim(&my, 10).await.len(), 1);
    run(&my.pool, "update postroom_outbox_queue set locked_until = 1").await;
    let row = sqlx::query("call postroom_outbox_reap(null, null)").fetch_one(&my.pool).await;
    assert_eq!(row.expect("a row").get::<i32, _>("released"), 1);
    let record = record(&my, id.into()).await;
    assert_eq!((record.state, record.lost, record.attempts), (State::Ready, 1, 0));
    my.finish().await;
}

/// In the caller's transaction they neither begin nor end one.
#[tokio::test]
async fn wq_3_a_claim_and_an_ack_roll_back_with_the_callers_transaction() {
    let my = My::on_database_time().await;
    let (id, _) = enqueue_alone(&my, "t", None).await;
    let mut tx = my.pool.begin().await.expect("begins");
    my.write_business_row(&mut tx, 1).await;
    let rows = sqlx::query("call postroom_outbox_claim(?, 30, 10, null)").bind(ME);
    let rows = rows.fetch_all(&mut *tx).await.expect("claims");
    let items = json!([[rows[0].get::<i64, _>("seq"), rows[0].get::<String, _>("token")]]);
    let ack = sqlx::query("call postroom_outbox_ack(?, ?, null)").bind(ME).bind(items.to_string());
    assert_eq!(ack.fetch_all(&mut *tx).await.expect("acks").len(), 1);
    tx.rollback().await.expect("rolls back");
    assert_eq!(record(&my, id.into()).await.state, State::Ready);
    assert!(my.business_rows().await.is_empty());
    my.finish().await;
}

#[tokio::test]
async fn join_1_what_sql_acks_counts() {
    let my = My::on_database_time().await;
    let outbox = Outbox::new(my.store());
    let mut tx = outbox.begin().await.expect("begins");
    let join = Join::expecting(2).on_success(Message::builder("all.done"));
    let join = tx.start_join(join).expect("legal");
    let rust = tx.publish(Message::builder("t")).expect("legal");
    tx.commit().await.expect("commits");
    let (sql, _) = enqueue_alone(&my, "t", None).await;
    outbox.attach(join, &[rust, sql.into()]).await.expect("attaches");
    let items = claim(&my, 10).await;
    let ack = "call postroom_outbox_ack(?, ?, null)";
    assert_eq!(settle(&my, ack, ME, &items.iter().collect::<Vec<_>>()).await.len(), 2);
    let record = my.store.join(join).await.expect("join").expect("it is there");
    assert_eq!((record.state, record.done), (JoinState::Succeeded, 2));
    let next = my.store.next_due().await.expect("due");
    assert!(next.is_none(), "the follow-up is ready now");
    let ended = claim(&my, 10).await;
    assert_eq!(ended.len(), 1);
    assert_eq!(self::record(&my, ended[0].id).await.topic, "all.done");
    my.finish().await;
}

#[tokio::test]
async fn pub_8_the_inbox_has_the_same_procedures() {
    let my = My::on_database_time().await;
    let mut conn = my.connection().await;
    conn.execute("start transaction").await.expect("begins");
    for _ in 0..5 {
        conn.execute("call postroom_inbox_enqueue('t', '{}', null)").await.expect("enqueues");
    }
    conn.execute("commit").await.expect("commits");
    let rows = sqlx::query("call postroom_inbox_claim(?, 30, 10, null)").bind(ME);
    let rows = rows.fetch_all(&my.pool).await.expect("claims");
    assert_eq!(rows.len(), 5);
    for (place, sql) in [
        (0, "call postroom_inbox_renew(?, ?, 60)"),
        (0, "call postroom_inbox_ack(?, ?, null)"),
        (1, "call postroom_inbox_abandon(?, ?, null)"),
        (2, "call postroom_inbox_fail(?, ?, null)"),
        (3, "call postroom_inbox_release(?, ?)"),
    ] {
        let row: &MySqlRow = &rows[place];
        let items = json!([[row.get::<i64, _>("seq"), row.get::<String, _>("token")]]);
        let settled = sqlx::query(sql).bind(ME).bind(items.to_string()).fetch_all(&my.pool).await;
        assert_eq!(settled.expect(sql).len(), 1, "{sql}");
    }
    run(&my.pool, "call postroom_inbox_reap(null, null)").await;
    assert_eq!(count(&my, "select count(*) from postroom_outbox_message").await, 0);
    drop(conn);
    my.finish().await;
}
