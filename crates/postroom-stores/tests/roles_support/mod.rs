//! What a worker must be able to do, beside the areas of the suite of which an admin does more.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::store::{AdminStore, AuditEntry, Heartbeat, JoinState, Store};
use postroom_core::{Inbox, Join, Lease, Message, Outbox, OwnerToken, Received, WorkQueue};
use postroom_testkit::Harness;

/// A join over a message of each box, to its follow-up.
pub(crate) async fn receives_and_joins<H: Harness>(env: &H) {
    let outbox = Outbox::new(env.store());
    let inbox = Inbox::new(&outbox, "billing").expect("legal");
    let message = Message::builder("received");
    let received = match inbox.receive("shop", "1", message).await.expect("receive") {
        Received::New(id) => id,
        other => panic!("{other:?}"),
    };
    let mut tx = outbox.begin().await.expect("begin");
    let follow_up = Message::builder("all.done").ordering_key("k");
    let join = tx.start_join(Join::expecting(2).on_success(follow_up)).expect("legal");
    let id = tx.publish(Message::builder("sent").ordering_key("k")).expect("legal");
    tx.attach(join, id);
    tx.commit().await.expect("commit");
    inbox.attach(join, &[received]).await.expect("attach");

    let me = OwnerToken::random();
    let incoming: Arc<H::Store> = Arc::clone(inbox.store());
    let boxes: [Arc<dyn Store>; 2] = [incoming, env.store()];
    for queue in boxes.map(WorkQueue::new) {
        let claimed = queue.claim(me, Duration::from_secs(30), 10).await.expect("claim").items;
        let leases: Vec<Lease> = claimed.iter().map(|item| item.lease).collect();
        assert_eq!(queue.ack(me, &leases).await.expect("ack").applied, 1);
    }
    let ended = env.store().join(join).await.expect("join").expect("it is there");
    assert_eq!((ended.state, ended.done), (JoinState::Succeeded, 2));
    let stats = env.store().stats().await.expect("stats");
    assert_eq!((stats.ready, stats.done), (1, 1), "the follow-up is there");
}

/// A dispatcher's sign of life.
pub(crate) fn heartbeat() -> Heartbeat {
    Heartbeat {
        owner: OwnerToken::random(),
        name: "web-1".to_owned(),
        version: "1.0.0".to_owned(),
        running_for: Duration::ZERO,
        draining: false,
        valid_for: Duration::from_secs(30),
    }
}

pub(crate) fn audit_entry() -> AuditEntry {
    let [actor, action, target, outcome] =
        ["me", "discard", "everything", "done"].map(str::to_owned);
    AuditEntry { actor, action, target, outcome, changed: 1 }
}

/// Reports, is seen and leaves.
pub(crate) async fn shows_itself(store: &dyn AdminStore) {
    let heartbeat = heartbeat();
    store.report(&heartbeat).await.expect("report");
    looks_around(store).await;
    assert_eq!(store.nodes().await.expect("nodes")[0].owner, heartbeat.owner);
    store.leave(heartbeat.owner).await.expect("leave");
    assert!(store.nodes().await.expect("nodes").is_empty());
}

/// All that people look at beside messages.
pub(crate) async fn looks_around(store: &dyn AdminStore) {
    store.nodes().await.expect("nodes");
    store.topics(10).await.expect("topics");
    store.failing(10).await.expect("failing");
    store.blocked_keys(10).await.expect("blocked keys");
    store.audit(None, 10).await.expect("audit");
}
