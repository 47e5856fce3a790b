//! Opens the stores of a fleet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use postroom::fleet::{Listed, Opener, StoreId};
use postroom::store::BoxFuture;
use postroom::{Error, ErrorKind};

use super::Place;
use crate::failure::{Exit, Failure};
use crate::store::{Access, OpenStore, Target};

/// How many are opened at the same time at the start.
const OPENED_AT_ONCE: usize = 8;

/// Opens stores: those that stand in the file at once, so that one which can not be used is told
/// when the relay starts, and all others when the fleet asks for them.
#[derive(Clone, Default)]
pub(crate) struct Keeper {
    /// Opened, and not asked for yet.
    ready: Arc<Mutex<HashMap<StoreId, OpenStore>>>,
}

impl Keeper {
    /// Opens what stands in the file, in its order.
    pub(crate) async fn open_all(
        &self,
        stores: &[Listed<Place>],
    ) -> Result<Vec<(StoreId, OpenStore)>, Failure> {
        let one = |listed: Listed<Place>| async move {
            let opened = open(&listed.place, Access::Write).await;
            let named = |failure: Failure| failure.inside(&format!("store {}", listed.id));
            opened.map(|opened| (listed.id.clone(), opened)).map_err(named)
        };
        let opening = stream::iter(stores.to_vec()).map(one).buffered(OPENED_AT_ONCE);
        let opened: Vec<_> = opening.try_collect().await?;
        self.keep(&opened);
        Ok(opened)
    }

    /// Has these ready for the fleet.
    pub(crate) fn keep(&self, opened: &[(StoreId, OpenStore)]) {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.extend(opened.iter().cloned());
    }

    fn take(&self, id: &StoreId) -> Option<OpenStore> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }
}

/// The one way to a store that is served. What goes wrong never quotes a password.
async fn open(target: &Target, access: Access) -> Result<OpenStore, Failure> {
    target.open(access).await.map_err(|failure| failure.map(|text| target.url().scrub(text)))
}

impl Opener<Place, OpenStore> for Keeper {
    fn open<'a>(&'a self, listed: &'a Listed<Place>) -> BoxFuture<'a, postroom::Result<OpenStore>> {
        Box::pin(async move {
            match self.take(&listed.id) {
                Some(opened) => Ok(opened),
                // A file that is gone must not come back empty.
                None => open(&listed.place, Access::Existing).await.map_err(as_error),
            }
        })
    }
}

fn as_error(failure: Failure) -> Error {
    let kind = match failure.exit() {
        Exit::Invalid => ErrorKind::Invalid,
        Exit::Schema => ErrorKind::Schema,
        Exit::Unavailable => ErrorKind::Unavailable,
        _ => ErrorKind::Database,
    };
    Error::new(kind, failure.in_one_line())
}
