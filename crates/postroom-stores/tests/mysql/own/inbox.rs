//! Inbox handlers where several transactions can be open at once.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::State;
use postroom_core::store::{AdminStore, Record, Store};
use postroom_core::{Inbox, InboxTransaction, Message, MessageId, Outbox, Received};
use postroom_stores::MySqlStore;
use postroom_testkit::Harness;
use tokio::sync::Notify;

use crate::mysql_support::{My, run};
use crate::own::rivals::{count, kill, make_victim, session_of, with_contested_rows};

type Tx = InboxTransaction<MySqlStore>;

async fn receive(inbox: &Inbox<MySqlStore>, name: &str) -> MessageId {
    let message = Message::builder("t").payload(name.to_owned());
    match inbox.receive("shop", name, message).await.expect("receive") {
        Received::New(id) => id,
        other => panic!("{other:?}"),
    }
}

async fn until(inbox: &Inbox<MySqlStore>, id: MessageId, state: State) -> Record {
    let reached = async {
        loop {
            let record = inbox.store().get(id).await.expect("get").expect("it is there").record;
            if record.state == state {
                return record;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), reached).await.expect("it gets there")
}

/// The message becomes somebody else's while its handler works: what it did is rolled back.
#[tokio::test(flavor = "multi_thread")]
async fn inb_3_a_lost_lease_rolls_the_effect_back() {
    let my = Arc::new(My::on_database_time().await);
    let inbox = Inbox::new(&Outbox::new(my.store()), "billing").expect("legal");
    let id = receive(&inbox, "1").await;
    let (entered, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handlers = {
        let (my, entered, go) = (Arc::clone(&my), Arc::clone(&entered), Arc::clone(&go));
        inbox.handlers().all(move |_, mut tx: Tx| {
            let (my, entered, go) = (Arc::clone(&my), Arc::clone(&entered), Arc::clone(&go));
            async move {
                my.write_business_row(tx.conn(), 1).await;
                tx.publish(Message::builder("follow-up"))?;
                entered.notify_one();
                go.notified().await;
                Ok(tx)
            }
        })
    };
    let running = inbox.dispatcher(handlers).start().expect("starts");
    entered.notified().await;
    // In one step, as the claim of a rival would: the dispatcher itself must not be faster.
    let taken_over = "update postroom_inbox_queue
        set token = unhex('00000000000040008000000000000008'),
            owner = unhex('00000000000040008000000000000007')";
    run(&my.pool, taken_over).await;
    go.notify_one();
    assert!(running.shutdown(Duration::from_secs(20)).await);
    assert!(inbox.store().local().snapshot().counts.leases_lost >= 1, "it is known");
    assert!(my.business_rows().await.is_empty(), "the effect was rolled back");
    assert_eq!(my.store.stats().await.expect("stats").ready, 0, "and the follow-up");
    let owner = until(&inbox, id, State::Leased).await.owner.expect("somebody holds it");
    assert_eq!(owner.to_string(), "00000000-0000-4000-8000-000000000007");
}

/// The handler does not look at its error. What it did before is gone; what it does after would
/// commit by itself, and so would the mark.
#[tokio::test(flavor = "multi_thread")]
async fn b07_a_handler_that_a_deadlock_chose_has_no_effect_and_no_mark() {
    let my = Arc::new(with_contested_rows().await);
    let inbox = Inbox::new(&Outbox::new(my.store()), "billing").expect("legal");
    let handlers = {
        let my = Arc::clone(&my);
        inbox.handlers().all(move |delivery, mut tx: Tx| {
            let my = Arc::clone(&my);
            async move {
                my.write_business_row(tx.conn(), 1).await;
                tx.publish(Message::builder("follow-up"))?;
                if delivery.attempt() == 1 {
                    make_victim(&my, tx.conn()).await;
                }
                Ok(tx)
            }
        })
    };
    let id = receive(&inbox, "1").await;
    let running = inbox.dispatcher(handlers).start().expect("starts");
    assert_eq!(until(&inbox, id, State::Done).await.attempts, 1, "the first try was no success");
    assert!(running.shutdown(Duration::from_secs(20)).await);
    assert_eq!(my.business_rows().await, [1]);
    assert_eq!(count(&my, "select count(*) from postroom_outbox_message").await, 1);
}

/// The handler's connection is lost in the middle: nothing of it stays, and the next try is fine.
#[tokio::test(flavor = "multi_thread")]
async fn f03_a_handlers_lost_connection_changes_nothing_twice() {
    let my = Arc::new(My::on_database_time().await);
    let inbox = Inbox::new(&Outbox::new(my.store()), "billing").expect("legal");
    let handlers = {
        let my = Arc::clone(&my);
        inbox.handlers().all(move |delivery, mut tx: Tx| {
            let my = Arc::clone(&my);
            async move {
                my.write_business_row(tx.conn(), 1).await;
                if delivery.attempt() == 1 {
                    let session = session_of(tx.conn()).await;
                    kill(&my, session).await;
                }
                Ok(tx)
            }
        })
    };
    let id = receive(&inbox, "1").await;
    let running = inbox.dispatcher(handlers).start().expect("starts");
    assert_eq!(until(&inbox, id, State::Done).await.attempts, 1);
    assert!(running.shutdown(Duration::from_secs(20)).await);
    assert_eq!(my.business_rows().await, [1]);
}
