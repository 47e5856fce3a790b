//! One store of a running fleet, and how it is.

use std::fmt;
use std::sync::Mutex;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::stores::lock;
use super::{Listed, StoreId};

/// How a store of a fleet is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberState {
    /// It is being opened, or waits for that.
    Opening,
    /// Its messages are delivered here.
    Serving,
    /// Another process delivers its messages.
    Elsewhere,
    /// It is the same database as another one of the list, which is served.
    SameAs(StoreId),
    /// It can not be opened; that is tried again.
    Failing(String),
    /// It is not listed any more, or moves: what is under way is finished.
    Draining,
}

impl fmt::Display for MemberState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opening => f.write_str("opening"),
            Self::Serving => f.write_str("serving"),
            Self::Elsewhere => f.write_str("served by another process"),
            Self::SameAs(other) => write!(f, "the same database as {other}"),
            Self::Failing(why) => write!(f, "failing: {why}"),
            Self::Draining => f.write_str("draining"),
        }
    }
}

/// A store of a fleet and how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Which one.
    pub id: StoreId,
    /// How it is.
    pub state: MemberState,
}

/// A store that is looked after until it is told to stop.
#[derive(Debug)]
pub(super) struct Member<P> {
    pub(super) listed: Listed<P>,
    /// It is not listed any more.
    pub(super) gone: CancellationToken,
    /// Whether this process is to serve it.
    pub(super) mine: watch::Sender<bool>,
    state: Mutex<MemberState>,
}

impl<P> Member<P> {
    pub(super) fn new(listed: Listed<P>, gone: CancellationToken, mine: bool) -> Self {
        let state = if mine { MemberState::Opening } else { MemberState::Elsewhere };
        let (mine, _) = watch::channel(mine);
        Self { listed, gone, mine, state: Mutex::new(state) }
    }

    pub(super) fn status(&self) -> MemberStatus {
        MemberStatus { id: self.listed.id.clone(), state: lock(&self.state).clone() }
    }

    /// Takes note of how it is now; what is news is logged.
    pub(super) fn is_now(&self, state: MemberState) {
        let before = {
            let mut now = lock(&self.state);
            // Another try says nothing yet.
            if state == MemberState::Opening && matches!(*now, MemberState::Failing(_)) {
                return;
            }
            std::mem::replace(&mut *now, state.clone())
        };
        if before == state {
            return;
        }
        let store = &self.listed.id;
        match &state {
            // The same trouble in other words is no news.
            MemberState::Failing(_) if matches!(before, MemberState::Failing(_)) => {}
            MemberState::Failing(why) => {
                tracing::warn!(%store, error = %why, "FLEET_STORE_FAILING")
            }
            MemberState::Serving => tracing::info!(%store, "FLEET_STORE_SERVED"),
            other => tracing::debug!(%store, state = %other, "FLEET_STORE_STATE"),
        }
    }

    /// Resolves when this process is to serve it; `false` when it is gone.
    pub(super) async fn is_mine(&self) -> bool {
        self.until(true).await
    }

    /// Resolves when this process is not to serve it any more, or it is gone.
    pub(super) async fn is_lost(&self) {
        self.until(false).await;
    }

    /// Whether that came before its end.
    async fn until(&self, wanted: bool) -> bool {
        let mut mine = self.mine.subscribe();
        tokio::select! {
            biased;
            () = self.gone.cancelled() => false,
            changed = mine.wait_for(|mine| *mine == wanted) => changed.is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fleet_2_a_store_that_is_tried_again_is_still_failing() {
        let id = StoreId::new("a").expect("legal");
        let member = Member::new(Listed::new(id, ()), CancellationToken::new(), true);
        assert_eq!(member.status().state, MemberState::Opening);
        let failing = MemberState::Failing("it is away".to_owned());
        for state in [failing.clone(), MemberState::Opening] {
            member.is_now(state);
            assert_eq!(member.status().state, failing);
        }
        member.is_now(MemberState::Serving);
        assert_eq!(member.status().state, MemberState::Serving);
    }
}
