//! What the protocol can not carry is refused, alone.

use postroom_core::lifecycle::Outcome;
use postroom_core::{Message, Sink as _};

use super::harness::{Settings, SinkHarness};
use super::harness::{deliver_one, deliveries, message};

pub async fn x09_what_can_not_be_named_is_refused_for_good<H: SinkHarness>() {
    let harness = H::fresh().await;
    let sink = harness.sink(Settings::default());
    let good = |n: usize| message(&harness, "t").payload(n.to_string()).build().expect("legal");
    let mut sent = Vec::new();
    for (n, bad) in harness.unsendable().into_iter().enumerate() {
        let bad = bad.build().expect("legal for us");
        let (before, after) = (good(2 * n), good(2 * n + 1));
        let outcomes = sink.deliver(&deliveries([&before, &bad, &after])).await;
        assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Done, &Outcome::Done));
        let Outcome::Permanent(why) = &outcomes[1] else { panic!("{bad:?}: {outcomes:?}") };
        assert!(!why.is_empty());
        sent.extend([before, after]);
    }
    let stored: Vec<String> = harness.stored().await.into_iter().map(|s| s.id).collect();
    let expected: Vec<String> = sent.iter().map(|message| message.id().to_string()).collect();
    assert_eq!(stored.len(), expected.len(), "exactly the good ones");
    assert!(expected.iter().all(|id| stored.contains(id)));
}

pub async fn sec_6_what_is_too_large_is_refused_alone<H: SinkHarness>() {
    let harness = H::fresh().await;
    let sink = harness.sink(Settings::default());
    let small: Vec<Message> = (0..3)
        .map(|n| message(&harness, "t").payload(n.to_string()).build().expect("legal"))
        .collect();
    let Some(size) = harness.oversize() else {
        // There is no limit that a message could reach: the largest one passes, which is proved
        // elsewhere.
        return;
    };
    let large = message(&harness, "t").content_type("image/png").payload(vec![7; size]);
    let large = large.build().expect("legal for us");
    let batch = deliveries([&small[0], &large, &small[1]]);
    let outcomes = sink.deliver(&batch).await;
    assert!(matches!(outcomes[1], Outcome::Permanent(_)), "{:?}", outcomes[1]);
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Done, &Outcome::Done));
    assert_eq!(deliver_one(&sink, &small[2]).await, Outcome::Done, "the connection lives");
    let stored = harness.stored().await;
    assert_eq!(stored.len(), 3);
    assert!(stored.iter().all(|stored| stored.payload.len() == 1));
}
