//! Messages of one ordering key arrive in their order.

use futures_util::future::join_all;
use postroom_core::lifecycle::Outcome;
use postroom_core::{Message, Sink as _};

use super::harness::{Settings, SinkHarness};
use super::harness::{deliveries, numbered, numbers_by_key};

pub async fn ord_1_a_batch_keeps_the_order_of_each_key<H: SinkHarness>() {
    let harness = H::fresh().await;
    let sink = harness.sink(Settings::default());
    let messages: Vec<Message> =
        (0..200).map(|n| numbered(&harness, &format!("key-{}", n % 10), n)).collect();
    for batch in messages.chunks(sink.max_batch()) {
        let outcomes = sink.deliver(&deliveries(batch)).await;
        assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Done), "{outcomes:?}");
    }
    let by_key = numbers_by_key(&harness.stored().await);
    assert_eq!(by_key.len(), 10);
    for (key, numbers) in by_key {
        assert_eq!(numbers.len(), 20, "{key}");
        assert!(numbers.is_sorted(), "{key}: {numbers:?}");
    }
}

pub async fn ord_1_calls_side_by_side_keep_the_order_of_each_key<H: SinkHarness>() {
    let harness = H::fresh().await;
    let sink = harness.sink(Settings::default());
    let runs = (0..8).map(|key| {
        let key = format!("key-{key}");
        let messages: Vec<Message> = (0..20).map(|n| numbered(&harness, &key, n)).collect();
        let sink = &sink;
        async move { sink.deliver(&deliveries(&messages)).await }
    });
    for outcomes in join_all(runs).await {
        assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Done), "{outcomes:?}");
    }
    let by_key = numbers_by_key(&harness.stored().await);
    let expected: Vec<usize> = (0..20).collect();
    assert_eq!(by_key.len(), 8);
    assert!(by_key.values().all(|numbers| *numbers == expected), "{by_key:?}");
}

pub async fn b37_nothing_behind_a_failure_is_stored<H: SinkHarness>() {
    let harness = H::fresh().await;
    let sink = harness.sink(Settings::default());
    let bad = harness.unsendable().remove(0).ordering_key("a").build().expect("legal");
    let batch = [
        numbered(&harness, "a", 1),
        numbered(&harness, "b", 1),
        bad,
        numbered(&harness, "a", 3),
        numbered(&harness, "b", 2),
        numbered(&harness, "a", 4),
    ];
    let outcomes = sink.deliver(&deliveries(&batch)).await;
    use Outcome::{Done, Unstarted};
    assert!(matches!(outcomes[2], Outcome::Permanent(_)), "{outcomes:?}");
    assert_eq!(outcomes[..2], [Done, Done]);
    assert_eq!(outcomes[3..], [Unstarted, Done, Unstarted]);
    let by_key = numbers_by_key(&harness.stored().await);
    assert_eq!(by_key, [("a".to_owned(), vec![1]), ("b".to_owned(), vec![1, 2])].into());
    // The dead letter was skipped: its key goes on.
    let rest = sink.deliver(&deliveries(&[batch[3].clone(), batch[5].clone()])).await;
    assert_eq!(rest, [Done, Done]);
    assert_eq!(numbers_by_key(&harness.stored().await)["a"], [1, 3, 4]);
}
