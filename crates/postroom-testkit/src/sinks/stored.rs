//! Done means that the receiver has it.

use postroom_core::lifecycle::Outcome;
use postroom_core::{Message, Sink as _};

use super::harness::{Format, Settings, SinkHarness, Stored};
use super::harness::{deliver_one, deliveries, message};

fn texts(stored: &[Stored]) -> Vec<String> {
    stored.iter().map(|stored| String::from_utf8_lossy(&stored.payload).into_owned()).collect()
}

fn all_done(outcomes: &[Outcome]) {
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Done), "{outcomes:?}");
}

/// Finds what was stored of a message, which must be exactly one.
fn one<'a>(stored: &'a [Stored], message: &Message) -> &'a Stored {
    let id = message.id().to_string();
    let mut found = stored.iter().filter(|stored| stored.id == id);
    let first = found.next().expect("it is there");
    assert!(found.next().is_none(), "once");
    first
}

pub async fn rly_2_done_means_stored<H: SinkHarness>() {
    let harness = H::fresh().await;
    let sink = harness.sink(Settings::default());
    let payloads: [(&str, Vec<u8>); 5] = [
        ("application/json", br#"{"order":7}"#.to_vec()),
        ("application/json", Vec::new()),
        ("application/octet-stream", (0..=255).collect()),
        ("text/plain; charset=utf-8", "naïve\r\n € \u{1F600}".into()),
        ("image/png", vec![b'\r', b'\n', 0, b'\r', b'\n']),
    ];
    let messages: Vec<Message> = payloads
        .into_iter()
        .map(|(kind, payload)| {
            let message = message(&harness, "order.placed").content_type(kind).payload(payload);
            let message = message.aggregate("order", "7 €").ordering_key("order/7");
            message.correlation_id("c 1").causation_id("d").build().expect("legal")
        })
        .collect();
    all_done(&sink.deliver(&deliveries(&messages)).await);
    let stored = harness.stored().await;
    assert_eq!(stored.len(), messages.len());
    for message in &messages {
        let stored = one(&stored, message);
        assert_eq!(stored.payload, message.payload().as_ref(), "{}", message.content_type());
        assert_eq!(stored.content_type, message.content_type());
        for (name, value) in [
            ("specversion", "1.0"),
            ("id", &message.id().to_string()),
            ("source", "/shop"),
            ("type", "order.placed"),
            ("time", "2023-11-14T22:13:20.000000Z"),
            ("subject", "7 €"),
            ("partitionkey", "order/7"),
            ("correlationid", "c 1"),
            ("causationid", "d"),
        ] {
            assert_eq!(stored.attribute(name), value, "{name}");
        }
    }
}

pub async fn rly_2_an_event_in_one_piece_is_stored_as_well<H: SinkHarness>() {
    let harness = H::fresh().await;
    let sink = harness.sink(Settings { format: Format::Structured, ..Settings::default() });
    let message = message(&harness, "order.placed").payload(r#"{"order":"7 €"}"#);
    let message = message.ordering_key("order/7").build().expect("legal");
    assert_eq!(deliver_one(&sink, &message).await, Outcome::Done);
    let stored = harness.stored().await;
    let stored = one(&stored, &message);
    assert_eq!(stored.content_type, "application/cloudevents+json; charset=utf-8");
    let event: serde_json::Value = serde_json::from_slice(&stored.payload).expect("JSON");
    let expected = serde_json::json!({
        "specversion": "1.0", "id": message.id().to_string(), "source": "/shop",
        "type": "order.placed", "time": "2023-11-14T22:13:20.000000Z",
        "datacontenttype": "application/json", "partitionkey": "order/7", "data": {"order": "7 €"}
    });
    assert_eq!(event, expected);
    assert_eq!(stored.attributes.len(), 0, "they are inside");
}

pub async fn rly_2_headers_of_the_message_are_passed_on<H: SinkHarness>() {
    let harness = H::fresh().await;
    for format in [Format::Binary, Format::Structured] {
        let sink = harness.sink(Settings { format, ..Settings::default() });
        let message = message(&harness, "t").header("x-tenant", "Zoë & co: \"5 %\"");
        let message = message.header("Content-Language", "de").build().expect("legal");
        assert_eq!(deliver_one(&sink, &message).await, Outcome::Done);
        let stored = harness.stored().await;
        let headers = &one(&stored, &message).headers;
        let get = |name: &str| {
            let found = headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(get("x-tenant"), Some("Zoë & co: \"5 %\""), "{format:?} {headers:?}");
        assert_eq!(get("content-language"), Some("de"), "{format:?} {headers:?}");
    }
}

pub async fn rly_2_the_largest_payload_of_the_gate_arrives_whole<H: SinkHarness>() {
    let harness = H::fresh().await;
    let sink = harness.sink(Settings::default());
    let bytes: Vec<u8> = (0..900_000_u32).map(|n| (n % 251) as u8).collect();
    let large = message(&harness, "large").content_type("image/png").payload(bytes.clone());
    let large = large.build().expect("legal");
    let small = message(&harness, "small").payload("1").build().expect("legal");
    all_done(&sink.deliver(&deliveries([&small, &large])).await);
    let stored = harness.stored().await;
    assert!(one(&stored, &large).payload == bytes, "the bytes are others");
    assert_eq!(one(&stored, &small).payload, b"1");
}

pub async fn b28_a_message_that_comes_again_has_the_same_id<H: SinkHarness>() {
    let harness = H::fresh().await;
    let first = message(&harness, "t").payload("1").build().expect("legal");
    let second = message(&harness, "t").payload("2").build().expect("legal");
    // Another sink stands for another process, after the first was killed.
    for message in [&first, &second, &first] {
        let sink = harness.sink(Settings::default());
        assert_eq!(deliver_one(&sink, message).await, Outcome::Done, "also the second time");
    }
    let stored = harness.stored().await;
    let expected: &[&str] = if harness.dedupes() { &["1", "2"] } else { &["1", "2", "1"] };
    assert_eq!(texts(&stored), expected);
    let again: Vec<_> = stored.iter().filter(|stored| stored.payload == b"1").collect();
    assert!(again.iter().all(|stored| stored.id == first.id().to_string()), "{again:?}");
}
