//! All stores, open or not: those of a fleet, and those that are only shown.

use postroom_core::fleet::MemberState;

/// Every state of a store of a fleet, for programs.
pub(crate) const STATES: [&str; 6] =
    ["serving", "elsewhere", "same", "opening", "draining", "failing"];

/// The state of a store of a fleet, for programs.
pub(crate) fn word(state: &MemberState) -> &'static str {
    match state {
        MemberState::Serving => "serving",
        MemberState::Elsewhere => "elsewhere",
        MemberState::SameAs(_) => "same",
        MemberState::Opening => "opening",
        MemberState::Draining => "draining",
        MemberState::Failing(_) => "failing",
        // A state that this version does not know: nothing is delivered there yet.
        _ => "opening",
    }
}
