//! Joins: one follow-up when all members are settled, however they are settled.

#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod members;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod none;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::{Settlement, State};
use postroom_core::store::{
    AdminStore, JoinMember, JoinRecord, JoinState, ListJoins, MemberOutcome, Purge, Store, WorkItem,
};
use postroom_core::{
    Error, ErrorKind, Join, JoinBuilder, JoinId, Message, MessageBuilder, MessageId,
};
use tokio::task::JoinSet;

use crate::harness::{Env, Harness, ids, leases, plain};

type Case<H> = Arc<Env<H>>;

const DAY: Duration = Duration::from_secs(86_400);

fn join_of(members: u32) -> JoinBuilder {
    Join::expecting(members)
        .on_success(Message::builder("all.done").payload("good"))
        .on_failure(Message::builder("some.dead").payload("bad"))
}

/// A join of this many new messages.
async fn joined<H: Harness>(env: &Env<H>, members: u32) -> (JoinId, Vec<MessageId>) {
    let messages = (0..members).map(|_| plain()).collect();
    start(env, join_of(members), messages).await
}

async fn start<H: Harness>(
    env: &Env<H>,
    join: JoinBuilder,
    messages: Vec<MessageBuilder>,
) -> (JoinId, Vec<MessageId>) {
    let mut tx = env.outbox.begin().await.expect("begin");
    let join = tx.start_join(join).expect("legal");
    let mut ids = Vec::new();
    for message in messages {
        let id = tx.publish(message).expect("legal");
        tx.attach(join, id);
        ids.push(id);
    }
    tx.commit().await.expect("commit");
    (join, ids)
}

async fn record<H: Harness>(env: &Env<H>, join: JoinId) -> JoinRecord {
    env.store().join(join).await.expect("join").expect("it is there")
}

/// State, attached, done, dead.
async fn counts<H: Harness>(env: &Env<H>, join: JoinId) -> (JoinState, u32, u32, u32) {
    let JoinRecord { state, attached, done, dead, .. } = record(env, join).await;
    (state, attached, done, dead)
}

async fn ack<H: Harness>(env: &Env<H>, items: &[WorkItem]) {
    let settled = env.queue.ack(env.me, &leases(items)).await.expect("ack");
    assert_eq!(settled.applied, items.len());
}

async fn kill<H: Harness>(env: &Env<H>, items: &[WorkItem]) {
    let settled = env.queue.fail(env.me, &leases(items), "never").await.expect("fail");
    assert_eq!(settled.applied, items.len());
}

/// Everything that can be claimed, by topic: how many.
async fn claimable<H: Harness>(env: &Env<H>) -> BTreeMap<String, usize> {
    let mut topics = BTreeMap::new();
    for item in env.claim(1_000).await.items {
        *topics.entry(item.message.topic().to_string()).or_default() += 1;
    }
    topics
}

fn one(topic: &str) -> BTreeMap<String, usize> {
    BTreeMap::from([(topic.to_owned(), 1)])
}

fn refused(error: Error, text: &str) {
    assert_eq!(error.kind(), ErrorKind::Join, "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

pub async fn join_1_success_when_all_members_are_done<H: Harness>(env: Case<H>) {
    let (join, members) = joined(&env, 3).await;
    assert_eq!(counts(&env, join).await, (JoinState::Open, 3, 0, 0));
    let items = env.claim(10).await.items;
    assert_eq!(ids(&items), members);
    ack(&env, &items[..2]).await;
    assert_eq!(counts(&env, join).await, (JoinState::Open, 3, 2, 0));
    assert!(claimable(&env).await.is_empty(), "not before all are settled");
    env.advance(Duration::from_secs(1));
    ack(&env, &items[2..]).await;
    assert_eq!(counts(&env, join).await, (JoinState::Succeeded, 3, 3, 0));
    let follow_up = env.claim_one().await;
    assert_eq!(follow_up.message.topic().as_str(), "all.done");
    let ended = record(&env, join).await;
    assert_eq!(ended.follow_up, Some(follow_up.message.id()));
    assert_eq!(ended.ended_at, Some(env.clock.now()));
    assert_eq!(follow_up.created_at, env.clock.now());
    assert_eq!(follow_up.message.occurred_at(), Some(env.clock.now()));
}

pub async fn join_1_failure_when_all_are_settled_and_one_is_dead<H: Harness>(env: Case<H>) {
    let (join, _) = joined(&env, 3).await;
    let items = env.claim(10).await.items;
    kill(&env, &items[..1]).await;
    assert_eq!(counts(&env, join).await, (JoinState::Open, 3, 0, 1));
    assert!(claimable(&env).await.is_empty(), "the others may still succeed");
    ack(&env, &items[1..]).await;
    assert_eq!(counts(&env, join).await, (JoinState::Failed, 3, 2, 1));
    assert_eq!(claimable(&env).await, one("some.dead"));
}

pub async fn join_1_without_a_follow_up_it_just_ends<H: Harness>(env: Case<H>) {
    let only_failure = Join::expecting(1).on_failure(Message::builder("some.dead"));
    let (done, _) = start(&env, only_failure, vec![plain()]).await;
    ack(&env, &[env.claim_one().await]).await;
    assert_eq!(counts(&env, done).await, (JoinState::Succeeded, 1, 1, 0));
    let (dead, _) = start(&env, Join::expecting(1), vec![plain()]).await;
    kill(&env, &[env.claim_one().await]).await;
    assert_eq!(counts(&env, dead).await, (JoinState::Failed, 1, 0, 1));
    assert_eq!(record(&env, dead).await.follow_up, None);
    assert!(claimable(&env).await.is_empty());
}

pub async fn join_1_it_waits_for_members_that_are_not_there_yet<H: Harness>(env: Case<H>) {
    let (join, _) = start(&env, join_of(2), vec![plain()]).await;
    ack(&env, &[env.claim_one().await]).await;
    assert_eq!(counts(&env, join).await, (JoinState::Open, 1, 1, 0));
    let late = env.publish(plain()).await.id;
    env.outbox.attach(join, &[late]).await.expect("attach");
    ack(&env, &[env.claim_one().await]).await;
    assert_eq!(counts(&env, join).await, (JoinState::Succeeded, 2, 2, 0));
    assert_eq!(claimable(&env).await, one("all.done"));
}

pub async fn join_1_a_follow_up_is_a_message_like_any_other<H: Harness>(env: Case<H>) {
    let message = Message::builder("all.done")
        .payload(vec![0, 159, 146])
        .content_type("image/x-thing")
        .header("h", "v")
        .aggregate("order", "7")
        .ordering_key("order/7")
        .tenant_id("acme")
        .correlation_id("c")
        .causation_id("d")
        .priority(5)
        .build()
        .expect("legal");
    let join = Join::expecting(1).on_success(&message);
    start(&env, join, vec![plain()]).await;
    let before = env.publish(plain().ordering_key("order/7").tenant_id("acme")).await.id;
    ack(&env, &[env.claim(1).await.items.remove(0)]).await;
    let items = env.claim(10).await.items;
    assert_eq!(ids(&items), [before, message.id()], "in the order of its key");
    assert_eq!(items[1].message, message.as_written(env.clock.now()));
    ack(&env, &items).await;
    assert_eq!(env.record(message.id()).await.state, State::Done);
}

pub async fn join_1_it_shares_the_fate_of_its_transaction<H: Harness>(env: Case<H>) {
    let kept = env.publish(plain()).await.id;
    let mut tx = env.outbox.begin().await.expect("begin");
    let join = tx.start_join(join_of(1)).expect("legal");
    tx.attach(join, kept);
    tx.flush().await.expect("flush");
    tx.rollback().await.expect("rollback");
    assert_eq!(env.store().join(join).await.expect("join"), None);
    ack(&env, &[env.claim_one().await]).await;
    // What completes in a transaction that is rolled back has not completed.
    let (open, _) = start(&env, join_of(1), Vec::new()).await;
    let mut tx = env.outbox.begin().await.expect("begin");
    tx.attach(open, kept);
    tx.flush().await.expect("flush");
    drop(tx);
    assert_eq!(counts(&env, open).await, (JoinState::Open, 0, 0, 0));
    assert!(claimable(&env).await.is_empty());
}

pub async fn join_1_a_rolled_back_savepoint_forgets_its_joins<H: Harness>(env: Case<H>) {
    let mut tx = env.outbox.begin().await.expect("begin");
    let outer = tx.start_join(join_of(2)).expect("legal");
    let first = tx.publish(plain()).expect("legal");
    tx.attach(outer, first);
    let mut inner = tx.savepoint().await.expect("savepoint");
    let forgotten = inner.start_join(join_of(1)).expect("legal");
    let gone = inner.publish(plain()).expect("legal");
    inner.attach(outer, gone);
    inner.attach(forgotten, gone);
    inner.flush().await.expect("flush");
    inner.rollback().await.expect("rollback");
    let mut inner = tx.savepoint().await.expect("savepoint");
    let second = inner.publish(plain()).expect("legal");
    inner.attach(outer, second);
    inner.release().await.expect("release");
    tx.commit().await.expect("commit");
    assert_eq!(env.store().join(forgotten).await.expect("join"), None);
    let members = env.store().join_members(outer, None, 10).await.expect("members");
    let members: Vec<_> = members.iter().map(|member| member.message).collect();
    assert_eq!(members, [first, second]);
}

pub async fn join_1_a_cancelled_join_publishes_nothing<H: Harness>(env: Case<H>) {
    // With one that is open, so that there is something to count.
    start(&env, join_of(1), Vec::new()).await;
    let (join, _) = joined(&env, 2).await;
    let items = env.claim(10).await.items;
    ack(&env, &items[..1]).await;
    assert!(env.store().cancel_join(join).await.expect("cancel"));
    assert!(!env.store().cancel_join(join).await.expect("a second time"));
    assert!(!env.store().cancel_join(JoinId::new()).await.expect("nobody"));
    ack(&env, &items[1..]).await;
    assert_eq!(counts(&env, join).await, (JoinState::Cancelled, 2, 1, 0));
    assert_eq!(record(&env, join).await.ended_at, Some(env.clock.now()));
    assert!(claimable(&env).await.is_empty());
    let (done, _) = joined(&env, 1).await;
    ack(&env, &[env.claim_one().await]).await;
    assert!(!env.store().cancel_join(done).await.expect("it has ended"));
}

pub async fn join_1_a_replayed_member_is_open_again<H: Harness>(env: Case<H>) {
    let (join, members) = joined(&env, 2).await;
    let items = env.claim(10).await.items;
    kill(&env, &items[..1]).await;
    let replayed = env.store().replay(&members[..1]).await.expect("replay");
    assert_eq!(replayed.applied, members[..1]);
    assert_eq!(counts(&env, join).await, (JoinState::Open, 2, 0, 0));
    ack(&env, &items[1..]).await;
    assert_eq!(counts(&env, join).await, (JoinState::Open, 2, 1, 0));
    ack(&env, &[env.claim_one().await]).await;
    assert_eq!(counts(&env, join).await, (JoinState::Succeeded, 2, 2, 0));
    assert_eq!(claimable(&env).await, one("all.done"));
}

pub async fn join_1_a_completed_join_is_final<H: Harness>(env: Case<H>) {
    start(&env, join_of(1), Vec::new()).await;
    let (join, members) = joined(&env, 1).await;
    kill(&env, &[env.claim_one().await]).await;
    assert_eq!(claimable(&env).await, one("some.dead"));
    let _ = env.store().replay(&members).await.expect("replay");
    assert_eq!(counts(&env, join).await, (JoinState::Failed, 1, 0, 1));
    ack(&env, &[env.claim_one().await]).await;
    assert_eq!(counts(&env, join).await, (JoinState::Failed, 1, 0, 1));
    assert!(claimable(&env).await.is_empty());
    let members = env.store().join_members(join, None, 10).await.expect("members");
    assert_eq!(members[0].outcome, Some(MemberOutcome::Dead), "as it counted");
}

pub async fn join_1_a_purge_of_members_uncounts_nothing<H: Harness>(env: Case<H>) {
    let (join, _) = joined(&env, 3).await;
    let items = env.claim(10).await.items;
    ack(&env, &items[..1]).await;
    kill(&env, &items[1..2]).await;
    env.advance(Duration::from_secs(1));
    let purge =
        Purge { done: Some(Duration::ZERO), dead: Some(Duration::ZERO), ..Purge::default() };
    let purged = env.queue.purge(&purge).await.expect("purge");
    assert_eq!((purged.messages, purged.joins), (2, 0));
    assert_eq!(counts(&env, join).await, (JoinState::Open, 3, 1, 1));
    ack(&env, &items[2..]).await;
    assert_eq!(counts(&env, join).await, (JoinState::Failed, 3, 2, 1));
    assert_eq!(claimable(&env).await, one("some.dead"));
}

pub async fn join_1_ended_joins_are_purged_with_their_members<H: Harness>(env: Case<H>) {
    let (ended, _) = joined(&env, 3).await;
    let items = env.claim(10).await.items;
    ack(&env, &items).await;
    let (open, _) = joined(&env, 1).await;
    let chunk = Purge { keys: None, limit: 2, ..Purge::default() };
    env.advance(DAY * 30 - Duration::from_micros(1));
    assert_eq!(env.queue.purge(&chunk).await.expect("purge").joins, 0);
    env.advance(Duration::from_micros(1));
    let first = env.queue.purge(&chunk).await.expect("purge");
    assert_eq!((first.joins, first.more), (0, true), "a chunk of members");
    assert_eq!(env.queue.purge(&chunk).await.expect("purge").joins, 1);
    assert_eq!(env.store().join(ended).await.expect("join"), None);
    assert_eq!(env.store().join_members(ended, None, 10).await.expect("members"), []);
    assert_eq!(counts(&env, open).await, (JoinState::Open, 1, 0, 0), "whatever its age");
}

pub async fn join_1_every_way_to_die_counts<H: Harness>(env: Case<H>) {
    let ordered = || plain().ordering_key("k");
    let expires = |message: MessageBuilder| message.expires_after(Duration::from_secs(5));
    let messages = vec![
        expires(plain()),
        expires(ordered()),
        plain().due_after(DAY),
        plain(),
        expires(plain().due_after(Duration::from_secs(1))),
    ];
    let (join, members) = start(&env, join_of(5), messages).await;
    let _ = env.store().discard(&members[2..3]).await.expect("discard");
    assert_eq!(counts(&env, join).await.3, 1, "discarded");
    env.harness.make_undecodable(members[3]).await;
    env.advance(Duration::from_secs(5));
    let claimed = env.claim(10).await;
    assert!(claimed.items.is_empty());
    assert_eq!(counts(&env, join).await, (JoinState::Failed, 5, 0, 5), "expired, undecodable");
    ack(&env, &[env.claim_one().await]).await;
    // Leases that run out, and attempts that are used up.
    let (lost, _) = joined(&env, 1).await;
    for _ in 0..2 {
        assert_eq!(env.claim(1).await.items.len(), 1);
        env.expire_leases();
    }
    let _ = env.store().reap(10, 1).await.expect("reap");
    assert_eq!(counts(&env, lost).await, (JoinState::Failed, 1, 0, 1));
    ack(&env, &[env.claim_one().await]).await;
    let (tried, _) = joined(&env, 1).await;
    while counts(&env, tried).await.0 == JoinState::Open {
        env.advance(DAY);
        let items = env.claim(10).await.items;
        let _ = env.queue.abandon(env.me, &items, "no").await.expect("abandon");
    }
    assert_eq!(counts(&env, tried).await, (JoinState::Failed, 1, 0, 1));
}

pub async fn join_1_only_an_end_counts<H: Harness>(env: Case<H>) {
    let (join, _) = joined(&env, 1).await;
    let item = env.claim_one().await;
    let wait = Duration::from_secs(1);
    let _ = env.queue.abandon_for(env.me, &[item.lease], wait, "no").await.expect("abandon");
    env.advance(wait);
    let again = env.claim_one().await;
    let _ = env.queue.release(env.me, &[again.lease]).await.expect("release");
    assert_eq!(counts(&env, join).await, (JoinState::Open, 1, 0, 0));
    let last = env.claim_one().await;
    // Who has lost the lease settles nothing, and nobody settles twice.
    let stale = [(item.lease, Settlement::Done), (again.lease, Settlement::Done)];
    assert_eq!(env.store().settle(env.me, &stale).await.expect("settle").applied, 0);
    assert_eq!(counts(&env, join).await, (JoinState::Open, 1, 0, 0));
    ack(&env, std::slice::from_ref(&last)).await;
    assert_eq!(env.queue.ack(env.me, &[last.lease]).await.expect("ack").applied, 0);
    assert_eq!(counts(&env, join).await, (JoinState::Succeeded, 1, 1, 0));
    assert_eq!(claimable(&env).await, one("all.done"));
}

pub async fn join_1_joins_and_members_are_listed_page_by_page<H: Harness>(env: Case<H>) {
    let mut joins = Vec::new();
    for _ in 0..3 {
        joins.push(joined(&env, 2).await);
    }
    let items = env.claim(10).await.items;
    ack(&env, &items[..2]).await;
    kill(&env, &items[2..3]).await;
    let list = |list: ListJoins| {
        let store = env.store();
        async move {
            let page = store.joins(&list).await.expect("joins");
            page.into_iter().map(|join| join.id).collect::<Vec<_>>()
        }
    };
    let page = ListJoins { limit: 2, ..ListJoins::default() };
    assert_eq!(list(page.clone()).await, [joins[2].0, joins[1].0], "newest first");
    assert_eq!(list(ListJoins { before: Some(joins[1].0), ..page }).await, [joins[0].0]);
    let open = ListJoins { state: Some(JoinState::Open), ..ListJoins::default() };
    assert_eq!(list(open).await, [joins[2].0, joins[1].0]);
    let (join, messages) = &joins[1];
    let member = |n: usize, outcome| JoinMember { message: messages[n], outcome };
    let first = env.store().join_members(*join, None, 1).await.expect("members");
    assert_eq!(first, [member(0, Some(MemberOutcome::Dead))]);
    let rest = env.store().join_members(*join, Some(messages[0]), 10).await.expect("members");
    assert_eq!(rest, [member(1, None)]);
}

pub async fn join_1_a_thousand_members_settled_in_one_call<H: Harness>(env: Case<H>) {
    let (join, _) = joined(&env, 1_000).await;
    let items = env.claim(1_000).await.items;
    ack(&env, &items).await;
    assert_eq!(counts(&env, join).await, (JoinState::Succeeded, 1_000, 1_000, 0));
    assert_eq!(claimable(&env).await, one("all.done"));
}

pub async fn join_1_rivals_end_a_join_once<H: Harness>(env: Case<H>) {
    let (join, _) = joined(&env, 32).await;
    let mut rivals = JoinSet::new();
    for item in env.claim(100).await.items {
        let env = Arc::clone(&env);
        rivals.spawn(async move { ack(&env, &[item]).await });
    }
    rivals.join_all().await;
    assert_eq!(counts(&env, join).await, (JoinState::Succeeded, 32, 32, 0));
    assert_eq!(claimable(&env).await, one("all.done"));
}
