//! The messages themselves.

use postroom::store::{AdminStore, PauseRecord, Stats};

use super::Finding;
use crate::args;
use crate::render::time;

/// So many messages that are ready are a backlog.
const BACKLOG: u64 = 100_000;

pub(crate) async fn examine(store: &dyn AdminStore, args: &args::Doctor) -> Vec<Finding> {
    let mut findings = Vec::new();
    match store.stats().await {
        Ok(stats) => findings.extend([dead(&stats), oldest(&stats, args), backlog(&stats)]),
        Err(error) => {
            let finding = Finding::problem("messages", "could not be counted");
            findings.push(finding.why(error.to_string()));
        }
    }
    match store.pauses().await {
        Ok(pauses) => {
            let found = pauses.iter().map(paused).collect();
            findings.extend(super::or_ok(found, "pauses", "nothing is paused"));
        }
        Err(error) => {
            findings.push(Finding::problem("pauses", "could not be read").why(error.to_string()));
        }
    }
    findings
}

fn dead(stats: &Stats) -> Finding {
    let check = "dead letters";
    match stats.dead {
        0 => Finding::ok(check, "none"),
        dead => Finding::warning(check, format!("messages that are dead: {dead}"))
            .why("they are not tried again until somebody replays or discards them")
            .command("postroom list --status dead"),
    }
}

fn oldest(stats: &Stats, args: &args::Doctor) -> Finding {
    let check = "oldest ready";
    match stats.oldest_ready {
        None => Finding::ok(check, "nothing waits to be delivered"),
        Some(age) if age < args.oldest_ready => {
            Finding::ok(check, format!("has been ready for {}", time::short(age)))
        }
        Some(age) => {
            let what = format!("a message has been ready for {}", time::short(age));
            let why = "no dispatcher runs, it can not keep up, or no handler takes the topic";
            Finding::warning(check, what).why(why).command("postroom up")
        }
    }
}

fn backlog(stats: &Stats) -> Finding {
    let check = "backlog";
    let what = format!("messages that are ready: {}", stats.ready);
    if stats.ready < BACKLOG {
        return Finding::ok(check, what);
    }
    let why = "dispatchers do not keep up: start more of them, or give them more workers";
    Finding::warning(check, what).why(why).command("postroom up")
}

fn paused(pause: &PauseRecord) -> Finding {
    let by = pause.by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
    let why = pause.reason.clone();
    let why = why.unwrap_or_else(|| "nothing of it is delivered until it is resumed".to_owned());
    let (what, command) = match pause.topic.as_deref() {
        None => (format!("the whole queue is paused{by}"), "postroom resume".to_owned()),
        Some(topic) => {
            let quoted = topic.replace('\'', r"'\''");
            (format!("topic {topic} is paused{by}"), format!("postroom resume --topic '{quoted}'"))
        }
    };
    Finding::warning("pauses", what).why(why).command(command)
}

/// Leases that ended a while ago and that nobody took over.
pub(super) fn leases(lost: i64) -> Finding {
    match lost {
        0 => Finding::ok("leases", "none has run out unseen"),
        lost => Finding::warning("leases", format!("leases that ran out a minute ago: {lost}"))
            .why("whoever held them is gone, and no dispatcher has taken the messages over")
            .command("postroom up"),
    }
}
