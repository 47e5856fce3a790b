//! One connection for many sends: made when it is needed, left when it is doubtful.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postroom_core::observe::Circuit;
use tokio::time::timeout;

use crate::breaker::Breaker;
use crate::fault::Fault;

/// A connection that can say whether it is still one.
pub(crate) trait Connection: Send + Sync {
    /// Whether a send may begin on it.
    fn is_alive(&self) -> bool;
}

/// The current connection to a broker.
///
/// A send that gets no answer leaves its connection in [doubt](Self::doubt): whoever comes next
/// makes a new one, and when that fails nothing was sent and nothing is counted. So a network that
/// swallows everything costs those messages an attempt that were on their way, and no others. Sends
/// that are under way on the old connection end there.
#[derive(Debug)]
pub(crate) struct Link<C> {
    breaker: Breaker,
    limit: Duration,
    current: Mutex<Option<Arc<C>>>,
    connecting: tokio::sync::Mutex<()>,
}

impl<C: Connection> Link<C> {
    /// To the broker with this name, for sends that may take `timeout`. Connecting may take half of
    /// that, so that a send which waits for it still learns that nothing was sent.
    pub(crate) fn new(name: &str, timeout: Duration) -> Self {
        Self {
            breaker: Breaker::new(name),
            limit: timeout / 2,
            current: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        }
    }

    /// The connection, made by `connect` if there is none. Many that ask at once share one attempt.
    ///
    /// # Errors
    /// [`Fault::Unreachable`] when there is nobody.
    pub(crate) async fn get<F>(&self, connect: impl FnOnce() -> F) -> Result<Arc<C>, Fault>
    where
        F: Future<Output = Result<C, String>>,
    {
        if let Some(connection) = self.alive() {
            return Ok(connection);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(connection) = self.alive() {
            return Ok(connection);
        }
        self.breaker.check()?;
        let limit = self.limit;
        let made = timeout(limit, connect()).await;
        match made.unwrap_or_else(|_| Err(format!("no connection within {limit:?}"))) {
            Ok(connection) => {
                self.breaker.reached();
                let connection = Arc::new(connection);
                *self.lock() = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(why) => Err(self.breaker.missed(why)),
        }
    }

    /// Begins a send. Unless it is told of an answer, the connection is left when it is dropped.
    pub(crate) fn doubt<'a>(&'a self, connection: &'a Arc<C>) -> Doubt<'a, C> {
        Doubt { link: self, connection, answered: false }
    }

    /// Whether anybody may try now.
    pub(crate) fn circuit(&self) -> Circuit {
        self.breaker.circuit()
    }

    fn alive(&self) -> Option<Arc<C>> {
        let mut current = self.lock();
        if current.as_ref().is_some_and(|connection| !connection.is_alive()) {
            *current = None;
        }
        current.clone()
    }

    fn leave(&self, connection: &Arc<C>) {
        let mut current = self.lock();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            *current = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<C>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A send that waits for its answer. It may be dropped while it waits, when its time is up.
pub(crate) struct Doubt<'a, C: Connection> {
    link: &'a Link<C>,
    connection: &'a Arc<C>,
    answered: bool,
}

impl<C: Connection> Doubt<'_, C> {
    /// The broker said something: the connection works.
    pub(crate) fn answered(mut self) {
        self.answered = true;
    }
}

impl<C: Connection> Drop for Doubt<'_, C> {
    fn drop(&mut self) {
        if !self.answered {
            self.link.leave(self.connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    #[derive(Debug, Default)]
    struct Line {
        number: usize,
        dead: AtomicBool,
    }

    impl Connection for Line {
        fn is_alive(&self) -> bool {
            !self.dead.load(Ordering::Relaxed)
        }
    }

    #[derive(Default)]
    struct Exchange(AtomicUsize);

    impl Exchange {
        async fn connect(&self) -> Result<Line, String> {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
            Ok(Line { number, ..Line::default() })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rly_2_many_sends_share_one_connection_until_it_is_dead() {
        let (link, exchange) = (Link::new("broker", TIMEOUT), Exchange::default());
        let all = join_all((0..50).map(|_| link.get(|| exchange.connect()))).await;
        assert!(all.iter().all(|line| line.as_ref().is_ok_and(|line| line.number == 1)));
        all[0].as_ref().expect("a line").dead.store(true, Ordering::Relaxed);
        assert_eq!(link.get(|| exchange.connect()).await.expect("another").number, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn b34_a_send_without_an_answer_leaves_its_connection_and_no_later_one() {
        let (link, exchange) = (Link::new("broker", TIMEOUT), Exchange::default());
        let first = link.get(|| exchange.connect()).await.expect("a line");
        link.doubt(&first).answered();
        assert_eq!(link.get(|| exchange.connect()).await.expect("the same").number, 1);
        let late = link.doubt(&first);
        drop(link.doubt(&first));
        assert_eq!(link.get(|| exchange.connect()).await.expect("another").number, 2);
        drop(late);
        assert_eq!(link.get(|| exchange.connect()).await.expect("the same").number, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn b34_a_network_that_swallows_everything_is_an_outage_for_all_who_wait() {
        let link = Link::<Line>::new("broker", TIMEOUT);
        let never = || std::future::pending();
        let all = timeout(TIMEOUT, join_all((0..9).map(|_| link.get(never)))).await;
        for answer in all.expect("before the sends run out of time") {
            assert!(matches!(answer, Err(Fault::Unreachable { .. })), "{answer:?}");
        }
    }
}
