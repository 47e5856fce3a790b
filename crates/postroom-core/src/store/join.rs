//! Joins as a store keeps them, and what becomes of an attach.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{JoinId, MessageId};

/// A message that is to be a member of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attach {
    /// The join.
    pub join: JoinId,
    /// The message, in the box of the store that is called.
    pub message: MessageId,
    /// Whether this very transaction wrote the message, so that nobody else can see it yet: then
    /// its place in the queue need not be locked.
    pub fresh: bool,
}

/// Where a join stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JoinState {
    /// Members are missing, or not settled.
    Open,
    /// All members are done.
    Succeeded,
    /// All members are settled, and one at least is dead.
    Failed,
    /// Somebody ended it before that.
    Cancelled,
}

impl JoinState {
    /// The number by which stores keep it.
    #[must_use]
    pub fn code(self) -> i16 {
        match self {
            Self::Open => 0,
            Self::Succeeded => 1,
            Self::Failed => 2,
            Self::Cancelled => 3,
        }
    }

    /// The state with this number.
    #[must_use]
    pub fn from_code(code: i16) -> Option<Self> {
        [Self::Open, Self::Succeeded, Self::Failed, Self::Cancelled]
            .into_iter()
            .find(|state| state.code() == code)
    }

    /// In a word, for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// What a join comes to that counts so many members; `Open` when some are missing.
    #[must_use]
    pub fn of_counts(expected: u32, done: u32, dead: u32) -> Self {
        match (done + dead == expected, dead) {
            (false, _) => Self::Open,
            (true, 0) => Self::Succeeded,
            (true, _) => Self::Failed,
        }
    }
}

/// A join as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JoinRecord {
    /// The identity.
    pub id: JoinId,
    /// The state.
    pub state: JoinState,
    /// How many members it waits for.
    pub expected: u32,
    /// How many it has.
    pub attached: u32,
    /// How many of them are done.
    pub done: u32,
    /// How many of them are dead.
    pub dead: u32,
    /// When it was started.
    pub created_at: Timestamp,
    /// When it succeeded, failed or was cancelled.
    pub ended_at: Option<Timestamp>,
    /// The message that its end published.
    pub follow_up: Option<MessageId>,
}

/// How a member counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberOutcome {
    /// Delivered.
    Done,
    /// A dead letter.
    Dead,
}

impl MemberOutcome {
    /// The number by which stores keep it.
    #[must_use]
    pub fn code(self) -> i16 {
        match self {
            Self::Done => 1,
            Self::Dead => 2,
        }
    }

    /// The outcome with this number.
    #[must_use]
    pub fn from_code(code: i16) -> Option<Self> {
        [Self::Done, Self::Dead].into_iter().find(|outcome| outcome.code() == code)
    }
}

/// A member of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct JoinMember {
    /// The message; it may be purged by now.
    pub message: MessageId,
    /// How it counted; nothing while it is not settled, or was not when the join was cancelled.
    pub outcome: Option<MemberOutcome>,
}

/// A filter and a page of joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListJoins {
    /// Only these.
    pub state: Option<JoinState>,
    /// Older than this join, the last of the page before.
    pub before: Option<JoinId>,
    /// How many at most. Default 50; at most 500.
    pub limit: u32,
}

impl Default for ListJoins {
    fn default() -> Self {
        Self { state: None, before: None, limit: 50 }
    }
}

/// What a store found about one [`Attach`], with everything locked that could change it. For
/// stores.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    /// The join: state, members expected, members attached.
    pub join: Option<(JoinState, u32, u32)>,
    /// Whether it is a member already; if so, whether as a message of this box.
    pub member: Option<bool>,
    /// The message.
    pub message: Standing,
}

impl Sight {
    /// From what a store keeps: the join's state, members expected and attached; whether the member
    /// is one already, and of the inbox; and the message's state, 0 while it is live.
    #[must_use]
    pub fn of_codes(
        join: Option<(i16, u32, u32)>,
        member_in_inbox: Option<bool>,
        standing: Option<i16>,
        in_inbox: bool,
    ) -> Self {
        let known = |(code, expected, attached)| {
            JoinState::from_code(code).map(|state| (state, expected, attached))
        };
        let message = match standing {
            None => Standing::Gone,
            Some(code) => MemberOutcome::from_code(code).map_or(Standing::Live, Standing::Settled),
        };
        let member = member_in_inbox.map(|member| member == in_inbox);
        Self { join: join.and_then(known), member, message }
    }
}

/// Where a message stands that is to be a member. For stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is not in this box: never was, or is deleted.
    Gone,
    /// It is not settled.
    Live,
    /// It is settled, and counts at once.
    Settled(MemberOutcome),
}

/// A member that is to be written. For stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewMember {
    /// The join.
    pub join: JoinId,
    /// The message.
    pub message: MessageId,
    /// How it counts already.
    pub outcome: Option<MemberOutcome>,
}

/// Which of the attaches are new members, given what a store sees of each. For stores: so the same
/// is refused everywhere, in the same words.
///
/// # Errors
/// `Join` for the first one that is refused. Then nothing may be written.
pub fn admit_members(attaches: &[Attach], sights: &[Sight]) -> Result<Vec<NewMember>> {
    let mut seen = HashSet::with_capacity(attaches.len());
    let mut added: HashMap<JoinId, u32> = HashMap::new();
    let mut members = Vec::with_capacity(attaches.len());
    for (&Attach { join, message, .. }, sight) in attaches.iter().zip(sights) {
        let Some((state, expected, attached)) = sight.join else {
            return Err(refusal(join, "does not exist"));
        };
        match sight.member {
            Some(true) => continue,
            Some(false) => {
                let why = format_args!("has {message} as a member from the other box");
                return Err(refusal(join, why));
            }
            None if !seen.insert((join, message)) => continue,
            None => {}
        }
        if state != JoinState::Open {
            let why = format_args!("has {} and takes no more members", ended(state));
            return Err(refusal(join, why));
        }
        let outcome = match sight.message {
            Standing::Live => None,
            Standing::Settled(outcome) => Some(outcome),
            Standing::Gone => {
                let why = format_args!("can not have {message} as a member: no such message");
                return Err(refusal(join, why));
            }
        };
        let added = added.entry(join).or_default();
        *added += 1;
        if attached + *added > expected {
            let why = format_args!("expects {expected} members and has no place for {message}");
            return Err(refusal(join, why));
        }
        members.push(NewMember { join, message, outcome });
    }
    Ok(members)
}

fn ended(state: JoinState) -> &'static str {
    match state {
        JoinState::Cancelled => "been cancelled",
        other => other.as_str(),
    }
}

fn refusal(join: JoinId, why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Join, format!("join {join} {why}"))
}

/// The error of [`start_join`](super::TransactionalStore::start_join) for an id with other content.
#[must_use]
pub fn join_id_taken(id: JoinId) -> Error {
    let problem = format!("join id {id} belongs to a join with other content; use a fresh id");
    Error::new(ErrorKind::IdTaken, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(attached: u32) -> Sight {
        let join = Some((JoinState::Open, 2, attached));
        Sight { join, member: None, message: Standing::Live }
    }

    fn admitted(messages: &[MessageId], sights: &[Sight]) -> Result<Vec<NewMember>> {
        let join = JoinId::new();
        let attach = |message: &MessageId| Attach { join, message: *message, fresh: false };
        admit_members(&messages.iter().map(attach).collect::<Vec<_>>(), sights)
    }

    #[test]
    fn join_1_a_message_that_is_named_twice_takes_one_place() {
        let (a, b) = (MessageId::new(), MessageId::new());
        assert_eq!(admitted(&[a, a, b], &[sight(0); 3]).expect("fits").len(), 2);
        let error = admitted(&[a, b], &[sight(1); 2]).expect_err("one too many");
        assert_eq!(error.kind(), ErrorKind::Join);
        assert!(error.to_string().contains(&b.to_string()), "{error}");
    }

    #[test]
    fn join_1_a_member_stays_one_whatever_became_of_the_join() {
        let ended = Sight {
            join: Some((JoinState::Failed, 1, 1)),
            member: Some(true),
            message: Standing::Gone,
        };
        assert_eq!(admitted(&[MessageId::new()], &[ended]).expect("is one already"), []);
        let other_box = Sight { member: Some(false), ..ended };
        assert!(admitted(&[MessageId::new()], &[other_box]).is_err());
    }

    #[test]
    fn join_1_it_ends_when_all_are_settled_and_not_before() {
        assert_eq!(JoinState::of_counts(3, 2, 0), JoinState::Open);
        assert_eq!(JoinState::of_counts(3, 3, 0), JoinState::Succeeded);
        assert_eq!(JoinState::of_counts(3, 1, 2), JoinState::Failed);
    }
}
