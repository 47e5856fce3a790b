//! The list of a fleet as a query on a master database.

use postroom_core::ErrorKind;
use postroom_core::fleet::Discovery as _;
use postroom_stores::fleet::SqlQuery;

use crate::postgres_support::url;

#[tokio::test]
async fn fleet_1_columns_of_any_type_are_read() {
    let sql = "select id, name as database, weight, keys, schema from (values
            ('00000000-0000-4000-8000-00000000000a'::uuid, 'acme prod', 2::bigint,
                array['a', 'b,c', 'd\"{}'], 'shop'),
            ('00000000-0000-4000-8000-00000000000b'::uuid, 'globex', null, '{}', null)
        ) as tenants (id, name, weight, keys, schema)";
    let query = SqlQuery::new(&url(), sql).expect("legal");
    let query = query.template("postgres://relay:s3cret@db/{database}").expect("legal");
    let found = query.discover().await.expect("a list");
    let [acme, globex] = &found[..] else { panic!("{found:?}") };
    assert_eq!(acme.id.as_str(), "00000000-0000-4000-8000-00000000000a");
    assert_eq!(acme.place.as_str(), "postgres://relay:s3cret@db/acme%20prod");
    assert_eq!((acme.weight, acme.place.schema()), (2, Some("shop")));
    assert_eq!(acme.keys, ["a", "b,c", "d\"{}"]);
    assert_eq!((globex.weight, globex.keys.len(), globex.place.schema()), (1, 0, None));
    assert!(!format!("{found:?}").contains("s3cret"));
}

#[tokio::test]
async fn fleet_1_a_query_can_not_write() {
    let query = SqlQuery::new(&url(), "create table postroom_query_was_here ()").expect("legal");
    let error = query.discover().await.expect_err("read only");
    assert_eq!(error.kind(), ErrorKind::Database);
    assert!(format!("{error:?}").contains("read-only transaction"), "{error:?}");
}
