//! A folder with a database file for each tenant.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use postroom_core::fleet::{Discovery, Listed, Opener, StoreId};
use postroom_core::store::{AdminStore as _, BoxFuture};
use postroom_core::{Error, ErrorKind, Result};

use crate::{SqliteStore, StoreConfig};

/// The SQLite files of a folder as the stores of a fleet: `acme.db` is the store `acme`. It lists
/// them and opens them.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use postroom_core::fleet::{Router, Stores};
/// use postroom_core::{ErrorKind, Message};
/// use postroom_stores::StoreConfig;
/// use postroom_stores::fleet::SqliteFolder;
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
///
/// for tenant in ["acme", "globex"] {
///     std::fs::File::create(folder.join(tenant).with_extension("db"))?;
/// }
/// let files = SqliteFolder::new(folder, StoreConfig::default());
/// let router = Router::new(Stores::new(files.clone(), files));
/// let outbox = router.outbox("acme").await?;
/// outbox.publish(Message::builder("order.placed")).await?;
///
/// let nobody = router.outbox("initech").await.expect_err("there is no such file");
/// assert_eq!(nobody.kind(), ErrorKind::UnknownStore);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SqliteFolder {
    folder: PathBuf,
    config: StoreConfig,
    migrates: bool,
}

impl SqliteFolder {
    /// The files in this folder that end in `.db`; not those in folders within it. They get their
    /// tables when they are opened.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, config: StoreConfig) -> Self {
        Self { folder: folder.into(), config, migrates: true }
    }

    /// Whether a file without our tables gets them. Default: yes.
    #[must_use]
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.migrates = migrate;
        self
    }

    fn list(&self) -> Result<Vec<Listed<PathBuf>>> {
        let unreadable = |error: std::io::Error| {
            let what = format!("the folder {} can not be read", self.folder.display());
            Error::new(ErrorKind::Unavailable, what).with_source(error)
        };
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension() == Some(OsStr::new("db")) && path.is_file() {
                found.push(Listed::new(named(&path)?, path));
            }
        }
        found.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(found)
    }

    async fn open_file(&self, id: &StoreId, path: &Path) -> Result<SqliteStore> {
        let Some(file) = path.to_str() else {
            let what = format!("{} is not text that SQLite can be told", path.display());
            return Err(Error::new(ErrorKind::Invalid, what));
        };
        if !path.is_file() {
            // Opening it would create it: a tenant that is gone must not come back empty.
            return Err(Error::new(ErrorKind::Unavailable, format!("there is no file {file}")));
        }
        let config = StoreConfig { name: Some(id.as_str().to_owned()), ..self.config.clone() };
        // It is read as a URL there, in which some characters mean something.
        let url = format!("sqlite:{}", file.replace('%', "%25").replace('?', "%3F"));
        let store = SqliteStore::open(&url, config).await?;
        match self.migrates {
            true => _ = store.migrate().await?,
            false => store.check_schema().await?,
        }
        Ok(store)
    }
}

/// What the file is called. One that can not be the name of a store is better told than left out:
/// its messages would wait for ever.
fn named(path: &Path) -> Result<StoreId> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    StoreId::new(stem.into_owned()).map_err(|error| {
        let what = format!("rename the file {}: {error}", path.display());
        Error::new(ErrorKind::Invalid, what)
    })
}

impl Discovery<PathBuf> for SqliteFolder {
    fn discover(&self) -> BoxFuture<'_, Result<Vec<Listed<PathBuf>>>> {
        Box::pin(std::future::ready(self.list()))
    }
}

impl Opener<PathBuf, SqliteStore> for SqliteFolder {
    fn open<'a>(&'a self, listed: &'a Listed<PathBuf>) -> BoxFuture<'a, Result<SqliteStore>> {
        Box::pin(self.open_file(&listed.id, &listed.place))
    }
}
