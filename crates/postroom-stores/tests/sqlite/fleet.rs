//! A folder with a file for each tenant.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_core::fleet::{
    FairShare, Fleet, FleetConfig, MemberState, Router, RunningFleet, Stores,
};
use postroom_core::store::{AdminStore as _, Store as _};
use postroom_core::{Delivery, DispatcherConfig, Handlers, ManualClock, Message, Outbox};
use postroom_stores::fleet::SqliteFolder;
use postroom_stores::{SqliteStore, StoreConfig};
use postroom_testkit::Harness as _;
use tempfile::TempDir;

use crate::home_support;
use crate::sqlite_harness::{InFile, SqliteIn};
use crate::wakes_support::listening;

type Handled = Arc<Mutex<Vec<(String, String)>>>;

fn add_tenant(folder: &TempDir, name: &str) {
    std::fs::File::create(folder.path().join(name).with_extension("db")).expect("a file");
}

fn stores(folder: &TempDir) -> Stores<std::path::PathBuf, SqliteStore> {
    let files = SqliteFolder::new(folder.path(), StoreConfig::default());
    Stores::new(files.clone(), files)
}

fn handlers() -> (Handlers, Handled) {
    let handled = Handled::default();
    let note = Arc::clone(&handled);
    let handlers = Handlers::new().all(move |delivery: Delivery| {
        let message = delivery.message();
        let tenant = message.tenant_id().map(ToString::to_string).unwrap_or_default();
        note.lock().expect("lock").push((tenant, message.topic().to_string()));
        async { Ok(()) }
    });
    (handlers, handled)
}

async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), waiting).await.expect("within a minute");
}

fn served(fleet: &RunningFleet<std::path::PathBuf, SqliteStore>) -> usize {
    fleet.members().iter().filter(|member| member.state == MemberState::Serving).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_1_each_file_of_a_folder_is_a_tenant_also_those_that_come_and_go() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let tenants: Vec<_> = (0..12).map(|n| format!("tenant-{n:02}")).collect();
    tenants.iter().for_each(|tenant| add_tenant(&folder, tenant));
    std::fs::write(folder.path().join("notes.txt"), "not a tenant").expect("a file");
    let (stores, (handlers, handled)) = (stores(&folder), handlers());
    let dispatcher = DispatcherConfig { workers: 2, ..FleetConfig::default().dispatcher };
    let config = FleetConfig { dispatcher, ..FleetConfig::default() };
    let fleet = Fleet::new(stores.clone(), handlers).strategy(FairShare).config(config);
    let fleet = fleet.start().expect("legal settings");
    until(|| served(&fleet) == 12).await;

    let router = Router::new(stores);
    for tenant in tenants.iter().cycle().take(60) {
        let outbox = router.outbox(tenant.as_str()).await.expect("its outbox");
        let message = Message::builder("order.placed").tenant_id(tenant.as_str());
        outbox.publish(message).await.expect("published");
    }
    until(|| handled.lock().expect("lock").len() == 60).await;

    // One goes, one comes.
    add_tenant(&folder, "newcomer");
    std::fs::remove_file(folder.path().join("tenant-00.db")).expect("it was there");
    let refreshed = fleet.refresh().await.expect("a list");
    assert_eq!((refreshed.added, refreshed.removed, refreshed.unchanged), (1, 1, 11));
    assert!(router.outbox("tenant-00").await.is_err());
    let outbox = router.outbox("newcomer").await.expect("its outbox");
    outbox.publish(Message::builder("first")).await.expect("published");
    until(|| handled.lock().expect("lock").len() == 61).await;
    for tenant in &tenants[1..] {
        let outbox = router.outbox(tenant.as_str()).await.expect("its outbox");
        let stats = outbox.store().stats().await.expect("counts");
        assert_eq!((stats.done, stats.ready), (5, 0), "{tenant}");
        assert_eq!(outbox.store().local().name(), tenant);
    }
    assert!(fleet.shutdown(Duration::from_secs(10)).await);
    assert!(!folder.path().join("tenant-00.db").exists(), "a tenant that is gone came back");
}

/// A link is another name for the same file.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn fleet_1_a_file_under_two_names_is_served_once() {
    let folder = tempfile::tempdir().expect("a temp folder");
    add_tenant(&folder, "acme");
    let (file, link) = (folder.path().join("acme.db"), folder.path().join("alias.db"));
    std::os::unix::fs::symlink(&file, link).expect("a link");
    let (stores, (handlers, handled)) = (stores(&folder), handlers());
    let fleet = Fleet::new(stores.clone(), handlers).start().expect("legal settings");
    let is_same = |state: &MemberState| matches!(state, MemberState::SameAs(_));
    until(|| served(&fleet) == 1 && fleet.members().iter().any(|m| is_same(&m.state))).await;
    let router = Router::new(stores);
    for name in ["acme", "alias"] {
        let outbox = router.outbox(name).await.expect("its outbox");
        outbox.publish(Message::builder(name)).await.expect("published");
    }
    until(|| handled.lock().expect("lock").len() == 2).await;
    assert!(fleet.shutdown(Duration::from_secs(10)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_5_processes_divide_the_stores_in_a_file() {
    let clock = ManualClock::default();
    let file = SqliteIn::<InFile>::fresh(clock.clone(), Default::default()).await;
    let (home, many) = (file.store(), file.store());
    home_support::processes_divide_the_stores(&|fleet| home.home(fleet), &clock).await;
    let of = |_: &str| many.home("many");
    home_support::of_many_at_once_nobody_gets_what_another_has(&of).await;
}

#[tokio::test]
async fn fleet_1_a_file_is_opened_whatever_it_is_called() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let names = ["100%25", "what?", "a b", "tenant#1", "ü"];
    names.iter().for_each(|name| add_tenant(&folder, name));
    let router = Router::new(stores(&folder));
    for name in names {
        let outbox = router.outbox(name).await.expect(name);
        outbox.publish(Message::builder("order.placed")).await.expect(name);
        let file = folder.path().join(format!("{name}.db"));
        assert!(std::fs::metadata(file).expect("a file").len() > 0, "{name} is in another file");
    }
}

/// Nobody has the file open, and another process writes to it: twice, because a connection that was
/// opened for the first one says the same as the one before it.
#[tokio::test(flavor = "multi_thread")]
async fn fleet_5_an_idle_file_has_no_connection_and_still_wakes() {
    let folder = tempfile::tempdir().expect("a temp folder");
    add_tenant(&folder, "acme");
    let file = folder.path().join("acme.db");
    let store = SqliteStore::open_one_of_many(&file, StoreConfig::default()).await.expect("opens");
    store.migrate().await.expect("migrates");
    let mut listening = listening(&Arc::new(store.clone()));
    for _ in 0..2 {
        until(|| store.writer().size() == 0).await;
        let other = SqliteStore::open(file.to_str().expect("a path"), StoreConfig::default()).await;
        let other = Arc::new(other.expect("opens"));
        let published = Outbox::new(Arc::clone(&other)).publish(Message::builder("t")).await;
        other.close().await;
        assert_eq!(listening.next().await, published.expect("publishes").id);
    }
    listening.shutdown().await;
    std::fs::remove_file(&file).expect("removed");
    until(|| store.writer().size() == 0).await;
    assert!(store.stats().await.is_err(), "a tenant that is gone does not come back");
    assert!(!file.exists());
}
