//! Filters: what they find, and what is done to it.

use std::sync::Arc;
use std::time::Duration;

use postroom::store::Store;
use postroom::{OwnerToken, WorkQueue};
use serde_json::{Value, json};

use super::Cli;

/// Three dead mails, two dead orders and a message that waits.
fn dead_letters(cli: &Cli, store: Arc<dyn Store>) -> [Vec<String>; 2] {
    let mail = |tenant: &str| {
        let tenant = format!("--tenant={tenant}");
        cli.enqueue(&["mail.sent", "--payload={}", &tenant, "--aggregate=user/7"])
    };
    let mails = vec![mail("acme"), mail("acme"), mail("other")];
    let order = || cli.enqueue(&["order.placed", "--payload={}", "--ordering-key=k"]);
    let orders = vec![order(), order()];
    cli.enqueue(&["order.placed", "--payload={}", "--due-in=1h"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let (queue, worker) = (WorkQueue::new(store), OwnerToken::random());
        let mut left = 5;
        // Messages of one key are claimed one after the other.
        while left > 0 {
            let claimed = queue.claim(worker, Duration::from_secs(30), 10).await.expect("claims");
            for item in &claimed.items {
                let mail = item.message.topic().as_str() == "mail.sent";
                let error = if mail { "gateway timeout" } else { "refused" };
                let failed = queue.fail(worker, &[item.lease], error).await.expect("fails");
                left -= failed.applied;
            }
        }
        queue.store().leave(worker).await.expect("leaves");
    });
    [mails, orders]
}

fn ids(cli: &Cli, arguments: &[&str]) -> Vec<String> {
    let list = cli.json(&[&["list"], arguments].concat());
    let mut ids: Vec<String> = list
        .as_array()
        .expect("an array")
        .iter()
        .map(|record| record["id"].as_str().expect("an id").to_owned())
        .collect();
    ids.reverse();
    ids
}

pub(crate) fn find_and_change(cli: &Cli, store: Arc<dyn Store>) {
    let [mails, orders] = dead_letters(cli, store);
    for (filter, expected) in [
        ("topic=mail.* and status=dead", &mails[..]),
        ("tenant=acme", &mails[..2]),
        ("tenant!=acme and status=dead and topic=mail.sent", &mails[2..]),
        ("error~timeout", &mails),
        ("error~Timeout", &[]),
        ("error~refused and age<1h", &orders),
        ("age>1h", &[]),
        ("aggregate=user/7 and attempts>0", &mails),
        ("key=k and attempts<2", &orders),
        ("reason=permanent_error and topic!=mail.sent", &orders),
        ("status!=dead and status!=pending", &[]),
    ] {
        assert_eq!(ids(cli, &["--where", filter]), expected, "{filter}");
        assert_eq!(ids(cli, &["--where", filter, "--limit=500"]), expected, "{filter}");
    }
    assert_eq!(ids(cli, &["--where=topic!=mail.sent", "--limit=2"]).len(), 2);
    replay(cli, &mails);
    discard(cli, &orders);
}

fn dead(cli: &Cli) -> Value {
    cli.json(&["stats"])["dead"].clone()
}

fn replay(cli: &Cli, mails: &[String]) {
    let mail = ["replay", "--topic=mail.*"];
    let unsure = cli.run(&mail);
    assert_eq!((unsure.code, unsure.stdout.as_str()), (2, ""), "{unsure:?}");
    assert!(unsure.stderr.contains("next: add --yes to do it"), "{unsure:?}");
    let dry = cli.run(&[&mail[..], &["--dry-run"]].concat());
    assert!(dry.stdout.starts_with("Would replay 3 messages of the outbox of "), "{dry:?}");
    assert!(dry.stdout.contains("\n  3  mail.sent\n"), "{dry:?}");
    let document = cli.json(&[&mail[..], &["--dry-run", "--yes", "--limit=2"]].concat());
    assert_eq!(document["topics"], json!({ "mail.sent": 2 }));
    assert_eq!((&document["matched"], &document["more"]), (&2.into(), &true.into()));
    assert_eq!(dead(cli), 5, "nothing was changed so far");

    let two = cli.run(&[&mail[..], &["--yes", "--limit=2"]].concat());
    assert_eq!((two.code, two.stdout.as_str()), (0, "2 messages replayed.\n"), "{two:?}");
    let last = cli.json(&[&mail[..], &["--yes"]].concat());
    let expected = json!({
        "replayed": [mails[0]], "refused": [], "matched": 1, "stopped": false,
    });
    assert_eq!(last, expected, "the newest came first");
    let none = cli.run(&[&mail[..], &["--yes"]].concat());
    assert_eq!((none.code, none.stderr.as_str()), (0, "No messages match.\n"));
}

fn discard(cli: &Cli, orders: &[String]) {
    let all = ["discard", "--status=dead", "--error=refused", "--yes"];
    assert_eq!(cli.ok(&all), "2 messages discarded.\n");
    assert_eq!(cli.run(&all).stderr, "No messages match.\n", "not twice");
    let orders_again = ["replay", "--where=topic=order.*", "--yes", "--json"];
    assert!(cli.ok(&orders_again).contains("\"matched\": 0"), "what was discarded stays so");
    let reason = cli.json(&["replay", "--where=topic=order.* and reason=discarded", "--yes"]);
    assert_eq!(reason["replayed"], json!([orders[1], orders[0]]), "unless it is asked for");
    assert_eq!(dead(cli), 0);
    assert_eq!(cli.ok(&["discard", "--where=status=pending", "--yes"]), "6 messages discarded.\n");
}

/// Dry runs of everything else that changes something.
pub(crate) fn dry_runs_change_nothing(cli: &Cli) {
    let id = cli.enqueue(&["t", "--payload={}", "--due-in=1h"]);
    let before = (cli.json(&["stats"])["waiting"].clone(), cli.json(&["pauses"]));
    for (arguments, expected) in [
        (&["discard", &id][..], format!("{id}  to be discarded\n")),
        (&["pause", "--topic=t"], "Would pause topic t.\n".into()),
        (&["pause"], "Would pause the whole queue.\n".into()),
        (&["resume"], "The whole queue is not paused.\n".into()),
        (&["migrate"], "The schema is up to date.\n".into()),
        (
            &["enqueue", "t", "--payload={}"],
            "Would write a message of topic t with 2 bytes of application/json.\n".into(),
        ),
    ] {
        let ran = cli.run(&[arguments, &["--dry-run"]].concat());
        assert_eq!((ran.code, ran.stdout), (0, expected), "{arguments:?}");
        assert!(ran.stderr.contains("this was a dry run"), "{}", ran.stderr);
        let document = cli.json(&[arguments, &["--dry-run"]].concat());
        assert_eq!(document["dry_run"], true, "{arguments:?}");
    }
    let refused = cli.run(&["replay", &id, "--dry-run"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert_eq!(refused.stdout, format!("{id}  not to be replayed: not dead\n"));
    let purge = cli.run(&["purge", "--done=0s", "--dead=0s", "--keys=1d", "--dry-run"]);
    assert!(purge.stdout.starts_with("Would delete, from the outbox of "), "{purge:?}");
    assert!(purge.stderr.contains("this was a dry run"), "{purge:?}");
    assert_eq!(cli.run(&["enqueue", "", "--payload={}", "--dry-run"]).code, 2);
    let after = (cli.json(&["stats"])["waiting"].clone(), cli.json(&["pauses"]));
    assert_eq!((cli.count(), before), (1, after));
}

/// A purge deletes what it says, to the last chunk.
pub(crate) fn purge_deletes_what_is_old(cli: &Cli) {
    let waits = cli.enqueue(&["t", "--payload={}", "--due-in=1h"]);
    for _ in 0..2 {
        let id = cli.enqueue(&["t", "--payload={}", "--due-in=1h"]);
        cli.ok(&["discard", &id]);
    }
    let unsure = cli.run(&["purge", "--done=0s"]);
    assert_eq!((unsure.code, unsure.stdout.as_str()), (2, ""), "{unsure:?}");
    assert_eq!(
        cli.ok(&["purge", "--dead=0s", "--yes"]),
        "Deleted 0 messages, 0 keys and 0 joins.\n"
    );
    let kept = cli.json(&["purge", "--done=1h", "--yes"]);
    assert_eq!(kept["messages"], 0, "too young");
    let purged = cli.json(&["purge", "--done=0s", "--yes"]);
    assert_eq!(purged, json!({ "messages": 2, "keys": 0, "joins": 0, "stopped": false }));
    assert_eq!(ids(cli, &[]), [waits]);
    assert_eq!(cli.run(&["purge"]).code, 2, "of what?");
}
