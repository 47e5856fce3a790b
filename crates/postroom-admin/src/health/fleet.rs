//! Stores of a fleet, as health sees them: one that can not be opened is a matter of one tenant,
//! unless there is no other.

use postroom_core::fleet::{MemberState, MemberStatus};

use super::{Check, Status};

/// The most of a reason that is told.
const MOST_CHARS: usize = 300;

/// What a store weighs when all are judged. One that is the same as another weighs nothing.
pub(super) fn burden(member: &MemberStatus) -> Option<(&str, Status)> {
    let status = match member.state {
        // Nothing is delivered there; whether that matters depends on the others.
        MemberState::Failing(_) | MemberState::Opening => Status::Unhealthy,
        MemberState::SameAs(_) => return None,
        _ => Status::Healthy,
    };
    Some((member.id.as_str(), status))
}

/// What is told of a store. Those that are open are told by what their databases say.
pub(super) fn check(member: &MemberStatus, some_serve: bool) -> Option<Check> {
    let bad = if some_serve { Status::Degraded } else { Status::Unhealthy };
    let (status, message) = match &member.state {
        MemberState::Failing(why) => (bad, format!("can not be opened: {}", brief(why))),
        MemberState::Opening if some_serve => (Status::Healthy, "is being opened".to_owned()),
        MemberState::Opening => (Status::Unhealthy, "is being opened".to_owned()),
        _ => return None,
    };
    Some(Check { name: "store", of: member.id.to_string(), status, message })
}

/// What keeps a start from being over: what was not tried yet.
pub(super) fn opening(member: &MemberStatus) -> Option<Check> {
    let is_opening = member.state == MemberState::Opening;
    is_opening.then(|| Check {
        name: "store",
        of: member.id.to_string(),
        status: Status::Unhealthy,
        message: "is being opened".to_owned(),
    })
}

/// No more of it than a line.
pub(crate) fn brief(why: &str) -> String {
    let mut chars = why.chars().map(|c| if c.is_control() { ' ' } else { c });
    let text: String = chars.by_ref().take(MOST_CHARS).collect();
    if chars.next().is_some() { format!("{text}…") } else { text }
}
