//! A join of many members under faults: exactly one follow-up.

use std::sync::Arc;

use postroom_core::lifecycle::State;
use postroom_core::store::{
    AdminStore, JoinState, List, MemberOutcome, Record, Status, TransactionalStore,
};
use postroom_core::{Join, JoinId, Message, MessageBuilder, MessageId, Outbox};
use uuid::Uuid;

use super::processes::wait_for;
use super::scenarios::{LEASE, Site, take};

/// How many are published in one transaction.
const CHUNK: u32 = 100;
/// Its handler waits until a process was killed with it.
const HELD: u32 = 250;

/// `members` messages of one join, published in chunks, some of them twice under one idempotency
/// key, while two processes handle them. Handlers fail at random, for a while or for good; half of
/// the dead are replayed; one process is killed in the middle of a member and one is ended, and
/// others take their places. The last member is attached when everything else has ended.
///
/// # Panics
/// When there is not exactly one follow-up, delivered once, or when the counts are not what became
/// of the members.
pub async fn a_join_survives<S>(site: &Site<S>, members: u32)
where
    S: TransactionalStore + AdminStore,
{
    let mut workers = site.workers(LEASE);
    let mut crowd = vec![workers.start().await, workers.start().await];
    let (join, published) = publish(site, members).await;
    let (last, others) = published.split_last().expect("there are members");
    let victim = take(&mut crowd, &site.until_held(others[HELD as usize]).await);
    victim.kill();
    site.open_gate("killed");
    crowd.push(workers.start().await);
    let (status, _) = crowd.swap_remove(0).terminate().await;
    assert!(status.success(), "{status}");
    crowd.push(workers.start().await);

    site.until_settled().await;
    replay_half_of_the_dead(site).await;
    site.until_settled().await;
    let open = site.store.join(join).await.expect("join").expect("it is there");
    assert_eq!((open.state, open.attached), (JoinState::Open, members - 1), "{open:?}");
    Outbox::new(Arc::clone(&site.store)).attach(join, &[*last]).await.expect("the last one");
    site.until_settled().await;
    assert_one_follow_up(site, join, &published).await;
    for worker in crowd {
        assert!(worker.terminate().await.0.success());
    }
}

/// Everything but the last one is attached where it is published, each chunk twice in part.
async fn publish<S>(site: &Site<S>, members: u32) -> (JoinId, Vec<MessageId>)
where
    S: TransactionalStore + AdminStore,
{
    let outbox = Outbox::new(Arc::clone(&site.store));
    let join = Join::expecting(members)
        .on_success(Message::builder("join.succeeded"))
        .on_failure(Message::builder("join.failed"))
        .build()
        .expect("legal");
    let mut ids = Vec::new();
    for from in (0..members).step_by(CHUNK as usize) {
        let chunk = from..members.min(from + CHUNK);
        for (again, step) in [(false, 1), (true, 7)] {
            let mut tx = outbox.begin().await.expect("begin");
            // Who does not know whether it was started starts it again.
            tx.start_join(&join).expect("legal");
            for n in chunk.clone().step_by(step) {
                let id = tx.publish(member(join.id(), n)).expect("legal");
                if n + 1 < members {
                    tx.attach(join.id(), id);
                }
            }
            let committed = tx.commit().await.expect("commit");
            assert!(committed.published.iter().all(|one| one.already_existed == again));
            if !again {
                ids.extend(committed.published.iter().map(|published| published.id));
            }
        }
    }
    (join.id(), ids)
}

/// What becomes of a member is left to chance, which the id of the join decides: both times that
/// it is published it is the same.
fn member(join: JoinId, n: u32) -> MessageBuilder {
    let key = Uuid::new_v5(&join.as_uuid(), &n.to_be_bytes());
    let (topic, payload) = match key.as_u128() % 100 {
        _ if n == HELD => ("hold", "killed".to_owned()),
        0..4 => ("doomed", format!("mercy-{n}")),
        4..37 => ("flaky", n.to_string()),
        _ => ("quick", n.to_string()),
    };
    Message::builder(topic).payload(payload).idempotency_key(key)
}

async fn listed<S>(site: &Site<S>, list: List) -> Vec<Record>
where
    S: TransactionalStore + AdminStore,
{
    site.store.list(&list).await.expect("list").records
}

async fn replay_half_of_the_dead<S>(site: &Site<S>)
where
    S: TransactionalStore + AdminStore,
{
    let dead = List { status: Some(Status::Dead), limit: 500, ..List::default() };
    let dead = listed(site, dead).await;
    assert!(dead.len() >= 2, "some are doomed");
    let half: Vec<_> = dead.iter().step_by(2).collect();
    for record in &half {
        let detail = site.store.get(record.id).await.expect("get").expect("it is there");
        let message = detail.record.message.expect("it decodes");
        site.open_gate(&String::from_utf8_lossy(message.payload()));
    }
    let half: Vec<_> = half.iter().map(|record| record.id).collect();
    let replayed = site.store.replay(&half).await.expect("replay");
    assert_eq!(replayed.applied, half);
}

async fn assert_one_follow_up<S>(site: &Site<S>, join: JoinId, published: &[MessageId])
where
    S: TransactionalStore + AdminStore,
{
    let (mut done, mut dead) = (0, 0);
    for id in published {
        match site.record(*id).await.state {
            State::Done => done += 1,
            State::Dead => dead += 1,
            other => panic!("{id} is {other:?}"),
        }
    }
    let ended = site.store.join(join).await.expect("join").expect("it is there");
    let counted = (ended.state, ended.done, ended.dead, ended.attached);
    assert_eq!(counted, (JoinState::Failed, done, dead, done + dead));
    let mut members = Vec::new();
    loop {
        let after = members.last().map(|member: &postroom_core::store::JoinMember| member.message);
        let page = site.store.join_members(join, after, 500).await.expect("members");
        if page.is_empty() {
            break;
        }
        members.extend(page);
    }
    let as_dead = members.iter().filter(|it| it.outcome == Some(MemberOutcome::Dead)).count();
    assert_eq!((members.len(), as_dead), (published.len(), dead as usize));

    let of = |topic: &str| List { topic: Some(topic.to_owned()), ..List::default() };
    assert!(listed(site, of("join.succeeded")).await.is_empty());
    let failed = listed(site, of("join.failed")).await;
    assert_eq!(failed.len(), 1, "exactly one follow-up");
    assert_eq!((Some(failed[0].id), failed[0].state), (ended.follow_up, State::Done));
    wait_for("its delivery", || site.history().runs_of(failed[0].id).count() == 1).await;
}
