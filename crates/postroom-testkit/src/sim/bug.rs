//! Bugs to plant, so that a checker can show that it finds them.

/// A bug that a [`SimStore`](crate::SimStore) or the [simulation](crate::simulation) can be given.
///
/// Each is a mistake that somebody has made, or could make, in a store, a driver or a dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// A settle is taken from anybody.
    NoFence,
    /// A settle is fenced by the owner's name, not by the token of the claim.
    FenceByOwner,
    /// All claims of an owner have one token.
    TokenReused,
    /// An expired lease can be renewed.
    RenewsExpired,
    /// The clock of a claim is ahead: it takes over leases that are alive.
    EarlyTakeover,
    /// Expired leases are taken over by nobody.
    NeverTakesOver,
    /// A lost lease leaves no mark.
    LostNotCounted,
    /// A claim counts as an attempt.
    ClaimCountsAttempt,
    /// A row is born ready although it was asked for, and answered, as leased.
    BornReady,
    /// A key is open although its first row is leased or waits.
    HeadIgnored,
    /// An ordered row that waits for a retry lets the next one pass.
    RetryLeavesQueue,
    /// A suspect is leased with a run behind it.
    SuspectInRun,
    /// A dead row does not stop its key, although the store was set up so.
    HaltForgotten,
    /// A release is acknowledged and not carried out.
    ReleaseIgnored,
    /// A rollback leaves the rows.
    RollbackKeepsRows,
    /// Idempotency keys are not looked at.
    KeysIgnored,
    /// COMMIT is answered before it happens.
    AnswersBeforeCommit,
    /// COMMIT of an aborted transaction is answered as if it had committed.
    CommitHidesRollback,
    /// A settle is answered before it happens, so the next of a key starts too early.
    AnswersBeforeSettle,
    /// A handler is acknowledged before it is done.
    AcksBeforeHandling,
    /// The deadline of a lease counts from the answer to the claim, not from its question.
    LateDeadline,
    /// A delivery after the first has other bytes.
    ChangesPayload,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::NoFence,
        Self::FenceByOwner,
        Self::TokenReused,
        Self::RenewsExpired,
        Self::EarlyTakeover,
        Self::NeverTakesOver,
        Self::LostNotCounted,
        Self::ClaimCountsAttempt,
        Self::BornReady,
        Self::HeadIgnored,
        Self::RetryLeavesQueue,
        Self::SuspectInRun,
        Self::HaltForgotten,
        Self::ReleaseIgnored,
        Self::RollbackKeepsRows,
        Self::KeysIgnored,
        Self::AnswersBeforeCommit,
        Self::CommitHidesRollback,
        Self::AnswersBeforeSettle,
        Self::AcksBeforeHandling,
        Self::LateDeadline,
        Self::ChangesPayload,
    ];
}
