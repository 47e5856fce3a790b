//! Receivers that are away, and answers that do not come.

use std::time::Duration;

use futures_util::future::join_all;
use postroom_core::lifecycle::Outcome;
use postroom_core::{Message, Sink as _};
use tokio::time::timeout;

use super::harness::{Settings, SinkHarness, Stored};
use super::harness::{deliver_all, deliver_one, deliveries, is_free, message, until_stored};
use super::proxy::Traffic;

/// Longer than any limit that the sink was given, on the noisiest machine.
const FOREVER: Duration = Duration::from_secs(30);

fn plain<H: SinkHarness>(harness: &H, count: usize) -> Vec<Message> {
    let message = |n: usize| message(harness, "t").payload(n.to_string()).build().expect("legal");
    (0..count).map(message).collect()
}

/// Every message is there, and nothing else.
fn complete(stored: &[Stored], messages: &[Message]) {
    let ids: Vec<String> = messages.iter().map(|message| message.id().to_string()).collect();
    for id in &ids {
        assert!(stored.iter().any(|stored| stored.id == *id), "one was lost");
    }
    assert!(stored.iter().all(|stored| ids.contains(&stored.id)));
}

pub async fn dsp_12_a_receiver_that_is_away_from_the_start_costs_no_attempt<H: SinkHarness>() {
    let harness = H::fresh().await;
    harness.proxy().set(Traffic::Refused).await;
    let sink = harness.sink(Settings::default());
    let messages = plain(&harness, 3);
    for _ in 0..2 {
        let outcomes = sink.deliver(&deliveries(&messages)).await;
        assert!(outcomes.iter().all(is_free), "{outcomes:?}");
    }
    assert_eq!(harness.stored().await, []);
    harness.proxy().set(Traffic::Passes).await;
    deliver_all(&sink, &messages).await;
    let stored = harness.stored().await;
    assert_eq!(stored.len(), 3, "once");
    complete(&stored, &messages);
}

pub async fn dsp_12_a_receiver_that_goes_away_costs_no_more_than_one_attempt<H: SinkHarness>() {
    let harness = H::fresh().await;
    let sink = harness.sink(Settings::impatient());
    let messages = plain(&harness, 3);
    assert_eq!(deliver_one(&sink, &messages[0]).await, Outcome::Done);
    harness.proxy().set(Traffic::Refused).await;
    // This one may still go to a connection of which nobody has said yet that it is cut.
    let first = deliver_one(&sink, &messages[1]).await;
    assert!(matches!(first, Outcome::Failed(_)) || is_free(&first), "{first:?}");
    for _ in 0..2 {
        let outcomes = sink.deliver(&deliveries(&messages[1..])).await;
        assert!(outcomes.iter().all(is_free), "{outcomes:?}");
    }
    harness.proxy().set(Traffic::Passes).await;
    deliver_all(&sink, &messages[1..]).await;
    complete(&harness.stored().await, &messages);
}

pub async fn dsp_12_many_at_once_find_nobody_and_are_answered<H: SinkHarness>() {
    let harness = H::fresh().await;
    harness.proxy().set(Traffic::Refused).await;
    let sink = harness.sink(Settings::default());
    let messages = plain(&harness, 400);
    let calls = messages.chunks(50).map(|batch| {
        let sink = &sink;
        async move { sink.deliver(&deliveries(batch)).await }
    });
    let answers = timeout(FOREVER, join_all(calls)).await.expect("answers");
    assert!(answers.iter().flatten().all(is_free), "{answers:?}");
    assert_eq!(answers.iter().flatten().count(), 400);
}

pub async fn b30_the_whole_backlog_is_delivered_when_it_is_back<H: SinkHarness>() {
    let harness = H::fresh().await;
    let sink = harness.sink(Settings::default());
    let messages = plain(&harness, 500);
    deliver_all(&sink, &messages[..1]).await;
    harness.proxy().set(Traffic::Refused).await;
    sink.deliver(&deliveries(&messages[1..50])).await;
    harness.proxy().set(Traffic::Passes).await;
    deliver_all(&sink, &messages[1..]).await;
    complete(&harness.stored().await, &messages);
}

pub async fn b34_a_connection_cut_before_the_answer_is_an_attempt_and_no_loss<H: SinkHarness>() {
    let harness = H::fresh().await;
    let sink = harness.sink(Settings::default());
    let messages = plain(&harness, 2);
    assert_eq!(deliver_one(&sink, &messages[0]).await, Outcome::Done);
    harness.proxy().set(Traffic::AnswersLost).await;
    let cut = async {
        until_stored(&harness, 2).await;
        harness.proxy().cut();
        harness.proxy().set(Traffic::Passes).await;
    };
    let (outcome, ()) = tokio::join!(deliver_one(&sink, &messages[1]), cut);
    assert!(matches!(outcome, Outcome::Failed(_)), "it may have arrived: {outcome:?}");
    deliver_all(&sink, &messages[1..]).await;
    let stored = harness.stored().await;
    assert_eq!(stored.len(), if harness.dedupes() { 2 } else { 3 });
    complete(&stored, &messages);
}

pub async fn b34_answers_that_are_swallowed_are_an_attempt_and_no_loss<H: SinkHarness>() {
    let harness = H::fresh().await;
    let sink = harness.sink(Settings::impatient());
    let messages = plain(&harness, 20);
    assert_eq!(deliver_one(&sink, &messages[0]).await, Outcome::Done);
    harness.proxy().set(Traffic::AnswersLost).await;
    let outcomes = timeout(FOREVER, sink.deliver(&deliveries(&messages[1..]))).await;
    let outcomes = outcomes.expect("an answer");
    assert!(outcomes.iter().all(|o| matches!(o, Outcome::Failed(_))), "{outcomes:?}");
    harness.proxy().set(Traffic::Passes).await;
    deliver_all(&sink, &messages[1..]).await;
    let stored = harness.stored().await;
    complete(&stored, &messages);
    assert!(!harness.dedupes() || stored.len() == 20, "{}", stored.len());
}

pub async fn b34_a_frozen_connection_is_answered_in_time<H: SinkHarness>() {
    let harness = H::fresh().await;
    let sink = harness.sink(Settings::impatient());
    let messages = plain(&harness, 20);
    assert_eq!(deliver_one(&sink, &messages[0]).await, Outcome::Done);
    harness.proxy().set(Traffic::Frozen).await;
    let outcomes = timeout(FOREVER, sink.deliver(&deliveries(&messages[1..]))).await;
    let outcomes = outcomes.expect("an answer");
    let is_retried = |o: &Outcome| matches!(o, Outcome::Failed(_)) || is_free(o);
    assert!(outcomes.iter().all(is_retried), "{outcomes:?}");
    assert_eq!(harness.stored().await.len(), 1, "nothing has arrived");
    let outcomes = sink.deliver(&deliveries(&messages[1..])).await;
    let is_known = outcomes.iter().all(is_free);
    assert!(is_known || !harness.greets(), "one attempt is enough to know: {outcomes:?}");
    harness.proxy().set(Traffic::Passes).await;
    deliver_all(&sink, &messages[1..]).await;
    complete(&harness.stored().await, &messages);
}
