//! Five hundred tenants, some of them in trouble.

use std::sync::Arc;
use std::time::Duration;

use postroom::store::{Heartbeat, Store as _};
use postroom::{Message, Outbox, OwnerToken, WorkQueue};
use postroom_admin::{Access, Admin, Database, Databases};
use postroom_core::fleet::{MemberState, MemberStatus, StoreId};
use postroom_testkit::{Answering, SimStore};

const FIRST: [&str; 25] = [
    "acme", "alder", "birch", "bolt", "cedar", "corvus", "delta", "ember", "fjord", "globex",
    "harbor", "initech", "juniper", "kestrel", "lumen", "maple", "nimbus", "orchid", "pioneer",
    "quartz", "raven", "sable", "tundra", "umber", "vertex",
];
const SECOND: [&str; 20] = [
    "books", "coffee", "cycles", "dairy", "energy", "foods", "games", "garden", "health", "home",
    "labs", "media", "motors", "music", "optics", "paper", "print", "sports", "tools", "travel",
];

/// The dashboard of all of them.
pub(crate) async fn admin() -> Admin {
    let databases = Databases::default();
    let mut members = Vec::new();
    for (number, name) in names().into_iter().enumerate() {
        let state = match number {
            37 => MemberState::Failing("password authentication failed for user \"relay\"".into()),
            204 => MemberState::Failing("schema 21 is newer than this version knows: 19".into()),
            310 => MemberState::SameAs(StoreId::new("acme-books").expect("an id")),
            411 => MemberState::Opening,
            _ if number % 50 == 7 => MemberState::Elsewhere,
            _ => MemberState::Serving,
        };
        if state == MemberState::Serving {
            databases.add(Database::new(&name, tenant(&name, number).await));
        }
        members.push(MemberStatus { id: StoreId::new(name).expect("an id"), state });
    }
    Admin::new(databases, Access::local()).members(move || members.clone())
}

fn names() -> Vec<String> {
    let pairs = FIRST.iter().flat_map(|first| SECOND.iter().map(move |second| (first, second)));
    pairs.map(|(first, second)| format!("{first}-{second}")).collect()
}

/// One tenant; most have nothing to do.
async fn tenant(name: &str, number: usize) -> SimStore {
    let store = SimStore::default().named(name).ticking();
    let heartbeat = Heartbeat {
        owner: OwnerToken::random(),
        name: "relay-1/93".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        running_for: Duration::from_secs(86_400),
        draining: false,
        valid_for: Duration::from_secs(3_600),
    };
    store.report(&heartbeat).await.expect("report");
    let outbox = Outbox::new(Arc::new(store.clone()));
    let waiting = if number % 23 == 5 { 3 + (number * 7_919) % 400 } else { 0 };
    let dead = if number % 61 == 3 { 1 + number % 4 } else { 0 };
    let all = (0..dead + waiting).map(|_| Message::builder("order.placed"));
    if dead + waiting > 0 {
        outbox.publish_all(all).await.expect("publish");
        store.clock().advance(Duration::from_secs(2 + (number as u64 * 7_919) % 280));
    }
    if dead > 0 {
        let (queue, owner) = (WorkQueue::new(Arc::new(store.clone())), OwnerToken::random());
        let lease = Duration::from_secs(60);
        let claimed = queue.claim(owner, lease, dead as u32).await.expect("claim");
        let leases: Vec<_> = claimed.items.iter().map(|item| item.lease).collect();
        let settled = queue.fail(owner, &leases, "no such address").await.expect("fail");
        assert_eq!(settled.applied, dead);
    }
    if number == 122 {
        store.answer_looks(Answering::Failing);
    }
    store
}
