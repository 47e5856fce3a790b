//! Inbox handlers where several transactions can be open at once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_core::lifecycle::{DeadReason, State};
use postroom_core::store::{AdminStore, Record, Store};
use postroom_core::{
    ErrorKind, HandlerError, Inbox, InboxTransaction, Message, MessageId, Once, Outbox, Received,
};
use postroom_stores::PgStore;
use postroom_testkit::Harness;
use tokio::sync::Notify;

use crate::postgres_support::{Pg, run};

type Tx = InboxTransaction<PgStore>;

async fn receive(inbox: &Inbox<PgStore>, name: &str) -> MessageId {
    let message = Message::builder("t").payload(name.to_owned());
    match inbox.receive("shop", name, message).await.expect("receive") {
        Received::New(id) => id,
        other => panic!("{other:?}"),
    }
}

async fn until(inbox: &Inbox<PgStore>, id: MessageId, state: State) -> Record {
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
    let pg = Arc::new(Pg::on_database_time().await);
    let inbox = Inbox::new(&Outbox::new(pg.store()), "billing").expect("legal");
    let id = receive(&inbox, "1").await;
    let (entered, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handlers = {
        let (pg, entered, go) = (Arc::clone(&pg), Arc::clone(&entered), Arc::clone(&go));
        inbox.handlers().all(move |_, mut tx: Tx| {
            let (pg, entered, go) = (Arc::clone(&pg), Arc::clone(&entered), Arc::clone(&go));
            async move {
                pg.write_business_row(tx.conn(), 1).await;
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
    let taken_over = "update inbox_queue
        set token = gen_random_uuid(), owner = '00000000-0000-4000-8000-000000000007'";
    run(&pg.pool, taken_over).await;
    go.notify_one();
    assert!(running.shutdown(Duration::from_secs(20)).await);
    assert!(inbox.store().local().snapshot().counts.leases_lost >= 1, "it is known");
    assert!(pg.business_rows().await.is_empty(), "the effect was rolled back");
    assert_eq!(pg.store.stats().await.expect("stats").ready, 0, "and the follow-up");
    let owner = until(&inbox, id, State::Leased).await.owner.expect("somebody holds it");
    assert_eq!(owner.to_string(), "00000000-0000-4000-8000-000000000007");
}

/// Else one message would be marked done by the effect of another.
#[tokio::test(flavor = "multi_thread")]
async fn inb_3_the_transaction_of_another_message_is_refused() {
    let pg = Arc::new(Pg::on_database_time().await);
    let inbox = Inbox::new(&Outbox::new(pg.store()), "billing").expect("legal");
    let kept: Arc<Mutex<Option<Tx>>> = Arc::default();
    let handlers = inbox.handlers().all(move |delivery, tx: Tx| {
        let mut kept = kept.lock().expect("lock");
        let answer = match &delivery.message().payload()[..] {
            b"keeps" => {
                *kept = Some(tx);
                Err(HandlerError::dead("kept"))
            }
            _ => kept.take().ok_or_else(|| HandlerError::retry("nothing was kept")),
        };
        async { answer }
    });
    let running = inbox.dispatcher(handlers).start().expect("starts");
    let keeps = receive(&inbox, "keeps").await;
    until(&inbox, keeps, State::Dead).await;
    let takes = receive(&inbox, "takes").await;
    let dead = until(&inbox, takes, State::Dead).await;
    let error = "the handler gave back the transaction of another message";
    assert_eq!(
        (dead.reason, dead.last_error.as_deref()),
        (Some(DeadReason::Permanent), Some(error))
    );
    assert!(running.shutdown(Duration::from_secs(20)).await);
}

/// The handler's connection is lost in the middle: nothing of it stays, and the next try is fine.
#[tokio::test(flavor = "multi_thread")]
async fn f03_a_handlers_lost_connection_changes_nothing_twice() {
    let pg = Arc::new(Pg::on_database_time().await);
    let inbox = Inbox::new(&Outbox::new(pg.store()), "billing").expect("legal");
    let handlers = {
        let pg = Arc::clone(&pg);
        inbox.handlers().all(move |delivery, mut tx: Tx| {
            let pg = Arc::clone(&pg);
            async move {
                pg.write_business_row(tx.conn(), 1).await;
                if delivery.attempt() == 1 {
                    let cut = "select pg_terminate_backend(pg_backend_pid())";
                    let _ = sqlx::query(cut).execute(tx.conn()).await;
                }
                Ok(tx)
            }
        })
    };
    let id = receive(&inbox, "1").await;
    let running = inbox.dispatcher(handlers).start().expect("starts");
    assert_eq!(until(&inbox, id, State::Done).await.attempts, 1);
    assert!(running.shutdown(Duration::from_secs(20)).await);
    assert_eq!(pg.business_rows().await, [1]);
}

/// PUB-6 for the inbox: a winner that the snapshot can not see is a transient error.
#[tokio::test]
async fn inb_4_a_rival_that_the_snapshot_can_not_see_is_transient() {
    let pg = Pg::on_database_time().await;
    let inbox = Inbox::new(&Outbox::new(pg.store()), "billing").expect("legal");
    let mut late = pg.connection().await;
    let begin = "begin isolation level repeatable read; select 1";
    sqlx::raw_sql(begin).execute(&mut *late).await.expect("begin");
    let mut tx = inbox.outbox().begin().await.expect("begin");
    assert_eq!(inbox.once(tx.conn(), "shop", "1").await.expect("once"), Once::First);
    tx.commit().await.expect("commit");
    let error = inbox.once(&mut late, "shop", "1").await.expect_err("not visible");
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Contention, true));
}
