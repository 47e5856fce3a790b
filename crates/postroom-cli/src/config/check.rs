//! What a configuration file means, and all that is wrong with it.

use std::collections::BTreeMap;
use std::time::Duration;

use postroom::store::{BoxFuture, Purge};
use postroom::{DispatcherConfig, Queue, Rate, Retry, Routes, StoreConfig, TopicConfig};

use super::file::{Box_, Config, Route};
use super::problem::Problem;
use super::sinks::{Built, Common};
use super::{Loaded, NamedSink};
use crate::store::Target;

impl Config {
    /// Everything that can be known without opening anything.
    pub(super) fn check(self) -> Result<Loaded, Vec<Problem>> {
        let mut problems = Vec::new();
        let stores = self.check_stores(&mut problems);
        let dispatcher = self.check_dispatcher(&mut problems);
        let (sinks, routes, reader_gone) = self.check_sinks(&dispatcher, &mut problems);
        self.check_routes(&mut problems);
        let admin = self.admin.check(&mut problems);
        if problems.is_empty() {
            Ok(Loaded { config: self, dispatcher, stores, sinks, admin, routes, reader_gone })
        } else {
            Err(problems)
        }
    }

    fn check_stores(&self, problems: &mut Vec<Problem>) -> Vec<(String, Target)> {
        let mut stores = Vec::new();
        for (name, store) in &self.stores {
            let queue = match store.queue {
                Box_::Outbox => Queue::Outbox,
                Box_::Inbox => Queue::Inbox,
            };
            let (schema, prefix) = (store.schema.clone(), store.prefix.clone());
            let name_ = Some(name.clone());
            let config = StoreConfig {
                name: name_,
                schema,
                prefix,
                queue,
                fair_tenants: store.fair_tenants,
                ..StoreConfig::default()
            };
            match Target::of(store.url.get_ref().reveal(), config) {
                Ok(target) => stores.push((name.clone(), target)),
                Err(failure) => {
                    let what = format!("store {name}: {}", failure.what());
                    problems.push(Problem::new(Some(store.url.span()), what));
                }
            }
        }
        stores
    }

    fn check_dispatcher(&self, problems: &mut Vec<Problem>) -> DispatcherConfig {
        let section = &self.dispatcher;
        let defaults = DispatcherConfig::default();
        let purge = Purge {
            done: Some(section.keep_done.0),
            dead: section.keep_dead.map(|span| span.0),
            ..Purge::default()
        };
        let config = DispatcherConfig {
            workers: section.workers,
            batch: section.batch,
            lease: section.lease.0,
            poll_interval: section.poll_interval.0,
            handler_timeout: section.timeout.0,
            retry: section.retry.into(),
            topics: self.topics(problems),
            purge: Some(purge),
            ..defaults
        };
        if let Err(error) = config.validate() {
            problems.push(Problem::new(None, format!("dispatcher: {error}")));
        }
        config
    }

    /// What routes say about their topics. `*` comes last, as it does for the routes.
    fn topics(&self, problems: &mut Vec<Problem>) -> Vec<TopicConfig> {
        let mut routes: Vec<_> = self.routes.iter().collect();
        routes.sort_by_key(|route| route.topics.get_ref() == "*");
        let mut topics = Vec::new();
        for route in routes {
            let most = route.concurrency.as_ref().map(|most| *most.get_ref());
            let mut topic = TopicConfig::new(route.topics.get_ref());
            if let Some(most) = most.or_else(|| self.default_concurrency(route)) {
                topic = topic.concurrency(most);
            }
            if let Some(retry) = route.retry {
                topic = topic.retry(retry.into());
            }
            match route.rate.as_ref().map(|rate| (rate, parse_rate(rate.get_ref()))) {
                None => {}
                Some((_, Ok(rate))) => {
                    topic = topic.rate(route.burst.map_or(rate, |burst| rate.burst(burst)));
                }
                Some((at, Err(what))) => problems.push(Problem::new(Some(at.span()), what)),
            }
            topics.push(topic);
        }
        topics
    }

    /// A receiver that never answers must not take the workers of all others, and one that answers
    /// requests must not be flooded with them.
    pub(super) fn default_concurrency(&self, route: &Route) -> Option<usize> {
        let sink = self.sinks.get(route.sink.get_ref());
        let polite = sink.and_then(|sink| sink.get_ref().polite_concurrency());
        let fair = (self.sinks.len() > 1).then_some((self.dispatcher.workers * 3 / 4).max(1));
        [polite, fair].into_iter().flatten().min()
    }

    fn check_sinks(
        &self,
        dispatcher: &DispatcherConfig,
        problems: &mut Vec<Problem>,
    ) -> (Vec<NamedSink>, Routes, Option<BoxFuture<'static, ()>>) {
        let (mut sinks, mut routes, mut reader_gone) = (Vec::new(), Routes::new(), None);
        routes.unknown(self.unrouted.into());
        for (name, sink) in &self.sinks {
            let common = Common {
                source: self.source.as_str(),
                limit: dispatcher.handler_timeout,
                horizon: self.horizon(name),
            };
            match sink.get_ref().build(&common) {
                Ok(Built { kind, sink, probe, reader_gone: gone }) => {
                    reader_gone = reader_gone.or(gone);
                    let to = routes.sink(sink);
                    sinks.push(NamedSink { name: name.clone(), kind, probe, to });
                }
                Err(what) => {
                    let what = format!("sink {name}: {what}");
                    problems.push(Problem::new(Some(sink.span()), what));
                }
            }
        }
        for route in &self.routes {
            if let Some(sink) = sinks.iter().find(|sink| sink.name == *route.sink.get_ref()) {
                routes.route(route.topics.get_ref(), sink.to);
            }
        }
        (sinks, routes, reader_gone)
    }

    /// The longest time between the first and the last attempt of a message that goes to a sink.
    fn horizon(&self, sink: &str) -> Duration {
        let routes = self.routes.iter().filter(|route| route.sink.get_ref() == sink);
        let retries = routes.map(|route| route.retry.unwrap_or(self.dispatcher.retry));
        retries.map(|retry| Retry::from(retry).horizon()).max().unwrap_or_default()
    }

    fn check_routes(&self, problems: &mut Vec<Problem>) {
        if self.routes.is_empty() {
            let what =
                "there is no route: add [[routes]] with topics = \"*\" and the name of a sink";
            problems.push(Problem::new(None, what));
        }
        let mut seen = BTreeMap::new();
        for route in &self.routes {
            let (topics, sink) = (&route.topics, &route.sink);
            if !self.sinks.contains_key(sink.get_ref()) {
                let names: Vec<_> = self.sinks.keys().map(String::as_str).collect();
                let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                let what = format!("there is no sink {:?}; there is {known}", sink.get_ref());
                problems.push(Problem::new(Some(sink.span()), what));
            }
            if topics.get_ref().is_empty() {
                let what = "topics must name a topic or a pattern; `*` is for all";
                problems.push(Problem::new(Some(topics.span()), what));
            }
            if seen.insert(topics.get_ref(), ()).is_some() {
                let what =
                    format!("a second route for {:?}: it would get nothing", topics.get_ref());
                problems.push(Problem::new(Some(topics.span()), what));
            }
        }
    }
}

/// `100/s`, `30/m`, `5/h`.
pub(super) fn parse_rate(text: &str) -> Result<Rate, String> {
    let wrong = || format!("{text:?} is no rate; write 100/s, 30/m or 5/h");
    let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
    let count: u32 = count.trim().parse().map_err(|_| wrong())?;
    let seconds = match unit.trim() {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err(wrong()),
    };
    Ok(Rate::every(count, Duration::from_secs(seconds)))
}
