//! A stream of its own for each test.

use std::collections::BTreeMap;

use postroom_core::{Message, MessageBuilder};
use postroom_servers::Kind;
use postroom_sinks::CloudEvents;
use postroom_sinks::redis::{RedisConfig, RedisSink};
use postroom_testkit::sinks::{Proxy, Receiver, Settings, SinkHarness, Stored};
use redis::aio::MultiplexedConnection;
use redis::streams::StreamRangeReply;

use crate::common::{self, Place};

pub(crate) struct RedisHarness(pub(crate) Place);

impl RedisHarness {
    pub(crate) fn config(&self) -> RedisConfig {
        let mut config = RedisConfig::new(self.0.proxied());
        config.stream = "{tenant}:{aggregate_type}:{topic}".to_owned();
        config.events = CloudEvents::new("/shop");
        config
    }

    pub(crate) async fn direct(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.0.url.as_str()).expect("a URL");
        client.get_multiplexed_async_connection().await.expect("a connection")
    }
}

impl SinkHarness for RedisHarness {
    type Sink = RedisSink;

    async fn fresh() -> Self {
        Self(Place::shared(Kind::Redis))
    }

    async fn private() -> Self {
        Self(Place::private(Kind::Redis))
    }

    async fn receiver(&mut self, order: Receiver) {
        self.0.receiver(order);
    }

    fn proxy(&self) -> &Proxy {
        &self.0.proxy
    }

    fn tenant(&self) -> &str {
        &self.0.tenant
    }

    fn sink(&self, settings: Settings) -> RedisSink {
        let (mode, timeout) = (common::mode(settings.format), settings.timeout);
        RedisSink::new(RedisConfig { mode, timeout, ..self.config() }).expect("legal")
    }

    async fn stored(&self) -> Vec<Stored> {
        let mut direct = self.direct().await;
        let keys: Vec<String> = redis::cmd("KEYS")
            .arg(format!("{}:*", self.0.tenant))
            .query_async(&mut direct)
            .await
            .expect("keys");
        let mut stored = Vec::new();
        for key in keys {
            let entries: StreamRangeReply = redis::cmd("XRANGE")
                .arg(&key)
                .arg("-")
                .arg("+")
                .query_async(&mut direct)
                .await
                .expect("entries");
            for entry in entries.ids {
                let fields = entry.map.into_iter().map(|(name, value)| {
                    (name, redis::from_redis_value::<Vec<u8>>(value).expect("bytes"))
                });
                let (time, count) = entry.id.split_once('-').expect("an id");
                let number = |text: &str| text.parse::<u64>().expect("a number");
                stored.push(((number(time), number(count)), decode(fields.collect())));
            }
        }
        stored.sort_by_key(|(at, _)| *at);
        stored.into_iter().map(|(_, stored)| stored).collect()
    }

    fn dedupes(&self) -> bool {
        false
    }

    fn unsendable(&self) -> Vec<MessageBuilder> {
        let no_type = Message::builder("no.type").tenant_id(self.tenant());
        vec![no_type, Message::builder("no.tenant")]
    }

    fn greets(&self) -> bool {
        true
    }

    fn oversize(&self) -> Option<usize> {
        // 512 MiB.
        None
    }
}

fn decode(fields: BTreeMap<String, Vec<u8>>) -> Stored {
    let mut stored = Stored::default();
    for (name, value) in fields {
        let text = || String::from_utf8(value.clone()).expect("text");
        if let Some(name) = name.strip_prefix("ce_") {
            stored.attributes.insert(name.to_owned(), text());
        } else if let Some(name) = name.strip_prefix("h_") {
            stored.headers.insert(name.to_owned(), text());
        } else if name == "content-type" {
            stored.content_type = text();
        } else {
            assert_eq!(name, "data");
            stored.payload = value;
        }
    }
    stored.id = match stored.attributes.get("id") {
        Some(id) => id.clone(),
        None => common::id_inside(&stored.payload),
    };
    stored
}
