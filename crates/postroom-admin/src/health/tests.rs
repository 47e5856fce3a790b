use postroom_core::Timestamp;
use postroom_core::fleet::{MemberState, StoreId};
use postroom_core::store::{Local, Silence, Stats};
use tokio::time::Instant;

use super::*;
use crate::sampler::{Point, Seen};

fn sample(change: impl FnOnce(&mut Stats)) -> Sample {
    let mut stats = Stats::default();
    change(&mut stats);
    let now = Timestamp::host_now();
    let oldest = Duration::ZERO;
    let point = Point { at: now, delivered: 0.0, failed: 0.0, written: 0.0, backlog: 0, oldest };
    Sample {
        at: now,
        counted: Instant::now(),
        was_asked: true,
        seen: Some(Seen {
            stats,
            nodes: Vec::new(),
            topics: Vec::new(),
            failing: Vec::new(),
            blocked: Vec::new(),
            pauses: Vec::new(),
        }),
        snapshot: Local::new("main", "outbox").snapshot(),
        wakes: Wakes::Listening,
        points: vec![point],
    }
}

fn look(sample: &Sample) -> Look<'_> {
    let (age, late) = (Duration::from_secs(1), Duration::ZERO);
    Look { database: "main", kind: "outbox", sample, age, late }
}

/// The lines of what is not well, and how well all is.
fn judged(sample: &Sample, limits: &Thresholds) -> (Status, Vec<String>) {
    told(&ready(&[look(sample)], &[], &[], limits))
}

fn told(report: &Report) -> (Status, Vec<String>) {
    let ill = report.checks.iter().filter(|check| check.status != Status::Healthy);
    (report.status, ill.map(ToString::to_string).collect())
}

#[test]
fn obs_4_an_idle_queue_is_healthy() {
    let report = ready(&[look(&sample(|_| {}))], &[], &[], &Thresholds::default());
    let lines: Vec<_> = report.checks.iter().map(ToString::to_string).collect();
    assert_eq!(report.status, Status::Healthy);
    assert_eq!(lines[..2], ["[+]database main ok", "[+]backlog main/outbox ok"]);
}

#[test]
fn obs_4_a_backlog_is_what_could_be_delivered_now() {
    let backlog = Limit { degraded: Some(10), unhealthy: Some(20) };
    let limits = Thresholds { backlog, dispatcher: false, ..Thresholds::default() };
    let of = |ready: u64, leased: u64, waiting: u64| {
        let sample = sample(|stats| {
            (stats.ready, stats.leased, stats.waiting) = (ready, leased, waiting);
        });
        judged(&sample, &limits)
    };
    assert_eq!(of(5, 5, 1_000).0, Status::Healthy);
    let told = vec!["[!]backlog main/outbox 11 messages wait".to_owned()];
    assert_eq!(of(6, 5, 0), (Status::Degraded, told));
    assert_eq!(of(21, 0, 0).0, Status::Unhealthy);
}

#[test]
fn obs_4_an_old_message_is_a_sign() {
    let limits = Thresholds::default();
    let of = |seconds| {
        judged(&sample(|stats| stats.oldest_ready = Some(Duration::from_secs(seconds))), &limits)
    };
    assert_eq!(of(300).0, Status::Healthy);
    let told = vec!["[!]oldest main/outbox one waits for 5 min".to_owned()];
    assert_eq!(of(301), (Status::Degraded, told));
    assert_eq!(of(3_601).0, Status::Unhealthy);
}

#[test]
fn obs_4_failures_count_once_there_were_enough_deliveries() {
    let limits = Thresholds::default();
    let of = |done: u64, failed: u64| {
        let mut sample = sample(|_| {});
        let lately = &mut sample.snapshot.five_minutes;
        (lately.done, lately.failed) = (done, failed);
        lately.failure_ratio = failed as f64 / (done + failed).max(1) as f64;
        judged(&sample, &limits)
    };
    assert_eq!(of(0, 19).0, Status::Healthy, "too few to judge");
    assert_eq!(of(15, 5).0, Status::Healthy);
    let told = vec!["[!]failures main/outbox 30 % of deliveries failed in five minutes".to_owned()];
    assert_eq!(of(14, 6), (Status::Degraded, told));
    assert_eq!(of(1, 19).0, Status::Unhealthy);
    // Without a minimum, a queue that delivers nothing is still not failing.
    let limits = Thresholds { min_deliveries: 0, ..limits };
    assert_eq!(judged(&sample(|_| {}), &limits).0, Status::Healthy);
}

#[test]
fn obs_4_dead_letters_count_when_asked_for() {
    let dead = sample(|stats| stats.dead = 3);
    assert_eq!(judged(&dead, &Thresholds::default()).0, Status::Healthy);
    let limit = Limit { degraded: Some(2), unhealthy: None };
    let limits = Thresholds { dead: limit, ..Thresholds::default() };
    let told = vec!["[!]dead main/outbox 3 dead letters".to_owned()];
    assert_eq!(judged(&dead, &limits), (Status::Degraded, told));
}

#[test]
fn obs_4_what_waits_needs_a_dispatcher_that_lives() {
    let limits = Thresholds::default();
    let mut waits = sample(|stats| stats.ready = 7);
    let told = "[-]dispatcher main/outbox 7 messages wait and nobody delivers".to_owned();
    assert_eq!(judged(&waits, &limits), (Status::Unhealthy, vec![told]));
    waits.snapshot.dispatchers = 1;
    assert_eq!(judged(&waits, &limits).0, Status::Healthy, "one of this process");
    let limits = Thresholds { dispatcher: false, ..limits };
    waits.snapshot.dispatchers = 0;
    assert_eq!(judged(&waits, &limits).0, Status::Healthy, "nobody asks for one");
}

#[test]
fn obs_4_poll_only_is_degraded() {
    let mut sample = sample(|_| {});
    sample.wakes = Wakes::PollOnly { why: Silence::Unreachable };
    let told = "[!]wakes main/outbox poll only: no connection to listen on".to_owned();
    assert_eq!(judged(&sample, &Thresholds::default()), (Status::Degraded, vec![told]));
}

#[test]
fn obs_4_a_database_that_is_away_is_unhealthy_unless_others_answer() {
    let limits = Thresholds::default();
    let (well, mut away) = (sample(|_| {}), sample(|_| {}));
    away.seen = None;
    let told_ = "[-]database main does not answer".to_owned();
    assert_eq!(judged(&away, &limits), (Status::Unhealthy, vec![told_]));
    let other = Look { database: "other", ..look(&well) };
    let report = ready(&[look(&away), other], &[], &[], &limits);
    let line = "[!]database main does not answer".to_owned();
    assert_eq!(told(&report), (Status::Degraded, vec![line]));
}

#[test]
fn obs_4_an_old_sample_is_a_database_that_hangs() {
    let limits = Thresholds::default();
    let sample = sample(|stats| stats.dead = 1);
    let (age, late) = (Duration::from_secs(400), Duration::from_secs(91));
    let report = ready(&[Look { age, late, ..look(&sample) }], &[], &[], &limits);
    let line = "[-]database main was last looked at 6 min ago".to_owned();
    assert_eq!(told(&report), (Status::Unhealthy, vec![line]));
    assert_eq!(report.checks.len(), 1, "what was seen then says nothing about now");
}

#[test]
fn obs_4_a_sink_that_is_away_is_degraded() {
    let of = |circuit| {
        let sinks = [SinkState { name: "events".into(), kind: "nats", circuit }];
        told(&ready(&[look(&sample(|_| {}))], &[], &sinks, &Thresholds::default()))
    };
    assert_eq!(of(Circuit::Closed).0, Status::Healthy);
    assert_eq!(of(Circuit::Open), (Status::Degraded, vec!["[!]sink events is away".to_owned()]));
    assert_eq!(of(Circuit::HalfOpen).0, Status::Degraded);
}

#[test]
fn obs_4_a_dispatcher_without_a_sign_of_life_is_not_alive() {
    let limits = Thresholds::default();
    let of = |beat| told(&alive(&[("main/outbox".to_owned(), beat)], &limits));
    assert_eq!(of(None).0, Status::Healthy, "there is none here");
    assert_eq!(of(Some(Duration::from_secs(60))).0, Status::Healthy);
    let line = "[-]dispatcher main/outbox no sign of life for 61 s".to_owned();
    assert_eq!(of(Some(Duration::from_secs(61))), (Status::Unhealthy, vec![line]));
}

#[test]
fn obs_4_a_start_is_over_when_every_database_has_answered_once() {
    let (well, mut new) = (sample(|_| {}), sample(|_| {}));
    (new.seen, new.points, new.was_asked) = (None, Vec::new(), false);
    assert_eq!(started(&[look(&well)], &[]).status, Status::Healthy);
    assert_eq!(started(&[look(&well), look(&new)], &[]).status, Status::Unhealthy);
    new.points = well.points.clone();
    assert_eq!(
        started(&[look(&new)], &[]).status,
        Status::Healthy,
        "it answered, and went away since"
    );
}

#[test]
fn obs_4_one_bad_database_of_several_is_not_the_end_of_all() {
    let limits = Thresholds::default();
    let (well, bad) = (sample(|_| {}), sample(|stats| stats.ready = 7));
    let of = |name, sample| Look { database: name, ..look(sample) };
    let line = |name| format!("[-]dispatcher {name}/outbox 7 messages wait and nobody delivers");
    let one = told(&ready(&[of("a", &well), of("b", &bad)], &[], &[], &limits));
    assert_eq!(one, (Status::Degraded, vec![line("b")]));
    let both = told(&ready(&[of("a", &bad), of("b", &bad)], &[], &[], &limits));
    assert_eq!(both, (Status::Unhealthy, vec![line("a"), line("b")]));
}

#[test]
fn obs_4_a_database_that_comes_to_others_is_no_trouble() {
    let limits = Thresholds::default();
    let (well, mut new) = (sample(|_| {}), sample(|_| {}));
    (new.seen, new.points, new.was_asked) = (None, Vec::new(), false);
    let both = [look(&well), Look { database: "new", ..look(&new) }];
    assert_eq!(ready(&both, &[], &[], &limits).status, Status::Healthy);
    let line = "[-]database main has not answered yet".to_owned();
    assert_eq!(judged(&new, &limits), (Status::Unhealthy, vec![line]), "the only one");
    let late = Look { database: "new", late: Duration::from_secs(91), ..look(&new) };
    assert_eq!(ready(&[look(&well), late], &[], &[], &limits).status, Status::Degraded);
}

fn members(states: &[MemberState]) -> Vec<MemberStatus> {
    let member = |(at, state): (usize, &MemberState)| MemberStatus {
        id: StoreId::new(format!("t{at}")).expect("an id"),
        state: state.clone(),
    };
    states.iter().enumerate().map(member).collect()
}

#[test]
fn obs_4_a_store_that_can_not_be_opened_is_degraded_unless_it_is_the_only_one() {
    let judge = |states: &[MemberState], open: &[&str]| {
        let sample = sample(|_| {});
        let looks: Vec<_> =
            open.iter().map(|name| Look { database: name, ..look(&sample) }).collect();
        told(&ready(&looks, &members(states), &[], &Thresholds::default()))
    };
    let failing = || MemberState::Failing("no such host".to_owned());
    let line = |sign: &str, at: u8| format!("[{sign}]store t{at} can not be opened: no such host");
    let (serving, opening) = (MemberState::Serving, MemberState::Opening);
    assert_eq!(judge(std::slice::from_ref(&serving), &["t0"]).0, Status::Healthy);
    let one = judge(&[serving.clone(), failing()], &["t0"]);
    assert_eq!(one, (Status::Degraded, vec![line("!", 1)]));
    assert_eq!(judge(&[failing()], &[]), (Status::Unhealthy, vec![line("-", 0)]));
    let all = judge(&[failing(), failing()], &[]);
    assert_eq!(all, (Status::Unhealthy, vec![line("-", 0), line("-", 1)]));
    assert_eq!(judge(&[MemberState::Elsewhere, failing()], &[]).0, Status::Degraded);
    assert_eq!(judge(&[MemberState::Elsewhere], &[]).0, Status::Healthy, "one that stands by");
    assert_eq!(judge(&[serving, opening.clone()], &["t0"]).0, Status::Healthy);
    assert_eq!(judge(&[opening, failing()], &[]).0, Status::Unhealthy, "nothing is served yet");
    assert_eq!(judge(&[], &[]).0, Status::Healthy, "there is nothing to do");
}

#[test]
fn obs_4_a_start_of_many_does_not_wait_for_one_that_is_away() {
    let (well, mut away, mut new) = (sample(|_| {}), sample(|_| {}), sample(|_| {}));
    (away.seen, away.points) = (None, Vec::new());
    (new.seen, new.points, new.was_asked) = (None, Vec::new(), false);
    let of = |name, sample| Look { database: name, ..look(sample) };
    let status =
        |looks: &[Look<'_>], states: &[MemberState]| started(looks, &members(states)).status;
    assert_eq!(status(&[of("a", &well), of("b", &away)], &[]), Status::Degraded);
    assert_eq!(status(&[of("a", &well), of("b", &new)], &[]), Status::Unhealthy, "not asked yet");
    assert_eq!(status(&[of("a", &away), of("b", &away)], &[]), Status::Unhealthy);
    assert_eq!(status(&[of("a", &away)], &[]), Status::Unhealthy, "the only one has to answer");
    let failing = MemberState::Failing("no".to_owned());
    assert_eq!(status(&[of("a", &well)], &[MemberState::Serving, failing]), Status::Healthy);
    assert_eq!(status(&[of("a", &well)], &[MemberState::Opening]), Status::Unhealthy);
}

#[test]
fn obs_4_of_many_checks_those_that_are_not_well_are_told() {
    let (well, bad) = (sample(|_| {}), sample(|stats| stats.ready = 7));
    let names: Vec<_> = (0..500).map(|n| format!("t{n:03}")).collect();
    let look = |name| {
        let sample = if name == "t250" { &bad } else { &well };
        Look { database: name, ..look(sample) }
    };
    let looks: Vec<_> = names.iter().map(|name| look(name.as_str())).collect();
    let report = ready(&looks, &[], &[], &Thresholds::default()).brief();
    assert_eq!(report.status, Status::Degraded);
    let lines: Vec<_> = report.checks.iter().map(ToString::to_string).collect();
    let first = "[-]dispatcher t250/outbox 7 messages wait and nobody delivers";
    assert_eq!(lines, [first, "[+]others all 3499 further checks are not told"]);
}
