//! Whether all is well: OBS-4.
//!
//! It is judged from the last sample of each queue and from its age, so that an answer never waits
//! for a database.

mod fleet;
mod probes;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use postroom_core::fleet::MemberStatus;
use postroom_core::observe::Circuit;
use postroom_core::store::Wakes;
use serde::Serialize;

use crate::sampler::Sample;

pub(crate) use fleet::brief;
pub(crate) use probes::{of_queue, routes, worst};

/// From when on things are not well. What has no limit is not judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit<T> {
    /// More than this is degraded: somebody should look, and it still works.
    pub degraded: Option<T>,
    /// More than this is unhealthy.
    pub unhealthy: Option<T>,
}

impl<T: PartialOrd + Copy> Limit<T> {
    /// None.
    pub const NONE: Self = Self { degraded: None, unhealthy: None };

    fn judge(&self, value: T) -> Status {
        let beyond = |limit: Option<T>| limit.is_some_and(|limit| value > limit);
        match (beyond(self.unhealthy), beyond(self.degraded)) {
            (true, _) => Status::Unhealthy,
            (false, true) => Status::Degraded,
            (false, false) => Status::Healthy,
        }
    }
}

/// When a queue is not well.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Messages that can be claimed or are held. Default: degraded above 10,000.
    pub backlog: Limit<u64>,
    /// The age of the oldest message that can be claimed. Default: degraded above 5 minutes,
    /// unhealthy above an hour.
    pub oldest: Limit<Duration>,
    /// The share of deliveries of this process that failed in the last five minutes. Default:
    /// degraded above 0.25, unhealthy above 0.9.
    pub failure_ratio: Limit<f64>,
    /// Fewer deliveries than this in five minutes say nothing about that. Default 20.
    pub min_deliveries: u64,
    /// Dead letters. Default: not judged.
    pub dead: Limit<u64>,
    /// Whether messages that can be claimed need a dispatcher that is alive, in any process.
    /// Default yes.
    pub dispatcher: bool,
    /// A dispatcher of this process that gave no sign of life for this long is stuck, and the
    /// process is not alive. Default a minute.
    pub stuck: Duration,
    /// Figures that should have come so long ago count as a database that does not answer. Default
    /// a minute and a half.
    pub stale: Duration,
}

impl Default for Thresholds {
    fn default() -> Self {
        let (minute, hour) = (Duration::from_mins(1), Duration::from_hours(1));
        Self {
            backlog: Limit { degraded: Some(10_000), unhealthy: None },
            oldest: Limit { degraded: Some(5 * minute), unhealthy: Some(hour) },
            failure_ratio: Limit { degraded: Some(0.25), unhealthy: Some(0.9) },
            min_deliveries: 20,
            dead: Limit::NONE,
            dispatcher: true,
            stuck: minute,
            stale: minute * 3 / 2,
        }
    }
}

/// How well something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Healthy,
    Degraded,
    Unhealthy,
}

impl Status {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Unhealthy => "unhealthy",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// What, such as `backlog`.
    pub(crate) name: &'static str,
    /// Of what, such as `main/outbox`.
    pub(crate) of: String,
    pub(crate) status: Status,
    /// A few words for people.
    pub(crate) message: String,
}

/// As the API server of Kubernetes writes it: `[+]database main ok`.
impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.status {
            Status::Healthy => "+",
            Status::Degraded => "!",
            Status::Unhealthy => "-",
        };
        write!(f, "[{sign}]{} {} {}", self.name, self.of, self.message)
    }
}

/// So many checks are told one by one. Of more, those that are well are left out.
const MOST_CHECKS: usize = 200;

/// How all is.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) status: Status,
    pub(crate) checks: Vec<Check>,
}

impl Report {
    /// As bad as the worst of them.
    pub(crate) fn of(checks: Vec<Check>) -> Self {
        let worst = checks.iter().map(|check| check.status).max();
        Self { status: worst.unwrap_or(Status::Healthy), checks }
    }

    /// Unhealthy when every one of these is, and degraded when anything is not well: of many, a
    /// bad one is not the end of all.
    fn of_many(stores: &BTreeMap<&str, Status>, checks: Vec<Check>) -> Self {
        let all_bad = stores.values().all(|status| *status == Status::Unhealthy);
        let report = Self::of(checks);
        let status = match all_bad && !stores.is_empty() {
            true => Status::Unhealthy,
            false => report.status.min(Status::Degraded),
        };
        Self { status, ..report }
    }

    /// With few enough checks to be read, worst first where some are left out.
    pub(crate) fn brief(mut self) -> Self {
        let all = self.checks.len();
        if all > MOST_CHECKS {
            self.checks.retain(|check| check.status != Status::Healthy);
            self.checks.sort_by_key(|check| std::cmp::Reverse(check.status));
            self.checks.truncate(MOST_CHECKS);
            let message = format!("{} further checks are not told", all - self.checks.len());
            let status = Status::Healthy;
            self.checks.push(Check { name: "others", of: "all".to_owned(), status, message });
        }
        self
    }
}

/// A queue as it was last seen.
pub(crate) struct Look<'a> {
    pub(crate) database: &'a str,
    /// `outbox` or `inbox`.
    pub(crate) kind: &'a str,
    pub(crate) sample: &'a Sample,
    /// How old the sample is.
    pub(crate) age: Duration,
    /// For how long a newer one was due and did not come.
    pub(crate) late: Duration,
}

/// A place that messages go to, as a relay knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkState {
    /// Its name.
    pub name: String,
    /// What it is, such as `nats`.
    pub kind: &'static str,
    /// Whether messages are sent there.
    pub circuit: Circuit,
}

/// Whether this process can do its work.
pub(crate) fn ready(
    looks: &[Look<'_>],
    members: &[MemberStatus],
    sinks: &[SinkState],
    limits: &Thresholds,
) -> Report {
    let mut stores: BTreeMap<&str, Status> = BTreeMap::new();
    let mut worse = |store, status: Status| {
        let worst = stores.entry(store).or_insert(status);
        *worst = status.max(*worst);
    };
    members.iter().filter_map(fleet::burden).for_each(|(store, status)| worse(store, status));
    let mut checks = Vec::new();
    for check in databases(looks, limits, false) {
        worse(check.0, check.1.status);
        checks.push(check.1);
    }
    for look in looks {
        for check in queue(look, limits) {
            worse(look.database, check.status);
            checks.push(check);
        }
    }
    checks.extend(sinks.iter().map(sink));
    let some_serve = stores.values().any(|status| *status != Status::Unhealthy);
    checks.extend(members.iter().filter_map(|member| fleet::check(member, some_serve)));
    Report::of_many(&stores, checks)
}

/// What is judged about one database and about what messages go to, as [`ready`] judges it.
/// `others_answer` says whether any other database does.
pub(crate) fn of_one(
    looks: &[Look<'_>],
    others_answer: bool,
    sinks: &[SinkState],
    limits: &Thresholds,
) -> Vec<Check> {
    let databases = databases(looks, limits, others_answer).into_iter().map(|(_, check)| check);
    let queues = looks.iter().flat_map(|look| queue(look, limits));
    databases.chain(queues).chain(sinks.iter().map(sink)).collect()
}

/// Whether this process is alive: what a restart would cure, and nothing else.
pub(crate) fn alive(beats: &[(String, Option<Duration>)], limits: &Thresholds) -> Report {
    let dispatcher = |(of, beat): &(String, Option<Duration>)| {
        let (beat, of) = ((*beat)?, of.clone());
        let check = |status, message: String| Check { name: "dispatcher", of, status, message };
        Some(match beat > limits.stuck {
            true => check(Status::Unhealthy, format!("no sign of life for {}", span(beat))),
            false => check(Status::Healthy, "ok".to_owned()),
        })
    };
    Report::of(beats.iter().filter_map(dispatcher).collect())
}

/// Whether every database has answered once, or, of many, was at least asked.
pub(crate) fn started(looks: &[Look<'_>], members: &[MemberStatus]) -> Report {
    let has_answered = |look: &Look<'_>| !look.sample.points.is_empty();
    let is_only = looks.iter().all(|look| look.database == looks[0].database);
    let some_answered = !is_only && looks.iter().any(has_answered);
    let check = |look: &Look<'_>| {
        let (status, message) = match (has_answered(look), look.sample.was_asked) {
            (true, _) => (Status::Healthy, "ok"),
            (false, true) if some_answered => (Status::Degraded, "does not answer"),
            (false, _) => (Status::Unhealthy, "has not answered yet"),
        };
        let of = format!("{}/{}", look.database, look.kind);
        Check { name: "database", of, status, message: message.to_owned() }
    };
    let opening = members.iter().filter_map(fleet::opening);
    Report::of(looks.iter().map(check).chain(opening).collect())
}

/// What a database said at the last look.
#[derive(PartialEq, Eq)]
enum Answer {
    Well,
    NotAsked,
    /// And what is known of it.
    None(String),
}

/// One that is away while others work is not the end of all.
fn databases<'a>(
    looks: &[Look<'a>],
    limits: &Thresholds,
    others_answer: bool,
) -> Vec<(&'a str, Check)> {
    let mut databases: BTreeMap<&str, Vec<&Look<'_>>> = BTreeMap::new();
    for look in looks {
        databases.entry(look.database).or_default().push(look);
    }
    let away = |looks: &[&Look<'_>]| {
        let stale = looks.iter().find(|look| look.late > limits.stale);
        match stale {
            Some(look) => Answer::None(format!("was last looked at {} ago", span(look.age))),
            None if looks.iter().any(|look| !look.sample.was_asked) => Answer::NotAsked,
            None if looks.iter().any(|look| look.sample.seen.is_none()) => {
                Answer::None("does not answer".to_owned())
            }
            None => Answer::Well,
        }
    };
    let found: Vec<_> = databases.iter().map(|(name, looks)| (*name, away(looks))).collect();
    let some_answer = others_answer || found.iter().any(|(_, away)| *away == Answer::Well);
    let check = |(name, away): (&'a str, Answer)| {
        let bad = if some_answer { Status::Degraded } else { Status::Unhealthy };
        let (status, message) = match away {
            Answer::Well => (Status::Healthy, "ok".to_owned()),
            Answer::None(why) => (bad, why),
            // One that comes to others is no trouble.
            Answer::NotAsked if some_answer => (Status::Healthy, "is looked at soon".to_owned()),
            Answer::NotAsked => (Status::Unhealthy, "has not answered yet".to_owned()),
        };
        (name, Check { name: "database", of: name.to_owned(), status, message })
    };
    found.into_iter().map(check).collect()
}

fn queue(look: &Look<'_>, limits: &Thresholds) -> Vec<Check> {
    // What was seen long ago says nothing about now.
    let is_known = look.late <= limits.stale;
    let Some(seen) = look.sample.seen.as_ref().filter(|_| is_known) else { return Vec::new() };
    let (stats, snapshot) = (&seen.stats, &look.sample.snapshot);
    let check = |name, status, message: String| {
        let message = if status == Status::Healthy { "ok".to_owned() } else { message };
        Check { name, of: format!("{}/{}", look.database, look.kind), status, message }
    };
    let backlog = stats.ready + stats.leased;
    let oldest = stats.oldest_ready.unwrap_or_default();
    let lately = snapshot.five_minutes;
    let failing = match lately.done + lately.failed >= limits.min_deliveries.max(1) {
        true => limits.failure_ratio.judge(lately.failure_ratio),
        false => Status::Healthy,
    };
    let percent = (lately.failure_ratio * 100.0).round();
    let live = seen.nodes.iter().filter(|node| node.is_live).count().max(snapshot.dispatchers);
    let nobody = match limits.dispatcher && live == 0 && stats.ready > 0 {
        true => Status::Unhealthy,
        false => Status::Healthy,
    };
    let (wakes, why) = match look.sample.wakes {
        Wakes::PollOnly { why } => (Status::Degraded, why.as_str()),
        Wakes::InProcess | Wakes::Listening => (Status::Healthy, ""),
    };
    vec![
        check("backlog", limits.backlog.judge(backlog), format!("{backlog} messages wait")),
        check("oldest", limits.oldest.judge(oldest), format!("one waits for {}", span(oldest))),
        check("failures", failing, format!("{percent} % of deliveries failed in five minutes")),
        check("dead", limits.dead.judge(stats.dead), format!("{} dead letters", stats.dead)),
        check("dispatcher", nobody, format!("{} messages wait and nobody delivers", stats.ready)),
        check("wakes", wakes, format!("poll only: {why}")),
    ]
}

fn sink(sink: &SinkState) -> Check {
    let (status, message) = match sink.circuit {
        Circuit::Closed => (Status::Healthy, "ok"),
        Circuit::HalfOpen => (Status::Degraded, "was away; the next message tries it"),
        Circuit::Open => (Status::Degraded, "is away"),
    };
    Check { name: "sink", of: sink.name.clone(), status, message: message.to_owned() }
}

/// A time in the unit that fits.
fn span(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests;
