//! Several sinks behind one dispatcher, chosen by topic.

use std::fmt;
use std::sync::Arc;

use crate::handler::UnknownTopic;
use crate::lifecycle::Outcome;
use crate::pattern::{ByTopic, Topics};
use crate::sink::{Call, Delivery, Sink};
use crate::store::BoxFuture;
use crate::text::Topic;

/// Sinks by topic; a [`Sink`] itself. Each message goes to one of them: that of its exact topic,
/// else that of the first pattern which it fits, else that of `*`.
///
/// ```
/// use postroom_core::{Handlers, Routes};
///
/// # let (broker, archive) = (Handlers::new(), Handlers::new());
/// let mut routes = Routes::new();
/// let broker = routes.sink(broker);
/// let archive = routes.sink(archive);
/// routes.route("order.*", broker);
/// routes.route("*", archive);
/// ```
#[derive(Clone, Default)]
pub struct Routes {
    routes: ByTopic<RouteTo>,
    sinks: Vec<Arc<dyn Sink>>,
    unknown: UnknownTopic,
}

/// A sink of [`Routes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteTo(usize);

impl Routes {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sink, to which routes may lead.
    pub fn sink(&mut self, sink: impl Sink) -> RouteTo {
        self.sinks.push(Arc::new(sink));
        RouteTo(self.sinks.len() - 1)
    }

    /// Sends this topic, or those that fit this pattern, to a sink of these routes. `*` stands for
    /// any characters; alone it is for what no other route takes.
    pub fn route(&mut self, topics: impl Into<String>, to: RouteTo) {
        let topics = topics.into();
        let topics = if topics == "*" { Topics::All } else { Topics::named(topics) };
        self.routes.add(topics, to);
    }

    /// What to do with a message that no route takes. Default: retry.
    pub fn unknown(&mut self, unknown: UnknownTopic) {
        self.unknown = unknown;
    }

    /// Where messages of a topic go, if a route takes them.
    #[must_use]
    pub fn of(&self, topic: &Topic) -> Option<RouteTo> {
        self.routes.chosen(topic.as_str()).next().copied()
    }

    fn to(&self, topic: &Topic) -> Option<usize> {
        self.of(topic).map(|to| to.0)
    }

    fn unrouted(&self, topic: &Topic) -> Outcome {
        let error = format!("no route for topic {topic}");
        match self.unknown {
            UnknownTopic::Retry => Outcome::Failed(error),
            UnknownTopic::Dead => Outcome::Permanent(error),
            UnknownTopic::Leave => Outcome::Unstarted,
        }
    }
}

impl Sink for Routes {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            // Whoever asks `call` puts messages of one sink together; if not, they come in pieces.
            let mut outcomes = Vec::with_capacity(batch.len());
            let to = |delivery: &Delivery| self.to(delivery.message().topic());
            for part in batch.chunk_by(|left, right| to(left) == to(right)) {
                match to(&part[0]) {
                    Some(at) => {
                        let mut answers = self.sinks[at].deliver(part).await;
                        answers.resize(part.len(), Outcome::Failed("no answer".to_owned()));
                        outcomes.extend(answers);
                    }
                    None => {
                        outcomes.extend(part.iter().map(|d| self.unrouted(d.message().topic())));
                    }
                }
            }
            outcomes
        })
    }

    fn max_batch(&self) -> usize {
        self.sinks.iter().map(|sink| sink.max_batch()).max().unwrap_or(1)
    }

    fn call(&self, topic: &Topic) -> Call {
        match self.to(topic) {
            Some(at) => Call { group: at, most: self.sinks[at].max_batch() },
            None => Call { group: self.sinks.len(), most: self.max_batch() },
        }
    }

    fn takes_runs(&self) -> bool {
        self.sinks.iter().all(|sink| sink.takes_runs())
    }

    fn takes(&self, topic: &Topic) -> bool {
        match self.to(topic) {
            Some(at) => self.sinks[at].takes(topic),
            None => self.unknown != UnknownTopic::Leave,
        }
    }

    fn takes_every_topic(&self) -> bool {
        self.unknown != UnknownTopic::Leave
            && self.sinks.iter().all(|sink| sink.takes_every_topic())
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes").field("routes", &self.routes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::message::Message;

    /// Remembers how many came in each call, and answers for one less.
    struct Forgetful(Arc<Mutex<Vec<usize>>>);

    impl Sink for Forgetful {
        fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
            self.0.lock().expect("alive").push(batch.len());
            Box::pin(std::future::ready(vec![Outcome::Done; batch.len() - 1]))
        }

        fn max_batch(&self) -> usize {
            7
        }
    }

    /// Takes everything.
    struct Fine;

    impl Sink for Fine {
        fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
            Box::pin(std::future::ready(vec![Outcome::Done; batch.len()]))
        }

        fn takes_runs(&self) -> bool {
            true
        }
    }

    fn deliveries(topics: &[&str]) -> Vec<Delivery> {
        let message = |topic: &&str| Message::builder(*topic).build().expect("legal");
        topics.iter().map(|t| Delivery::detached(message(t), Duration::from_secs(1))).collect()
    }

    #[tokio::test]
    async fn rly_2_an_exact_topic_goes_before_a_pattern_and_a_pattern_before_all() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut routes = Routes::new();
        let (fine, counted) = (routes.sink(Fine), routes.sink(Forgetful(Arc::clone(&seen))));
        routes.route("*", fine);
        routes.route("order.*", counted);
        routes.route("order.p*", fine);
        routes.route("order.sent", fine);
        let batch = deliveries(&["order.placed", "order.paid", "order.sent", "mail"]);
        let outcomes = routes.deliver(&batch).await;
        let missing = Outcome::Failed("no answer".to_owned());
        assert_eq!(outcomes, [Outcome::Done, missing, Outcome::Done, Outcome::Done]);
        assert_eq!(*seen.lock().expect("alive"), [2]);
    }

    #[tokio::test]
    async fn rly_2_messages_of_different_sinks_share_no_call() {
        let mut routes = Routes::new();
        let (a, b) = (routes.sink(Fine), routes.sink(Forgetful(Arc::default())));
        routes.route("a", a);
        routes.route("b*", b);
        let call = |topic: &str| routes.call(&Topic::new(topic).expect("legal"));
        assert_eq!(call("b1"), Call { group: 1, most: 7 });
        assert_eq!(call("b2"), call("b1"));
        assert_eq!(call("a"), Call { group: 0, most: 1 });
        assert_ne!(call("c").group, call("a").group);
        assert!(!routes.takes_runs(), "one of them does not");
    }

    #[tokio::test]
    async fn dsp_6_what_no_route_takes_is_tried_again_dead_or_left() {
        let mut routes = Routes::new();
        let (batch, topic) = (deliveries(&["x"]), Topic::new("x").expect("legal"));
        assert!(matches!(&routes.deliver(&batch).await[0], Outcome::Failed(_)));
        routes.unknown(UnknownTopic::Dead);
        assert!(matches!(&routes.deliver(&batch).await[0], Outcome::Permanent(_)));
        assert!(routes.takes(&topic) && routes.takes_every_topic());
        routes.unknown(UnknownTopic::Leave);
        assert!(!routes.takes(&topic) && !routes.takes_every_topic());
    }
}
