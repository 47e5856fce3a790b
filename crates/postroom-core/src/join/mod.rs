//! Joins: a follow-up message when a number of messages have all been settled.

mod staged;

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind, Result};
use crate::event::IntoMessage;
use crate::ids::{JoinId, MessageId};
use crate::message::Message;
use crate::outbox::Outbox;
use crate::store::{Attach, TransactionalStore};
pub(crate) use staged::StagedJoins;

/// A join: so many members, and what is published once all of them are done or dead.
///
/// When every member is done, the follow-up of success is published; when at least one is dead, the
/// one of failure. Either may be missing. The follow-up is written in the transaction that settles
/// the last member, once, into the outbox, and is a message like any other from then on.
///
/// Members are attached by message id, in the publishing transaction or later, up to the number
/// expected; what is settled already counts at once. A join that has ended is final. Before that, a
/// dead member that is replayed is open again.
///
/// ```
/// # use postroom_core::{Join, JoinId, Message, Outbox, Result, store::TransactionalStore};
/// async fn order_report<S: TransactionalStore>(outbox: &Outbox<S>) -> Result<JoinId> {
///     let mut tx = outbox.begin().await?;
///     let join = tx.start_join(
///         Join::expecting(2)
///             .on_success(Message::builder("report.ready").payload(r#"{"report":7}"#))
///             .on_failure(Message::builder("report.failed").payload(r#"{"report":7}"#)),
///     )?;
///     for part in 1..=2 {
///         let id = tx.publish(Message::builder("report.part").payload(part.to_string()))?;
///         tx.attach(join, id);
///     }
///     tx.commit().await?;
///     Ok(join)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join(Arc<Fields>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fields {
    id: JoinId,
    expected: u32,
    success: Option<Message>,
    failure: Option<Message>,
}

impl Join {
    /// The most members of a join.
    pub const MAX_MEMBERS: u32 = 1_000_000;

    /// Starts a join of this many members, 1 to [`MAX_MEMBERS`](Self::MAX_MEMBERS).
    pub fn expecting(members: u32) -> JoinBuilder {
        let fields = match members {
            1..=Self::MAX_MEMBERS => {
                Ok(Fields { id: JoinId::new(), expected: members, success: None, failure: None })
            }
            _ => {
                let allowed = format_args!("1 to {}", Self::MAX_MEMBERS).to_string();
                Err(Error::limit("expected members", allowed, members))
            }
        };
        JoinBuilder { fields }
    }

    /// The identity.
    #[must_use]
    pub fn id(&self) -> JoinId {
        self.0.id
    }

    /// How many members it waits for.
    #[must_use]
    pub fn expected(&self) -> u32 {
        self.0.expected
    }

    /// What is published when all members are done.
    #[must_use]
    pub fn success(&self) -> Option<&Message> {
        self.0.success.as_ref()
    }

    /// What is published when one at least is dead.
    #[must_use]
    pub fn failure(&self) -> Option<&Message> {
        self.0.failure.as_ref()
    }

    /// What was said, as a hash, without the ids and the trace context: those differ between two
    /// tries to say the same thing.
    #[must_use]
    pub fn content_hash(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.expected().to_be_bytes());
        for follow_up in [self.success(), self.failure()] {
            hash.update([u8::from(follow_up.is_some())]);
            hash.update(follow_up.map_or([0; 32], Message::content_hash));
        }
        hash.finalize().into()
    }

    /// The same join with its follow-ups changed.
    pub(crate) fn map_follow_ups(
        self,
        change: impl Fn(Message) -> Result<Message>,
    ) -> Result<Self> {
        let fields = Arc::unwrap_or_clone(self.0);
        Ok(Self(Arc::new(Fields {
            success: fields.success.map(&change).transpose()?,
            failure: fields.failure.map(&change).transpose()?,
            ..fields
        })))
    }
}

/// Collects what a [`Join`] is made of; starting it reports the first thing that is wrong.
#[derive(Debug)]
#[must_use]
pub struct JoinBuilder {
    fields: Result<Fields>,
}

impl JoinBuilder {
    fn set(mut self, change: impl FnOnce(&mut Fields) -> Result<()>) -> Self {
        if let Ok(fields) = &mut self.fields
            && let Err(error) = change(fields)
        {
            self.fields = Err(error);
        }
        self
    }

    /// Chooses the id, so that starting it a second time is known as the same. Without it the join
    /// gets a fresh UUIDv7.
    pub fn id(self, id: JoinId) -> Self {
        self.set(|fields| {
            fields.id = id;
            Ok(())
        })
    }

    /// Published when all members are done.
    ///
    /// A follow-up is born when the join ends, so it has no due time, no expiry, no time at which
    /// it occurred and no idempotency key of its own: those are refused.
    pub fn on_success(self, message: impl IntoMessage) -> Self {
        self.set(|fields| {
            fields.success = Some(follow_up("success", message)?);
            Ok(())
        })
    }

    /// Published when all members are settled and one of them at least is dead. As for
    /// [`on_success`](Self::on_success).
    pub fn on_failure(self, message: impl IntoMessage) -> Self {
        self.set(|fields| {
            fields.failure = Some(follow_up("failure", message)?);
            Ok(())
        })
    }

    /// Finishes the join.
    ///
    /// # Errors
    /// `Invalid` for the number of members or for a follow-up that can not be one; `Invalid` or
    /// `Codec` for a follow-up that is not even a message.
    pub fn build(self) -> Result<Join> {
        self.fields.map(|fields| Join(Arc::new(fields)))
    }
}

fn follow_up(which: &str, message: impl IntoMessage) -> Result<Message> {
    let message = message.into_message()?;
    let given = [
        ("due time", message.due().is_some()),
        ("expiry", message.expires().is_some()),
        ("idempotency key", message.idempotency_key().is_some()),
        ("time of occurrence", message.occurred_at().is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        None => Ok(message),
        Some((field, _)) => Err(Error::new(
            ErrorKind::Invalid,
            format!("the {which} follow-up of a join must have no {field}: it is born at the end"),
        )),
    }
}

/// What can be started: a [`JoinBuilder`] or a [`Join`].
pub trait IntoJoin {
    /// Turns it into a join.
    ///
    /// # Errors
    /// As [`JoinBuilder::build`].
    fn into_join(self) -> Result<Join>;
}

impl IntoJoin for JoinBuilder {
    fn into_join(self) -> Result<Join> {
        self.build()
    }
}

impl IntoJoin for Join {
    fn into_join(self) -> Result<Join> {
        Ok(self)
    }
}

impl IntoJoin for &Join {
    fn into_join(self) -> Result<Join> {
        Ok(self.clone())
    }
}

impl<S: TransactionalStore> Outbox<S> {
    /// Builds the join and applies the limits that are the outbox's own.
    pub(crate) fn check_join(&self, join: impl IntoJoin) -> Result<Join> {
        join.into_join()?.map_follow_ups(|message| self.check(message))
    }

    /// Starts a join inside a transaction of the driver. Answers whether it is new: starting it
    /// again with the same id and equal content changes nothing.
    ///
    /// # Errors
    /// `Invalid` or `Codec` before anything is written, `NotInTransaction` when the connection has
    /// no open transaction, `IdTaken` when the id belongs to a join with other content. In all of
    /// these cases your transaction stays usable.
    pub async fn start_join_in(&self, conn: &mut S::Conn, join: impl IntoJoin) -> Result<bool> {
        let join = self.check_join(join)?;
        self.store().require_transaction(conn).await?;
        self.store().start_join(conn, &join).await
    }

    /// Makes messages of this box members of a join, inside a transaction of the driver. What is
    /// settled already counts at once. A message that is a member already stays one.
    ///
    /// Until you commit, settles of these messages and of other members of the join wait, so attach
    /// late. A [`wake`](Self::wake) after the commit makes the delivery of a follow-up immediate.
    ///
    /// # Errors
    /// `Join` when the join is not there, has ended or is full, or when a message is not there;
    /// `NotInTransaction` when the connection has no open transaction. Then nothing was written and
    /// your transaction stays usable.
    pub async fn attach_in(
        &self,
        conn: &mut S::Conn,
        join: JoinId,
        messages: &[MessageId],
    ) -> Result<()> {
        self.store().require_transaction(conn).await?;
        let attach = |message: &MessageId| Attach { join, message: *message, fresh: false };
        let attaches: Vec<_> = messages.iter().map(attach).collect();
        self.store().attach(conn, &attaches).await
    }

    /// Makes messages of this box members of a join, in a transaction of its own.
    ///
    /// # Errors
    /// As [`attach_in`](Self::attach_in), else as
    /// [`OutboxTransaction::commit`](crate::OutboxTransaction::commit).
    pub async fn attach(&self, join: JoinId, messages: &[MessageId]) -> Result<()> {
        let mut tx = self.begin().await?;
        for message in messages {
            tx.attach(join, *message);
        }
        tx.commit().await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::builder::MessageBuilder;

    fn refused(builder: JoinBuilder) -> String {
        let error = builder.build().expect_err("can not be started");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    }

    #[test]
    fn join_1_the_number_of_members_is_bounded() {
        for fits in [1, Join::MAX_MEMBERS] {
            assert_eq!(Join::expecting(fits).build().expect("legal").expected(), fits);
        }
        for (n, got) in [(0, "got 0"), (1_000_001, "got 1000001")] {
            let text = refused(Join::expecting(n));
            assert!(text.starts_with("expected members must be 1 to 1000000"), "{text}");
            assert!(text.ends_with(got), "{text}");
        }
    }

    #[test]
    fn join_1_a_follow_up_has_no_time_and_no_key_of_its_own() {
        let of = || Message::builder("t");
        let refusals: [(&str, MessageBuilder); 4] = [
            ("due time", of().due_after(Duration::from_secs(1))),
            ("expiry", of().expires_after(Duration::from_secs(1))),
            ("idempotency key", of().idempotency_key(uuid::Uuid::from_u128(1))),
            ("time of occurrence", of().occurred_at(SystemTime::UNIX_EPOCH)),
        ];
        for (field, message) in refusals {
            let text = refused(Join::expecting(1).on_failure(message));
            assert!(text.contains(&format!("failure follow-up of a join must have no {field}")));
        }
        let text = refused(Join::expecting(1).on_success(Message::builder("")));
        assert!(text.starts_with("topic"), "{text}");
    }

    #[test]
    fn join_1_equal_content_is_known_whatever_the_ids() {
        let of = |n, topic: &str| Join::expecting(n).on_success(Message::builder(topic));
        let hash = |builder: JoinBuilder| builder.build().expect("legal").content_hash();
        assert_eq!(hash(of(2, "a")), hash(of(2, "a")));
        let failing = Join::expecting(2).on_failure(Message::builder("a"));
        for other in [of(3, "a"), of(2, "b"), Join::expecting(2), failing] {
            assert_ne!(hash(of(2, "a")), hash(other));
        }
    }
}
