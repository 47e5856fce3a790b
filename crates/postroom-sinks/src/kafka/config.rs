//! What a Kafka producer needs to be told, and whether that can be.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaConfRes;

use crate::cloud_event::{CloudEvents, Mode};
use crate::secret::Secret;

/// The longest time for one message. A lease is longer.
const MAX_TIMEOUT: Duration = Duration::from_secs(25);
const MIN_TIMEOUT: Duration = Duration::from_millis(100);

/// Where records go, and how.
#[derive(Clone, Debug)]
pub struct KafkaConfig {
    /// Some brokers of the cluster, as `host:port`, with commas between them.
    pub brokers: String,
    /// The topic of Kafka. `{topic}`, `{tenant}` and `{aggregate_type}` stand for those of the
    /// message. Default `{topic}`.
    pub topic: String,
    /// Whether the attributes of the event are headers or part of the value. Default: headers.
    pub mode: Mode,
    /// The events.
    pub events: CloudEvents,
    /// How long one message may take until all replicas have it. Default 10 s, at most 25 s.
    pub timeout: Duration,
    /// More settings of librdkafka, such as `security.protocol`, `sasl.username`,
    /// `compression.type` or `message.max.bytes`. Those that would break what the sink promises are
    /// refused.
    pub properties: BTreeMap<String, Secret>,
}

impl KafkaConfig {
    /// Events to these brokers, each to the topic of its message.
    pub fn new(brokers: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            topic: "{topic}".to_owned(),
            mode: Mode::default(),
            events: CloudEvents::default(),
            timeout: Duration::from_secs(10),
            properties: BTreeMap::new(),
        }
    }
}

/// Settings that are the sink's own: acknowledgement, order, partitions, time, and who is believed.
const OWNED: [&str; 20] = [
    "acks",
    "bootstrap.servers",
    "delivery.report.only.error",
    "delivery.timeout.ms",
    "dr_cb",
    "dr_msg_cb",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "enable.ssl.certificate.verification",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "message.send.max.retries",
    "message.timeout.ms",
    "metadata.broker.list",
    "partitioner",
    "queuing.strategy",
    "request.required.acks",
    "retries",
    "ssl.endpoint.identification.algorithm",
    "transactional.id",
];

/// The settings of librdkafka. The error names the field, and shows no value.
pub(super) fn client(config: &KafkaConfig) -> Result<ClientConfig, String> {
    if config.brokers.trim().is_empty() {
        return Err("brokers is empty; write host:port, with commas between several".to_owned());
    }
    if config.timeout < MIN_TIMEOUT || config.timeout > MAX_TIMEOUT {
        let timeout = config.timeout;
        return Err(format!(
            "timeout is {timeout:?}, and must be {MIN_TIMEOUT:?} to {MAX_TIMEOUT:?}"
        ));
    }
    let mut client = ClientConfig::new();
    // A millisecond is enough for what is sent at the same time to share a request.
    client.set("linger.ms", "1").set("client.id", "postroom");
    // A topic that was refused is not asked for again before.
    client.set("topic.metadata.refresh.interval.ms", "30000");
    for (name, value) in &config.properties {
        if OWNED.contains(&name.as_str()) {
            return Err(format!("properties: {name} is set by the sink itself"));
        }
        client.set(name, value.reveal());
    }
    // The client gives up before the sink does, so that nothing is sent after its failure was told.
    let patience = config.timeout * 3 / 4;
    client
        .set("bootstrap.servers", &config.brokers)
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("partitioner", "murmur2_random")
        .set("message.timeout.ms", patience.as_millis().to_string())
        .set_log_level(RDKafkaLogLevel::Error);
    client.create_native_config().map_err(|error| unusable(&error))?;
    Ok(client)
}

fn unusable(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, _, name, _) => {
            format!("properties: {name} is unknown to librdkafka, or left out of this build")
        }
        KafkaError::ClientConfig(_, _, name, _) => {
            format!("properties: the value of {name} is not one that librdkafka takes")
        }
        _ => "properties: librdkafka does not take them".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> KafkaConfig {
        let properties = BTreeMap::from([(name.to_owned(), Secret::new(value))]);
        KafkaConfig { properties, ..KafkaConfig::new("localhost:9092") }
    }

    #[test]
    fn b37_settings_that_keep_the_promise_can_not_be_changed() {
        for name in OWNED {
            let error = client(&with(name, "hunter2")).expect_err(name);
            assert!(error.contains(name) && !error.contains("hunter2"), "{error}");
        }
        let client = client(&with("compression.type", "gzip")).expect("legal");
        let expected = [
            ("enable.idempotence", "true"),
            ("acks", "all"),
            ("partitioner", "murmur2_random"),
            ("message.timeout.ms", "7500"),
            ("compression.type", "gzip"),
        ];
        for (name, value) in expected {
            assert_eq!(client.get(name), Some(value));
        }
    }

    #[test]
    fn sec_2_a_setting_that_can_not_be_used_is_named_and_not_shown() {
        for (name, value) in [("linger.ms", "hunter2"), ("no.such", "hunter2")] {
            let error = client(&with(name, value)).expect_err(name);
            assert!(error.contains(name) && !error.contains("hunter2"), "{error}");
        }
        let config = with("sasl.password", "hunter2");
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(client(&KafkaConfig::new(" ")).expect_err("empty").starts_with("brokers "));
        let slow = KafkaConfig { timeout: Duration::from_secs(26), ..KafkaConfig::new("a:1") };
        assert!(client(&slow).expect_err("too long").starts_with("timeout "));
    }
}
