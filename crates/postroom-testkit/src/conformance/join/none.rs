//! Joins in stores that keep no history: `retain_done = 0`.

use postroom_core::OwnerToken;
use postroom_core::store::JoinState;

use super::{Case, ack, claimable, counts, join_of, joined, kill, one, refused, start};
use crate::harness::{Harness, plain};

pub async fn join_1_members_that_are_deleted_when_done_count<H: Harness>(env: Case<H>) {
    let (join, members) = joined(&env, 3).await;
    let items = env.claim(10).await.items;
    ack(&env, &items[..1]).await;
    assert_eq!(counts(&env, join).await, (JoinState::Open, 3, 1, 0));
    kill(&env, &items[1..2]).await;
    // Not its owner's: nothing is settled, nothing counted.
    let rival = OwnerToken::random();
    assert_eq!(env.queue.ack(rival, &[items[2].lease]).await.expect("ack").applied, 0);
    assert_eq!(counts(&env, join).await, (JoinState::Open, 3, 1, 1));
    ack(&env, &items[2..]).await;
    assert_eq!(counts(&env, join).await, (JoinState::Failed, 3, 2, 1));
    assert_eq!(claimable(&env).await, one("some.dead"));
    env.outbox.attach(join, &members).await.expect("they are members, though deleted");
}

pub async fn join_1_what_is_deleted_is_no_message_any_more<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    ack(&env, std::slice::from_ref(&item)).await;
    let (join, _) = start(&env, join_of(1), Vec::new()).await;
    let error = env.outbox.attach(join, &[item.message.id()]).await.expect_err("gone");
    refused(error, "no such message");
}
