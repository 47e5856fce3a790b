//! Interceptors around the sink's call.

use tokio::time::timeout;

use super::Engine;
use crate::handler::{outcome_of, without_panic};
use crate::lifecycle::Outcome;
use crate::sink::Delivery;

impl Engine {
    /// Calls the sink with what no interceptor refuses. One outcome per delivery.
    pub(super) async fn intercepted(&self, deliveries: &[Delivery]) -> Vec<Outcome> {
        for interceptor in &self.interceptors {
            interceptor.call_begins(deliveries);
        }
        let mut refused = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            refused.push(self.refusal(delivery).await);
        }
        let open = deliveries.iter().zip(&refused).filter(|(_, refused)| refused.is_none());
        let open: Vec<_> = open.map(|(delivery, _)| delivery.clone()).collect();
        let answers = if open.is_empty() { Vec::new() } else { self.sink.deliver(&open).await };
        let missing = || Outcome::Failed("the sink gave no answer for this message".to_owned());
        let mut answers = answers.into_iter().chain(std::iter::repeat_with(missing));
        refused.into_iter().filter_map(|refused| refused.or_else(|| answers.next())).collect()
    }

    async fn refusal(&self, delivery: &Delivery) -> Option<Outcome> {
        for interceptor in &self.interceptors {
            match outcome_of(interceptor.before(delivery).await) {
                Outcome::Done => {}
                refused => return Some(refused),
            }
        }
        None
    }

    /// Tells what came of it. Nothing that happens here changes that.
    pub(super) async fn after(&self, deliveries: &[Delivery], outcomes: &[Outcome]) {
        for interceptor in self.interceptors.iter().rev() {
            for (delivery, outcome) in deliveries.iter().zip(outcomes) {
                let after = without_panic(async { interceptor.after(delivery, outcome).await });
                if let Ok(Err(panic)) = timeout(self.config.handler_timeout, after).await {
                    self.observer().interceptor_panicked(delivery.message(), &panic);
                }
            }
            let ended = without_panic(async { interceptor.call_ended(deliveries, outcomes) });
            if let (Err(panic), Some(first)) = (ended.await, deliveries.first()) {
                self.observer().interceptor_panicked(first.message(), &panic);
            }
        }
    }
}
