//! The relay, from PostgreSQL to NATS, RabbitMQ, Redis and a webhook, while everything is killed.

mod relay;

use postroom::Message;
use postroom_servers::{Durability, Kind, Server};
use relay::receivers::{
    Numbered, Webhook, check, in_nats, in_rabbit, in_redis, nats_stream, rabbit_queue,
};
use relay::{Database, Relays, postgres_url};

const TOPICS: [&str; 4] = ["nats", "rabbit", "redis", "hook"];
const KEYS: usize = 8;

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
batch = 20

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

/// Two relays side by side, four receivers, one schedule of kills: nothing is lost, nothing dies,
/// every key is in order, and what comes twice is bounded by what was under way at the kills.
#[test]
fn rly_3_two_relays_lose_nothing_while_relays_and_brokers_are_killed() {
    let full = std::env::var_os("POSTROOM_TEST_FULL").is_some();
    let (rounds, per_round) = if full { (12, 20) } else { (3, 8) };
    let database = Database::new();
    let start = |kind| Server::start(kind, Durability::Discarded).expect("a broker");
    let mut nats = start(Kind::Nats);
    let mut rabbit = start(Kind::RabbitMq);
    let mut redis = start(Kind::Redis);
    let mut hook = Webhook::start();
    database.runtime.block_on(async {
        nats_stream(nats.url()).await;
        rabbit_queue(rabbit.url()).await;
    });
    let text = config(&database.schema, nats.url(), rabbit.url(), redis.url(), &hook.url());
    let mut relays = Relays::new(&text);
    relays.start();
    relays.start();
    let mut published = 0;
    for round in 0..rounds {
        let range = round * per_round..(round + 1) * per_round;
        for n in range {
            let of = |topic| (0..KEYS).map(move |key| numbered(topic, key, n));
            let messages: Vec<_> = TOPICS.into_iter().flat_map(of).collect();
            published += messages.len() as u64;
            database.publish(messages);
        }
        // Something is under way, and something is not.
        database.wait_for_done(published - published / 4);
        relays.kill_one();
        relays.start();
        match round % 3 {
            0 => {
                nats.kill();
                hook.kill();
            }
            1 => redis.kill(),
            _ => rabbit.kill(),
        }
        let of = |topic| (0..KEYS).map(move |key| numbered(topic, KEYS + key, round));
        let more: Vec<_> = TOPICS.into_iter().flat_map(of).collect();
        published += more.len() as u64;
        database.publish(more);
        // The relays notice: something that goes elsewhere is delivered meanwhile.
        match round % 3 {
            0 => {
                nats.start_again().expect("NATS");
                hook.start_again();
            }
            1 => redis.start_again().expect("Redis"),
            _ => rabbit.start_again().expect("RabbitMQ"),
        }
    }
    database.wait_until_delivered();
    relays.stop();
    let stats = database.stats();
    assert_eq!((stats.done, stats.dead), (published, 0), "{stats:?}");
    let arrived = database.runtime.block_on(async {
        [
            in_nats(nats.url()).await,
            in_rabbit(rabbit.url()).await,
            in_redis(redis.url(), "relay").await,
            hook.arrived(),
        ]
    });
    for (name, arrived) in TOPICS.iter().zip(&arrived) {
        let (keyed, later): (Vec<_>, Vec<_>) =
            arrived.iter().cloned().partition(|one| number(&one.what.key) < KEYS);
        let repeated = check(name, &keyed, KEYS, rounds * per_round)
            + check(name, &later, KEYS, rounds);
        println!("{name}: {} arrived, {repeated} more than once", arrived.len());
        // A key has one message under way, and each kill of a relay, and of the broker, may repeat
        // it; a settle that comes too late repeats what a batch had of it.
        let bound = 2 * rounds * 2 * KEYS * 2;
        assert!(repeated <= bound, "{name}: {repeated} came more than once");
    }
}

/// The number of a key such as `nats-3`.
fn number(key: &str) -> usize {
    key.rsplit('-').next().and_then(|number| number.parse().ok()).expect("a numbered key")
}
