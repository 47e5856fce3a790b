//! What sqlx leaves behind when a caller goes away in the middle, and how we avoid it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that is forgotten when it is cancelled.
///
/// Dropping sqlx's half-done SAVEPOINT rolls back the whole transaction behind our back, and the
/// caller's next statements would run outside any. Forgotten, the savepoint is simply there,
/// unused, until the transaction ends.
pub(crate) struct Leaked<F>(Option<Pin<Box<F>>>);

impl<F> Leaked<F> {
    pub(crate) fn new(future: F) -> Self {
        Self(Some(Box::pin(future)))
    }
}

impl<F: Future> Future for Leaked<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let future = self.0.as_mut().expect("not polled again after it was ready");
        let output = std::task::ready!(future.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(output)
    }
}

impl<F> Drop for Leaked<F> {
    fn drop(&mut self) {
        if let Some(future) = self.0.take() {
            std::mem::forget(future);
        }
    }
}
