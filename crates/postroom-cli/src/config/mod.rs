//! The configuration file of the relay: stores, sinks, and which topics go where.
//!
//! What is read here is checked as a whole before anything is opened: unknown keys, values out of
//! bounds and routes that lead nowhere are refused with their line and column.

mod admin;
mod check;
mod file;
mod fleet;
mod problem;
mod sinks;
mod text;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use postroom::store::BoxFuture;
use postroom::{RouteTo, Routes, Topic};
use postroom_sinks::Probe;
use toml::Spanned;

pub(crate) use self::admin::{AdminSettings, Listen, least_token};
use self::file::{Config, Route};
pub(crate) use self::fleet::FleetSettings;
use self::problem::{Problem, failure};
use self::sinks::Sink;
use self::text::Text;
use crate::failure::{Exit, Failure};
use crate::fleet::Roster;

/// A file that was read, understood and checked.
pub(crate) struct Loaded {
    config: Config,
    /// How all stores are served.
    pub(crate) fleet: FleetSettings,
    /// The databases; none when the command line says which.
    pub(crate) stores: Roster,
    pub(crate) sinks: Vec<NamedSink>,
    /// What `[admin]` says.
    pub(crate) admin: AdminSettings,
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use postroom::Rate;

    use super::check::parse_rate;
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
        assert_eq!(loaded.stores.fixed.len(), 1);
        let dispatcher = &loaded.fleet.config.dispatcher;
        assert_eq!(dispatcher.lease, Duration::from_mins(1));
        assert_eq!(dispatcher.handler_timeout, Duration::from_secs(40));
        assert_eq!((dispatcher.retry.max_attempts, dispatcher.topics.len()), (5, 2));
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
    fn rly_2_no_sink_gets_all_workers_when_there_are_others() {
        let of = |text: &str| {
            let Loaded { config, .. } = loaded(text);
            let most = |route: &Route| config.default_concurrency(route);
            config.routes.iter().map(most).collect::<Vec<_>>()
        };
        let route = |sink: &str| format!("[[routes]]\ntopics = \"{sink}\"\nsink = \"{sink}\"\n");
        let alone = format!("[sinks.n.nats]\nurl = \"nats://x\"\n{}", route("n"));
        assert_eq!(of(&alone), [None]);
        let both = format!(
            "[sinks.n.nats]\nurl = \"nats://x\"\n[sinks.h.http]\nurl = \"https://x.example\"\n{}{}",
            route("n"),
            route("h")
        );
        assert_eq!(of(&both), [Some(192), Some(32)]);
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
