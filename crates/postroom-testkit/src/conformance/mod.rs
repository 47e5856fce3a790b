//! The conformance suite: each case is a generic function;
//! [`store_conformance!`](crate::store_conformance) makes it a named test.
//!
//! A store is done when its column equals the others'. To add a case, write the function and one
//! line in the list below; every store has it then.

use postroom_core::MessageId;
use postroom_core::store::{AdminStore, Detail, Stats};

use crate::harness::{Env, Harness};

#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod admin;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod audit;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod claim;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod idempotency;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod inbox;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod join;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod lease;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod listing;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod order;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod pause;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod publish;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod replay;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod retention;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod settle;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod tenants;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod transaction;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod watch;

async fn get<H: Harness>(env: &Env<H>, id: MessageId) -> Option<Detail> {
    env.store().get(id).await.expect("get")
}

async fn stats<H: Harness>(env: &Env<H>) -> Stats {
    env.store().stats().await.expect("stats")
}

/// Writes the macro that writes the tests, from one list.
macro_rules! suite {
    ($d:tt $(
        $area:ident: $($module:ident)::+, $options:expr => { $($case:ident,)* }
    )*) => {
        /// Every case, as `<area>::<case>`.
        pub const CASES: &[&str] =
            &[$($(concat!(stringify!($area), "::", stringify!($case)),)*)*];

        /// Makes every conformance case a test named `conformance::<area>::<case>` for this
        /// harness.
        #[macro_export]
        macro_rules! store_conformance {
            ($d harness:ty) => {
                mod conformance {
                    #[allow(unused_imports, reason = "the harness may be named by a full path")]
                    use super::*;
                    $($crate::store_conformance_of!($d harness, $area);)*
                }
            };
        }

        /// Makes the cases of one area tests named `<area>::<case>`, for a harness that can not do
        /// everything.
        #[macro_export]
        macro_rules! store_conformance_of {
            $(($d harness:ty, $area) => {
                mod $area {
                    #[allow(unused_imports, reason = "the harness may be named by a full path")]
                    use super::*;
                    use $crate::conformance::$($module)::+ as cases;
                    $(
                        #[test]
                        fn $case() {
                            use $crate::Options;
                            $crate::run::<$d harness, _>($options, cases::$case);
                        }
                    )*
                }
            };)*
        }
    };
}

suite! { $
    publish: publish, Options::default() => {
        pub_1_atomicity,
        pub_1_commit_makes_both_rows_visible,
        pub_1_a_dropped_transaction_leaves_nothing,
        pub_2_standalone_publish_is_committed_when_it_returns,
        pub_4_a_plain_driver_transaction_publishes_too,
        pub_4_its_rollback_takes_the_message_along,
        pub_1_without_a_transaction_it_is_refused,
        pub_7_ten_thousand_in_one_call,
        pub_7_bulk_keeps_publish_order,
        msg_1_every_field_comes_back_as_it_went_in,
        msg_what_was_left_out_gets_its_default,
        msg_an_ordered_message_keeps_its_key,
        msg_bytes_that_are_not_text_are_legal,
        msg_topics_differ_by_case_and_by_trailing_space,
        msg_2_every_field_at_its_limit_is_stored,
        msg_2_a_payload_of_exactly_the_limit_passes,
        msg_2_a_breach_names_the_limit_and_leaves_the_transaction_usable,
        msg_2_one_bad_message_in_a_bulk_writes_none,
        msg_2_the_payload_limit_can_be_configured,
        sec_1_hostile_text_is_data,
        due_in_the_past_counts_as_now,
        due_later_waits_for_its_time,
        due_after_counts_from_the_databases_time,
        dsp_2_a_row_born_leased_is_nobody_elses,
        dsp_2_its_lease_runs_out_like_any_other,
        dsp_2_due_later_and_ordered_are_born_ready_all_the_same,
    }
    transaction: transaction, Options::default() => {
        pub_3_an_empty_transaction_commits,
        pub_3_a_rolled_back_savepoint_takes_its_messages_along,
        pub_3_a_released_savepoint_keeps_them,
        pub_3_a_dropped_savepoint_is_rolled_back,
        pub_3_savepoints_nest,
        pub_3_an_outer_rollback_takes_released_ones_along,
        pub_3_a_flush_inside_a_rolled_back_savepoint_loses_nothing,
        pub_3_publish_order_holds_across_flushes_and_savepoints,
        pub_3_flush_tells_about_duplicates_before_the_commit,
        pub_5_a_cancelled_flush_loses_nothing_and_writes_nothing_twice,
        pub_3_a_cancelled_release_commits_all_or_nothing,
        pub_5_an_item_that_does_not_serialise_leaves_the_others_staged,
        pub_3_hooks_run_after_a_commit,
        pub_3_hooks_run_after_a_rollback_and_after_a_drop,
        pub_3_hooks_of_a_savepoint_share_its_fate,
        pub_10_publishing_needs_no_dispatcher,
    }
    idempotency: idempotency, Options::default() => {
        pub_6_a_duplicate_is_success_with_the_first_id,
        pub_6_the_same_key_of_another_tenant_is_a_new_message,
        pub_6_no_tenant_is_a_scope_of_its_own,
        pub_6_a_duplicate_does_not_poison_the_transaction,
        pub_6_racing_publishers_leave_one_row,
        pub_6_duplicates_within_one_flush,
        pub_6_duplicates_across_the_chunks_of_a_bulk,
        pub_6_a_key_that_was_rolled_back_is_free,
        pub_6_a_key_outlives_the_delivery_of_its_message,
        pub_6_the_same_message_again_already_existed,
        pub_6_an_id_with_other_content_is_taken,
        pub_6_an_id_is_taken_across_tenants,
        pub_6_a_taken_id_in_a_bulk_writes_nothing_of_it,
        pub_6_a_taken_id_gives_its_own_key_back,
        pub_6_the_key_decides_before_the_id,
        pub_11_with_a_key_a_retry_after_an_unknown_commit_is_safe,
        pub_6_a_duplicate_of_what_this_transaction_wrote,
    }
    claim: claim, Options::default() => {
        wq_1_a_claim_leases_what_is_ready,
        wq_1_nothing_ready_is_an_empty_answer,
        wq_1_the_batch_is_a_limit,
        dsp_9_the_next_due_time_is_known,
        dsp_9_the_next_retry_is_known,
        wq_1_oldest_first,
        wq_1_a_live_lease_is_not_given_twice,
        wq_1_two_claimers_get_disjoint_batches,
        wq_1_sixteen_claimers_get_disjoint_batches,
        wq_1_done_and_dead_are_never_claimed,
        wq_2_bad_arguments_are_refused,
        wq_8_an_expired_lease_is_taken_over,
        wq_8_the_first_lost_lease_counts_no_attempt_and_the_second_does,
        wq_8_a_killer_is_dead_after_max_plus_one_runs,
        wq_8_a_claim_takes_one_suspect_unless_asked_for_more,
        wq_8_suspects_do_not_starve_the_others,
        wq_8_a_suspect_that_failed_is_still_a_suspect,
        wq_8_a_takeover_is_in_the_history,
        priority_higher_first_then_oldest,
        priority_holds_within_a_small_batch,
        priority_counts_for_what_came_due_too,
        priority_of_what_came_due_holds_within_a_small_batch,
        due_what_waited_longest_comes_first,
        wq_1_an_expired_message_is_dead_and_never_returned,
        wq_1_expiry_is_exact,
        wq_1_what_expires_while_it_waits_is_dead_too,
        wq_1_a_live_lease_is_not_ended_by_expiry,
        wq_1_an_undecodable_row_dies_alone,
        wq_1_each_claim_has_a_token_of_its_own,
        wq_11_the_same_backlog_is_claimed_in_full_by_small_batches,
    }
    settle: settle, Options::default() => {
        wq_3_ack_makes_it_done,
        wq_3_ack_clears_the_error_and_keeps_the_history,
        wq_3_what_is_not_mine_is_ignored_and_reported,
        wq_3_a_second_ack_is_ignored,
        wq_3_repeated_items_count_once,
        wq_3_an_empty_list_touches_nothing,
        wq_4_a_stale_token_can_not_settle_even_for_the_same_owner,
        wq_4_a_stale_and_a_current_lease_of_one_item_in_one_call,
        wq_4_an_expired_lease_that_nobody_took_still_settles,
        wq_5_abandon_counts_and_waits_by_the_policy,
        wq_5_the_default_policy_backs_off_exponentially,
        dsp_7_the_last_attempt_makes_it_dead,
        wq_5_a_given_delay_must_be_more_than_zero,
        wq_5_release_costs_nothing,
        wq_5_a_released_suspect_stays_one,
        wq_6_fail_makes_it_dead_with_its_error,
        wq_6_errors_are_cut_at_a_character_boundary,
        wq_6_an_empty_error_is_none_and_nul_is_no_trouble,
        wq_10_mixed_outcomes_settle_in_one_call,
        dsp_5_an_uncounted_retry_waits_without_an_attempt,
        wq_5_a_retry_keeps_priority_and_expiry,
        wq_5_history_has_one_row_per_bad_attempt,
        wq_10_a_thousand_settle_in_one_call,
        wq_4_sixteen_rivals_settle_an_item_once,
    }
    lease: lease, Options::default() => {
        wq_7_renew_extends_a_lease,
        wq_7_an_expired_lease_is_not_renewed,
        wq_7_foreign_and_stale_leases_are_not_renewed,
        wq_2_a_renewal_for_no_time_is_refused,
        wq_8_reap_returns_expired_leases_to_ready,
        wq_8_reap_leaves_live_leases_and_settled_items_alone,
        wq_8_reaped_past_the_maximum_is_dead,
        wq_8_reap_works_in_bounded_batches,
        wq_1_reap_makes_expired_messages_dead,
        wq_4_a_reaped_lease_can_not_settle,
        wq_8_a_lost_lease_is_counted_once,
        wq_8_reaped_items_are_suspects,
        wq_2_reap_and_purge_need_a_limit,
        wq_8_reaping_and_settling_at_once_never_reopen_a_done_item,
    }
    order: order, Options::default() => {
        ord_1_a_key_is_claimed_in_publish_order,
        ord_1_a_key_in_hand_is_not_claimed_again,
        ord_1_keys_run_in_parallel,
        ord_1_one_key_alone_fills_the_batch,
        ord_1_keys_take_turns,
        ord_1_a_claim_is_filled_from_many_keys,
        ord_1_tenants_have_their_own_keys,
        ord_1_a_key_spans_topics,
        ord_1_priority_never_reorders_a_key,
        ord_1_a_slot_has_one_owner,
        ord_1_owners_share_the_slots,
        ord_1_a_slot_is_not_handed_over_while_something_in_it_is_held,
        ord_1_leaving_gives_the_slots_back_at_once,
        ord_1_a_dead_owners_slots_are_taken_at_expiry,
        ord_1_a_suspect_is_leased_without_what_lies_behind_it,
        wq_4_an_expired_ordered_lease_that_nobody_took_still_settles,
        wq_8_an_ordered_killer_is_dead_after_max_plus_one_runs,
        wq_8_reap_leaves_ordered_items_to_their_slot,
        wq_7_renewing_keeps_the_slot_too,
        wq_7_an_ordered_item_is_leased_no_longer_than_its_slot,
        ord_2_a_retry_stops_its_key_alone,
        ord_2_skip_a_dead_message_lets_the_others_pass,
        wq_5_a_released_run_comes_again_in_order,
        due_later_blocks_nothing_and_takes_its_place_when_due,
        wq_1_an_expired_head_is_dead_and_the_next_goes,
        wq_1_an_undecodable_ordered_row_dies_alone,
        ord_3_both_kinds_take_turns,
        ord_3_room_that_one_kind_leaves_is_the_others,
        ord_1_an_owner_may_want_no_ordered_items,
        dsp_10_an_excluded_topic_stops_its_keys_alone,
        ord_1_keys_that_the_owner_says_it_holds_are_left_out,
        ord_1_a_run_leaves_room_for_the_keys_in_hand,
        ord_1_rivals_never_hold_a_key_at_the_same_time,
    }
    halt: order::halt, Options::default().halt(true) => {
        ord_2_halt_a_dead_message_stops_its_key_alone,
        ord_2_halt_an_expired_head_stops_its_key,
        ord_2_halt_an_undecodable_row_stops_its_key,
        ord_2_halt_unordered_deaths_stop_nothing,
    }
    retention: retention, Options::default() => {
        ret_1_done_messages_go_after_their_time,
        ret_1_live_messages_are_never_purged,
        ret_1_dead_letters_are_kept_unless_asked,
        ret_1_purge_works_in_chunks,
        ret_1_a_purged_message_is_gone_with_its_history,
        ret_1_the_key_of_a_live_message_is_never_purged,
        ret_1_the_key_of_a_dead_letter_is_never_purged,
        ret_1_a_keys_time_starts_when_its_message_is_settled,
        ret_1_a_key_can_outlive_its_purged_message,
    }
    no_history: retention::none, Options::default().keep_done(false) => {
        ret_1_an_acknowledged_message_is_deleted,
        ret_1_a_dead_letter_is_kept_all_the_same,
        ret_1_the_key_still_dedupes_for_its_own_time,
        ret_1_the_same_keyed_message_again_already_existed,
        ret_1_history_goes_with_the_message,
    }
    admin: admin, Options::default() => {
        adm_1_newest_first_page_by_page,
        adm_1_filter_by_status,
        adm_1_filter_by_topic_and_tenant,
        adm_1_an_unknown_message_is_none,
        adm_1_stats_count_each_state,
        adm_1_stats_of_an_empty_store,
        sch_1_migrating_twice_changes_nothing,
    }
    listing: listing, Options::default() => {
        adm_1_a_page_says_where_the_next_begins,
        adm_1_filter_by_the_start_of_the_topic,
        adm_1_filter_by_aggregate_and_ordering_key,
        adm_1_filter_by_the_time_of_writing,
        adm_1_filter_by_the_text_of_the_last_error,
        adm_1_only_the_last_error_counts,
        adm_1_filter_by_attempts_and_reason,
        adm_1_filters_work_together,
        adm_1_filters_work_with_every_status,
        adm_1_a_search_goes_on_where_it_stopped,
        adm_1_live_messages_are_in_the_order_of_the_queue,
        adm_1_a_page_goes_on_behind_what_is_gone,
        adm_1_live_messages_of_every_status_among_many,
    }
    watch: watch, Options::default() => {
        adm_1_a_list_has_no_payloads_but_knows_their_sizes,
        adm_1_a_dispatcher_is_live_as_long_as_it_said,
        adm_1_live_dispatchers_come_first_then_by_start,
        adm_1_a_dispatcher_that_leaves_is_forgotten,
        adm_1_who_is_silent_for_a_day_is_forgotten,
        adm_1_a_dispatcher_is_shown_with_what_it_holds,
        adm_1_topics_count_what_is_not_delivered,
        adm_1_what_fails_is_shown_with_its_last_error,
        adm_1_a_key_that_waits_is_shown_with_what_stops_it,
        adm_1_what_lies_behind_a_key_is_counted_up_to_a_limit,
        fleet_1_every_box_has_an_identity_of_its_own,
    }
    watch_halted: watch::halt, Options::default().halt(true) => {
        adm_1_a_halted_key_is_shown_before_those_that_wait,
    }
    audit: audit, Options::default() => {
        adm_3_the_audit_log_has_what_was_written_newest_first,
        adm_3_both_boxes_share_the_audit_log,
        adm_3_long_texts_are_cut_and_nul_is_no_trouble,
    }
    replay: replay, Options::default() => {
        adm_1_a_dead_letter_is_replayed,
        adm_1_only_dead_messages_are_replayed,
        b03_what_somebody_handles_is_never_replayed,
        adm_1_a_replay_keeps_place_and_priority,
        adm_1_a_replayed_message_does_not_expire_again,
        adm_1_a_replay_waits_for_the_due_time,
        adm_1_an_undecodable_message_is_not_replayed,
        adm_1_an_id_that_is_named_twice_counts_once,
        ret_1_of_two_replays_one_counts,
        ret_1_of_replay_and_purge_one_counts,
        ret_1_the_key_of_a_replayed_message_stays,
        adm_1_what_nobody_holds_is_discarded,
        adm_1_a_dead_letter_is_discarded_and_can_be_replayed,
        ret_1_a_discarded_message_is_kept_like_a_done_one,
        ord_2_a_replayed_message_goes_before_its_successors,
    }
    replay_halted: replay::halt, Options::default().halt(true) => {
        ord_2_halt_a_replay_lets_its_key_go_on,
        ord_2_halt_a_discard_lets_its_key_go_on,
        ord_2_halt_a_discarded_head_stops_nothing,
        ord_2_halt_two_dead_messages_need_two_decisions,
    }
    pause: pause, Options::default() => {
        dsp_10_a_paused_topic_is_not_claimed,
        dsp_10_a_paused_queue_gives_nothing,
        dsp_10_nothing_paused_is_born_leased,
        dsp_10_a_paused_head_stops_its_key_alone,
        dsp_10_a_run_ends_before_a_paused_row,
        dsp_10_what_was_claimed_before_is_settled_all_the_same,
        dsp_10_a_lost_lease_is_not_taken_over_while_paused,
        dsp_10_the_first_of_two_pauses_counts,
        dsp_10_a_resume_ends_its_own_pause_only,
        dsp_10_topics_are_paused_to_the_letter,
    }
    inbox: inbox, Options::default() => {
        inb_1_once_per_source_id_and_consumer,
        inb_1_what_was_received_comes_back_with_its_origin,
        inb_1_the_engine_treats_it_like_any_message,
        inb_1_bad_names_are_refused_before_anything_is_written,
        inb_1_many_in_one_transaction_with_an_answer_for_each,
        inb_1_two_consumers_both_handle_one_message,
        inb_1_a_message_of_another_consumer_is_not_handled,
        ord_1_consumers_do_not_wait_for_each_other,
        inb_1_an_outbox_delivers_right_into_an_inbox,
        inb_2_other_content_is_a_conflict_and_never_handled,
        inb_2_another_trace_is_the_same_content,
        inb_4_once_tells_first_from_duplicate,
        inb_4_after_a_rollback_it_is_new_again,
        inb_4_without_a_transaction_it_is_refused,
        inb_4_both_ways_share_what_they_know,
        inb_6_a_message_is_known_longer_than_it_is_kept,
        inb_6_inline_keys_go_after_their_time,
        inb_6_nothing_is_forgotten_before_the_redelivery_horizon,
    }
    inbox_effects: inbox::effects, Options::default() => {
        inb_3_effect_and_mark_commit_together,
        inb_3_an_error_rolls_back_effect_and_mark,
        inb_5_what_a_handler_publishes_commits_with_it,
        join_1_a_mark_counts_for_a_join,
        inb_3_several_handlers_share_one_transaction,
        inb_3_a_mark_is_fenced_like_any_settle,
        inb_3_a_mark_goes_with_its_transaction,
        ord_1_a_mark_lets_the_next_of_its_key_go,
    }
    inbox_no_history: inbox::none, Options::default().keep_done(false) => {
        inb_3_a_mark_deletes_what_is_not_kept,
    }
    join: join, Options::default() => {
        join_1_success_when_all_members_are_done,
        join_1_failure_when_all_are_settled_and_one_is_dead,
        join_1_without_a_follow_up_it_just_ends,
        join_1_it_waits_for_members_that_are_not_there_yet,
        join_1_a_follow_up_is_a_message_like_any_other,
        join_1_it_shares_the_fate_of_its_transaction,
        join_1_a_rolled_back_savepoint_forgets_its_joins,
        join_1_a_cancelled_join_publishes_nothing,
        join_1_a_replayed_member_is_open_again,
        join_1_a_completed_join_is_final,
        join_1_a_purge_of_members_uncounts_nothing,
        join_1_ended_joins_are_purged_with_their_members,
        join_1_every_way_to_die_counts,
        join_1_only_an_end_counts,
        join_1_joins_and_members_are_listed_page_by_page,
        join_1_a_thousand_members_settled_in_one_call,
        join_1_rivals_end_a_join_once,
    }
    join_members: join::members, Options::default() => {
        join_1_starting_again_changes_nothing,
        join_1_attaching_twice_counts_once,
        join_1_what_is_settled_already_counts_at_once,
        join_1_a_duplicate_counts_as_its_first_message,
        join_1_an_ended_join_takes_no_more_members,
        join_1_no_more_members_than_expected,
        join_1_what_is_not_there_is_refused,
        join_1_it_needs_a_transaction,
        join_1_a_message_may_be_in_many_joins,
        join_1_a_follow_up_may_be_a_member_too,
        join_1_messages_of_both_boxes_are_members,
    }
    join_no_history: join::none, Options::default().keep_done(false) => {
        join_1_members_that_are_deleted_when_done_count,
        join_1_what_is_deleted_is_no_message_any_more,
    }
    tenants: tenants, Options::default().fair_tenants(true) => {
        fleet_6_a_large_tenant_does_not_make_a_small_one_wait,
        fleet_6_tenants_share_equally_whatever_they_have,
        fleet_6_one_tenant_alone_has_the_whole_batch,
        fleet_6_what_one_does_not_use_goes_to_the_others,
        fleet_6_more_tenants_than_a_round_visits_all_have_their_turn,
        fleet_6_a_claim_is_filled_from_many_small_tenants,
        fleet_6_a_batch_of_one_goes_round,
        fleet_6_the_first_of_each_tenant_come_before_the_second,
        fleet_6_messages_without_a_tenant_are_one_tenant,
        fleet_6_priority_orders_the_messages_of_one_tenant,
        fleet_6_what_came_due_is_shared_too,
        fleet_6_within_a_tenant_what_waited_comes_before_what_did_not,
        fleet_6_suspects_run_alone_and_their_neighbours_pay_nothing,
        fleet_6_suspects_of_many_tenants_are_limited_together,
        fleet_6_paused_and_excluded_topics_are_left_out,
        fleet_6_expired_messages_of_a_tenant_are_dead,
        fleet_6_ordered_messages_go_by_their_keys,
        fleet_6_what_is_released_comes_again,
        fleet_6_rivals_never_take_the_same_message,
    }
    tenants_claim: claim, Options::default().fair_tenants(true) => {
        wq_1_a_claim_leases_what_is_ready,
        wq_1_nothing_ready_is_an_empty_answer,
        wq_1_the_batch_is_a_limit,
        dsp_9_the_next_due_time_is_known,
        dsp_9_the_next_retry_is_known,
        wq_1_oldest_first,
        wq_1_a_live_lease_is_not_given_twice,
        wq_1_two_claimers_get_disjoint_batches,
        wq_1_sixteen_claimers_get_disjoint_batches,
        wq_1_done_and_dead_are_never_claimed,
        wq_2_bad_arguments_are_refused,
        wq_8_an_expired_lease_is_taken_over,
        wq_8_the_first_lost_lease_counts_no_attempt_and_the_second_does,
        wq_8_a_killer_is_dead_after_max_plus_one_runs,
        wq_8_a_claim_takes_one_suspect_unless_asked_for_more,
        wq_8_suspects_do_not_starve_the_others,
        wq_8_a_suspect_that_failed_is_still_a_suspect,
        wq_8_a_takeover_is_in_the_history,
        priority_higher_first_then_oldest,
        priority_holds_within_a_small_batch,
        priority_counts_for_what_came_due_too,
        priority_of_what_came_due_holds_within_a_small_batch,
        due_what_waited_longest_comes_first,
        wq_1_an_expired_message_is_dead_and_never_returned,
        wq_1_expiry_is_exact,
        wq_1_what_expires_while_it_waits_is_dead_too,
        wq_1_a_live_lease_is_not_ended_by_expiry,
        wq_1_an_undecodable_row_dies_alone,
        wq_1_each_claim_has_a_token_of_its_own,
        wq_11_the_same_backlog_is_claimed_in_full_by_small_batches,
    }
}
