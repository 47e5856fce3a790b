//! What a worker must be able to do, beside the areas of the suite of which an admin does more.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::store::{AdminStore, JoinState, Store};
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
