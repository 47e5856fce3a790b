//! Claims that follow others look for ready rows alone. Whatever else there is has its turn all the
//! same.

use std::time::Duration;

use postroom_core::store::{AdminStore, Claim, Pause, Store, WorkItem};
use postroom_core::{Message, MessageBuilder, MessageId, Outbox, OwnerToken, Topic};
use postroom_stores::{PgStore, StoreConfig};
use postroom_testkit::Harness;

use crate::postgres_support::{Pg, run};

fn plain() -> MessageBuilder {
    Message::builder("t").payload("x")
}

async fn publish(pg: &Pg, messages: impl IntoIterator<Item = MessageBuilder>) -> Vec<MessageId> {
    let published = Outbox::new(pg.store()).publish_all(messages).await.expect("publishes");
    published.into_iter().map(|published| published.id).collect()
}

fn claim_of(batch: u32, lease: Duration) -> Claim {
    Claim::new(OwnerToken::random(), lease, batch).expect("legal").suspects(1)
}

async fn claim(pg: &Pg, batch: u32) -> Vec<MessageId> {
    ids(&pg.store.claim(&claim_of(batch, Duration::from_secs(30))).await.expect("claims").items)
}

fn ids(items: &[WorkItem]) -> Vec<MessageId> {
    items.iter().map(|item| item.message.id()).collect()
}

/// A store whose next claim follows one that found something.
async fn after_others() -> Pg {
    let pg = Pg::on_database_time().await;
    publish(&pg, [plain()]).await;
    assert_eq!(claim(&pg, 1).await.len(), 1);
    pg
}

/// Has what waits for its time come due.
async fn wake_all(pg: &Pg) {
    run(&pg.pool, "update outbox_parked set wake_at = clock_timestamp()").await;
}

#[tokio::test]
async fn wq_1_claims_that_follow_others_take_the_queue_in_its_order() {
    let pg = after_others().await;
    let all = publish(&pg, (0..30).map(|_| plain())).await;
    for part in all.chunks(7) {
        assert_eq!(claim(&pg, 7).await, part);
    }
    assert!(claim(&pg, 7).await.is_empty());
    pg.finish().await;
}

#[tokio::test]
async fn wq_1_priorities_count_in_claims_that_follow_others() {
    let pg = after_others().await;
    let all = publish(&pg, [plain().priority(-1), plain(), plain().priority(1), plain()]).await;
    assert_eq!(claim(&pg, 1).await, [all[2]]);
    assert_eq!(claim(&pg, 1).await, [all[1]]);
    assert_eq!(claim(&pg, 5).await, [all[3], all[0]], "what is left of the room is for the last");
    pg.finish().await;
}

#[tokio::test]
async fn wq_1_what_waited_for_its_time_counts_in_claims_that_follow_others() {
    for priority in [-1, 0, 1] {
        let pg = after_others().await;
        let late = plain().due_after(Duration::from_hours(1)).priority(priority);
        let all = publish(&pg, [plain(), late]).await;
        wake_all(&pg).await;
        let mut want = all.clone();
        if priority >= 0 {
            want.reverse();
        }
        assert_eq!(claim(&pg, 2).await, want, "priority {priority}");
        pg.finish().await;
    }
}

#[tokio::test]
async fn dsp_10_a_pause_by_others_counts_in_claims_that_follow_others() {
    let pg = after_others().await;
    let config = StoreConfig { schema: pg.schema.clone(), ..StoreConfig::default() };
    let other = PgStore::new(pg.pool.clone(), config).expect("legal names");
    let all = publish(&pg, [plain(), Message::builder("u").payload("x")]).await;
    let topic = Topic::new("t").expect("legal");
    let pause = Pause { topic: Some(topic.clone()), by: None, reason: None };
    other.pause(&pause).await.expect("pauses");
    assert_eq!(claim(&pg, 5).await, [all[1]]);
    other.pause(&Pause::default()).await.expect("pauses everything");
    other.resume(Some(&topic)).await.expect("resumes");
    assert!(claim(&pg, 5).await.is_empty());
    other.resume(None).await.expect("resumes everything");
    assert_eq!(claim(&pg, 5).await, [all[0]]);
    pg.finish().await;
}

#[tokio::test]
async fn dsp_10_topics_are_left_out_of_claims_that_follow_others() {
    let pg = after_others().await;
    let other = Message::builder("u").payload("x");
    let left_out = plain().build().expect("legal").topic_hash();
    let all = publish(&pg, [plain(), other]).await;
    let claim = claim_of(5, Duration::from_secs(30)).except_topics(vec![left_out]);
    assert_eq!(ids(&pg.store.claim(&claim).await.expect("claims").items), [all[1]]);
    pg.finish().await;
}

#[tokio::test]
async fn wq_1_what_has_expired_is_not_in_claims_that_follow_others() {
    let pg = after_others().await;
    let all = publish(&pg, [plain().expires_after(Duration::from_hours(1)), plain()]).await;
    run(&pg.pool, "update outbox_queue set expires_at = clock_timestamp() where seq = 2").await;
    assert_eq!(claim(&pg, 5).await, [all[1]]);
    // With nothing else to take it is buried at once.
    assert!(claim(&pg, 5).await.is_empty());
    let reason = sqlx::query_scalar::<_, i16>("select reason from outbox_settled where id = $1");
    let reason = reason.bind(all[0].as_uuid()).fetch_one(&pg.pool).await.expect("is settled");
    assert_eq!(reason, 4);
    pg.finish().await;
}

/// A steady stream of others must not hide it for longer than until the next full look.
#[tokio::test]
async fn wq_8_a_suspect_is_found_beside_a_steady_stream() {
    let pg = after_others().await;
    let suspect = publish(&pg, [plain()]).await;
    let short = claim_of(1, Duration::from_millis(1));
    assert_eq!(ids(&pg.store.claim(&short).await.expect("claims").items), suspect);
    for _ in 0..120 {
        publish(&pg, [plain(), plain()]).await;
        let taken = claim(&pg, 2).await;
        assert_eq!(taken.len(), 2);
        if taken.contains(&suspect[0]) {
            return pg.finish().await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not found within 6 s");
}
