//! What answers mean.

use axum::response::IntoResponse as _;
use postroom_core::lifecycle::Outcome;
use postroom_core::{Message, Sink as _};
use postroom_sinks::Probe as _;
use postroom_sinks::http::HttpSink;

use crate::receiver::{Receiver, delivery, described, local, message, response, send};

/// The table of the guide, written down once more.
fn expected(status: u16) -> &'static str {
    match status {
        200..=299 => "done",
        400 | 410 | 413 | 414 | 415 | 422 | 431 => "permanent",
        429 => "later",
        _ => "failed",
    }
}

#[tokio::test]
async fn rly_2_every_status_has_its_meaning() {
    let receiver = Receiver::answering(|request| {
        response(request.header("x-status").parse().expect("a status"), &[])
    })
    .await;
    for status in 200..=599_u16 {
        let sink = receiver.sink();
        let message = Message::builder("t").header("x-status", status.to_string()).build();
        let outcome = sink.deliver(&[delivery(message.expect("legal"))]).await.remove(0);
        let (kind, _, error) = described(outcome);
        assert_eq!(kind, expected(status), "{status}: {error}");
        assert!(kind == "done" || error.contains(&format!("answered {status}")), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    assert_eq!(receiver.seen().len(), 400, "each was sent once");
}

#[tokio::test]
async fn f31_a_receiver_that_asks_for_time_gets_it_and_no_attempt_is_counted() {
    for status in [429, 502, 503, 504] {
        let receiver = Receiver::saying(status, &[("retry-after", "77")]).await;
        let (kind, seconds, _) = described(send(&receiver.sink()).await);
        assert_eq!((kind, seconds), ("later", 77), "{status}");
    }
    let far = Receiver::saying(503, &[("retry-after", "Tue, 31 Dec 2199 23:59:59 GMT")]).await;
    assert_eq!(described(send(&far.sink()).await).1, 3_600, "an hour is the most");
    let silent = Receiver::saying(429, &[]).await;
    assert_eq!(described(send(&silent.sink()).await).1, 30);
    for status in [500, 404, 302, 501] {
        let receiver = Receiver::saying(status, &[("retry-after", "77")]).await;
        assert_eq!(described(send(&receiver.sink()).await).0, "failed", "{status}");
    }
}

#[tokio::test]
async fn f31_too_many_requests_holds_back_all_and_unavailable_only_the_one() {
    let busy = Receiver::saying(429, &[("retry-after", "77")]).await;
    let sink = busy.sink();
    send(&sink).await;
    let (kind, seconds, error) = described(send(&sink).await);
    assert_eq!((kind, seconds > 60, busy.seen().len()), ("later", true, 1), "{error}");

    let down = Receiver::saying(503, &[("retry-after", "77")]).await;
    let sink = down.sink();
    send(&sink).await;
    send(&sink).await;
    assert_eq!(down.seen().len(), 2);
}

#[tokio::test]
async fn x06_a_redirect_is_not_followed() {
    let secret = Receiver::start().await;
    let to = format!("http://{}/?hunter2", secret.address);
    for status in [301, 302, 303, 307, 308] {
        for to in [to.as_str(), "http://169.254.169.254/latest/meta-data/?hunter2", "/?hunter2"] {
            let location = to.to_owned();
            let receiver = Receiver::answering(move |_| {
                let status = axum::http::StatusCode::from_u16(status).expect("a status");
                (status, [("location", location.clone())]).into_response()
            })
            .await;
            let (kind, _, error) = described(send(&receiver.sink()).await);
            assert_eq!((kind, receiver.seen().len()), ("failed", 1));
            assert!(error.contains("redirects are not followed"), "{error}");
            assert!(!error.contains("hunter2") && !error.contains("meta-data"), "{error}");
        }
    }
    assert_eq!(secret.seen().len(), 0);
}

#[tokio::test]
async fn x12_an_error_has_the_beginning_of_the_answer_and_no_secret() {
    let receiver = Receiver::answering(|request| {
        let echo = format!("you are {}\r\n{}", request.header("authorization"), "x".repeat(5_000));
        (axum::http::StatusCode::BAD_REQUEST, echo).into_response()
    })
    .await;
    let mut config = local(receiver.url());
    config.headers = vec![("authorization".to_owned(), "Bearer s3cr3t-t0ken".into())];
    let (kind, _, error) = described(send(&HttpSink::new(config).expect("legal")).await);
    assert_eq!(kind, "permanent");
    assert!(error.starts_with("answered 400 Bad Request: you are Bearer ***\\r\\nxxx"), "{error}");
    assert!(error.chars().count() < 260, "{error}");
    assert_eq!(receiver.seen()[0].header("authorization"), "Bearer s3cr3t-t0ken");
}

#[tokio::test]
async fn ord_1_a_key_is_sent_one_after_the_other_and_stops_at_a_failure() {
    let receiver = Receiver::answering(|request| {
        response(if request.header("ce-type") == "bad" { 500 } else { 200 }, &[])
    })
    .await;
    let keyed = |topic: &str| Message::builder(topic).ordering_key("k").build().expect("legal");
    let batch: Vec<_> = ["a", "b", "bad", "c"].map(keyed).map(delivery).into();
    let outcomes = receiver.sink().deliver(&batch).await;
    assert_eq!(outcomes[..2], [Outcome::Done, Outcome::Done]);
    assert!(matches!(outcomes[2], Outcome::Failed(_)));
    assert_eq!(outcomes[3], Outcome::Unstarted);
    let topics: Vec<_> = receiver.seen().iter().map(|r| r.header("ce-type").to_owned()).collect();
    assert_eq!(topics, ["a", "b", "bad"]);
}

#[tokio::test]
async fn rly_2_a_retry_has_the_same_id() {
    let receiver = Receiver::saying(500, &[]).await;
    let (sink, message) = (receiver.sink(), message());
    for _ in 0..2 {
        sink.deliver(&[delivery(message.clone())]).await;
    }
    let ids: Vec<_> = receiver.seen().iter().map(|r| r.header("webhook-id").to_owned()).collect();
    assert_eq!(ids, [message.id().to_string(), message.id().to_string()]);
}

#[tokio::test]
async fn rly_2_a_probe_looks_and_sends_no_message() {
    let receiver = Receiver::saying(405, &[("server", "shop/2")]).await;
    let probed = receiver.sink().probe().await;
    assert_eq!((probed.broken, probed.about.as_deref()), (None, Some("HTTP/1.1, shop/2")));
    let warnings = probed.warnings.join("\n");
    assert!(warnings.contains("secrets") && warnings.contains("https"), "{warnings}");
    assert!(receiver.seen()[0].header("webhook-id").is_empty());

    let moved = Receiver::saying(301, &[("location", "https://new.example/?hunter2")]).await;
    let warnings = moved.sink().probe().await.warnings.join("\n");
    assert!(warnings.contains("redirects to new.example, which"), "{warnings}");
    let closed = Receiver::saying(401, &[]).await;
    assert!(closed.sink().probe().await.warnings.join("\n").contains("401"));
}
