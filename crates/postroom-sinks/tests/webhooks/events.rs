//! What arrives is the event, by the HTTP binding of CloudEvents.

use cloudevents::{AttributesReader as _, Event};
use postroom_core::lifecycle::Outcome;
use postroom_core::{Message, Sink as _};
use postroom_sinks::http::{HttpConfig, HttpSink};
use postroom_sinks::{CloudEvents, Mode};

use crate::receiver::{Received, Receiver, delivery, local};

async fn sent(mode: Mode, message: Message) -> Received {
    let receiver = Receiver::start().await;
    let events = CloudEvents::new("/the shop");
    let sink = HttpSink::new(HttpConfig { mode, events, ..local(receiver.url()) }).expect("legal");
    assert_eq!(sink.deliver(&[delivery(message)]).await, [Outcome::Done]);
    receiver.seen().remove(0)
}

fn order(topic: &str, kind: &str, payload: &[u8]) -> Message {
    let message = Message::builder(topic).content_type(kind).payload(payload.to_vec());
    let message = message.aggregate("order", "7").ordering_key("order 7").header("x-tenant", "a b");
    message.build().expect("legal")
}

/// As a receiver decodes it.
pub(crate) fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first == b'%' {
            let digits = std::str::from_utf8(&tail[..2]).expect("two digits");
            bytes.push(u8::from_str_radix(digits, 16).expect("two digits"));
            rest = &tail[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).expect("UTF-8")
}

#[tokio::test]
async fn rly_2_binary_mode_has_attributes_as_headers_and_the_payload_as_it_is() {
    let payload = [0, 159, 255, b'\r', b'\n'];
    let topic = "Bestellung \"€\" 100%";
    let message = order(topic, "image/png", &payload);
    let received = sent(Mode::Binary, message.clone()).await;
    assert_eq!(received.body.as_ref(), payload);
    let plain = [
        ("content-type", "image/png"),
        ("ce-specversion", "1.0"),
        ("ce-source", "/the%20shop"),
        ("ce-type", "Bestellung%20%22%E2%82%AC%22%20100%25"),
        ("ce-subject", "7"),
        ("ce-partitionkey", "order%207"),
        ("x-tenant", "a b"),
        ("user-agent", concat!("postroom/", env!("CARGO_PKG_VERSION"))),
    ];
    for (name, value) in plain {
        assert_eq!(received.header(name), value, "{name}");
    }
    assert_eq!(percent_decoded(received.header("ce-type")), topic);
    assert_eq!(received.header("ce-id"), message.id().to_string());
    assert_eq!(received.header("webhook-id"), message.id().to_string());
    assert!(!received.headers.contains_key("ce-datacontenttype"));
}

#[tokio::test]
async fn rly_2_structured_mode_is_read_by_the_standards_own_library() {
    let message = order("order.placed", "application/json", br#"{"order":7}"#);
    let received = sent(Mode::Structured, message.clone()).await;
    let kind = received.header("content-type");
    assert!(kind.starts_with("application/cloudevents+json"), "{kind}");
    let event: Event = serde_json::from_slice(&received.body).expect("an event");
    assert_eq!((event.id(), event.ty()), (message.id().to_string().as_str(), "order.placed"));
    assert_eq!((event.subject(), event.datacontenttype()), (Some("7"), Some("application/json")));
    assert!(!received.headers.contains_key("ce-id"));
    assert_eq!(received.header("x-tenant"), "a b");
}

#[tokio::test]
async fn x09_what_would_break_out_of_its_place_never_leaves() {
    let receiver = Receiver::start().await;
    let sink = receiver.sink();
    let builder = || Message::builder("t");
    let bad = [
        builder().header("a:b", "c"),
        builder().content_type("a\u{7f}"),
        builder().header("é", "c"),
    ];
    let legal = bad.into_iter().filter_map(|builder| builder.build().ok());
    let batch: Vec<_> = legal.map(delivery).collect();
    assert!(!batch.is_empty());
    for outcome in sink.deliver(&batch).await {
        assert!(matches!(outcome, Outcome::Permanent(_)), "{outcome:?}");
    }
    assert_eq!(receiver.seen().len(), 0);
}

#[tokio::test]
async fn rly_2_an_empty_payload_and_one_of_a_megabyte_arrive() {
    for size in [0, 1 << 20] {
        let received = sent(Mode::Binary, order("t", "text/plain", &vec![b'x'; size])).await;
        assert_eq!(received.body.len(), size);
        assert_eq!(received.header("content-length"), size.to_string());
    }
}
