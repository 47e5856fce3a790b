//! What a configuration file means, and all that is wrong with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postroom::fleet::{FleetConfig, Listed, StoreId};
use postroom::store::{BoxFuture, Purge};
use postroom::{DispatcherConfig, Rate, Retry, Routes, StoreConfig, TopicConfig};

use super::file::{Config, Route, Store};
use super::fleet::MANY;
use super::problem::Problem;
use super::sinks::{Built, Common};
use super::{Loaded, NamedSink};
use crate::fleet::{Place, Roster};
use crate::store::{Connections, Target};

impl Config {
    /// Everything that can be known without opening anything.
    pub(super) fn check(self) -> Result<Loaded, Vec<Problem>> {
        let mut problems = Vec::new();
        let connections = self.fleet.connections(self.has_many_stores(), &mut problems);
        let stores = self.check_stores(&connections, &mut problems);
        let dispatcher = self.check_dispatcher(&mut problems);
        let (sinks, routes, reader_gone) = self.check_sinks(&dispatcher, &mut problems);
        self.check_routes(&mut problems);
        let admin = self.admin.check(&mut problems);
        let fleet = self.fleet.check(dispatcher, &connections, &mut problems);
        if problems.is_empty() {
            Ok(Loaded { config: self, fleet, stores, sinks, admin, routes, reader_gone })
        } else {
            Err(problems)
        }
    }

    fn check_stores(&self, connections: &Connections, problems: &mut Vec<Problem>) -> Roster {
        let mut fixed = Vec::new();
        for (name, store) in &self.stores {
            match store.listed(name, connections) {
                Ok(listed) => fixed.push(listed),
                Err(what) => {
                    let what = format!("store {name}: {what}");
                    problems.push(Problem::new(Some(store.url.span()), what));
                }
            }
        }
        self.check_keys(problems);
        let sources = self.discover.iter();
        let sources = sources.filter_map(|(name, source)| source.check(name, problems));
        let sources = sources.map(|source| source.through(connections)).collect();
        Roster { fixed, sources }
    }

    /// A key leads to one store.
    fn check_keys(&self, problems: &mut Vec<Problem>) {
        let mut seen = BTreeMap::new();
        for (name, store) in &self.stores {
            for key in &store.keys {
                if key.get_ref().is_empty() {
                    let what = format!("store {name}: a routing key must not be empty");
                    problems.push(Problem::new(Some(key.span()), what));
                }
                if let Some(other) = seen.insert(key.get_ref(), name) {
                    let what =
                        format!("store {name}: the key {:?} is of {other}, too", key.get_ref());
                    problems.push(Problem::new(Some(key.span()), what));
                }
            }
        }
    }

    /// Whether most of the stores have nothing to do most of the time.
    fn has_many_stores(&self) -> bool {
        !self.discover.is_empty() || self.stores.len() > MANY
    }

    fn check_dispatcher(&self, problems: &mut Vec<Problem>) -> DispatcherConfig {
        let section = &self.dispatcher;
        let defaults = DispatcherConfig::default();
        let idle = match section.idle_interval {
            None if self.has_many_stores() => {
                let many = FleetConfig::default().dispatcher.idle_interval;
                many.map(|idle| idle.max(section.poll_interval.0))
            }
            idle => idle.map(|span| span.0),
        };
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
            idle_interval: idle,
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

impl Store {
    fn listed(&self, name: &str, connections: &Connections) -> Result<Listed<Place>, String> {
        let id = StoreId::new(name).map_err(|error| error.to_string())?;
        let config = StoreConfig {
            name: Some(name.to_owned()),
            schema: self.schema.clone(),
            prefix: self.prefix.clone(),
            queue: self.queue.into(),
            fair_tenants: self.fair_tenants,
            ..StoreConfig::default()
        };
        let target = Target::of(self.url.get_ref().reveal(), config);
        let target = target.map_err(|failure| failure.what().to_owned())?;
        let place = Arc::new(target.through(connections));
        let keys = self.keys.iter().map(|key| key.get_ref().clone()).collect();
        Ok(Listed { id, place, weight: self.weight.get(), keys })
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
