//! The time of claims, taken around a store.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use postroom_core::Result;
use postroom_core::store::{BoxFuture, Claimed};
use postroom_testkit::around::Around;

use crate::lock;

/// A claim that was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) took: Duration,
    pub(crate) items: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Times(Mutex<Vec<Taken>>);

impl Times {
    /// The claims since the last call.
    pub(crate) fn take(&self) -> Vec<Taken> {
        std::mem::take(&mut *lock(&self.0))
    }
}

impl Around for Times {
    fn claim<'a>(&'a self, call: BoxFuture<'a, Result<Claimed>>) -> BoxFuture<'a, Result<Claimed>> {
        Box::pin(async move {
            let began = Instant::now();
            let claimed = call.await?;
            let taken = Taken { took: began.elapsed(), items: claimed.items.len() };
            lock(&self.0).push(taken);
            Ok(claimed)
        })
    }
}
