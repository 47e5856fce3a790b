//! The conformance suite of sinks: each case is a generic function;
//! [`sink_conformance!`](crate::sink_conformance) makes it a named test.
//!
//! A case talks to a real receiver through a [`Proxy`], which it tells to refuse, to swallow, to
//! freeze or to cut, and looks at what the receiver has stored behind the sink's back.

mod harness;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod killed;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod names;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod order;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod outage;
mod proxy;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod stored;

pub use harness::{Format, Receiver, Settings, SinkHarness, Stored, run};
pub use proxy::{Proxy, Traffic};

/// Writes the macro that writes the tests, from one list.
macro_rules! suite {
    ($d:tt $($area:ident => { $($case:ident,)* })*) => {
        /// Every case, as `<area>::<case>`.
        pub const CASES: &[&str] =
            &[$($(concat!(stringify!($area), "::", stringify!($case)),)*)*];

        /// Makes every conformance case a test named `conformance::<area>::<case>` for this
        /// harness.
        #[macro_export]
        macro_rules! sink_conformance {
            ($d harness:ty) => {
                mod conformance {
                    #[allow(unused_imports, reason = "the harness may be named by a full path")]
                    use super::*;
                    $($crate::sink_conformance_of!($d harness, $area);)*
                }
            };
        }

        /// Makes the cases of one area tests named `<area>::<case>`.
        #[macro_export]
        macro_rules! sink_conformance_of {
            $(($d harness:ty, $area) => {
                mod $area {
                    #[allow(unused_imports, reason = "the harness may be named by a full path")]
                    use super::*;
                    use $crate::sinks::$area as cases;
                    $(
                        #[test]
                        fn $case() {
                            $crate::sinks::run(cases::$case::<$d harness>());
                        }
                    )*
                }
            };)*
        }
    };
}

suite! { $
    stored => {
        rly_2_done_means_stored,
        rly_2_an_event_in_one_piece_is_stored_as_well,
        rly_2_headers_of_the_message_are_passed_on,
        rly_2_the_largest_payload_of_the_gate_arrives_whole,
        b28_a_message_that_comes_again_has_the_same_id,
    }
    order => {
        ord_1_a_batch_keeps_the_order_of_each_key,
        ord_1_calls_side_by_side_keep_the_order_of_each_key,
        b37_nothing_behind_a_failure_is_stored,
    }
    names => {
        x09_what_can_not_be_named_is_refused_for_good,
        sec_6_what_is_too_large_is_refused_alone,
    }
    outage => {
        dsp_12_a_receiver_that_is_away_from_the_start_costs_no_attempt,
        dsp_12_a_receiver_that_goes_away_costs_no_more_than_one_attempt,
        dsp_12_many_at_once_find_nobody_and_are_answered,
        b30_the_whole_backlog_is_delivered_when_it_is_back,
        b34_a_connection_cut_before_the_answer_is_an_attempt_and_no_loss,
        b34_answers_that_are_swallowed_are_an_attempt_and_no_loss,
        b34_a_frozen_connection_is_answered_in_time,
    }
    killed => {
        b30_everything_arrives_although_the_receiver_is_killed,
    }
}
