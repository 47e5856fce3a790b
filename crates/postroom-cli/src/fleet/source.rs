//! A section `[discover.NAME.KIND]` at work.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postroom::fleet::{Discovery as _, Listed, StoreId};
use postroom::{SqlQuery, SqliteFolder, StoreConfig};

use super::Place;
use crate::failure::{Exit, Failure};
use crate::store::{Connections, Target};
use crate::url::Url;

/// Finds stores.
pub(crate) struct Source {
    name: String,
    from: Origin,
    /// How their tables are called.
    config: StoreConfig,
    connections: Connections,
    last: Mutex<Last>,
}

/// What was found last.
#[derive(Default)]
struct Last {
    list: Vec<Listed<Place>>,
    /// It was looked for at the start, and the fleet need not do so again.
    is_news: bool,
}

enum Origin {
    Folder { files: SqliteFolder, path: PathBuf },
    Query { rows: Box<SqlQuery>, shown: String },
}

impl Source {
    /// The SQLite files of a folder.
    pub(crate) fn folder(name: &str, path: PathBuf, config: StoreConfig) -> Self {
        let files = SqliteFolder::new(&path, config.clone());
        Self::new(name, Origin::Folder { files, path }, config)
    }

    /// The rows of a query on the database with this URL.
    pub(crate) fn query(name: &str, rows: SqlQuery, url: &Url, config: StoreConfig) -> Self {
        Self::new(name, Origin::Query { rows: Box::new(rows), shown: url.shown() }, config)
    }

    fn new(name: &str, from: Origin, config: StoreConfig) -> Self {
        let (connections, last) = (Connections::default(), Mutex::default());
        Self { name: name.to_owned(), from, config, connections, last }
    }

    /// Its stores have connections from there.
    pub(crate) fn through(mut self, connections: &Connections) -> Self {
        self.connections.clone_from(connections);
        self
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Looks which stores there are now.
    pub(crate) async fn look(&self) -> Result<Vec<Listed<Place>>, Failure> {
        let found = self.find().await.map_err(|failure| {
            let next = format!("check [discover.{}] in the file", self.name);
            failure.inside(&format!("discover.{}", self.name)).next(next)
        })?;
        self.last().list.clone_from(&found);
        Ok(found)
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has what was just found ready for the fleet.
    pub(super) fn keep_for_fleet(&self) {
        self.last().is_news = true;
    }

    /// Looks, and gives what was found last if that fails.
    pub(super) async fn look_or_keep(&self) -> Vec<Listed<Place>> {
        if let last = &mut *self.last()
            && std::mem::take(&mut last.is_news)
        {
            return last.list.clone();
        }
        match self.look().await {
            Ok(found) => found,
            Err(failure) => {
                let last = self.last().list.clone();
                let (error, kept) = (failure.in_one_line(), last.len());
                tracing::warn!(source = %self.name, error, kept, "FLEET_SOURCE_FAILED");
                last
            }
        }
    }

    async fn find(&self) -> Result<Vec<Listed<Place>>, Failure> {
        match &self.from {
            Origin::Folder { files, .. } => {
                let found = files.discover().await?;
                let place = |listed: &Listed<PathBuf>| {
                    let Some(file) = listed.place.to_str() else {
                        let what = format!("the name of {} is not text", listed.place.display());
                        return Err(Failure::new(Exit::Invalid, what));
                    };
                    self.place(&listed.id, &Url::of_file(file), None)
                };
                found.into_iter().map(|listed| moved(place(&listed)?, listed)).collect()
            }
            Origin::Query { rows, .. } => {
                let found = rows.discover().await?;
                let place = |listed: &Listed<postroom::StoreUrl>| {
                    self.place(&listed.id, listed.place.as_str(), listed.place.schema())
                };
                found.into_iter().map(|listed| moved(place(&listed)?, listed)).collect()
            }
        }
    }

    fn place(&self, id: &StoreId, url: &str, schema: Option<&str>) -> Result<Place, Failure> {
        let schema = schema.map_or_else(|| self.config.schema.clone(), str::to_owned);
        let config = StoreConfig { name: Some(id.to_string()), schema, ..self.config.clone() };
        let target = Target::of(url, config).map_err(|f| f.inside(&format!("store {id}")))?;
        Ok(Arc::new(target.through(&self.connections)))
    }
}

/// The same store at another kind of place.
fn moved<P>(place: Place, listed: Listed<P>) -> Result<Listed<Place>, Failure> {
    let Listed { id, weight, keys, .. } = listed;
    Ok(Listed { id, place, weight, keys })
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            Origin::Folder { path, .. } => write!(f, "files of {}", path.display()),
            Origin::Query { shown, .. } => write!(f, "query on {shown}"),
        }
    }
}
