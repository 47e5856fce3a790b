//! What every layer must do, once; a layer says how it runs a transaction.

#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod cases;
#[cfg(feature = "_postgres")]
pub(crate) mod pg;

use std::sync::Arc;

use postroom_adapters::Enqueued;
use postroom_core::store::AdminStore;
use postroom_core::{MessageBuilder, Result};

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    Rollback,
}

/// A data layer with a fresh database.
pub(crate) trait Layer: Sized {
    async fn fresh() -> Self;

    /// One transaction of the layer: writes the business row 1, publishes, and ends it; before a
    /// commit it also writes row 2.
    async fn transaction(
        &mut self,
        messages: Vec<MessageBuilder>,
        end: End,
    ) -> Vec<Result<Enqueued>>;

    async fn business_rows(&self) -> Vec<i64>;

    fn store(&self) -> Arc<dyn AdminStore>;

    async fn finish(self);
}

/// Makes each case a test of the layer.
macro_rules! layer_cases {
    ($layer:ty: $($case:ident)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                $crate::support::cases::$case::<$layer>().await;
            }
        )*
    };
    ($layer:ty) => {
        $crate::support::layer_cases! { $layer:
            pub_1_a_commit_keeps_the_row_and_delivers_the_message
            pub_1_a_rollback_leaves_neither_row_nor_message
            pub_4_a_later_message_waits_for_its_time
            pub_6_a_duplicate_answers_with_the_first_id_and_the_transaction_commits
            pub_6_a_key_twice_in_one_transaction_is_one_message
            pub_6_the_same_key_of_another_tenant_is_another_message
            pub_6_the_same_message_again_is_success_and_written_once
            pub_6_an_id_with_other_content_is_refused
            msg_2_a_broken_limit_names_the_field_and_the_transaction_commits
            pub_9_every_field_arrives_as_the_outbox_writes_it
            pub_9_times_beyond_all_calendars_arrive
        }
    };
}

pub(crate) use layer_cases;
