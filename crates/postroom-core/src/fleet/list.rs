//! Which stores there are.

use crate::error::Result;
use crate::store::BoxFuture;
use crate::text::StoreId;

/// A store as a [`Discovery`] lists it. `P` is what it takes to open it, such as a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<P> {
    /// What it is called, for ever.
    pub id: StoreId,
    /// Where it is.
    pub place: P,
    /// How much it is to get compared with others, where a strategy asks; at least 1.
    pub weight: u32,
    /// The routing keys of its messages. Without any it is the id.
    pub keys: Vec<String>,
}

impl<P> Listed<P> {
    /// A store with weight 1 whose routing key is its id.
    pub fn new(id: StoreId, place: P) -> Self {
        Self { id, place, weight: 1, keys: Vec::new() }
    }

    /// The routing keys of its messages.
    pub(super) fn routing_keys(&self) -> impl Iterator<Item = &str> {
        let id = self.keys.is_empty().then_some(self.id.as_str());
        id.into_iter().chain(self.keys.iter().map(String::as_str))
    }
}

/// Says which stores there are. It is asked again and again; an error leaves everything as it is.
pub trait Discovery<P>: Send + Sync + 'static {
    /// All stores there are now.
    fn discover(&self) -> BoxFuture<'_, Result<Vec<Listed<P>>>>;
}

/// A list that never changes.
impl<P: Clone + Send + Sync + 'static> Discovery<P> for Vec<Listed<P>> {
    fn discover(&self) -> BoxFuture<'_, Result<Vec<Listed<P>>>> {
        Box::pin(std::future::ready(Ok(self.clone())))
    }
}

/// Several sources as one list, in their order.
impl<P: Send + Sync + 'static> Discovery<P> for Vec<Box<dyn Discovery<P>>> {
    fn discover(&self) -> BoxFuture<'_, Result<Vec<Listed<P>>>> {
        Box::pin(async move {
            let mut all = Vec::new();
            for source in self {
                all.extend(source.discover().await?);
            }
            Ok(all)
        })
    }
}
