//! The engine under the simulator: four thousand seeds hold every rule, a seed is a run, and each
//! planted bug is found.
//!
//! `POSTROOM_SIM_SEED=n` runs that seed alone; `POSTROOM_TEST_FULL` runs twenty thousand.

use std::ops::Range;

use postroom_testkit::Bug;
use postroom_testkit::simulation::{self, Failure, Report};

fn simulate(seed: u64, bug: Option<Bug>) -> Result<Report, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(simulation::run(seed, bug))
}

/// The seeds of one part of four.
fn seeds(part: u64) -> Range<u64> {
    if let Ok(seed) = std::env::var("POSTROOM_SIM_SEED") {
        let seed: u64 = seed.parse().expect("POSTROOM_SIM_SEED is a number");
        return if seed % 4 == part { seed..seed + 1 } else { 0..0 };
    }
    let full = std::env::var_os("POSTROOM_TEST_FULL").is_some();
    0..if full { 20_000 } else { 4_000 }
}

fn every_rule_holds(part: u64) {
    let mut total = (0, 0, 0);
    for seed in seeds(part).filter(|seed| seed % 4 == part) {
        match simulate(seed, None) {
            Ok(report) => {
                total.0 += report.committed;
                total.1 += report.deliveries;
                total.2 += report.faults;
            }
            Err(failure) => panic!("{failure}"),
        }
    }
    // An empty world breaks no rule.
    if seeds(part).count() >= 1_000 {
        let (committed, deliveries, faults) = total;
        assert!(committed > 5_000 && deliveries > committed && faults > 1_000, "{total:?}");
    }
}

#[test]
fn every_rule_holds_in_part_1() {
    every_rule_holds(0);
}

#[test]
fn every_rule_holds_in_part_2() {
    every_rule_holds(1);
}

#[test]
fn every_rule_holds_in_part_3() {
    every_rule_holds(2);
}

#[test]
fn every_rule_holds_in_part_4() {
    every_rule_holds(3);
}

#[test]
fn a_seed_is_a_run() {
    for seed in 0..40 {
        let (one, two) = (simulate(seed, None), simulate(seed, None));
        let (Ok(one), Ok(two)) = (one, two) else { panic!("seed {seed} breaks a rule") };
        assert_eq!(one, two, "seed {seed}");
    }
}

/// Each bug is found by the rule that it breaks, in one of so many runs.
macro_rules! mutants {
    ($($name:ident: $bug:ident within $seeds:literal by $rules:expr;)*) => {
        $(#[test]
        fn $name() {
            is_caught(Bug::$bug, $seeds, &$rules);
        })*

        #[test]
        fn every_mutant_has_its_test() {
            assert_eq!([$(Bug::$bug),*], Bug::ALL);
        }
    };
}

fn is_caught(bug: Bug, seeds: u64, rules: &[&str]) {
    let red = (0..seeds).find_map(|seed| simulate(seed, Some(bug)).err());
    let Some(failure) = red else { panic!("{seeds} seeds do not see {bug:?}") };
    let by_its_rule = rules.iter().any(|rule| failure.problem.contains(rule));
    assert!(by_its_rule, "{bug:?} is seen by another rule: {failure}");
    assert!(simulate(failure.seed, None).is_ok(), "without the bug seed {} holds", failure.seed);
}

mutants! {
    mutant_no_fence_is_caught: NoFence within 200 by ["S4: "];
    mutant_fence_by_owner_is_caught: FenceByOwner within 1_000 by ["S4: "];
    mutant_reused_token_is_caught: TokenReused within 20 by ["S5: "];
    mutant_renewal_after_the_end_is_caught: RenewsExpired within 500 by ["a lease that was over"];
    mutant_early_takeover_is_caught: EarlyTakeover within 20 by ["S4: ", "still handles"];
    mutant_no_takeover_is_caught: NeverTakesOver within 100 by ["L4: "];
    mutant_uncounted_loss_is_caught: LostNotCounted within 100 by ["S6: "];
    mutant_claim_as_attempt_is_caught: ClaimCountsAttempt within 20 by ["S9: "];
    mutant_born_ready_is_caught: BornReady within 20 by ["without a living lease", "S6: "];
    mutant_ignored_head_is_caught: HeadIgnored within 100 by ["O1: ", "O2: "];
    mutant_retry_that_lets_pass_is_caught: RetryLeavesQueue within 100 by ["O1: "];
    mutant_suspect_in_a_run_is_caught: SuspectInRun within 200 by ["is not alone"];
    mutant_forgotten_halt_is_caught: HaltForgotten within 200 by ["O3: "];
    mutant_ignored_release_is_caught: ReleaseIgnored within 100
        by ["a lease that was over", "S4: ", "S6: "];
    mutant_rollback_that_keeps_rows_is_caught: RollbackKeepsRows within 20 by ["S1: ", "S3: "];
    mutant_ignored_keys_are_caught: KeysIgnored within 100 by ["one idempotency key"];
    mutant_send_before_commit_is_caught: AnswersBeforeCommit within 20 by ["S1: "];
    mutant_commit_that_was_none_is_caught: CommitHidesRollback within 1_000 by ["S1: "];
    mutant_next_before_settle_is_caught: AnswersBeforeSettle within 50 by ["O1: "];
    mutant_ack_before_handling_is_caught: AcksBeforeHandling within 20 by ["S2: "];
    mutant_late_deadline_is_caught: LateDeadline within 500 by ["without a living lease", "O2: "];
    mutant_changed_payload_is_caught: ChangesPayload within 20 by ["S7: "];
}
