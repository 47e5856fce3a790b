//! Millions of messages in PostgreSQL by SQL, as the store would have written them.

use anyhow::Context as _;
use postroom_core::{IntoMessage as _, Message};
use sqlx::{Executor as _, PgConnection};
use uuid::Uuid;

use crate::fill::bytes_of;
use crate::progress::say;
use crate::report::numbers::short;

/// Rows per statement.
const CHUNK: u64 = 250_000;

/// Ids as the store makes them: by time, then by chance. What was written is an hour old.
/// $1 how many, $2 payload.
macro_rules! with_messages {
    ($rest:literal) => {
        concat!(
            "with made as materialized (
                select
                    seq,
                    written,
                    (
                        lpad(to_hex((extract(epoch from written) * 1000)::bigint), 12, '0')
                        || '7' || substr(md5(seq::text), 1, 3)
                        || '8' || substr(md5(seq::text), 4, 15)
                    )::uuid as id
                from (
                    select
                        nextval('postroom.outbox_seq') as seq,
                        now() - interval '1 hour' + interval '10 us' * number as written
                    from generate_series(1, $1::bigint) as number
                ) as each
            ),
            written as (
                insert into postroom.outbox_message (
                    id, seq, occurred_at, created_at, priority, topic, payload
                )
                select id, seq, written, written, 0, 'order.placed', $2::bytea
                from made
            )",
            $rest
        )
    };
}

/// $3 hash of the topic.
const BACKLOG: &str = with_messages!(
    "
    insert into postroom.outbox_queue (seq, topic_hash, id, attempts, lost, priority)
    select seq, $3::bigint, id, 0, 0, 0
    from made
    order by seq"
);

/// $3 who settled them.
const SETTLED: &str = with_messages!(
    "
    insert into postroom.outbox_settled (
        seq, settled_at, id, settled_by, attempts, lost, state
    )
    select seq, written + interval '1 s', id, $3::uuid, 0, 0, 1
    from made
    order by seq"
);

/// Adds messages that are to be delivered.
pub(crate) async fn backlog(
    conn: &mut PgConnection,
    id: &str,
    count: u64,
    payload: usize,
) -> anyhow::Result<()> {
    let hash = Message::builder("order.placed").into_message()?.topic_hash();
    for chunk in chunks(id, "a backlog", count) {
        let insert = sqlx::query(BACKLOG).bind(i64::try_from(chunk)?).bind(bytes_of(payload));
        insert.bind(hash).execute(&mut *conn).await.context("a backlog by SQL")?;
    }
    Ok(())
}

/// Adds messages that were delivered.
pub(crate) async fn settled(
    conn: &mut PgConnection,
    id: &str,
    count: u64,
    payload: usize,
) -> anyhow::Result<()> {
    let owner = Uuid::new_v4();
    for chunk in chunks(id, "settled messages", count) {
        let insert = sqlx::query(SETTLED).bind(i64::try_from(chunk)?).bind(bytes_of(payload));
        insert.bind(owner).execute(&mut *conn).await.context("settled messages by SQL")?;
    }
    Ok(())
}

/// Makes the backlog as long as this again.
pub(crate) async fn top_up(
    conn: &mut PgConnection,
    id: &str,
    to: u64,
    payload: usize,
) -> anyhow::Result<()> {
    let sql = "select count(*) from postroom.outbox_queue";
    let there: i64 = sqlx::query_scalar(sql).fetch_one(&mut *conn).await?;
    backlog(conn, id, to.saturating_sub(u64::try_from(there)?), payload).await?;
    settle_down(conn).await
}

/// What autovacuum would have done by the time there are so many.
pub(crate) async fn settle_down(conn: &mut PgConnection) -> anyhow::Result<()> {
    conn.execute("vacuum analyze").await?;
    conn.execute("checkpoint").await?;
    Ok(())
}

/// Of large numbers each part is told: they take minutes.
fn chunks<'a>(id: &'a str, what: &'a str, count: u64) -> impl Iterator<Item = u64> + 'a {
    (0..count.div_ceil(CHUNK)).map(move |chunk| {
        let done = chunk * CHUNK;
        if count > CHUNK && done.is_multiple_of(4 * CHUNK) {
            say(id, &format!("fills {what}: {} of {}", short(done as f64), short(count as f64)));
        }
        CHUNK.min(count - done)
    })
}
