//! Publishing by a plain INSERT, as any program with a SQLite library can.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::sqlite_harness::{InFile, Place, open_in};
use crate::wakes_support::{PATIENCE, come_to_rest, counted, listening, until_wakes};
use postroom_core::lifecycle::{DeadReason, Outcome, State};
use postroom_core::store::{AdminStore, List, Pause, Record, Refusal, Status, Store, WorkItem};
use postroom_core::{
    Clock, ErrorKind, IdempotencyKey, ManualClock, Message, MessageId, Outbox, OwnerToken, When,
    WorkQueue,
};
use postroom_stores::{Queue, SqliteStore, StoreConfig};
use postroom_testkit::drain;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, SqliteConnection};
use tempfile::TempDir;

const KEY: &str = "267deaec-5c4f-87f2-a67a-544ae997a64d";

/// A store, and another program on its file.
struct Env {
    folder: TempDir,
    store: Arc<SqliteStore>,
    program: SqliteConnection,
}

impl Env {
    async fn new() -> Self {
        Self::with(StoreConfig::default()).await
    }

    async fn with(config: StoreConfig) -> Self {
        let folder = tempfile::tempdir().expect("a temp folder");
        let store = SqliteStore::open(&InFile::url(&folder), config).await.expect("open");
        store.migrate().await.expect("migrate");
        let program = program(&folder).await;
        Self { folder, store: Arc::new(store), program }
    }

    async fn run(&mut self, sql: &str) {
        let done = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut self.program).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Inserts a message without a payload: the other columns, and their values.
    async fn insert(&mut self, columns: &str, values: &str) {
        let table = "postroom_outbox_incoming";
        self.run(&format!("insert into {table} (payload, {columns}) values ('', {values})")).await;
    }

    async fn handled(&self) -> Vec<Message> {
        handled(&self.store).await
    }

    /// The topics of what can be handled now, in this order.
    async fn topics(&self) -> Vec<String> {
        self.handled().await.iter().map(|message| message.topic().to_string()).collect()
    }

    async fn dead(&self) -> Vec<Record> {
        let list = List { status: Some(Status::Dead), ..List::default() };
        self.store.list(&list).await.expect("list").records
    }
}

async fn program(folder: &TempDir) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(InFile::url(folder));
    options.connect().await.expect("connect")
}

async fn handled(store: &Arc<SqliteStore>) -> Vec<Message> {
    let handled = Mutex::new(Vec::new());
    let handle = |item: WorkItem| {
        handled.lock().expect("lock").push(item.message);
        async { Outcome::Done }
    };
    drain(Arc::clone(store) as Arc<dyn Store>, handle).await.expect("drain");
    handled.into_inner().expect("lock")
}

#[tokio::test]
async fn pub_8_an_inserted_message_is_claimed_with_every_field_as_given() {
    let mut env = Env::new().await;
    env.run(&format!(
        "insert into postroom_outbox_incoming (
           topic, payload, content_type, headers, aggregate_type, aggregate_id, ordering_key,
           tenant_id, correlation_id, causation_id, idempotency_key, occurred_at, due_at,
           expires_at, priority, id
         )
         values (
           'order.placed', x'00ff', 'image/png', '{{\"source\": \"shop\", \"note\": \"Grüße\"}}',
           'order', '7', 'order-7', 'acme', 'request-1', 'event-1', '{KEY}', 1700000000123456,
           1700000000000001, 4000000000000000, -7, x'0192f3a0b1c27d3e8f405162738495a6'
         )"
    ))
    .await;
    assert_eq!(env.store.stats().await.expect("stats").ready, 1, "it counts before it is taken in");
    let taken = env.handled().await;
    let expected = Message::builder("order.placed")
        .payload(&b"\x00\xff"[..])
        .content_type("image/png")
        .header("source", "shop")
        .header("note", "Grüße")
        .aggregate("order", "7")
        .ordering_key("order-7")
        .tenant_id("acme")
        .correlation_id("request-1")
        .causation_id("event-1")
        .idempotency_key(KEY.parse::<IdempotencyKey>().expect("a UUID"))
        .priority(-7)
        .build()
        .expect("legal");
    assert_eq!(taken.len(), 1);
    let message = &taken[0];
    assert_eq!(message.content_hash(), expected.content_hash());
    assert_eq!(message.lane(), expected.lane());
    assert_eq!(message.headers(), expected.headers());
    assert_eq!(message.id().to_string(), "0192f3a0-b1c2-7d3e-8f40-5162738495a6");
    let micros = |when: Option<When>| match when {
        Some(When::At(time)) => time.as_micros(),
        other => panic!("{other:?}"),
    };
    assert_eq!(message.occurred_at().map(|time| time.as_micros()), Some(1_700_000_000_123_456));
    assert_eq!(micros(message.due()), 1_700_000_000_000_001);
    assert_eq!(micros(message.expires()), 4_000_000_000_000_000);
    let stats = env.store.stats().await.expect("stats");
    assert_eq!((stats.ready, stats.done, stats.dead), (0, 1, 0));
}

#[tokio::test]
async fn pub_8_what_is_not_given_has_the_usual_defaults() {
    let mut env = Env::new().await;
    env.insert("topic, correlation_id", "'a', ''").await;
    env.run("insert into postroom_outbox_incoming (topic, payload) values ('b', 'Grüße')").await;
    let taken = env.handled().await;
    let [a, b] = &taken[..] else { panic!("{taken:?}") };
    assert_eq!((a.payload().len(), a.content_type()), (0, Message::DEFAULT_CONTENT_TYPE));
    assert_eq!(b.payload().as_ref(), "Grüße".as_bytes());
    assert_eq!((a.correlation_id(), a.priority(), a.due()), (None, 0, None));
    assert_eq!(a.id().as_uuid().get_version_num(), 7);
    assert!(a.id() < b.id());
    assert!(a.occurred_at().is_some_and(|time| time <= Clock::Database.now()));
}

#[tokio::test]
async fn pub_8_a_rollback_leaves_nothing() {
    let mut env = Env::new().await;
    env.run("create table business (n integer)").await;
    env.run("begin; insert into business values (1)").await;
    env.insert("topic", "'never'").await;
    env.run("rollback; begin; insert into business values (2)").await;
    env.insert("topic", "'kept'").await;
    env.run("savepoint s").await;
    env.insert("topic", "'undone'").await;
    env.run("rollback to s; commit").await;
    assert_eq!(env.topics().await, ["kept"]);
    let rows = sqlx::query_scalar::<_, i64>("select n from business");
    assert_eq!(rows.fetch_all(env.store.writer()).await.expect("select"), [2]);
}

#[tokio::test]
async fn pub_8_nothing_is_claimed_before_the_commit() {
    let mut env = Env::new().await;
    env.run("pragma busy_timeout = 0; begin").await;
    env.insert("topic", "'a'").await;
    // The writer has to wait, and only a reader can look.
    assert_eq!(env.store.stats().await.expect("stats").ready, 0);
    env.run("commit").await;
    assert_eq!(env.topics().await, ["a"]);
}

#[tokio::test]
async fn pub_6_the_same_key_again_vanishes() {
    let mut env = Env::new().await;
    let simple = KEY.replace('-', "").to_uppercase();
    env.insert("topic, idempotency_key", &format!("'first', '{KEY}'")).await;
    env.insert("topic, idempotency_key", &format!("'again', '{simple}'")).await;
    env.insert("topic, idempotency_key", &format!("'as bytes', x'{simple}'")).await;
    env.insert("topic, idempotency_key, tenant_id", &format!("'other', '{KEY}', 'acme'")).await;
    assert_eq!(env.topics().await, ["first", "other"]);
    env.insert("topic, idempotency_key", &format!("'later', '{KEY}'")).await;
    env.insert("topic", "'behind it'").await;
    assert_eq!(env.topics().await, ["behind it"]);
    let key: IdempotencyKey = KEY.parse().expect("a UUID");
    let outbox = Outbox::new(Arc::clone(&env.store));
    let published = outbox.publish(Message::builder("rust").idempotency_key(key)).await;
    assert!(published.expect("publish").already_existed);
    assert_eq!(env.store.stats().await.expect("stats").dead, 0);
}

#[tokio::test]
async fn pub_6_an_id_again_vanishes_for_equal_content_and_is_a_dead_letter_otherwise() {
    let mut env = Env::new().await;
    let outbox = Outbox::new(Arc::clone(&env.store));
    let id = outbox.publish(Message::builder("rust")).await.expect("publish").id;
    for topic in ["before", "rust", "thief", "after"] {
        let id = if matches!(topic, "rust" | "thief") { format!("'{id}'") } else { "null".into() };
        env.insert("topic, id, idempotency_key", &format!("'{topic}', {id}, null")).await;
    }
    // Two of one id among those that are taken in together.
    let own = MessageId::new();
    for topic in ["one", "one", "two"] {
        env.insert("topic, id", &format!("'{topic}', '{own}'")).await;
    }
    assert_eq!(env.topics().await, ["rust", "before", "after", "one"]);
    let dead = env.dead().await;
    let topics: Vec<_> = dead.iter().map(|record| record.topic.as_str()).collect();
    assert_eq!(topics, ["two", "thief"]);
    for (record, taken) in dead.iter().zip([own, id]) {
        assert_eq!(record.reason, Some(DeadReason::Permanent));
        let error = record.last_error.as_deref().expect("an error");
        assert!(error.contains(&format!("message id {taken} belongs to")), "{error}");
    }
    // It is not lost.
    let thief = dead[1].id;
    assert_eq!(env.store.replay(&[thief]).await.expect("replay").applied, [thief]);
    assert_eq!(env.topics().await, ["thief"]);
}

#[tokio::test]
async fn ord_1_the_order_of_a_key_is_that_of_the_commits_whoever_publishes() {
    let mut env = Env::new().await;
    let outbox = Outbox::new(Arc::clone(&env.store));
    let rust = async |topic| {
        outbox.publish(Message::builder(topic).ordering_key("k")).await.expect("publish")
    };
    env.insert("topic, ordering_key", "'1', 'k'").await;
    rust("2").await;
    env.insert("topic, ordering_key", "'3', 'k'").await;
    env.insert("topic, ordering_key", "'4', 'k'").await;
    rust("5").await;
    env.insert("topic, ordering_key", "'6', 'k'").await;
    assert_eq!(env.topics().await, ["1", "2", "3", "4", "5", "6"]);
    // A table that was emptied does not begin anew.
    rust("7").await;
    env.insert("topic, ordering_key", "'8', 'k'").await;
    rust("9").await;
    assert_eq!(env.topics().await, ["7", "8", "9"]);
}

/// More than a claim takes in: the last of them is in front of what Rust published after it.
#[tokio::test]
async fn ord_1_a_backlog_that_is_not_taken_in_yet_is_not_overtaken() {
    let mut env = Env::new().await;
    let outbox = Outbox::new(Arc::clone(&env.store));
    let fill = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 2500)
        insert into postroom_outbox_incoming (topic, payload, ordering_key)
        select 'fill', '', 'other-' || (i % 50) from n";
    env.run(fill).await;
    env.insert("topic, ordering_key", "'first', 'k'").await;
    outbox.publish(Message::builder("second").ordering_key("k")).await.expect("publish");
    let topics = env.topics().await;
    assert_eq!(topics.len(), 2_502);
    let of_key: Vec<_> = topics.iter().filter(|topic| *topic != "fill").collect();
    assert_eq!(of_key, ["first", "second"]);
}

#[tokio::test]
async fn sec_6_large_payloads_are_taken_in_a_few_at_a_time() {
    let mut env = Env::new().await;
    for _ in 0..10 {
        env.run(
            "insert into postroom_outbox_incoming (topic, payload)
            values ('large', zeroblob(1048576))",
        )
        .await;
    }
    let queue = WorkQueue::new(Arc::clone(&env.store) as Arc<dyn Store>);
    let claimed = queue.claim(OwnerToken::random(), Duration::from_secs(30), 100).await;
    assert_eq!(claimed.expect("claim").items.len(), 4);
    assert_eq!(env.store.stats().await.expect("stats").ready, 6);
    assert_eq!(env.handled().await.len(), 6);
}

#[tokio::test]
async fn wq_1_due_times_expiry_and_priority_are_kept() {
    let clock = ManualClock::default();
    let config = StoreConfig { clock: Clock::Manual(clock.clone()), ..StoreConfig::default() };
    let mut env = Env::with(config).await;
    let in_10_s = clock.now().as_micros() + 10_000_000;
    env.insert("topic, priority", "'low', -1").await;
    env.insert("topic", "'plain'").await;
    env.insert("topic, priority", "'high', 100").await;
    env.insert("topic, due_at", &format!("'later', {in_10_s}")).await;
    env.insert("topic, due_at, ordering_key", &format!("'later in turn', {in_10_s}, 'k'")).await;
    env.insert("topic, expires_at", &format!("'in vain', {in_10_s} - 10000000")).await;
    env.insert("topic, expires_at, due_at", &format!("'too late', {in_10_s}, {in_10_s}")).await;
    let stats = env.store.stats().await.expect("stats");
    assert_eq!((stats.ready, stats.waiting), (4, 3));
    assert_eq!(env.topics().await, ["high", "plain", "low"]);
    assert_eq!(env.store.next_due().await.expect("next due"), Some(Duration::from_secs(10)));
    clock.advance(Duration::from_micros(9_999_999));
    assert!(env.topics().await.is_empty());
    clock.advance(Duration::from_micros(1));
    let mut topics = env.topics().await;
    topics.sort();
    assert_eq!(topics, ["later", "later in turn"]);
    let dead = env.dead().await;
    assert!(dead.iter().all(|record| record.reason == Some(DeadReason::Expired)));
    assert_eq!(dead.len(), 2);
}

/// Fields, values that break a limit, and what the error says.
fn broken_limits() -> Vec<(String, String, String)> {
    let text = |field: &str, chars: usize| {
        (field.to_owned(), format!("'{}'", "ä".repeat(chars)), format!("1 to {}", chars - 1))
    };
    let of = |field: &str, value: &str, says: &str| {
        (field.to_owned(), value.to_owned(), says.to_owned())
    };
    let mut cases = vec![
        text("topic", 256),
        text("content_type", 256),
        text("aggregate_type", 65),
        text("aggregate_id", 129),
        text("ordering_key", 256),
        text("tenant_id", 65),
        of("correlation_id", &format!("'{}'", "x".repeat(256)), "at most 255 characters"),
        of("causation_id", &format!("'{}'", "x".repeat(256)), "at most 255 characters"),
        of("topic", "null", "NOT NULL constraint failed"),
        of("payload", "null", "NOT NULL constraint failed"),
        of("payload", "7", "payload must be text or a blob"),
        of("payload", "zeroblob(1048577)", "max_payload_bytes, which is 1048576"),
        of("payload, max_payload_bytes", "'abcd', 3", "payload must be at most"),
        of("topic", "x'61'", "topic must be text"),
        of("headers", "'{\"a\": 1}'", "headers must be a JSON object of strings"),
        of("headers", "'[\"a\"]'", "headers must be a JSON object of strings"),
        of("headers", "'garbage'", "headers must be a JSON object of strings"),
        of("headers", "json_object('', 'x')", "header name must be 1 to 128"),
        of("headers", "json_object('two words', 'x')", "header name must be 1 to 128"),
        of("headers", "json_object('x', char(13))", "free of CR, LF and NUL"),
        of("headers", "json_object('x', char(10))", "free of CR, LF and NUL"),
        of("headers", "json_object('x', hex(zeroblob(8192)))", "at most 16384 bytes"),
        of("priority", "101", "from -100 to 100"),
        of("priority", "-101", "from -100 to 100"),
        of("priority", "1.5", "from -100 to 100"),
    ];
    for field in ["topic", "content_type"] {
        for control in [0, 1, 10, 31, 127, 128, 159] {
            cases.push(of(field, &format!("'a' || char({control})"), "control characters"));
        }
    }
    let names = ["aggregate_type", "aggregate_id", "ordering_key", "tenant_id"];
    for field in names.into_iter().chain(["correlation_id", "causation_id"]) {
        cases.push(of(field, "'a' || char(0)", "without NUL"));
    }
    for field in names.into_iter().chain(["topic", "content_type"]) {
        cases.push(of(field, "''", "must be text of 1 to"));
    }
    for field in ["id", "idempotency_key"] {
        for wrong in [
            "'x'",
            "x'00'",
            "7",
            "'267deaec-5c4f-87f2-a67a-544ae997a64'",
            "'267deaec5c4f87f2-a67a544ae997a64d'",
            "'267deaec-5c4f-87f2-a67a-544ae997a64g'",
        ] {
            cases.push(of(field, wrong, "must be a UUID as text or as 16 bytes"));
        }
    }
    for field in ["occurred_at", "due_at", "expires_at"] {
        // Seconds, milliseconds, nanoseconds and a text.
        for wrong in ["1700000000", "1700000000000", "1700000000000000000", "'2026-11-16'", "1.5"] {
            cases.push(of(field, wrong, "must be whole microseconds since 1970"));
        }
    }
    cases
}

#[tokio::test]
async fn msg_2_a_broken_limit_names_its_field_and_leaves_the_transaction_usable() {
    let mut env = Env::new().await;
    env.run("begin").await;
    env.insert("topic", "'before'").await;
    for (field, value, says) in &broken_limits() {
        let required = [("topic", "'t'"), ("payload", "''")];
        let rest: Vec<_> = required.iter().filter(|(name, _)| !field.starts_with(name)).collect();
        let names: Vec<_> = rest.iter().map(|(name, _)| *name).chain([field.as_str()]).collect();
        let values: Vec<_> = rest.iter().map(|(_, v)| *v).chain([value.as_str()]).collect();
        let (names, values) = (names.join(", "), values.join(", "));
        let sql = format!("insert into postroom_outbox_incoming ({names}) values ({values})");
        let refused = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut env.program).await;
        let error = refused.expect_err(&format!("{field} {value}")).to_string();
        let named = if field == "headers" { "header" } else { field.split(',').next().unwrap() };
        assert!(error.contains(named) && error.contains(says), "{field} {value}: {error}");
    }
    env.insert("topic", "'after'").await;
    env.run("commit").await;
    assert_eq!(env.topics().await, ["before", "after"]);
}

/// What is at the limit passes, here and in Rust: nothing becomes a dead letter.
#[tokio::test]
async fn msg_2_what_just_fits_is_delivered() {
    let mut env = Env::new().await;
    let long = |chars: usize| format!("'{}'", "ä".repeat(chars));
    for (field, value) in [
        ("content_type", long(255)),
        ("aggregate_type", long(64)),
        ("aggregate_id", long(128)),
        ("ordering_key", long(255)),
        ("tenant_id", long(64)),
        ("tenant_id", "char(10)".to_owned()),
        ("correlation_id", long(255)),
        ("causation_id", "''".to_owned()),
        ("headers", "'{}'".to_owned()),
        ("headers", "json_object('x', hex(zeroblob(8191)) || 'x')".to_owned()),
        ("headers", format!("json_object('{}', char(9) || ' ü')", "~".repeat(128))),
        ("priority", "-100".to_owned()),
        ("priority", "100.0".to_owned()),
        ("due_at", "100000000000000".to_owned()),
        ("expires_at", "253402300799000000".to_owned()),
        ("id", "x'00000000000000000000000000000001'".to_owned()),
        ("max_payload_bytes", "0".to_owned()),
    ] {
        env.insert(&format!("topic, {field}"), &format!("{}, {value}", long(255))).await;
    }
    assert_eq!(env.handled().await.len(), 17);
    assert!(env.dead().await.is_empty());
}

#[tokio::test]
async fn wq_1_a_row_that_is_no_message_is_a_dead_letter_alone() {
    let mut env = Env::new().await;
    env.insert("topic", "'before'").await;
    // Legal JSON, but no text.
    env.insert("topic, headers, tenant_id", "'surrogate', '{\"x\": \"\\ud800\"}', 'acme'").await;
    env.insert("topic", "cast(x'ff61' as text)").await;
    env.run("pragma ignore_check_constraints = on").await;
    env.insert("topic, due_at", "'no time', 'tomorrow'").await;
    env.insert("topic, idempotency_key", "'no key', 'x'").await;
    env.insert("topic, tenant_id", "'no tenant', x'00'").await;
    env.insert("topic", "x'ff'").await;
    env.insert("topic", "'after'").await;
    let queue = WorkQueue::new(Arc::clone(&env.store) as Arc<dyn Store>);
    let claimed = queue.claim(OwnerToken::random(), Duration::from_secs(30), 10).await;
    let claimed = claimed.expect("claim");
    let topics: Vec<_> = claimed.items.iter().map(|item| item.message.topic().as_str()).collect();
    assert_eq!((topics, claimed.dead), (vec!["before", "after"], 6));
    let stats = env.store.stats().await.expect("stats");
    assert_eq!((stats.ready, stats.waiting, stats.dead), (0, 0, 6));
    let dead = env.dead().await;
    for record in &dead {
        assert_eq!((record.state, record.reason), (State::Dead, Some(DeadReason::Undecodable)));
        assert!(record.last_error.is_some(), "{record:?}");
    }
    let shown = dead.iter().find(|record| record.topic == "surrogate").expect("is there");
    assert_eq!(shown.tenant_id.as_deref(), Some("acme"));
    let error = shown.last_error.as_deref().expect("an error");
    assert!(error.starts_with("headers must be a JSON object of strings: "), "{error}");
    let detail = env.store.get(shown.id).await.expect("get").expect("is there");
    assert_eq!(detail.history.len(), 1);
    let refused = env.store.replay(&[shown.id]).await.expect("replay");
    assert_eq!(refused.refused, [(shown.id, Refusal::Undecodable)]);
    let discarded = env.store.discard(&[shown.id]).await.expect("discard");
    assert_eq!(discarded.applied, [shown.id]);
}

#[tokio::test]
async fn dsp_10_a_paused_queue_takes_in_and_hands_nothing_out() {
    let mut env = Env::new().await;
    let pause = Pause::default();
    assert!(env.store.pause(&pause).await.expect("pause"));
    env.insert("topic", "'a'").await;
    assert!(env.topics().await.is_empty());
    assert_eq!(env.store.list(&List::default()).await.expect("list").records[0].topic, "a");
    assert!(env.store.resume(None).await.expect("resume"));
    assert_eq!(env.topics().await, ["a"]);
}

#[tokio::test]
async fn sch_2_both_boxes_and_other_names_have_their_own() {
    let names =
        StoreConfig { schema: "mail".into(), prefix: "eu_".into(), ..StoreConfig::default() };
    let mut env = Env::with(names.clone()).await;
    let inbox = StoreConfig { queue: Queue::Inbox, ..names };
    let inbox = SqliteStore::open(&InFile::url(&env.folder), inbox).await.expect("open");
    let standard = open_in(&env.folder).await;
    for (table, topic) in
        [("mail_eu_outbox", "out"), ("mail_eu_inbox", "in"), ("postroom_outbox", "standard")]
    {
        let insert =
            format!("insert into {table}_incoming (topic, payload) values ('{topic}', '')");
        env.run(&insert).await;
    }
    for (store, topic) in [(&env.store, "out"), (&Arc::new(inbox), "in"), (&standard, "standard")] {
        let taken = handled(store).await;
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].topic().as_str(), topic);
    }
}

#[tokio::test]
async fn sch_3_version_4_is_brought_up_to_date_with_what_is_in_it() {
    let mut env = Env::new().await;
    let outbox = Outbox::new(Arc::clone(&env.store));
    let publish = async |topic| {
        outbox.publish(Message::builder(topic).ordering_key("k")).await.expect("publish")
    };
    publish("old").await;
    for queue in ["outbox", "inbox"] {
        env.run(&format!("drop table postroom_{queue}_incoming")).await;
        env.run(&format!("drop table postroom_{queue}_dispatcher")).await;
        env.run(&format!("drop index postroom_{queue}_message_aggregate")).await;
        env.run(&format!("drop index postroom_{queue}_message_ordering")).await;
    }
    env.run("drop table postroom_audit").await;
    env.run("delete from sqlite_sequence where name = 'postroom_inbox_message'").await;
    env.run("update postroom_meta set version = 4, min_client = 4").await;
    let error = env.store.check_schema().await.expect_err("too old");
    assert_eq!(error.kind(), ErrorKind::Schema);
    let migrated = env.store.migrate().await.expect("migrate");
    assert_eq!((migrated.from, migrated.to), (4, 8));
    env.store.check_schema().await.expect("it fits");
    env.insert("topic, ordering_key", "'new', 'k'").await;
    publish("newest").await;
    assert_eq!(env.topics().await, ["old", "new", "newest"]);
    let of_key = List { ordering_key: Some("k".to_owned()), ..List::default() };
    let listed = env.store.list(&of_key).await.expect("list").records;
    assert_eq!(listed.len(), 3, "what was there is in the new indexes, too");
    // Builds for version 4 go on: what they do not know of waits for a newer one.
    let meta = sqlx::query_as::<_, (i64, i64)>("select version, min_client from postroom_meta");
    assert_eq!(meta.fetch_one(&mut env.program).await.expect("meta"), (8, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn dsp_9_an_insert_of_another_program_wakes() {
    let mut env = Env::new().await;
    let other = open_in(&env.folder).await;
    let stores = [counted(&env.store), counted(&other)];
    let mut dispatcher = listening(&stores[0]);
    until_wakes(&*env.store, postroom_core::store::Wakes::Listening).await;
    for n in 0..5 {
        let id = MessageId::new();
        env.insert("topic, id, ordering_key", &format!("'t', '{id}', '{}'", n % 2)).await;
        assert_eq!(dispatcher.next().await, id);
    }
    come_to_rest([&stores[0], &stores[1]]).await;
    dispatcher.shutdown().await;
}

/// One claim can not take it all in, so it has nothing to give, and nobody else wakes the
/// dispatcher.
#[tokio::test(flavor = "multi_thread")]
async fn dsp_9_a_backlog_is_delivered_without_waiting_for_a_poll() {
    let mut env = Env::new().await;
    let fill = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 12000)
        insert into postroom_outbox_incoming (topic, payload, ordering_key)
        select 't', '', i from n";
    env.run(fill).await;
    let mut dispatcher = listening(&env.store);
    for _ in 0..12_000 {
        dispatcher.next().await;
    }
    dispatcher.shutdown().await;
}

/// In memory nobody else could wake.
#[tokio::test]
async fn dsp_9_a_claim_that_left_rows_wakes_for_the_next() {
    let store = SqliteStore::in_memory(StoreConfig::default()).await.expect("open");
    store.migrate().await.expect("migrate");
    let fill = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 1001)
        insert into postroom_outbox_incoming (topic, payload) select 't', '' from n";
    sqlx::raw_sql(fill).execute(store.writer()).await.expect("insert");
    let queue = WorkQueue::new(Arc::new(store.clone()));
    let claimed = queue.claim(OwnerToken::random(), Duration::from_secs(30), 1).await;
    assert_eq!(claimed.expect("claim").items.len(), 1);
    tokio::time::timeout(PATIENCE, store.woken()).await.expect("is woken");
}
