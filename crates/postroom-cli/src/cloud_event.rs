//! A message as a CloudEvents 1.0 JSON object, one line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use postroom::{Message, Timestamp};
use serde_json::{Map, Value};

use crate::render::time;

/// The event. JSON payloads stay JSON, text stays text, other bytes are base64.
pub(crate) fn line(message: &Message, source: &str) -> String {
    let mut event = Map::new();
    let mut set = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            event.insert(name.to_owned(), Value::from(value));
        }
    };
    let occurred = message.occurred_at().unwrap_or_else(Timestamp::host_now);
    set("specversion", Some("1.0"));
    set("id", Some(&message.id().to_string()));
    set("source", Some(source));
    set("type", Some(message.topic().as_str()));
    set("time", Some(&time::rfc3339(occurred)));
    set("subject", message.aggregate_id().map(AsRef::as_ref));
    set("datacontenttype", Some(message.content_type()));
    set("partitionkey", message.ordering_key().map(AsRef::as_ref));
    set("traceparent", message.headers().get("traceparent"));
    set("tracestate", message.headers().get("tracestate"));
    if !message.payload().is_empty() {
        let (name, data) = data(message);
        event.insert(name.to_owned(), data);
    }
    Value::Object(event).to_string()
}

fn data(message: &Message) -> (&'static str, Value) {
    let kind = message.content_type().to_ascii_lowercase();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let is_json = kind == "application/json" || kind.ends_with("+json");
    if is_json && let Ok(json) = serde_json::from_slice(message.payload()) {
        return ("data", json);
    }
    match std::str::from_utf8(message.payload()) {
        Ok(text) if !is_json => ("data", Value::from(text)),
        _ => ("data_base64", Value::from(STANDARD.encode(message.payload()))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use postroom::MessageBuilder;

    use super::*;

    fn event(builder: MessageBuilder) -> Value {
        let message = builder.build().expect("legal");
        serde_json::from_str(&line(&message, "/shop")).expect("JSON")
    }

    #[test]
    fn rly_1_the_attributes_are_those_of_the_standard() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let message = Message::builder("order.placed")
            .payload(r#"{"order":7}"#)
            .aggregate("order", "7")
            .ordering_key("order/7")
            .occurred_at(time)
            .header("traceparent", "00-a-b-01");
        let mut event = event(message);
        let id = event["id"].take();
        assert!(id.is_string());
        let expected = serde_json::json!({
            "specversion": "1.0", "id": null, "source": "/shop", "type": "order.placed",
            "time": "2023-11-14T22:13:20.000000Z", "subject": "7",
            "datacontenttype": "application/json", "partitionkey": "order/7",
            "traceparent": "00-a-b-01", "data": {"order": 7}
        });
        assert_eq!(event, expected);
    }

    #[test]
    fn rly_1_payloads_keep_their_kind() {
        let text = event(Message::builder("t").content_type("text/plain").payload("hi\n"));
        assert_eq!(text["data"], "hi\n");
        let bytes = event(Message::builder("t").content_type("image/png").payload(vec![255, 0]));
        assert_eq!((&bytes["data_base64"], bytes.get("data")), (&Value::from("/wA="), None));
        let broken = event(Message::builder("t").payload("{not json"));
        assert_eq!(broken["data_base64"], "e25vdCBqc29u");
        let empty = event(Message::builder("t"));
        assert_eq!((empty.get("data"), empty.get("data_base64")), (None, None));
        let vendor = event(Message::builder("t").content_type("application/a+json").payload("[1]"));
        assert_eq!(vendor["data"], serde_json::json!([1]));
    }

    #[test]
    fn an_event_is_one_line() {
        let message = Message::builder("t").content_type("text/plain").payload("a\nb\r\n");
        let line = line(&message.build().expect("legal"), "s");
        assert!(!line.contains('\n'));
    }
}
