//! Receivers that are away, hang, lie and stream for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use postroom_core::lifecycle::Outcome;
use postroom_core::{Delivery, Sink as _};
use postroom_sinks::Probe as _;
use postroom_sinks::http::HttpSink;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::receiver::{
    Receiver, delivery, described, local, message, raw, read_request, reply, send, sink_to,
};

const TAKEN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

#[tokio::test]
async fn b30_nobody_there_costs_no_attempt_and_a_return_is_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let sink = sink_to(address);
    let batch: Vec<_> = (0..40).map(|_| delivery(message())).collect();
    for outcome in sink.deliver(&batch).await {
        let (kind, _, error) = described(outcome);
        assert_eq!(kind, "later", "{error}");
    }
    assert!(sink.probe().await.broken.is_some());

    let answer = |_: &_| StatusCode::OK.into_response();
    let receiver = Receiver::at(&address.to_string(), answer).await;
    let mut waiting = batch;
    while !waiting.is_empty() {
        let outcomes = sink.deliver(&waiting).await;
        let wait = outcomes.iter().find_map(|outcome| match outcome {
            Outcome::RetryAfter { delay, counted: false, .. } => Some(*delay),
            _ => None,
        });
        let mut outcomes = outcomes.into_iter();
        waiting.retain(|_| outcomes.next() != Some(Outcome::Done));
        tokio::time::sleep(wait.unwrap_or_default()).await;
    }
    assert_eq!(receiver.seen().len(), 40, "the whole backlog, once");
}

#[tokio::test]
async fn b34_a_receiver_that_never_answers_is_left_in_time() {
    let (address, count) = raw(|mut stream| async move {
        read_request(&mut stream).await;
        std::future::pending().await
    })
    .await;
    let config = local(format!("http://{address}/"));
    let config = postroom_sinks::http::HttpConfig { timeout: Duration::from_millis(300), ..config };
    let (kind, _, error) = described(send(&HttpSink::new(config).expect("legal")).await);
    assert_eq!((kind, *count.lock().expect("alive")), ("failed", 1));
    assert!(error.contains("it may have arrived"), "{error}");
}

#[tokio::test]
async fn b34_a_receiver_that_never_finishes_the_handshake_was_not_sent_anything() {
    let (address, _) = raw(|stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let config = local(format!("https://{address}/"));
    let config = postroom_sinks::http::HttpConfig { timeout: Duration::from_millis(600), ..config };
    let (kind, _, error) = described(send(&HttpSink::new(config).expect("legal")).await);
    assert_eq!(kind, "later", "{error}");
}

#[tokio::test]
async fn b34_the_time_of_the_delivery_is_kept_to() {
    let (address, _) = raw(|mut stream| async move {
        read_request(&mut stream).await;
        std::future::pending().await
    })
    .await;
    let short = Delivery::detached(message(), Duration::from_millis(200));
    let outcome = sink_to(address).deliver(&[short]).await.remove(0);
    assert_eq!(described(outcome).0, "failed");
}

#[tokio::test]
async fn rly_2_no_answer_after_the_request_is_a_counted_failure() {
    for answer in ["", "HTTP/1.1 200", "SMTP ready\r\n\r\n", "\0\0\0\0\0\0\0\0\0\0\0\0"] {
        let (address, _) =
            raw(move |mut stream| async move { reply(&mut stream, answer).await }).await;
        let (kind, _, error) = described(send(&sink_to(address)).await);
        assert_eq!(kind, "failed", "{answer:?}: {error}");
    }
}

#[tokio::test]
async fn rly_2_a_body_that_is_cut_takes_nothing_back() {
    for (status, expected) in [("200 OK", "done"), ("500 No", "failed"), ("400 No", "permanent")] {
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 100\r\n\r\nhalf");
        let (address, _) = raw(move |mut stream| {
            let answer = answer.clone();
            async move { reply(&mut stream, &answer).await }
        })
        .await;
        let (kind, _, error) = described(send(&sink_to(address)).await);
        assert_eq!(kind, expected, "{error}");
        assert!(kind == "done" || error.ends_with(": half"), "{error}");
    }
}

#[tokio::test]
async fn f31_a_body_without_end_holds_neither_memory_nor_time() {
    for (status, expected) in [("200 OK", "done"), ("500 No", "failed")] {
        let written = Arc::new(AtomicUsize::new(0));
        let closed = Arc::new(Notify::new());
        let (total, hung_up) = (Arc::clone(&written), Arc::clone(&closed));
        let (address, _) = raw(move |mut stream| {
            let (total, hung_up) = (Arc::clone(&total), Arc::clone(&hung_up));
            async move {
                reply(&mut stream, &format!("HTTP/1.1 {status}\r\n\r\n")).await;
                while stream.write_all(&[b'x'; 65_536]).await.is_ok() {
                    total.fetch_add(65_536, Ordering::Relaxed);
                }
                hung_up.notify_one();
            }
        })
        .await;
        assert_eq!(described(send(&sink_to(address)).await).0, expected);
        closed.notified().await;
        let megabytes = written.load(Ordering::Relaxed) >> 20;
        assert!(megabytes < 32, "{megabytes} MB were taken: what the system buffers is less");
    }
}

#[tokio::test]
async fn f31_a_body_that_drips_is_not_waited_for() {
    let closed = Arc::new(Notify::new());
    let hung_up = Arc::clone(&closed);
    let (address, _) = raw(move |mut stream| {
        let hung_up = Arc::clone(&hung_up);
        async move {
            reply(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nx").await;
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            hung_up.notify_one();
        }
    })
    .await;
    assert_eq!(send(&sink_to(address)).await, Outcome::Done);
    closed.notified().await;
}

#[tokio::test]
async fn sec_6_headers_without_end_are_not_taken() {
    let closed = Arc::new(Notify::new());
    let hung_up = Arc::clone(&closed);
    let (address, _) = raw(move |mut stream| {
        let hung_up = Arc::clone(&hung_up);
        async move {
            reply(&mut stream, "HTTP/1.1 200 OK\r\n").await;
            let line = format!("x-filler: {}\r\n", "x".repeat(8_000));
            while stream.write_all(line.as_bytes()).await.is_ok() {}
            hung_up.notify_one();
        }
    })
    .await;
    let (kind, _, error) = described(send(&sink_to(address)).await);
    assert_eq!(kind, "failed", "{error}");
    closed.notified().await;
}

#[tokio::test]
async fn rly_2_connections_are_used_again_and_a_closed_one_is_replaced() {
    let (address, count) = raw(|mut stream| async move {
        for _ in 0..3 {
            reply(&mut stream, TAKEN).await;
        }
    })
    .await;
    let sink = sink_to(address);
    for _ in 0..3 {
        assert_eq!(send(&sink).await, Outcome::Done);
    }
    assert_eq!(*count.lock().expect("alive"), 1);
    let mut outcome = send(&sink).await;
    if outcome != Outcome::Done {
        // It went out on the old connection before that was seen to be closed.
        assert_eq!(described(outcome).0, "failed");
        outcome = send(&sink).await;
    }
    assert_eq!((outcome, *count.lock().expect("alive")), (Outcome::Done, 2));
}
