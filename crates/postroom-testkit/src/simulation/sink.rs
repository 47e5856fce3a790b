//! The outside world, as one process reaches it.

use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use postroom_core::lifecycle::Outcome;
use postroom_core::store::BoxFuture;
use postroom_core::{Delivery, MessageId, OrderingKey, Sink};
use tokio::time::sleep;

use super::ledger::{Begins, Ended, Ledger, number};
use super::node::Node;
use super::plan::Act;
use crate::sim::Bug;

pub(super) struct SimSink {
    pub(super) node: Arc<Node>,
    pub(super) max_batch: usize,
    pub(super) takes_runs: bool,
    pub(super) careless: bool,
    pub(super) bug: Option<Bug>,
}

/// What a delivery is about.
#[derive(Clone)]
struct Letter {
    id: MessageId,
    payload: Bytes,
    key: Option<OrderingKey>,
}

impl Letter {
    fn new(delivery: &Delivery, bug: Option<Bug>) -> Self {
        let message = delivery.message();
        let changed = bug == Some(Bug::ChangesPayload) && delivery.attempt() > 1;
        let payload = if changed { Bytes::from("?") } else { message.payload().clone() };
        Self { id: message.id(), payload, key: message.ordering_key().cloned() }
    }
}

impl Sink for SimSink {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        let letters: Vec<_> = batch.iter().map(|it| Letter::new(it, self.bug)).collect();
        let (node, late) = (Arc::clone(&self.node), self.node.is_stalled());
        Box::pin(async move {
            let count = letters.len();
            let all = handle(Arc::clone(&node), letters, late, self.careless);
            if self.bug == Some(Bug::AcksBeforeHandling) {
                tokio::spawn(all);
                return vec![Outcome::Done; count];
            }
            if !late {
                return all.await;
            }
            // A process that is stopped right before it sends will send, whatever has become of its
            // lease when it goes on.
            tokio::spawn(all).await.unwrap_or_default()
        })
    }

    fn max_batch(&self) -> usize {
        self.max_batch
    }

    fn takes_runs(&self) -> bool {
        self.takes_runs
    }
}

async fn handle(node: Arc<Node>, letters: Vec<Letter>, late: bool, careless: bool) -> Vec<Outcome> {
    let alone = letters.len() == 1;
    let (mut outcomes, mut well, mut stopped) = (Vec::new(), Vec::new(), Vec::new());
    for letter in letters {
        if letter.key.is_some() && stopped.contains(&letter.key) {
            outcomes.push(if careless { Outcome::Done } else { Outcome::Unstarted });
            continue;
        }
        node.gate().await;
        // How long those before it take is not the engine's to know: it checks a batch once.
        let late = late || !outcomes.is_empty();
        let ledger = Arc::clone(&node.ledger);
        let begins = Begins { process: node.number, id: letter.id, late, alone };
        let (ticket, act) = ledger.start(begins, &letter.payload, &well);
        let handling = Handling { ledger, ticket };
        let outcome = perform(&node, act).await;
        node.gate().await;
        match outcome {
            Outcome::Done => {
                handling.end(Ended::Done);
                well.push(number(letter.id));
            }
            Outcome::RetryAfter { counted: false, .. } => handling.end(Ended::Cut),
            _ => handling.end(Ended::Bad),
        }
        if outcome != Outcome::Done {
            stopped.push(letter.key);
        }
        outcomes.push(outcome);
    }
    outcomes
}

async fn perform(node: &Node, act: Act) -> Outcome {
    let wait = |time: Duration| async move {
        if !time.is_zero() {
            sleep(time).await;
        }
    };
    match act {
        Act::Done(time) => {
            wait(time).await;
            Outcome::Done
        }
        Act::Fail(time) => {
            wait(time).await;
            Outcome::Failed("no".to_owned())
        }
        Act::Permanent => Outcome::Permanent("never".to_owned()),
        Act::NotNow => {
            let delay = Duration::from_millis(400);
            Outcome::RetryAfter { delay, counted: false, error: "busy".to_owned() }
        }
        // Without the hook that prints: this one is meant.
        Act::Panic => resume_unwind(Box::new("simulated panic")),
        Act::Hang => pending().await,
        Act::Kill => {
            node.crash();
            pending().await
        }
    }
}

/// A delivery under way; dropped without an end it was cut off, or panicked.
struct Handling {
    ledger: Arc<Ledger>,
    ticket: u64,
}

impl Handling {
    fn end(self, ended: Ended) {
        self.ledger.ended(self.ticket, ended);
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        let ended = if std::thread::panicking() { Ended::Bad } else { Ended::Cut };
        // Only the first end counts.
        self.ledger.ended(self.ticket, ended);
    }
}
