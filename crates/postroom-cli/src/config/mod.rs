//! The configuration file of the relay: stores, sinks, and which topics go where.
//!
//! What is read here is checked as a whole before anything is opened: unknown keys, values out of
//! bounds and routes that lead nowhere are refused with their line and column.

mod problem;
mod sinks;
mod text;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use postroom::store::{BoxFuture, Purge};
use postroom::{
    Backoff, DispatcherConfig, Queue, Rate, Retry, RouteTo, Routes, StoreConfig, Topic,
    TopicConfig, UnknownTopic,
};
use postroom_sinks::Probe;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use self::problem::{Problem, failure};
use self::sinks::{Built, Common, Sink};
use self::text::{Hidden, Span, Text};
use crate::failure::{Exit, Failure};
use crate::store::Target;

/// The whole file.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// The `source` of the events: the URI of your service
    source: Text,
    /// What becomes of a message that no route takes
    unrouted: Unrouted,
    /// How messages are taken from the stores
    dispatcher: Dispatcher,
    /// The databases by name; without any it is the one that --url names
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    stores: BTreeMap<String, Store>,
    /// Where messages go, by name
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Sink>")]
    sinks: BTreeMap<String, Spanned<Sink>>,
    /// Which topics go to which sink: an exact topic first, then the first pattern, then `*`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<Route>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            source: Text::from("postroom"),
            unrouted: Unrouted::default(),
            dispatcher: Dispatcher::default(),
            stores: BTreeMap::new(),
            sinks: BTreeMap::new(),
            routes: Vec::new(),
        }
    }
}

/// What becomes of a message that no route takes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Unrouted {
    /// It is tried again, and dead in the end
    #[default]
    Retry,
    /// It is a dead letter at once
    Dead,
    /// It is left to other processes; messages with an ordering key are then not delivered here
    Leave,
}

impl From<Unrouted> for UnknownTopic {
    fn from(unrouted: Unrouted) -> Self {
        match unrouted {
            Unrouted::Retry => Self::Retry,
            Unrouted::Dead => Self::Dead,
            Unrouted::Leave => Self::Leave,
        }
    }
}

/// How messages are taken from the stores.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Dispatcher {
    /// Deliveries at the same time, per database: they wait for receivers and cost little
    workers: usize,
    /// Messages per claim at most
    batch: u32,
    /// How long a message is held before somebody else may take it
    lease: Span,
    /// The wait after an empty claim
    poll_interval: Span,
    /// How long one delivery may take; less than the lease
    timeout: Span,
    /// Deletes what was done this long ago
    keep_done: Span,
    /// Deletes what died this long ago; for ever without it
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_dead: Option<Span>,
    /// When to try again, and when to stop
    retry: RetrySection,
}

impl Default for Dispatcher {
    fn default() -> Self {
        let (defaults, purge) = (DispatcherConfig::default(), Purge::default());
        Self {
            workers: 256,
            batch: defaults.batch,
            lease: Span(defaults.lease),
            // Other processes write to the same databases: look often.
            poll_interval: Span(Duration::from_millis(200)),
            timeout: Span(defaults.handler_timeout),
            keep_done: Span(purge.done.unwrap_or(Duration::from_hours(30 * 24))),
            keep_dead: None,
            retry: RetrySection::default(),
        }
    }
}

/// When to try again, and when to stop.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct RetrySection {
    /// Dead after so many bad attempts
    attempts: u32,
    /// How the waits grow
    backoff: Shape,
    /// The first wait, or each one when they are fixed
    base: Span,
    /// The longest wait
    cap: Span,
}

impl Default for RetrySection {
    fn default() -> Self {
        let (base, cap) = (Duration::from_millis(200), Duration::from_secs(60));
        let attempts = Retry::default().max_attempts;
        Self { attempts, backoff: Shape::Exponential, base: Span(base), cap: Span(cap) }
    }
}

/// How waits grow.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Shape {
    /// Doubling, with jitter
    Exponential,
    /// Always the same
    Fixed,
}

impl From<RetrySection> for Retry {
    fn from(section: RetrySection) -> Self {
        let (base, cap) = (section.base.0, section.cap.0);
        let backoff = match section.backoff {
            Shape::Exponential => Backoff::Exponential { base, cap },
            Shape::Fixed => Backoff::Fixed(base),
        };
        Self { backoff, max_attempts: section.attempts }
    }
}

/// A database.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Store {
    /// sqlite:FILE, postgres://… or mysql://…
    #[schemars(with = "Hidden")]
    url: Spanned<Hidden>,
    /// The schema, or on SQLite the first part of each table name
    #[serde(default = "default_schema")]
    schema: String,
    /// What each table name within the schema starts with
    #[serde(default)]
    prefix: String,
    /// Which of the two boxes
    #[serde(default)]
    queue: Box_,
}

fn default_schema() -> String {
    StoreConfig::default().schema
}

/// A box.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Box_ {
    #[default]
    Outbox,
    Inbox,
}

/// Which topics go to which sink, and how fast.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Route {
    /// A topic, or a pattern in which `*` stands for any characters
    #[schemars(with = "String")]
    topics: Spanned<String>,
    /// The name of a sink
    #[schemars(with = "String")]
    sink: Spanned<String>,
    /// At most so many deliveries at the same time, per process; 32 for webhooks by default, else
    /// three quarters of the workers when there are several sinks
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<usize>")]
    concurrency: Option<Spanned<usize>>,
    /// At most so many deliveries in a time, per process: `100/s`, `30/m`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    rate: Option<Spanned<String>>,
    /// How many may come at once after a quiet time
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u32>,
    /// Instead of what the dispatcher says
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<RetrySection>,
}

/// A file that was read, understood and checked.
pub(crate) struct Loaded {
    config: Config,
    /// The settings of every dispatcher.
    pub(crate) dispatcher: DispatcherConfig,
    /// The databases by name; none when the command line says which.
    pub(crate) stores: Vec<(String, Target)>,
    pub(crate) sinks: Vec<NamedSink>,
    routes: Routes,
    /// Ends when what reads standard output is gone, if anything goes there.
    pub(crate) reader_gone: Option<BoxFuture<'static, ()>>,
}

/// A sink of the file.
pub(crate) struct NamedSink {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) probe: Arc<dyn Probe + Send + Sync>,
    to: RouteTo,
}

impl Loaded {
    /// Everything to one sink, without a file.
    pub(crate) fn to_sink(url: &str, source: Option<&str>) -> Result<Self, Failure> {
        let bad = |what: &str| {
            let next = "use stdout, file:PATH, https://, nats://, amqp:// or redis://HOST";
            Failure::new(Exit::Invalid, format!("--sink: {what}")).next(next)
        };
        let sink = Sink::of_url(url).map_err(|what| bad(&what))?;
        let at = |text: &str| Spanned::new(0..0, text.to_owned());
        let route = Route {
            topics: at("*"),
            sink: at("sink"),
            concurrency: None,
            rate: None,
            burst: None,
            retry: None,
        };
        let config = Config {
            sinks: BTreeMap::from([("sink".to_owned(), Spanned::new(0..0, sink))]),
            routes: vec![route],
            source: Text::from(source.unwrap_or("postroom")),
            ..Config::default()
        };
        config.check().map_err(|problems| bad(&problem::list(&problems)))
    }

    /// Reads the file.
    pub(crate) fn read(path: &Path, source: Option<&str>) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let what = format!("can not read {}", path.display());
            Failure::new(Exit::Invalid, what).why(&error).next("give --config of a file")
        })?;
        Self::parse(&text, source).map_err(|problems| failure(path, &text, &problems))
    }

    /// The source on the command line goes before that of the file.
    fn parse(text: &str, source: Option<&str>) -> Result<Self, Vec<Problem>> {
        let mut config: Config = toml::from_str(text).map_err(|error| {
            // Only its own words: what it displays has the line of the file in it.
            vec![Problem::new(error.span(), error.message().trim())]
        })?;
        if let Some(source) = source {
            config.source = Text::from(source);
        }
        config.check()
    }

    /// The file with all defaults, and without secrets.
    pub(crate) fn print(&self) -> String {
        toml::to_string(&self.config).unwrap_or_default()
    }

    /// The sink of every topic, for a dispatcher.
    pub(crate) fn routes(&self) -> Routes {
        self.routes.clone()
    }

    /// The name of the sink that takes a topic.
    pub(crate) fn sink_of(&self, topic: &Topic) -> Option<&str> {
        let to = self.routes.of(topic)?;
        self.sinks.iter().find(|sink| sink.to == to).map(|sink| sink.name.as_str())
    }

    /// Pattern and sink of each route, in the order of the file.
    pub(crate) fn route_list(&self) -> impl Iterator<Item = (&str, &str)> {
        let routes = self.config.routes.iter();
        routes.map(|route| (route.topics.get_ref().as_str(), route.sink.get_ref().as_str()))
    }
}

/// The description of the file, for editors.
pub(crate) fn schema() -> serde_json::Value {
    schemars::schema_for!(Config).to_value()
}

impl Config {
    /// Everything that can be known without opening anything.
    fn check(self) -> Result<Loaded, Vec<Problem>> {
        let mut problems = Vec::new();
        let stores = self.check_stores(&mut problems);
        let dispatcher = self.check_dispatcher(&mut problems);
        let (sinks, routes, reader_gone) = self.check_sinks(&dispatcher, &mut problems);
        self.check_routes(&mut problems);
        if problems.is_empty() {
            Ok(Loaded { config: self, dispatcher, stores, sinks, routes, reader_gone })
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
            let config = StoreConfig { schema, prefix, queue, ..StoreConfig::default() };
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
    fn default_concurrency(&self, route: &Route) -> Option<usize> {
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
fn parse_rate(text: &str) -> Result<Rate, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
source = "https://shop.example"
unrouted = "dead"

[dispatcher]
lease = "1m"
timeout = "40s"
retry = { attempts = 5, base = "1s", cap = "10s" }

[stores.shop]
url = "postgres://shop:hunter2@db/shop"

[sinks.log.stdout]

[sinks.archive.file]
path = "events.jsonl"

[[routes]]
topics = "*"
sink = "archive"

[[routes]]
topics = "order.*"
sink = "log"
rate = "100/s"
burst = 10
concurrency = 4
retry = { attempts = 3, backoff = "fixed", base = "2s" }
"#;

    fn loaded(text: &str) -> Loaded {
        match Loaded::parse(text, None) {
            Ok(loaded) => loaded,
            Err(problems) => panic!("{problems:?}"),
        }
    }

    /// Every problem with its line and column.
    fn problems(text: &str) -> String {
        let problems = Loaded::parse(text, None).err().expect("something is wrong");
        failure(Path::new("f"), text, &problems).what().to_owned()
    }

    #[test]
    fn rly_1_a_file_is_understood() {
        let loaded = loaded(FILE);
        let of = |topic: &str| loaded.sink_of(&Topic::new(topic).expect("legal"));
        assert_eq!((of("order.placed"), of("mail")), (Some("log"), Some("archive")));
        assert_eq!(loaded.stores.len(), 1);
        assert_eq!(loaded.dispatcher.lease, Duration::from_mins(1));
        assert_eq!(loaded.dispatcher.handler_timeout, Duration::from_secs(40));
        assert_eq!((loaded.dispatcher.retry.max_attempts, loaded.dispatcher.topics.len()), (5, 2));
    }

    #[test]
    fn rly_1_errors_have_a_line_and_a_column() {
        for (text, expected) in [
            ("sourze = 1", "f:1:1: unknown field `sourze`, expected one of"),
            ("source = 7", "f:1:10: invalid type: integer `7`"),
            ("[dispatcher]\nlease = \"soon\"", "f:2:9: expected a duration such as 10s"),
            ("[sinks.a.natz]", "f:1:10: unknown variant `natz`, expected"),
            ("[sinks.a.file]\npath = \"x\"\npaht = 1", "f:3:1: unknown field `paht`"),
            ("[stores.s]\nurl = \"oracle://x\"", "f:2:7: store s: unknown database URL"),
            ("a = [", "f:1:"),
        ] {
            let found = problems(text);
            assert!(found.contains(expected), "{text}: {found}");
        }
    }

    #[test]
    fn rly_1_all_that_makes_no_sense_is_named_at_once() {
        let text = r#"
[dispatcher]
batch = 0
[sinks.a.stdout]
[[routes]]
topics = "x"
sink = "b"
[[routes]]
topics = "x"
sink = "a"
rate = "fast"
"#;
        let found = problems(text);
        for part in [
            "batch must be 1 to 10000",
            "f:7:8: there is no sink \"b\"; there is a",
            "f:9:10: a second route for \"x\"",
            "f:11:8: \"fast\" is no rate",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
        assert!(problems("").contains("there is no route"));
    }

    #[test]
    fn sec_2_neither_print_nor_errors_show_a_secret() {
        let printed = loaded(FILE).print();
        assert!(printed.contains("postgres://shop:***@db/shop"), "{printed}");
        assert!(printed.contains("cap = \"60s\"") && !printed.contains("hunter2"), "{printed}");
        for text in [
            "[stores.s]\nurl = \"postgrez://shop:hunter2@db\"",
            "[stores.s]\nurl = \"postgres://shop:hunter2@db\"\nbad = 1",
            "[stores.s]\nurl = \"a hunter2 ${POSTROOM_NO_SUCH}\"",
            "[stores.s]\nurl = 'hunter2' url",
        ] {
            let found = problems(text);
            assert!(!found.contains("hunter2"), "{found}");
        }
    }

    #[test]
    fn rly_1_what_is_printed_can_be_read_again() {
        let printed = loaded(FILE).print();
        assert_eq!(loaded(&printed).print(), printed);
    }

    /// The names of all properties of a schema, wherever they are.
    fn properties(schema: &serde_json::Value, found: &mut Vec<String>) {
        for (name, value) in schema.as_object().into_iter().flatten() {
            if name == "properties" {
                for (key, value) in value.as_object().into_iter().flatten() {
                    found.push(key.clone());
                    properties(value, found);
                }
            } else {
                properties(value, found);
            }
        }
        schema.as_array().into_iter().flatten().for_each(|one| properties(one, found));
    }

    #[test]
    fn rly_1_every_key_is_documented() {
        let reference = include_str!("../../../../docs/reference/config.md");
        let mut keys = Vec::new();
        properties(&schema(), &mut keys);
        assert!(keys.len() > 40, "{keys:?}");
        for key in keys {
            let row = format!("| `{key}` |");
            let (section, kind) = (format!("`[{key}"), format!("`{key}`"));
            let documented = [&row, &section, &kind].iter().any(|text| reference.contains(*text))
                || reference.contains(&format!("`[[{key}]]`"));
            assert!(documented, "{key} is not in docs/reference/config.md");
        }
    }

    #[test]
    fn rly_1_the_example_of_the_reference_is_a_configuration() {
        let reference = include_str!("../../../../docs/reference/config.md");
        let (_, rest) = reference.split_once("```toml\n").expect("an example");
        let (example, _) = rest.split_once("```").expect("its end");
        // What it refers to is not here.
        let example = example.replace("${file:/run/secrets/nats}", "hunter2");
        let example = example.replace("${DATABASE_URL}", "postgres://db/shop");
        let example = example.replace("${WEBHOOK_SECRET}", &format!("whsec_{}", "A".repeat(32)));
        let loaded = loaded(&example);
        let sink = loaded.sink_of(&Topic::new("invoice.sent").expect("legal"));
        assert_eq!(sink, Some("partner"));
    }

    #[test]
    fn rly_1_every_kind_of_sink_is_understood() {
        let text = format!(
            r#"
[sinks.h.http]
url = "https://x.example/hunter2"
secrets = ["whsec_{secret}", "whsec_{secret}"]
headers = {{ authorization = "Bearer hunter2" }}
allow = ["10.0.0.0/8"]
deny = ["10.1.0.0/16"]
timeout = "5s"
mode = "structured"
[sinks.n.nats]
url = "nats://me:hunter2@x"
subject = "events.{{topic}}"
stream = "EVENTS"
[sinks.r.rabbitmq]
url = "amqps://me:hunter2@x/vhost"
exchange = "events"
[sinks.s.redis]
url = "rediss://me:hunter2@x"
max_len = 1000
[[routes]]
topics = "*"
sink = "n"
"#,
            secret = "B".repeat(32),
        );
        let loaded = loaded(&text);
        let kinds: Vec<_> = loaded.sinks.iter().map(|sink| sink.kind).collect();
        assert_eq!(kinds, ["http", "nats", "rabbitmq", "redis"]);
        let printed = loaded.print();
        assert!(!printed.contains("hunter2") && !printed.contains("BBBB"), "{printed}");
    }

    #[test]
    fn b34_a_send_must_end_before_its_delivery() {
        let text = "[dispatcher]\ntimeout = \"5s\"\n[sinks.n.nats]\nurl = \"nats://x\"\n\
                    timeout = \"6s\"";
        let found = problems(text);
        assert!(found.contains("timeout must be more than 0 and less than"), "{found}");
    }

    #[test]
    fn rly_1_a_sink_can_be_named_by_its_url_alone() {
        for (url, kind) in [
            ("stdout", "stdout"),
            ("file:events.jsonl", "file"),
            ("https://x.example/hooks", "http"),
            ("nats://x:4222", "nats"),
            ("amqp://x", "rabbitmq"),
            ("redis://x", "redis"),
        ] {
            let loaded = Loaded::to_sink(url, None).unwrap_or_else(|f| panic!("{f:?}"));
            assert_eq!(loaded.sinks[0].kind, kind);
        }
        for bad in ["", "x", "gopher://x", "nats:"] {
            assert!(Loaded::to_sink(bad, None).is_err(), "{bad}");
        }
    }

    #[test]
    fn dsp_10_rates_are_what_people_write() {
        assert_eq!(parse_rate("100/s"), Ok(Rate::per_second(100)));
        assert_eq!(parse_rate(" 30 / m"), Ok(Rate::per_minute(30)));
        for bad in ["", "100", "x/s", "1/d", "-1/s"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
    }
}
