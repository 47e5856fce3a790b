//! Tables that are made for a measurement and dropped after it, so that nobody's messages are in
//! the way.

use std::path::PathBuf;

use postroom::MessageId;
use sqlx::{Connection as _, Executor as _, MySqlConnection, PgConnection};

use crate::failure::{Exit, Failure};
use crate::sql::statement;
use crate::store::Target;
use crate::url::{Kind, Url};

/// Where a measurement takes place.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) target: Target,
    /// The schema, or the first part of each table name.
    name: String,
    file: Option<PathBuf>,
}

impl Scratch {
    /// Names it; the tables are made by whoever migrates the target.
    pub(crate) fn beside(target: &Target) -> Result<Self, Failure> {
        let unique = MessageId::new().as_uuid().simple().to_string();
        let name = format!("postroom_bench_{}", &unique[unique.len() - 8..]);
        let file = target.url().file().map(|file| PathBuf::from(format!("{file}.{name}")));
        let url = file.as_ref().map(|file| Url::of_file(&file.to_string_lossy()));
        Ok(Self { target: target.renamed(url.as_deref(), &name)?, name, file })
    }

    /// Drops what was made, as far as it was made.
    pub(crate) async fn drop(&self) -> Result<(), Failure> {
        let dropped = match self.target.url().kind {
            Kind::Sqlite => {
                self.remove_files();
                Ok(())
            }
            Kind::Postgres => self.drop_schema().await,
            Kind::MySql => self.drop_tables().await,
        };
        dropped.map_err(|error| {
            let what = format!("can not drop {}", self.name);
            Failure::new(Exit::Error, what).why(&error).next("drop it by hand: nobody uses it")
        })
    }

    fn remove_files(&self) {
        for file in self.file.iter() {
            for end in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(format!("{}{end}", file.display()));
            }
        }
    }

    async fn drop_schema(&self) -> sqlx::Result<()> {
        let mut conn = PgConnection::connect(self.target.url().as_str()).await?;
        let sql = format!("drop schema if exists \"{}\" cascade", self.name);
        conn.execute(statement(sql)).await?;
        conn.close().await
    }

    async fn drop_tables(&self) -> sqlx::Result<()> {
        let mut conn = MySqlConnection::connect(self.target.url().as_str()).await?;
        let sql = "select concat('drop ', if(table_type = 'VIEW', 'view', 'table'), ' `',
                table_name, '`')
            from information_schema.tables
            where table_schema = database() and left(table_name, ?) = ?
            union all
            select concat('drop procedure `', routine_name, '`')
            from information_schema.routines
            where routine_schema = database() and left(routine_name, ?) = ?";
        let beginning = format!("{}_", self.name);
        let length = i64::try_from(beginning.len()).unwrap_or(0);
        let query = sqlx::query_scalar(sql).bind(length).bind(&beginning);
        let query = query.bind(length).bind(&beginning);
        let statements: Vec<Vec<u8>> = query.fetch_all(&mut conn).await?;
        for drop in statements {
            conn.execute(statement(String::from_utf8_lossy(&drop))).await?;
        }
        conn.close().await
    }
}
