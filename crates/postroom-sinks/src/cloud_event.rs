//! A message as a CloudEvents 1.0 event.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use postroom_core::{Message, Timestamp};
use serde_json::{Map, Value};

/// How messages become events: `type` is the topic, `subject` the aggregate id, `partitionkey` the
/// ordering key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudEvents {
    source: String,
}

/// How an event travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The attributes are headers, and the payload is the body as it is.
    #[default]
    Binary,
    /// The whole event is the body, as JSON.
    Structured,
}

/// The media type of an event in one piece.
pub const STRUCTURED: &str = "application/cloudevents+json; charset=utf-8";

impl CloudEvents {
    /// Events of this `source`: the URI of your service.
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into() }
    }

    /// The attributes, without the type of the data, which protocols put in different places.
    pub fn attributes<'a>(&'a self, message: &'a Message) -> Vec<(&'static str, Cow<'a, str>)> {
        let occurred = message.occurred_at().unwrap_or_else(Timestamp::host_now);
        let mut attributes: Vec<(&'static str, Cow<'a, str>)> = vec![
            ("specversion", "1.0".into()),
            ("id", message.id().to_string().into()),
            ("source", self.source.as_str().into()),
            ("type", message.topic().as_str().into()),
            ("time", rfc3339(occurred).into()),
        ];
        let optional: [(&'static str, Option<&str>); 6] = [
            ("subject", message.aggregate_id().map(AsRef::as_ref)),
            ("partitionkey", message.ordering_key().map(AsRef::as_ref)),
            ("correlationid", message.correlation_id().map(AsRef::as_ref)),
            ("causationid", message.causation_id().map(AsRef::as_ref)),
            ("traceparent", message.headers().get("traceparent")),
            ("tracestate", message.headers().get("tracestate")),
        ];
        let present = optional.into_iter().filter_map(|(name, value)| Some((name, value?.into())));
        attributes.extend(present);
        attributes
    }

    /// The event in one piece, as one line of JSON. JSON payloads stay JSON, text stays text, other
    /// bytes are base64.
    #[must_use]
    pub fn structured(&self, message: &Message) -> String {
        let attributes = self.attributes(message).into_iter();
        let attributes = attributes.map(|(name, value)| (name.to_owned(), value.into()));
        let mut event: Map<String, Value> = attributes.collect();
        event.insert("datacontenttype".to_owned(), message.content_type().into());
        if !message.payload().is_empty() {
            let (name, data) = data(message);
            event.insert(name.to_owned(), data);
        }
        Value::Object(event).to_string()
    }
}

impl Default for CloudEvents {
    fn default() -> Self {
        Self::new("postroom")
    }
}

/// The value of an attribute as the header bindings of the standard want it: what is not visible
/// ASCII, and quotes and percent signs, as percent signs with hexadecimal bytes.
#[cfg(any(feature = "http", feature = "nats", test))]
pub(crate) fn percent_encoded(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'%';
    value.bytes().fold(String::with_capacity(value.len()), |mut text, byte| {
        match is_plain(byte) {
            true => text.push(byte.into()),
            false => text.push_str(&format!("%{byte:02X}")),
        }
        text
    })
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

/// Microseconds, since that is what databases keep.
fn rfc3339(time: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(time.as_micros()) {
        Ok(time) => format!("{time:.6}"),
        Err(_) => "9999-12-31T23:59:59.999999Z".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use cloudevents::{AttributesReader as _, Event};
    use postroom_core::MessageBuilder;

    use super::*;

    fn event(builder: MessageBuilder) -> Value {
        let message = builder.build().expect("legal");
        serde_json::from_str(&CloudEvents::new("/shop").structured(&message)).expect("JSON")
    }

    #[test]
    fn rly_1_the_attributes_are_those_of_the_standard() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let message = Message::builder("order.placed")
            .payload(r#"{"order":7}"#)
            .aggregate("order", "7")
            .ordering_key("order/7")
            .occurred_at(time)
            .correlation_id("c")
            .causation_id("d")
            .header("traceparent", "00-a-b-01");
        let mut event = event(message);
        let id = event["id"].take();
        assert!(id.is_string());
        let expected = serde_json::json!({
            "specversion": "1.0", "id": null, "source": "/shop", "type": "order.placed",
            "time": "2023-11-14T22:13:20.000000Z", "subject": "7",
            "datacontenttype": "application/json", "partitionkey": "order/7",
            "correlationid": "c", "causationid": "d",
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
    fn rly_2_a_header_value_is_encoded_as_in_the_standards_example() {
        assert_eq!(percent_encoded("Euro \u{20AC} \u{1F600}"), "Euro%20%E2%82%AC%20%F0%9F%98%80");
        assert_eq!(percent_encoded("a\"b%c\r\n/~"), "a%22b%25c%0D%0A/~");
    }

    #[test]
    fn an_event_is_one_line() {
        let message = Message::builder("t").content_type("text/plain").payload("a\nb\r\n");
        let line = CloudEvents::new("s").structured(&message.build().expect("legal"));
        assert!(!line.contains('\n'));
    }

    #[test]
    fn rly_1_the_standards_own_library_reads_the_event() {
        let payloads: [(&str, &[u8]); 4] = [
            ("application/json", b"{\"order\":7}"),
            ("text/plain", "naïve\n".as_bytes()),
            ("image/png", &[0x89, 0, 255]),
            ("application/json", b""),
        ];
        for (kind, payload) in payloads {
            let message = Message::builder("order.placed").content_type(kind);
            let message = message.payload(payload.to_vec()).aggregate("order", "7").build();
            let message = message.expect("legal");
            let line = CloudEvents::new("/shop").structured(&message);
            let event: Event = serde_json::from_str(&line).expect("an event");
            assert_eq!(event.id(), message.id().to_string());
            assert_eq!((event.ty(), event.subject()), ("order.placed", Some("7")));
            assert_eq!((event.source().as_str(), event.datacontenttype()), ("/shop", Some(kind)));
            let data = event.data().cloned().map(|data| match data {
                cloudevents::Data::Binary(bytes) => bytes,
                cloudevents::Data::String(text) => text.into_bytes(),
                cloudevents::Data::Json(json) => json.to_string().into_bytes(),
            });
            assert_eq!(data.unwrap_or_default(), payload, "{kind}");
        }
    }
}
