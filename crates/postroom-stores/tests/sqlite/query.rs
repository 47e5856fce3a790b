//! The list of a fleet as a query on a master database.

use std::path::Path;
use std::time::Duration;

use postroom_core::fleet::Discovery as _;
use postroom_core::{ErrorKind, Result};
use postroom_stores::fleet::SqlQuery;
use sqlx::{Connection as _, Executor as _, SqliteConnection};

fn url(folder: &Path) -> String {
    format!("sqlite:{}/master.db", folder.display())
}

async fn master(folder: &Path) -> SqliteConnection {
    let url = format!("{}?mode=rwc", url(folder));
    let mut master = SqliteConnection::connect(&url).await.expect("a database");
    let sql = "create table tenants (id any, url text, weight int, keys text, active int)";
    master.execute(sql).await.expect("a table");
    master
}

async fn ids(query: &SqlQuery) -> Result<Vec<String>> {
    let found = query.discover().await?;
    Ok(found.iter().map(|listed| listed.id.to_string()).collect())
}

#[tokio::test]
async fn fleet_1_the_rows_of_a_query_are_the_stores() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut master = master(folder.path()).await;
    let rows = "insert into tenants values
        ('acme', 'postgres://a:s3cret@db/acme', 3, 'a, b', 1),
        (7, 'sqlite:7.db', null, null, 1),
        ('gone', 'not a url', 1, null, 0)";
    master.execute(rows).await.expect("rows");
    let query = SqlQuery::new(&url(folder.path()), "select * from tenants where active = 1;");
    let query = query.expect("a query");
    let found = query.discover().await.expect("a list");
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].id.as_str(), found[0].weight), ("acme", 3));
    assert_eq!(found[0].place.as_str(), "postgres://a:s3cret@db/acme");
    assert_eq!(found[0].keys, ["a", "b"]);
    assert_eq!((found[1].id.as_str(), found[1].weight), ("7", 1));
    assert!(!format!("{query:?} {found:?}").contains("s3cret"));
}

#[tokio::test]
async fn fleet_1_no_rows_after_some_are_believed_the_second_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut master = master(folder.path()).await;
    let query = SqlQuery::new(&url(folder.path()), "select id, url from tenants").expect("legal");
    assert!(ids(&query).await.expect("none yet").is_empty());
    let row = "insert into tenants (id, url) values ('acme', 'sqlite:a.db')";
    master.execute(row).await.expect("a row");
    assert_eq!(ids(&query).await.expect("one"), ["acme"]);
    master.execute("delete from tenants").await.expect("none");
    let error = ids(&query).await.expect_err("suspicious");
    assert!(error.to_string().contains("no store where there were 1"), "{error}");
    assert!(ids(&query).await.expect("it is so").is_empty());
    // A list that comes back in between was never gone.
    master.execute(row).await.expect("a row");
    assert_eq!(ids(&query).await.expect("one"), ["acme"]);
}

#[tokio::test]
async fn fleet_1_a_bad_row_fails_the_look_and_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut master = master(folder.path()).await;
    let rows = "insert into tenants values
        ('acme', 'sqlite:a.db', 1, null, 1), ('globex', 'orcl://u:s3cret@db', 1, null, 1)";
    master.execute(rows).await.expect("rows");
    let query = SqlQuery::new(&url(folder.path()), "select * from tenants").expect("legal");
    let error = query.discover().await.expect_err("a bad row");
    let text = format!("{error} {error:?}");
    assert!(text.contains("row 2: store globex: column url must be"), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
}

#[tokio::test]
async fn fleet_1_a_query_can_not_write_and_a_master_is_not_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = SqlQuery::new(&url(folder.path()), "select 1 as id").expect("legal");
    let error = missing.discover().await.expect_err("no file");
    assert!(error.to_string().ends_with("refuses the login or the query"), "{error}");
    assert!(std::fs::read_dir(folder.path()).expect("a folder").next().is_none(), "made one");
    let _master = master(folder.path()).await;
    let sql = "insert into tenants (id) values ('a') returning id, 'sqlite:a.db' as url";
    let writes = SqlQuery::new(&url(folder.path()), sql).expect("legal");
    assert_eq!(writes.discover().await.expect_err("read only").kind(), ErrorKind::Database);
    for (url, sql) in [("oracle://u:s3cret@db", "select 1"), ("sqlite:a.db", "  ")] {
        let error = SqlQuery::new(url, sql).expect_err("nonsense");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}

#[tokio::test]
async fn fleet_1_a_look_has_a_time_limit_and_a_password_is_not_told() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = silent.local_addr().expect("an address");
    for scheme in ["postgres", "mysql"] {
        let url = format!("{scheme}://relay:s3cret@{address}/master");
        let query = SqlQuery::new(&url, "select 1").expect("legal");
        let query = query.time_limit(Duration::from_millis(50));
        let error = query.discover().await.expect_err("nobody answers");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let text = format!("{error} {error:?}");
        assert!(text.contains("relay:***@") && !text.contains("s3cret"), "{text}");
    }
}
