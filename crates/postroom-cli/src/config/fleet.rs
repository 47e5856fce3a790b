//! The sections `[fleet]` and `[discover.NAME.KIND]`: many stores, and how they are found.

use std::time::Duration;

use postroom::fleet::{DrainFirst, FairShare, FleetConfig, RoundRobin, Strategy};
use postroom::{DispatcherConfig, SqlQuery, StoreConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::file::{Box_, default_schema};
use super::problem::Problem;
use super::text::{Hidden, Span, Text};
use crate::fleet::Source;
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
}

impl Default for Fleet {
    fn default() -> Self {
        let FleetConfig { places, refresh, .. } = FleetConfig::default();
        Self {
            strategy: StrategyName::default(),
            places: Spanned::new(0..0, places),
            refresh: Spanned::new(0..0, Span(refresh)),
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
        problems: &mut Vec<Problem>,
    ) -> FleetSettings {
        let (places, refresh) = (*self.places.get_ref(), self.refresh.get_ref().0);
        let defaults = FleetConfig::default();
        let alone = [
            (self.places.span(), FleetConfig { places, ..defaults.clone() }),
            (self.refresh.span(), FleetConfig { refresh, ..defaults.clone() }),
        ];
        for (at, config) in alone {
            if let Err(error) = config.validate() {
                problems.push(Problem::new(Some(at), format!("fleet: {error}")));
            }
        }
        let config = FleetConfig { dispatcher, places, refresh, ..defaults };
        FleetSettings { strategy: self.strategy, config }
    }
}

/// What `[fleet]` and `[dispatcher]` mean.
#[derive(Clone, Debug)]
pub(crate) struct FleetSettings {
    pub(crate) strategy: StrategyName,
    pub(crate) config: FleetConfig,
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
        let config = tables(&self.schema, &self.prefix, self.queue);
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
        let config = tables(&self.schema, &self.prefix, self.queue);
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
