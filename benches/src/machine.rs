//! Where it was measured: the machine, its disk, and the versions and settings of the databases.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use sqlx::{Connection as _, MySqlConnection, PgConnection, SqliteConnection};

use crate::report::Unit;
use crate::report::numbers::{median, seconds};

const FLUSHES: usize = 50;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    /// GiB.
    pub(crate) memory: f64,
    /// Median of a write of 8 kB that waits for the disk, in seconds, where temporary files are.
    pub(crate) flush: f64,
    pub(crate) databases: Vec<String>,
}

impl Setup {
    /// Looks around. A server that has no URL is not asked.
    pub(crate) async fn look(postgres: Option<&str>, mysql: Option<&str>) -> anyhow::Result<Self> {
        let mut databases = Vec::new();
        if let Some(url) = postgres {
            databases.push(about_postgres(url).await?);
        }
        if let Some(url) = mysql {
            databases.push(about_mysql(url).await?);
        }
        databases.push(about_sqlite().await?);
        Ok(Self {
            processor: processor().unwrap_or_else(|| "unknown processor".to_owned()),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory: memory().unwrap_or(0.0),
            flush: flush()?,
            databases,
        })
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flush = Unit::Seconds.show(self.flush);
        write!(f, "machine: {} cores ({}), ", self.cores, self.processor)?;
        write!(f, "{:.0} GiB of memory, a flush to disk takes {flush}", self.memory)?;
        self.databases.iter().try_for_each(|database| write!(f, "\n{database}"))
    }
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory() -> Option<f64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0 / 1024.0)
}

fn flush() -> anyhow::Result<f64> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("flush");
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let mut times = Vec::with_capacity(FLUSHES);
    for _ in 0..FLUSHES {
        let began = Instant::now();
        file.write_all(&[0; 8192])?;
        file.sync_data()?;
        times.push(began.elapsed());
    }
    Ok(median(&seconds(&times)))
}

async fn about_postgres(url: &str) -> anyhow::Result<String> {
    const SETTINGS: [&str; 5] =
        ["fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size"];
    let mut conn = PgConnection::connect(url).await?;
    let sql = "select current_setting($1)";
    let mut about = Vec::new();
    for setting in SETTINGS {
        let value: String = sqlx::query_scalar(sql).bind(setting).fetch_one(&mut conn).await?;
        about.push(format!("{setting} = {value}"));
    }
    let version: String =
        sqlx::query_scalar(sql).bind("server_version").fetch_one(&mut conn).await?;
    conn.close().await?;
    Ok(format!("PostgreSQL {version}: {}", about.join(", ")))
}

async fn about_mysql(url: &str) -> anyhow::Result<String> {
    const SETTINGS: [&str; 4] =
        ["innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin", "innodb_buffer_pool_size"];
    let mut conn = MySqlConnection::connect(url).await?;
    let mut about = Vec::new();
    for setting in SETTINGS {
        let ask = sqlx::query_as("show global variables like ?").bind(setting);
        let (_, value): (String, String) = ask.fetch_one(&mut conn).await?;
        about.push(format!("{setting} = {value}"));
    }
    let version: String = sqlx::query_scalar("select version()").fetch_one(&mut conn).await?;
    conn.close().await?;
    Ok(format!("{version}: {}", about.join(", ")))
}

async fn about_sqlite() -> anyhow::Result<String> {
    let mut conn = SqliteConnection::connect("sqlite::memory:").await?;
    let version: String =
        sqlx::query_scalar("select sqlite_version()").fetch_one(&mut conn).await?;
    conn.close().await?;
    Ok(format!("SQLite {version}: journal_mode = wal, synchronous = normal"))
}
