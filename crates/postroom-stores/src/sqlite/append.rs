//! Writing messages inside the caller's transaction.

use postroom_core::store::{Appended, Birth, Entry, id_taken};
use postroom_core::{Error, ErrorKind, Message, MessageId, Result, Timestamp, WorkId};
use serde_json::json;
use sqlx::Row;
use sqlx::sqlite::SqliteConnection;
use uuid::Uuid;

use super::admin::stored_message;
use super::classify::classify;
use super::sql::Statements;

/// What one call has written, for taking it back.
#[derive(Default)]
struct Written {
    seqs: Vec<i64>,
    keys: Vec<[u8; 32]>,
}

pub(super) async fn append(
    sql: &Statements,
    conn: &mut SqliteConnection,
    entries: &[Entry],
    now: Timestamp,
) -> Result<Vec<Appended>> {
    let mut written = Written::default();
    let mut answers = Vec::with_capacity(entries.len());
    let mut places = Vec::with_capacity(entries.len());
    for entry in entries {
        match append_one(sql, conn, &entry.message, now, &mut written).await {
            Ok(Placed::New(seq)) => {
                let (place, leased) = place(entry, seq, now);
                places.push(place);
                answers.push(Appended::New { work: WorkId::new(seq), leased });
            }
            Ok(Placed::Existed(id)) => answers.push(Appended::Existed(id)),
            Err(error) => {
                take_back(sql, conn, &written).await?;
                return Err(error);
            }
        }
    }
    let places = json!(places).to_string();
    for statement in [&sql.append_place, &sql.append_park] {
        sqlx::query(statement.clone()).bind(&places).execute(&mut *conn).await.map_err(classify)?;
    }
    Ok(answers)
}

enum Placed {
    New(i64),
    Existed(MessageId),
}

async fn append_one(
    sql: &Statements,
    conn: &mut SqliteConnection,
    message: &Message,
    now: Timestamp,
    written: &mut Written,
) -> Result<Placed> {
    let key = message.idempotency_key().map(|key| key.scoped(message.tenant_id()));
    if let Some(key) = key {
        let inserted = sqlx::query(sql.append_key.clone())
            .bind(key.as_slice())
            .bind(message.id().as_uuid())
            .bind(now.as_micros())
            .execute(&mut *conn)
            .await
            .map_err(classify)?;
        if inserted.rows_affected() == 0 {
            return first_one(sql, conn, message, key.as_slice()).await;
        }
        written.keys.push(key);
    }
    match insert(sql, conn, message, now).await? {
        Some(seq) => {
            written.seqs.push(seq);
            Ok(Placed::New(seq))
        }
        None => first_one(sql, conn, message, &[]).await,
    }
}

async fn insert(
    sql: &Statements,
    conn: &mut SqliteConnection,
    message: &Message,
    now: Timestamp,
) -> Result<Option<i64>> {
    let content_type = Some(message.content_type());
    let row = sqlx::query(sql.append.clone())
        .bind(message.id().as_uuid())
        .bind(message.topic().as_str())
        .bind(message.payload().as_ref())
        .bind(content_type.filter(|text| *text != Message::DEFAULT_CONTENT_TYPE))
        .bind(message.headers().to_json())
        .bind(message.aggregate_type().map(AsRef::as_ref))
        .bind(message.aggregate_id().map(AsRef::as_ref))
        .bind(message.ordering_key().map(AsRef::as_ref))
        .bind(message.tenant_id().map(AsRef::as_ref))
        .bind(message.correlation_id().map(AsRef::as_ref))
        .bind(message.causation_id().map(AsRef::as_ref))
        .bind(message.idempotency_key().map(|key| key.as_uuid()))
        .bind(message.occurred_at().unwrap_or(now).as_micros())
        .bind(message.due().map(|due| due.resolve(now).as_micros()))
        .bind(message.expires().map(|at| at.resolve(now).as_micros()))
        .bind(message.priority())
        .bind(now.as_micros())
        .fetch_optional(conn)
        .await
        .map_err(classify)?;
    row.map(|row| row.try_get(0).map_err(classify)).transpose()
}

/// The answer for a message whose key or id is taken.
async fn first_one(
    sql: &Statements,
    conn: &mut SqliteConnection,
    message: &Message,
    key: &[u8],
) -> Result<Placed> {
    let row = sqlx::query(sql.append_lookup.clone())
        .bind(message.id().as_uuid())
        .bind(key)
        .fetch_one(conn)
        .await
        .map_err(classify)?;
    let first: Option<Uuid> = row.try_get("key_message_id").map_err(classify)?;
    if let Some(first) = first.filter(|first| *first != message.id().as_uuid()) {
        return Ok(Placed::Existed(MessageId::from(first)));
    }
    let stored: Option<Uuid> = row.try_get("id").map_err(classify)?;
    if stored.is_none() && first.is_none() {
        return Err(Error::new(ErrorKind::Contention, "the first message vanished; try again"));
    }
    // A key without its message: delivered and deleted, and still a duplicate.
    let Some(_) = stored else { return Ok(Placed::Existed(message.id())) };
    let same = stored_message(&row).and_then(|stored| stored.decode());
    match same {
        Ok(stored) if stored.content_hash() == message.content_hash() => {
            Ok(Placed::Existed(message.id()))
        }
        _ => Err(id_taken(message.id())),
    }
}

async fn take_back(sql: &Statements, conn: &mut SqliteConnection, written: &Written) -> Result<()> {
    let seqs = json!(written.seqs).to_string();
    let undo = sqlx::query(sql.append_undo.clone()).bind(seqs);
    undo.execute(&mut *conn).await.map_err(classify)?;
    for key in &written.keys {
        let undo = sqlx::query(sql.append_undo_keys.clone()).bind(key.as_slice());
        undo.execute(&mut *conn).await.map_err(classify)?;
    }
    Ok(())
}

/// The row of the queue or of the parked ones, and whether it is born leased.
fn place(entry: &Entry, seq: i64, now: Timestamp) -> (serde_json::Value, bool) {
    let message = &entry.message;
    let lane = message.lane();
    let wake_at = message.due().map(|due| due.resolve(now)).filter(|due| *due > now);
    let lease = match entry.birth {
        Birth::Leased { owner, token, lease } if wake_at.is_none() && lane.is_none() => {
            Some((owner, token, now.saturating_add(lease)))
        }
        _ => None,
    };
    let place = json!({
        "seq": seq,
        "id": message.id().as_uuid().simple().to_string(),
        "slot": lane.map(|lane| lane.slot),
        "key_hash": lane.map(|lane| lane.key_hash),
        "tenant_hash": message.tenant_hash(),
        "topic_hash": message.topic_hash(),
        "priority": message.priority(),
        "token": lease.map(|(_, token, _)| token.as_uuid().simple().to_string()),
        "owner": lease.map(|(owner, _, _)| owner.as_uuid().simple().to_string()),
        "locked_until": lease.map(|(_, _, until)| until.as_micros()),
        "wake_at": wake_at.map(Timestamp::as_micros),
        "expires_at": message.expires().map(|at| at.resolve(now).as_micros()),
    });
    (place, lease.is_some())
}
