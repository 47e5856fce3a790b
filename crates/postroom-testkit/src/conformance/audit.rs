//! The audit log: what people did.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::store::{AdminStore, AuditEntry, AuditRecord, TransactionalStore};

use crate::harness::{Env, Harness, plain};

type Case<H> = Arc<Env<H>>;

fn entry(target: &str) -> AuditEntry {
    AuditEntry {
        actor: "Zoë".to_owned(),
        action: "replay".to_owned(),
        target: target.to_owned(),
        outcome: "'); drop table audit; -- %s \u{1f600}".to_owned(),
        changed: 3,
    }
}

async fn write<H: Harness>(env: &Env<H>, entry: &AuditEntry) {
    env.store().write_audit(entry).await.expect("write");
}

async fn log<H: Harness>(env: &Env<H>, before: Option<i64>, limit: u32) -> Vec<AuditRecord> {
    env.store().audit(before, limit).await.expect("audit")
}

pub async fn adm_3_the_audit_log_has_what_was_written_newest_first<H: Harness>(env: Case<H>) {
    assert!(log(&env, None, 10).await.is_empty());
    let began = env.record(env.publish(plain()).await.id).await.created_at;
    for target in ["a", "b", "c"] {
        write(&env, &entry(target)).await;
        env.advance(Duration::from_secs(1));
    }
    let all = log(&env, None, 10).await;
    let targets: Vec<_> = all.iter().map(|record| record.entry.target.as_str()).collect();
    assert_eq!(targets, ["c", "b", "a"]);
    assert_eq!((all[2].at, &all[2].entry), (began, &entry("a")));
    assert!(all.is_sorted_by(|later, earlier| later.number > earlier.number));
    assert_eq!(log(&env, None, 2).await, all[..2]);
    assert_eq!(log(&env, Some(all[1].number), 10).await, all[2..], "page by page");
    assert!(log(&env, Some(all[2].number), 10).await.is_empty());
}

pub async fn adm_3_both_boxes_share_the_audit_log<H: Harness>(env: Case<H>) {
    let inbox = env.store().inbox();
    write(&env, &entry("a")).await;
    inbox.write_audit(&entry("b")).await.expect("write");
    let all = log(&env, None, 10).await;
    assert_eq!(all.len(), 2);
    assert_eq!(inbox.audit(None, 10).await.expect("audit"), all);
}

pub async fn adm_3_long_texts_are_cut_and_nul_is_no_trouble<H: Harness>(env: Case<H>) {
    let long = AuditEntry {
        actor: "a\0".repeat(300),
        action: "€".repeat(100),
        target: format!("x{}", "ß".repeat(2_000)),
        outcome: String::new(),
        changed: u64::MAX,
    };
    write(&env, &long).await;
    let kept = log(&env, None, 1).await.remove(0).entry;
    assert_eq!(AuditEntry { changed: 0, ..kept.clone() }, AuditEntry { changed: 0, ..long.cut() });
    assert!(kept.changed >= i64::MAX.unsigned_abs(), "as far as a database counts");
}
