//! Who wants to know which stores are served here.

use super::StoreId;

/// Is told of stores as they come and go, such as a dashboard that shows them. It is called between
/// two steps of a store's work: be quick.
///
/// When a store moves, the new one may be served before the old one is closed.
pub trait Watcher<O>: Send + Sync + 'static {
    /// Its messages are delivered here from now on. After a while in another process it is told
    /// again, with the same handle.
    fn is_served(&self, store: &StoreId, opened: &O);

    /// One that was served is not listed any more, and its handle is closed next. At the end of the
    /// whole fleet handles stay open, and nothing is told.
    fn is_gone(&self, store: &StoreId, opened: &O);
}
