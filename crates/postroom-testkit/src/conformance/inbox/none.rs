//! The same in a store that deletes done messages.

use postroom_core::Received;
use postroom_core::store::AdminStore;

use super::{Case, handle, new, number, writes};
use crate::harness::Harness;

pub async fn inb_3_a_mark_deletes_what_is_not_kept<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    let id = new(inbox.receive("shop", "1", number(1)).await.expect("receive"));
    handle::<H>(&inbox, writes(&env, &inbox)).await;
    assert_eq!(env.harness.business_rows().await, [1]);
    assert!(inbox.store().get(id).await.expect("get").is_none());
    let again = inbox.receive("shop", "1", number(1)).await.expect("receive");
    assert_eq!(again, Received::Duplicate(id));
}
