//! Finds the outbox of a tenant.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use super::Stores;
use crate::error::{Error, ErrorKind, Result};
use crate::outbox::{Outbox, OutboxConfig};
use crate::store::TransactionalStore;

/// What a message's store is found by: a tenant's name or number, usually.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RoutingKey(String);

impl RoutingKey {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for RoutingKey {
    fn from(key: &str) -> Self {
        Self(key.to_owned())
    }
}

impl From<String> for RoutingKey {
    fn from(key: String) -> Self {
        Self(key)
    }
}

/// As it is usually written: lower case, with hyphens.
impl From<Uuid> for RoutingKey {
    fn from(key: Uuid) -> Self {
        Self(key.hyphenated().to_string())
    }
}

/// Gives out the outboxes of many stores by routing key. Cheap to clone.
///
/// A key leads to exactly one store or to an error: one that nobody lists, and one that two list,
/// is refused, so that a message never lands in somebody else's database. A business change and its
/// event are one transaction in one database; what spans two of them is two messages, the second
/// published by the handler of the first.
pub struct Router<P, S> {
    stores: Stores<P, S>,
    config: Arc<OutboxConfig>,
}

impl<P, S> Router<P, S>
where
    P: Clone + PartialEq + Send + Sync + 'static,
    S: TransactionalStore + Clone,
{
    /// A router over these stores.
    #[must_use]
    pub fn new(stores: Stores<P, S>) -> Self {
        Self { stores, config: Arc::default() }
    }

    /// Other settings for the outboxes.
    ///
    /// # Errors
    /// `Invalid` when one is out of bounds.
    pub fn config(mut self, config: OutboxConfig) -> Result<Self> {
        config.validate()?;
        self.config = Arc::new(config);
        Ok(self)
    }

    /// The outbox of the store that has this key. A key that is not known is looked for in a list
    /// that is at most a moment old, so a new tenant needs no restart.
    ///
    /// # Errors
    /// `Invalid` for an empty key, `UnknownStore` when no store has it or several have; what
    /// discovery and opening say.
    pub async fn outbox(&self, key: impl Into<RoutingKey>) -> Result<Outbox<S>> {
        let key = key.into();
        if key.as_str().is_empty() {
            let hint = "not empty: it says whose message it is";
            return Err(Error::limit("routing key", hint, "an empty one"));
        }
        let (list, at) = match self.stores.find(key.as_str())? {
            Some(found) => found,
            None => {
                self.stores.look_lately().await?;
                self.stores.find(key.as_str())?.ok_or_else(|| unknown(&key))?
            }
        };
        let store = self.stores.open(&list[at]).await?;
        Ok(Outbox::with(Arc::new(store), Arc::clone(&self.config)))
    }
}

fn unknown(key: &RoutingKey) -> Error {
    let what = format!(
        "no store has the routing key {:?}; add it to where stores are listed",
        key.as_str()
    );
    Error::new(ErrorKind::UnknownStore, what)
}

impl<P, S> Clone for Router<P, S> {
    fn clone(&self) -> Self {
        Self { stores: self.stores.clone(), config: Arc::clone(&self.config) }
    }
}

impl<P, S> fmt::Debug for Router<P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("stores", &self.stores).finish_non_exhaustive()
    }
}
