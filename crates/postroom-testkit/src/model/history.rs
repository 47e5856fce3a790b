//! What happens in a random history.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::harness::Options;

const KEYS: usize = 3;

/// Histories that showed a difference once.
pub(super) fn found_before() -> Vec<(Options, Vec<Op>)> {
    let due_in_a_second = |key| Draft {
        due: Some(1),
        ordering_key: Some(key),
        key: None,
        tenant: None,
        expires: None,
        priority: 0,
        is_x: false,
        repeat: None,
    };
    let claim_one = || Op::Claim {
        owner: 0,
        batch: 1,
        suspects: 0,
        max_attempts: 1,
        terms: Terms { ordered: true, holding: None, without_x: false },
    };
    // How many rows that came due a claim moves, whose keys are all blocked. The first claim puts
    // the cursor behind a key, so that the last one has two stretches.
    let due_and_paused = vec![
        Op::Publish(vec![Draft { due: None, ..due_in_a_second(0) }], End::Commit),
        claim_one(),
        Op::Publish(vec![due_in_a_second(0)], End::Commit),
        Op::Publish(vec![due_in_a_second(1), due_in_a_second(0)], End::Commit),
        Op::Pause(Some("t")),
        Op::Advance(1),
        claim_one(),
    ];
    // The same with a stretch that ends where its slots do.
    let plain = || Draft { due: None, ordering_key: None, ..due_in_a_second(0) };
    let claim = |ordered, holding| Op::Claim {
        owner: 0,
        batch: 1,
        suspects: 0,
        max_attempts: 1,
        terms: Terms { ordered, holding, without_x: false },
    };
    let due_and_held = vec![
        Op::Publish(vec![due_in_a_second(0), due_in_a_second(0)], End::Commit),
        claim(false, None),
        Op::Publish(vec![plain()], End::Commit),
        claim(false, None),
        Op::Advance(1),
        claim(true, Some(0)),
    ];
    vec![
        (Options::default().keep_done(false).halt(true), due_and_paused),
        (Options::default().keep_done(false), due_and_held),
    ]
}

pub(super) fn options() -> impl Strategy<Value = Options> {
    let options = |(keep_done, halt, fair_tenants)| Options { keep_done, halt, fair_tenants };
    any::<(bool, bool, bool)>().prop_map(options)
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Publish(Vec<Draft>, End),
    Claim { owner: usize, batch: u32, suspects: u32, max_attempts: u32, terms: Terms },
    Leave { owner: usize },
    Settle { owner: usize, items: Vec<(prop::sample::Index, Kind)> },
    Renew { owner: usize, items: Vec<prop::sample::Index>, secs: u64 },
    Reap { limit: u32, max_attempts: u32 },
    Purge { done: Option<u64>, dead: Option<u64>, keys: Option<u64> },
    Replay(Vec<prop::sample::Index>),
    Discard(Vec<prop::sample::Index>),
    Pause(Option<&'static str>),
    Resume(Option<&'static str>),
    Advance(u64),
}

/// What a claim says about order and topics.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) ordered: bool,
    /// One of the keys is said to be held, and perhaps is.
    pub(super) holding: Option<usize>,
    pub(super) without_x: bool,
}

/// A message to be: small numbers, so that they collide.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) key: Option<u128>,
    pub(super) tenant: Option<bool>,
    pub(super) due: Option<u64>,
    pub(super) expires: Option<u64>,
    pub(super) priority: i16,
    pub(super) ordering_key: Option<usize>,
    pub(super) is_x: bool,
    pub(super) repeat: Option<prop::sample::Index>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Commit,
    Rollback,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Done,
    Release,
    Retry { secs: u64, counted: bool },
    Dead,
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let owner = 0..2_usize;
    prop_oneof![
        4 => (vec(draft(), 1..4), end()).prop_map(|(drafts, end)| Op::Publish(drafts, end)),
        4 => (owner.clone(), 1..7_u32, 0..3_u32, 1..4_u32, terms()).prop_map(
            |(owner, batch, suspects, max_attempts, terms)| Op::Claim {
                owner, batch, suspects, max_attempts, terms
            }
        ),
        1 => owner.clone().prop_map(|owner| Op::Leave { owner }),
        4 => (owner.clone(), vec((any::<prop::sample::Index>(), kind()), 1..4))
            .prop_map(|(owner, items)| Op::Settle { owner, items }),
        1 => (owner, vec(any::<prop::sample::Index>(), 1..4), 1..20_u64)
            .prop_map(|(owner, items, secs)| Op::Renew { owner, items, secs }),
        1 => (1..4_u32, 1..4_u32)
            .prop_map(|(limit, max_attempts)| Op::Reap { limit, max_attempts }),
        1 => (age(), age(), age()).prop_map(|(done, dead, keys)| Op::Purge { done, dead, keys }),
        2 => vec(any::<prop::sample::Index>(), 1..4).prop_map(Op::Replay),
        1 => vec(any::<prop::sample::Index>(), 1..4).prop_map(Op::Discard),
        1 => paused().prop_map(Op::Pause),
        // More often than pauses, or most histories would end in silence.
        2 => paused().prop_map(Op::Resume),
        3 => (1..25_u64).prop_map(Op::Advance),
    ]
}

fn paused() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![1 => Just(None), 1 => Just(Some("t")), 2 => Just(Some("x"))]
}

fn terms() -> impl Strategy<Value = Terms> {
    let holding = proptest::option::weighted(0.2, 0..KEYS);
    (proptest::bool::weighted(0.9), holding, proptest::bool::weighted(0.1))
        .prop_map(|(ordered, holding, without_x)| Terms { ordered, holding, without_x })
}

fn age() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(0..40_u64)
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![5 => Just(End::Commit), 1 => Just(End::Rollback)]
}

fn draft() -> impl Strategy<Value = Draft> {
    let maybe = |range: std::ops::Range<u64>| proptest::option::weighted(0.2, range);
    (
        proptest::option::weighted(0.4, 0..4_u128),
        proptest::option::weighted(0.3, any::<bool>()),
        maybe(0..30),
        maybe(1..40),
        prop_oneof![4 => Just(0_i16), 1 => Just(5), 1 => Just(-5), 1 => -3..3_i16],
        proptest::option::weighted(0.5, 0..KEYS),
        proptest::bool::weighted(0.1),
        proptest::option::weighted(0.1, any::<prop::sample::Index>()),
    )
        .prop_map(|(key, tenant, due, expires, priority, ordering_key, is_x, repeat)| Draft {
            key,
            tenant,
            due,
            expires,
            priority,
            ordering_key,
            is_x,
            repeat,
        })
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => Just(Kind::Done),
        1 => Just(Kind::Release),
        3 => (1..20_u64, any::<bool>()).prop_map(|(secs, counted)| Kind::Retry { secs, counted }),
        1 => Just(Kind::Dead),
    ]
}
