//! The relay, from PostgreSQL to NATS, RabbitMQ, Redis and a webhook, while everything is killed.
#![expect(clippy::print_stdout, reason = "who reads a failure wants to know what led to it")]

mod relay;

use postroom::Message;
use postroom::store::{AdminStore as _, List};
use postroom_servers::{Durability, Kind, Server};
use relay::receivers::{
    Arrived, Numbered, Webhook, check, in_nats, in_rabbit, in_redis, named_stream, nats_stream,
    protect_redis, rabbit_queue,
};
use relay::{Database, Relays, postgres_url};

const TOPICS: [&str; 4] = ["nats", "rabbit", "redis", "hook"];
const KEYS: usize = 8;
/// Messages per claim.
const BATCH: usize = 20;

fn numbered(topic: &str, key: usize, n: usize) -> Message {
    let key = format!("{topic}-{key}");
    let what = Numbered { key: key.clone(), n };
    let payload = serde_json::to_vec(&what).expect("JSON");
    let message = Message::builder(format!("{topic}.event")).payload(payload).ordering_key(key);
    message.build().expect("legal")
}

/// Routes to all four. Times are short, so that what a killed relay held is soon taken over.
fn config(schema: &str, nats: &str, rabbit: &str, redis: &str, hook: &str) -> String {
    let postgres = postgres_url();
    format!(
        r#"
[dispatcher]
lease = "3s"
timeout = "2s"
batch = {BATCH}

[stores.shop]
url = "{postgres}"
schema = "{schema}"

[sinks.nats.nats]
url = "{nats}"
timeout = "1s"

[sinks.rabbit.rabbitmq]
url = "{rabbit}"
exchange = "relay"
timeout = "1s"

[sinks.redis.redis]
url = "{redis}"
stream = "relay"
timeout = "1s"

[sinks.hook.http]
url = "{hook}"
allow_http = true
allow = ["127.0.0.0/8"]
timeout = "1s"

[[routes]]
topics = "nats.*"
sink = "nats"

[[routes]]
topics = "rabbit.*"
sink = "rabbit"

[[routes]]
topics = "redis.*"
sink = "redis"

[[routes]]
topics = "hook.*"
sink = "hook"
retry = {{ attempts = 100, base = "100ms", cap = "1s" }}
"#
    )
}

/// All four receivers.
struct Receivers {
    nats: Server,
    rabbit: Server,
    redis: Server,
    hook: Webhook,
}

impl Receivers {
    fn start() -> Self {
        let start = |kind| Server::start(kind, Durability::Discarded).expect("a broker");
        Self {
            nats: start(Kind::Nats),
            rabbit: start(Kind::RabbitMq),
            redis: start(Kind::Redis),
            hook: Webhook::start(),
        }
    }

    fn config(&self, schema: &str) -> String {
        config(schema, self.nats.url(), self.rabbit.url(), self.redis.url(), &self.hook.url())
    }

    /// Ends some of them as a crash does, others each round.
    fn kill(&mut self, round: usize) {
        match round % 3 {
            0 => {
                self.nats.kill();
                self.hook.kill();
            }
            1 => self.redis.kill(),
            _ => self.rabbit.kill(),
        }
    }

    fn start_again(&mut self, round: usize) {
        match round % 3 {
            0 => {
                self.nats.start_again().expect("NATS");
                self.hook.start_again();
            }
            1 => self.redis.start_again().expect("Redis"),
            _ => self.rabbit.start_again().expect("RabbitMQ"),
        }
    }

    /// What is at each of them, in the order of [`TOPICS`].
    async fn arrived(&self) -> [Vec<Arrived>; 4] {
        [
            in_nats(self.nats.url()).await,
            in_rabbit(self.rabbit.url()).await,
            in_redis(self.redis.url(), "relay").await,
            self.hook.arrived(),
        ]
    }
}

/// Two relays side by side, four receivers, one schedule of kills: nothing is lost, nothing dies,
/// every key is in order, and what comes twice is bounded by what was under way at the kills.
#[test]
fn rly_3_two_relays_lose_nothing_while_relays_and_brokers_are_killed() {
    let full = std::env::var_os("POSTROOM_TEST_FULL").is_some();
    let (rounds, per_round) = if full { (12, 60) } else { (3, 25) };
    let database = Database::new();
    let mut receivers = Receivers::start();
    database.runtime.block_on(async {
        nats_stream(receivers.nats.url()).await;
        rabbit_queue(receivers.rabbit.url()).await;
    });
    let mut relays = Relays::new(&receivers.config(&database.schema));
    relays.start();
    relays.start();
    for round in 0..rounds {
        let of = |topic: &'static str| {
            let range = round * per_round..(round + 1) * per_round;
            range.flat_map(move |n| (0..KEYS).map(move |key| numbered(topic, key, n)))
        };
        let (before, messages) = (database.stats().done, TOPICS.into_iter().flat_map(of));
        let messages: Vec<_> = messages.collect();
        let quarter = messages.len() as u64 / 4;
        database.publish(messages);
        // A part is delivered, a part is under way, a part has not begun.
        database.wait_for_done(before + quarter);
        relays.kill_one();
        receivers.kill(round);
        relays.start();
        // For brokers that are away, and for others.
        let of = |topic| (0..KEYS).map(move |key| numbered(topic, KEYS + key, round));
        database.publish(TOPICS.into_iter().flat_map(of).collect());
        receivers.start_again(round);
    }
    database.wait_until_delivered();
    relays.stop();
    let stats = database.stats();
    let published = TOPICS.len() * KEYS * rounds * (per_round + 1);
    assert_eq!((stats.done, stats.dead), (published as u64, 0), "{stats:?}");
    let arrived = database.runtime.block_on(receivers.arrived());
    for (name, arrived) in TOPICS.iter().zip(&arrived) {
        let (first, later): (Vec<_>, Vec<_>) =
            arrived.iter().cloned().partition(|one| number(&one.what.key) < KEYS);
        let repeated =
            check(name, &first, KEYS, rounds * per_round) + check(name, &later, KEYS, rounds);
        println!("{name}: {} arrived, {repeated} more than once", arrived.len());
        // Each round kills a relay, which had claimed some batches, and perhaps the receiver, whose
        // last answers are lost.
        let bound = rounds * 2 * BATCH;
        assert!(repeated <= bound, "{name}: {repeated} came more than once");
    }
}

/// The shared NATS, with a stream that forgets ids after two minutes, as streams do by default.
#[test]
fn b32_doctor_warns_of_a_stream_that_forgets_ids_too_early() {
    let database = Database::new();
    let nats = std::env::var("POSTROOM_TEST_NATS_URL").expect("`cargo xtask test` sets it");
    let name = database.schema.clone();
    database.runtime.block_on(named_stream(&nats, &name));
    let text = format!(
        "[stores.shop]\nurl = \"{}\"\nschema = \"{name}\"\n\
         [sinks.events.nats]\nurl = \"{nats}\"\nstream = \"{name}\"\n\
         [[routes]]\ntopics = \"*\"\nsink = \"events\"\n",
        postgres_url()
    );
    let relays = Relays::new(&text);
    let (code, page) = relays.run(&["doctor", "--config", "postroom.toml"]);
    assert_eq!(code, Some(0), "{page}");
    let warning = format!("stream {name} forgets message ids after 120s");
    assert!(page.contains(&warning) && page.contains("! sink"), "{page}");
    assert!(page.contains("✓ schema version"), "{page}");
    let enough = text.replace("topics = \"*\"", "topics = \"*\"\nretry = { attempts = 3 }");
    let (code, page) = Relays::new(&enough).run(&["doctor", "--config", "postroom.toml"]);
    assert!(code == Some(0) && page.contains("✓ sink"), "{page}");
    let away = text.replace(&nats, "nats://127.0.0.1:1");
    let (code, page) = Relays::new(&away).run(&["doctor", "--config", "postroom.toml"]);
    assert!(code == Some(1) && page.contains("✗ sink"), "{page}");
}

/// The number of a key such as `nats-3`.
fn number(key: &str) -> usize {
    key.rsplit('-').next().and_then(|number| number.parse().ok()).expect("a numbered key")
}

/// Whatever goes wrong, neither a secret nor a payload nor the value of a header is logged or kept
/// with a message, however much one asks for.
#[test]
fn x12_secrets_and_payloads_are_in_no_log() {
    let database = Database::new();
    let Receivers { nats, rabbit, redis, hook } = Receivers::start();
    database.runtime.block_on(async {
        nats_stream(nats.url()).await;
        protect_redis(redis.url(), "canary-redis").await;
    });
    let with_login = |url: &str, login: &str| {
        let (scheme, rest) = url.split_once("://").expect("a URL");
        format!("{scheme}://{login}@{}", rest.rsplit('@').next().expect("a host"))
    };
    let text = config(
        &database.schema,
        &with_login(nats.url(), "relay:canary-nats"),
        // A login that is refused.
        &with_login(rabbit.url(), "relay:canary-rabbit"),
        &with_login(redis.url(), ":canary-redis"),
        &hook.url(),
    );
    let text = text.replace(
        "allow_http = true",
        "allow_http = true\nsecrets = [\"whsec_Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5\"]\n\
         headers = { authorization = \"Bearer canary-token\" }",
    );
    let text = text.replace("postgres://postgres@", "postgres://postgres:canary-postgres@");
    let message = |topic: &str| {
        let payload = serde_json::json!({ "key": "canary-payload", "n": 0 });
        let message = Message::builder(format!("{topic}.event")).payload(payload.to_string());
        message.header("x-secret", "canary-header").build().expect("legal")
    };
    let mut relays = Relays::new(&text);
    relays.start();
    // `echo` is answered by an error that repeats what was sent; `none` has no route.
    let topics = ["nats", "redis", "hook", "rabbit", "hook.echo", "none"];
    database.publish(topics.into_iter().map(message).collect());
    database.wait_for_done(3);
    relays.wait_for_log("SINK_AWAY");
    relays.wait_for_log("no route for topic");
    relays.wait_for_log("answered 500");
    relays.stop();
    let logs = relays.logs();
    assert!(logs.contains("DEBUG") && logs.contains("OUTBOX_WORKER_FETCH"), "it logs little");
    let list = List { limit: 100, ..List::default() };
    let page = database.runtime.block_on(database.store.list(&list)).expect("a list");
    let errors = page.records.iter().filter_map(|record| record.last_error.clone());
    let errors: String = errors.collect();
    for text in [&logs, &errors] {
        let leak = text.lines().find(|line| line.contains("canary") || line.contains("Y2FuYXJ5"));
        assert_eq!(leak, None);
    }
}
