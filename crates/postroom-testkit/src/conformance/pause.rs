//! Pauses: rows that the claim and the append themselves read.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::State;
use postroom_core::store::{AdminStore, Appended, Pause, PauseRecord, Paused, Store};
use postroom_core::{Message, MessageBuilder, MessageId, Topic};

use super::publish::append_leased;
use crate::harness::{Env, Harness, LEASE, ids, leases, plain};

type Case<H> = Arc<Env<H>>;

fn topic(name: &str) -> Topic {
    Topic::new(name).expect("legal")
}

fn of(topic: &str) -> MessageBuilder {
    Message::builder(topic).payload("{}")
}

async fn pause<H: Harness>(env: &Env<H>, name: Option<&str>) -> bool {
    let pause = Pause { topic: name.map(topic), ..Pause::default() };
    env.store().pause(&pause).await.expect("pause")
}

async fn resume<H: Harness>(env: &Env<H>, name: Option<&str>) -> bool {
    env.store().resume(name.map(topic).as_ref()).await.expect("resume")
}

async fn claim<H: Harness>(env: &Env<H>) -> Vec<MessageId> {
    ids(&env.claim(10).await.items)
}

/// Claims twice, because both kinds take turns in coming first.
async fn assert_nothing_to_claim<H: Harness>(env: &Env<H>) {
    for _ in 0..2 {
        let claimed = env.claim(10).await;
        assert_eq!((ids(&claimed.items), claimed.dead), (Vec::new(), 0));
    }
}

pub async fn dsp_10_a_paused_topic_is_not_claimed<H: Harness>(env: Case<H>) {
    let quiet = env.publish(of("quiet")).await.id;
    let urgent = env.publish(of("quiet").priority(5)).await.id;
    let due = env.publish(of("quiet").due_after(Duration::from_secs(1))).await.id;
    let loud = env.publish(of("loud")).await.id;
    assert!(pause(&env, Some("quiet")).await);
    env.advance(Duration::from_secs(1));
    assert_eq!(claim(&env).await, [loud]);
    assert_nothing_to_claim(&env).await;
    assert!(resume(&env, Some("quiet")).await);
    assert_eq!(claim(&env).await, [urgent, due, quiet]);
}

pub async fn dsp_10_a_paused_queue_gives_nothing<H: Harness>(env: Case<H>) {
    env.leased(plain()).await;
    let plain_one = env.publish(plain()).await.id;
    let low = env.publish(plain().priority(-5)).await.id;
    env.publish(plain().ordering_key("k").due_after(Duration::from_secs(1))).await;
    env.publish(plain().ordering_key("k")).await;
    env.publish(plain().priority(1).due_after(Duration::from_secs(1))).await;
    env.publish(plain().expires_after(Duration::from_secs(1))).await;
    assert!(pause(&env, None).await);
    env.expire_leases();
    assert_nothing_to_claim(&env).await;
    assert!(resume(&env, None).await);
    let claimed = env.claim(10).await;
    let got = ids(&claimed.items);
    assert_eq!((got.len(), claimed.dead), (6, 1));
    assert!(got.contains(&plain_one) && got.contains(&low));
}

pub async fn dsp_10_nothing_paused_is_born_leased<H: Harness>(env: Case<H>) {
    assert!(pause(&env, Some("quiet")).await);
    let is_leased = async |name: &str| match append_leased(&env, of(name)).await.0 {
        Appended::New { leased, .. } => leased,
        other => panic!("{other:?}"),
    };
    assert!(!is_leased("quiet").await);
    assert!(is_leased("loud").await, "other topics are as ever");
    assert!(pause(&env, None).await);
    assert!(!is_leased("loud").await);
    assert!(resume(&env, None).await && resume(&env, Some("quiet")).await);
    assert!(is_leased("quiet").await && is_leased("loud").await);
}

pub async fn dsp_10_a_paused_head_stops_its_key_alone<H: Harness>(env: Case<H>) {
    env.publish(of("quiet").ordering_key("a")).await;
    env.publish(of("loud").ordering_key("a")).await;
    let other = env.publish(of("loud").ordering_key("b")).await.id;
    assert!(pause(&env, Some("quiet")).await);
    assert_eq!(claim(&env).await, [other]);
    assert_nothing_to_claim(&env).await;
    assert!(resume(&env, Some("quiet")).await);
    assert_eq!(claim(&env).await.len(), 2);
}

pub async fn dsp_10_a_run_ends_before_a_paused_row<H: Harness>(env: Case<H>) {
    let first = env.publish(of("loud").ordering_key("a")).await.id;
    env.publish(of("quiet").ordering_key("a")).await;
    env.publish(of("loud").ordering_key("a")).await;
    assert!(pause(&env, Some("quiet")).await);
    let items = env.claim(10).await.items;
    assert_eq!(ids(&items), [first]);
    let _ = env.queue.ack(env.me, &leases(&items)).await.expect("ack");
    assert_nothing_to_claim(&env).await;
}

pub async fn dsp_10_what_was_claimed_before_is_settled_all_the_same<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    assert!(pause(&env, None).await);
    let renewed = env.queue.renew(env.me, &[item.lease], LEASE).await.expect("renew");
    assert_eq!(renewed.applied, 1);
    assert_eq!(env.queue.ack(env.me, &[item.lease]).await.expect("ack").applied, 1);
    assert_eq!(env.record(item.message.id()).await.state, State::Done);
}

pub async fn dsp_10_a_lost_lease_is_not_taken_over_while_paused<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    assert!(pause(&env, Some(item.message.topic().as_str())).await);
    env.expire_leases();
    assert_nothing_to_claim(&env).await;
    assert!(resume(&env, Some(item.message.topic().as_str())).await);
    let again = env.claim_one().await;
    assert_eq!((again.message.id(), again.lost), (item.message.id(), 1));
}

pub async fn dsp_10_the_first_of_two_pauses_counts<H: Harness>(env: Case<H>) {
    let store = env.store();
    let since = env.clock.now();
    let by = |who: &str, why: &str| Pause {
        topic: Some(topic("quiet")),
        by: Some(who.to_owned()),
        reason: Some(why.to_owned()),
    };
    assert!(store.pause(&by("ann", "the broker is full")).await.expect("pause"));
    env.advance(Duration::from_secs(5));
    assert!(!store.pause(&by("bob", "me too")).await.expect("pause"));
    assert!(pause(&env, None).await);
    let whole = PauseRecord { topic: None, since: env.clock.now(), by: None, reason: None };
    let quiet = PauseRecord {
        topic: Some("quiet".to_owned()),
        since,
        by: Some("ann".to_owned()),
        reason: Some("the broker is full".to_owned()),
    };
    assert_eq!(store.pauses().await.expect("pauses"), [whole, quiet]);
    let paused = store.paused().await.expect("paused");
    assert_eq!(paused, Paused { all: true, topics: vec![topic("quiet").hash64()] });
}

pub async fn dsp_10_a_resume_ends_its_own_pause_only<H: Harness>(env: Case<H>) {
    assert!(!resume(&env, None).await && !resume(&env, Some("quiet")).await, "nothing to end");
    assert_eq!(env.store().paused().await.expect("paused"), Paused::default());
    env.publish(of("quiet")).await;
    assert!(pause(&env, Some("quiet")).await && pause(&env, None).await);
    assert!(resume(&env, Some("quiet")).await);
    assert_nothing_to_claim(&env).await;
    assert!(pause(&env, Some("quiet")).await && resume(&env, None).await);
    assert_nothing_to_claim(&env).await;
    assert!(resume(&env, Some("quiet")).await);
    assert_eq!(claim(&env).await.len(), 1);
}

pub async fn dsp_10_topics_are_paused_to_the_letter<H: Harness>(env: Case<H>) {
    let mut names = ["quiet", "Quiet", "quiet ", "b", "ä", "B"];
    for name in names {
        env.publish(of(name)).await;
        assert!(pause(&env, Some(name)).await, "{name:?} is one of its own");
    }
    names.sort_unstable();
    let pauses = env.store().pauses().await.expect("pauses");
    let listed: Vec<_> = pauses.iter().filter_map(|pause| pause.topic.as_deref()).collect();
    assert_eq!(listed, names, "in the order of their bytes");
    assert!(resume(&env, Some("Quiet")).await);
    let item = env.claim_one().await;
    assert_eq!(item.message.topic().as_str(), "Quiet");
}
