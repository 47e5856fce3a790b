//! MySQL and MariaDB as accounts with few rights see them.
//!
//! The suite runs as a worker; as an admin those parts of it that a worker may not do. What each
//! role may not do is tried on every table and procedure of the database, so that whatever is added
//! later is tried too.

pub(crate) mod mysql_roles_support;
mod refusals;

use mysql_roles_support::{Admin, As, Worker};

mod worker {
    use super::{As, Worker};

    postroom_testkit::store_conformance_of!(As<Worker>, publish);
    postroom_testkit::store_conformance_of!(As<Worker>, transaction);
    postroom_testkit::store_conformance_of!(As<Worker>, idempotency);
    postroom_testkit::store_conformance_of!(As<Worker>, claim);
    postroom_testkit::store_conformance_of!(As<Worker>, settle);
    postroom_testkit::store_conformance_of!(As<Worker>, lease);
    postroom_testkit::store_conformance_of!(As<Worker>, order);
    postroom_testkit::store_conformance_of!(As<Worker>, halt);
    postroom_testkit::store_conformance_of!(As<Worker>, retention);
    postroom_testkit::store_conformance_of!(As<Worker>, no_history);
    postroom_testkit::store_conformance_of!(As<Worker>, inbox_effects);
    postroom_testkit::store_conformance_of!(As<Worker>, inbox_no_history);
    postroom_testkit::store_conformance_of!(As<Worker>, join_no_history);
}

mod admin {
    use super::{Admin, As};

    postroom_testkit::store_conformance_of!(As<Admin>, replay);
    postroom_testkit::store_conformance_of!(As<Admin>, replay_halted);
    postroom_testkit::store_conformance_of!(As<Admin>, pause);
    postroom_testkit::store_conformance_of!(As<Admin>, watch);
    postroom_testkit::store_conformance_of!(As<Admin>, watch_halted);
    postroom_testkit::store_conformance_of!(As<Admin>, audit);
    postroom_testkit::store_conformance_of!(As<Admin>, inbox);
    postroom_testkit::store_conformance_of!(As<Admin>, join);
    postroom_testkit::store_conformance_of!(As<Admin>, join_members);
}
