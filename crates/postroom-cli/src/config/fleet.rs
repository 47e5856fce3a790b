//! The sections `[fleet]` and `[discover.NAME.KIND]`: many stores, and how they are found.

use std::time::Duration;

use postroom::fleet::{DrainFirst, FairShare, FleetConfig, RoundRobin, StoreId, Strategy};
use postroom::{DispatcherConfig, SqlQuery, StoreConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::file::{Box_, default_schema};
use super::problem::Problem;
use super::text::{Hidden, Span, Text};
use crate::fleet::Source;
use crate::store::{Budgets, Connections, Target};
use crate::url::Url;

/// More stores than this are looked at less and less often while they have nothing to do.
pub(super) const MANY: usize = 10;

/// How all stores share one process.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Fleet {
    /// Which store is next when there is room
    strategy: StrategyName,
    /// Claimed messages of all stores in the process at most, waiting or running
    #[schemars(with = "usize")]
    places: Spanned<usize>,
    /// How often to look which stores there are; SIGHUP looks at once
    #[schemars(with = "Span")]
    refresh: Spanned<Span>,
    /// Connections to each database server at most; 20 with more than ten stores or with discovery,
    /// else every store has its own
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<usize>")]
    connections: Option<Spanned<usize>>,
    /// A database of each PostgreSQL server in which processes tell each other of commits in all
    /// its databases
    #[serde(skip_serializing_if = "Option::is_none")]
    doorbell: Option<String>,
    /// A database with Postroom's tables in which several relays divide the stores
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Hidden>")]
    home: Option<Spanned<Hidden>>,
    /// What relays that divide the same stores have in common
    #[schemars(with = "String")]
    name: Spanned<String>,
    /// How long a relay that says nothing keeps its part of the stores
    #[schemars(with = "Span")]
    share_lease: Spanned<Span>,
}

/// A server's share of a fleet that says nothing of it.
const CONNECTIONS: usize = 20;

impl Default for Fleet {
    fn default() -> Self {
        let FleetConfig { places, refresh, share_lease, .. } = FleetConfig::default();
        Self {
            strategy: StrategyName::default(),
            places: Spanned::new(0..0, places),
            refresh: Spanned::new(0..0, Span(refresh)),
            connections: None,
            doorbell: None,
            home: None,
            name: Spanned::new(0..0, "postroom".to_owned()),
            share_lease: Spanned::new(0..0, Span(share_lease)),
        }
    }
}

/// Which store is next when there is room.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StrategyName {
    /// One batch from each in turn
    #[default]
    RoundRobin,
    /// The same one until it has no more
    DrainFirst,
    /// Messages in proportion to the weights
    FairShare,
}

impl From<StrategyName> for Box<dyn Strategy> {
    fn from(name: StrategyName) -> Self {
        match name {
            StrategyName::RoundRobin => Box::new(RoundRobin),
            StrategyName::DrainFirst => Box::new(DrainFirst),
            StrategyName::FairShare => Box::new(FairShare),
        }
    }
}

impl Fleet {
    pub(super) fn check(
        &self,
        dispatcher: DispatcherConfig,
        connections: &Connections,
        problems: &mut Vec<Problem>,
    ) -> FleetSettings {
        let (places, refresh) = (*self.places.get_ref(), self.refresh.get_ref().0);
        let share_lease = self.share_lease.get_ref().0;
        let defaults = FleetConfig::default();
        let alone = [
            (self.places.span(), FleetConfig { places, ..defaults.clone() }),
            (self.refresh.span(), FleetConfig { refresh, ..defaults.clone() }),
            (self.share_lease.span(), FleetConfig { share_lease, ..defaults.clone() }),
        ];
        for (at, config) in alone {
            if let Err(error) = config.validate() {
                problems.push(Problem::new(Some(at), format!("fleet: {error}")));
            }
        }
        let config = FleetConfig { dispatcher, places, refresh, share_lease, ..defaults };
        FleetSettings {
            strategy: self.strategy,
            config,
            home: self.check_home(connections, problems),
        }
    }

    fn check_home(
        &self,
        connections: &Connections,
        problems: &mut Vec<Problem>,
    ) -> Option<(Target, String)> {
        let home = self.home.as_ref()?;
        let (name, at) = (self.name.get_ref(), self.name.span());
        if StoreId::new(name.as_str()).is_err() {
            let what = "fleet: name must have 1 to 64 characters, and no control characters";
            problems.push(Problem::new(Some(at), what));
        }
        match Target::of(home.get_ref().reveal(), StoreConfig::default()) {
            Ok(target) => Some((target.through(connections), name.clone())),
            Err(failure) => {
                let what = format!("fleet: home: {}", failure.what());
                problems.push(Problem::new(Some(home.span()), what));
                None
            }
        }
    }

    /// Where the connections to its stores come from.
    pub(super) fn connections(&self, many: bool, problems: &mut Vec<Problem>) -> Connections {
        let (most, at) = match &self.connections {
            Some(most) => (*most.get_ref(), Some(most.span())),
            None if many || self.doorbell.is_some() => (CONNECTIONS, None),
            None => return Connections::Own,
        };
        match Budgets::new(most, self.doorbell.as_deref()) {
            Ok(budgets) => Connections::Shared(Box::new(budgets)),
            Err(error) => {
                problems.push(Problem::new(at, format!("fleet: {error}")));
                Connections::Own
            }
        }
    }
}

/// What `[fleet]` and `[dispatcher]` mean.
#[derive(Clone, Debug)]
pub(crate) struct FleetSettings {
    pub(crate) strategy: StrategyName,
    pub(crate) config: FleetConfig,
    /// Where several relays divide the stores, and as what.
    pub(crate) home: Option<(Target, String)>,
}

/// Where further stores are found.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Discover {
    /// The SQLite files of a folder
    Folder(Folder),
    /// The rows of a query on a master database
    Query(Query),
}

/// Every file of a folder that ends in .db is a store: acme.db is the store acme. They get their
/// tables when they are opened.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Folder {
    /// The folder; not those within it
    #[schemars(with = "Text")]
    path: Spanned<Text>,
    /// The first part of each table name
    #[serde(default = "default_schema")]
    schema: String,
    /// What comes after that in each table name
    #[serde(default)]
    prefix: String,
    /// Which of the two boxes
    #[serde(default)]
    queue: Box_,
    /// Tenants take turns: a claim is divided equally among those that have messages
    #[serde(default)]
    fair_tenants: bool,
}

/// Every row is a store, with the columns id, url, weight, keys and schema. Only id is needed, and
/// url unless there is a template.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    /// The master database: sqlite:FILE, postgres://… or mysql://…
    #[schemars(with = "Hidden")]
    url: Spanned<Hidden>,
    /// The query, run as it is in a transaction that can not write
    #[schemars(with = "String")]
    sql: Spanned<String>,
    /// The URL of each store, in which {name} stands for that column of its row
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Hidden>")]
    template: Option<Spanned<Hidden>>,
    /// How long a look may take
    #[serde(default = "look_limit")]
    timeout: Span,
    /// The schema of the stores whose rows name none
    #[serde(default = "default_schema")]
    schema: String,
    /// What each table name within the schema starts with
    #[serde(default)]
    prefix: String,
    /// Which of the two boxes
    #[serde(default)]
    queue: Box_,
    /// Tenants take turns: a claim is divided equally among those that have messages
    #[serde(default)]
    fair_tenants: bool,
}

fn look_limit() -> Span {
    Span(Duration::from_secs(10))
}

impl Discover {
    /// The source that it describes, which has not looked yet.
    pub(super) fn check(&self, name: &str, problems: &mut Vec<Problem>) -> Option<Source> {
        let mut found = Vec::new();
        let source = match self {
            Self::Folder(folder) => folder.check(name, &mut found),
            Self::Query(query) => query.check(name, &mut found),
        };
        let named = |problem: Problem| {
            Problem::new(problem.at, format!("discover.{name}: {}", problem.what))
        };
        problems.extend(found.into_iter().map(named));
        source
    }
}

impl Folder {
    fn check(&self, name: &str, problems: &mut Vec<Problem>) -> Option<Source> {
        let config = StoreConfig {
            fair_tenants: self.fair_tenants,
            ..tables(&self.schema, &self.prefix, self.queue)
        };
        let path = self.path.get_ref().as_str();
        if path.is_empty() {
            problems.push(Problem::new(Some(self.path.span()), "path must name a folder"));
        }
        if let Err(error) = config.validate() {
            problems.push(Problem::new(Some(self.path.span()), error.to_string()));
        }
        problems.is_empty().then(|| Source::folder(name, path.into(), config))
    }
}

impl Query {
    fn check(&self, name: &str, problems: &mut Vec<Problem>) -> Option<Source> {
        let config = StoreConfig {
            fair_tenants: self.fair_tenants,
            ..tables(&self.schema, &self.prefix, self.queue)
        };
        if let Err(error) = config.validate() {
            problems.push(Problem::new(Some(self.url.span()), error.to_string()));
        }
        let url = Url::parse(self.url.get_ref().reveal()).map_err(|failure| {
            problems.push(Problem::new(Some(self.url.span()), failure.what()));
        });
        let (url, at) = (url.ok()?, self.sql.span());
        let mut rows = SqlQuery::new(url.as_str(), self.sql.get_ref().as_str());
        if let Some(template) = &self.template
            && let Ok(query) = rows
        {
            rows = query.template(template.get_ref().reveal());
            if let Err(error) = &rows {
                problems.push(Problem::new(Some(template.span()), error.to_string()));
                return None;
            }
        }
        match rows {
            Ok(rows) if problems.is_empty() => {
                let rows = rows.time_limit(self.timeout.0);
                Some(Source::query(name, rows, &url, config))
            }
            Ok(_) => None,
            Err(error) => {
                problems.push(Problem::new(Some(at), error.to_string()));
                None
            }
        }
    }
}

/// What the tables of found stores are called.
fn tables(schema: &str, prefix: &str, queue: Box_) -> StoreConfig {
    let (schema, prefix) = (schema.to_owned(), prefix.to_owned());
    StoreConfig { schema, prefix, queue: queue.into(), ..StoreConfig::default() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Loaded;
    use super::super::problem::failure;

    const ROUTE: &str = "[sinks.a.stdout]\n[[routes]]\ntopics = \"*\"\nsink = \"a\"\n";

    fn loaded(text: &str) -> Loaded {
        let text = format!("{text}\n{ROUTE}");
        Loaded::parse(&text, None).unwrap_or_else(|problems| panic!("{problems:?}"))
    }

    fn problems(text: &str) -> String {
        let text = format!("{text}\n{ROUTE}");
        let problems = Loaded::parse(&text, None).err().expect("something is wrong");
        failure(Path::new("f"), &text, &problems).what().to_owned()
    }

    const FILE: &str = r#"
[fleet]
strategy = "drain-first"
places = 50
refresh = "1m"

[stores.shop]
url = "sqlite:shop.db"
weight = 3
keys = ["acme", "globex"]

[discover.files.folder]
path = "tenants"
queue = "inbox"

[discover.rows.query]
url = "postgres://relay:hunter2@master/main"
sql = "select id, db from tenants"
template = "postgres://relay:hunter2@{host}/{db}"
timeout = "3s"
schema = "shop"
"#;

    #[test]
    fn fleet_1_stores_and_ways_to_find_them_are_understood() {
        let loaded = loaded(FILE);
        let config = &loaded.fleet.config;
        assert_eq!((config.places, config.refresh.as_secs()), (50, 60));
        let [shop] = &loaded.stores.fixed[..] else { panic!("one store") };
        assert_eq!((shop.id.as_str(), shop.weight), ("shop", 3));
        assert_eq!(shop.keys, ["acme", "globex"]);
        let sources: Vec<_> = loaded.stores.sources.iter().map(ToString::to_string).collect();
        assert_eq!(sources, ["files of tenants", "query on postgres://relay:***@master/main"]);
        let printed = loaded.print();
        assert!(!printed.contains("hunter2"), "{printed}");
        assert!(printed.contains("template = \"postgres://relay:***@{host}/{db}\""), "{printed}");
    }

    #[test]
    fn fleet_1_the_examples_of_the_documents_are_understood() {
        let guide = include_str!("../../../../docs/guide/many-databases.md");
        let reference = include_str!("../../../../docs/reference/config.md");
        let (_, reference) = reference.split_once("#### `query`").expect("a section");
        for (document, sources) in [(guide, 2), (reference, 1)] {
            let (_, rest) = document.split_once("```toml\n").expect("an example");
            let (example, _) = rest.split_once("```").expect("its end");
            // What it refers to is not here.
            let example = example.replace("${file:/run/secrets/relay}", "hunter2");
            let example = example.replace("${MASTER_URL}", "postgres://relay:hunter2@db/main");
            assert_eq!(loaded(&example).stores.sources.len(), sources);
        }
    }

    #[test]
    fn fleet_5_a_budget_and_a_home_are_understood_and_what_is_wrong_with_them_is_told() {
        let home = "home = \"postgres://relay:hunter2@db/main\"";
        let text = format!("[fleet]\n{home}\nname = \"west\"\nshare_lease = \"10s\"");
        let with_home = loaded(&text);
        let (target, name) = with_home.fleet.home.clone().expect("a home");
        assert!(target.to_string().contains("postgres://relay:***@db/main"), "{target}");
        assert_eq!((name.as_str(), with_home.fleet.config.share_lease.as_secs()), ("west", 10));
        assert!(!with_home.print().contains("hunter2"));
        for (text, expected) in [
            ("[fleet]\nconnections = 2", "f:2:15: fleet: connections must be 3 to 10000"),
            ("[fleet]\nshare_lease = \"1ms\"", "f:2:15: fleet: share_lease must be 100 ms"),
            ("[fleet]\nhome = \"oracle://x\"", "f:2:8: fleet: home: unknown database URL"),
        ] {
            let found = problems(text);
            assert!(found.contains(expected), "{found}");
        }
        assert!(problems(&format!("[fleet]\n{home}\nname = \"\"")).contains("f:3:8: fleet: name"));
    }

    #[test]
    fn fleet_5_only_many_stores_share_connections_unless_the_file_says_so() {
        let shares = |text: &str| {
            let loaded = loaded(text);
            loaded.stores.fixed.iter().all(|store| store.place.shares_connections())
        };
        let store = "[stores.a]\nurl = \"postgres://db/a\"\n";
        let folder = "[discover.files.folder]\npath = \"tenants\"\n";
        assert!(!shares(store));
        assert!(shares(&format!("{store}{folder}")));
        assert!(shares(&format!("{store}[fleet]\nconnections = 5")));
        assert!(shares(&format!("{store}[fleet]\ndoorbell = \"postgres\"")));
    }

    #[test]
    fn fleet_5_many_stores_are_looked_at_less_often_while_they_are_idle() {
        let idle = |text: &str| loaded(text).fleet.config.dispatcher.idle_interval;
        let store = |n: usize| format!("[stores.s{n}]\nurl = \"sqlite:{n}.db\"\n");
        let stores = |count: usize| (0..count).map(store).collect::<String>();
        assert_eq!((idle(""), idle(&stores(1)), idle(&stores(10))), (None, None, None));
        let seconds = |text: &str| idle(text).map(|idle| idle.as_secs());
        assert_eq!(seconds(&stores(11)), Some(30));
        assert_eq!(seconds("[discover.a.folder]\npath = \"x\""), Some(30));
        let own = format!("[dispatcher]\nidle_interval = \"5s\"\n{}", stores(11));
        assert_eq!(seconds(&own), Some(5));
        // A poll that is rarer still is what its owner wants.
        let slow = format!("[dispatcher]\npoll_interval = \"1m\"\n{}", stores(11));
        assert_eq!(seconds(&slow), Some(60));
    }

    #[test]
    fn fleet_1_what_is_wrong_has_a_line_and_a_column_and_shows_no_secret() {
        for (text, expected) in [
            ("[fleet]\nstrategy = \"fair\"", "f:2:12: unknown variant `fair`, expected one of"),
            ("[fleet]\nplaces = 0", "f:2:10: fleet: places must be 1 to 1000000"),
            ("[fleet]\nrefresh = \"1ms\"", "f:2:11: fleet: refresh must be 1 s to 24 h"),
            ("[discover.a.foldr]\npath = \"x\"", "f:1:13: unknown variant `foldr`"),
            ("[discover.a.folder]\npath = \"\"", "f:2:8: discover.a: path must name a folder"),
            ("[discover.a.folder]\npath = \"x\"\nurl = 1", "f:3:1: unknown field `url`"),
            ("[discover.a.folder]\npath = \"x\"\nschema = \"A!\"", "f:2:8: discover.a: schema"),
            ("[discover.a.query]\nurl = \"sqlite:m.db\"", "missing field `sql`"),
            (
                "[discover.a.query]\nsql = \"select 1\"\nurl = \"oracle://u:hunter2@x\"",
                "f:3:7: discover.a: unknown database URL",
            ),
            (
                "[discover.a.query]\nurl = \"sqlite:m.db\"\nsql = \" \"",
                "f:3:7: discover.a: the query is empty",
            ),
            (
                "[discover.a.query]\nurl = \"sqlite:m.db\"\nsql = \"select 1\"\n\
                 template = \"mysql://u:hunter2@x/db\"",
                "f:4:12: discover.a: the URL template names no column",
            ),
            ("[stores.s]\nurl = \"sqlite:s.db\"\nweight = 0", "f:3:10: "),
            (
                "[stores.s]\nurl = \"sqlite:s.db\"\nkeys = [\"\"]",
                "f:3:9: store s: a routing key must not be empty",
            ),
            (
                "[stores.s]\nurl = \"sqlite:s.db\"\nkeys = [\"k\"]\n\
                 [stores.t]\nurl = \"sqlite:t.db\"\nkeys = [\"k\"]",
                "f:6:9: store t: the key \"k\" is of s, too",
            ),
        ] {
            let found = problems(text);
            assert!(found.contains(expected), "{text}\n{found}");
            assert!(!found.contains("hunter2"), "{found}");
        }
        // All at once.
        let found = problems("[fleet]\nplaces = 0\n[discover.a.folder]\npath = \"\"");
        assert!(found.contains("places") && found.contains("path"), "{found}");
    }
}
