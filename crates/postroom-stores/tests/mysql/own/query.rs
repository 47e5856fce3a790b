//! The list of a fleet as a query on a master database.

use postroom_core::ErrorKind;
use postroom_core::fleet::Discovery as _;
use postroom_stores::fleet::SqlQuery;

use crate::mysql_support::{create_database, run_on_server, url};

#[tokio::test]
async fn fleet_1_columns_of_any_type_are_read_and_nothing_is_written() {
    let database = create_database().await;
    let table = format!(
        "create table {database}.tenants
            (id int, name varchar(40) charset utf8mb4, weight bigint, keys_ json, raw binary(2))"
    );
    run_on_server(table).await;
    let rows = format!(
        "insert into {database}.tenants values
            (7, 'zürich', 2, '[\"a\", \"b,c\"]', 0xFFFE), (8, 'globex', null, null, null)"
    );
    run_on_server(rows).await;
    let sql = "select id, name, weight, keys_ as `keys`, raw from tenants order by id";
    let query = SqlQuery::new(&url(&database), sql).expect("legal");
    let query = query.template("mysql://relay:s3cret@db/{name}").expect("legal");
    let found = query.discover().await.expect("a list");
    let [zurich, globex] = &found[..] else { panic!("{found:?}") };
    assert_eq!((zurich.id.as_str(), zurich.weight), ("7", 2));
    assert_eq!(zurich.place.as_str(), "mysql://relay:s3cret@db/z%C3%BCrich");
    assert_eq!(zurich.keys, ["a", "b,c"]);
    assert_eq!((globex.weight, globex.keys.len()), (1, 0));

    let raw = SqlQuery::new(&url(&database), "select raw as id from tenants where id = 7");
    let error = raw.expect("legal").discover().await.expect_err("not text");
    assert!(error.to_string().contains("row 1: column id is not text; cast it"), "{error}");

    let writes = SqlQuery::new(&url(&database), "delete from tenants").expect("legal");
    assert_eq!(writes.discover().await.expect_err("read only").kind(), ErrorKind::Database);
    run_on_server(format!("drop database {database}")).await;
}
