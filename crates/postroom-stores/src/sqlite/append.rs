//! Writing messages inside the caller's transaction.

use std::collections::HashMap;

use postroom_core::store::{Appended, Birth, Entry, Paused, id_taken};
use postroom_core::{ErrorKind, Message, MessageId, Result, Timestamp, WorkId};
use serde_json::json;
use sqlx::Row;
use sqlx::sqlite::SqliteConnection;
use uuid::Uuid;

use super::admin::stored_message;
use super::classify::classify;
use super::control::paused;
use super::sql::Statements;

/// What one call has written, for taking it back.
#[derive(Default)]
struct Written {
    seqs: HashMap<Uuid, i64>,
    keys: Vec<[u8; 32]>,
}

pub(super) async fn append(
    sql: &Statements,
    conn: &mut SqliteConnection,
    entries: &[Entry],
    now: Timestamp,
) -> Result<Vec<Appended>> {
    let mut written = Written::default();
    match write(sql, conn, entries, now, &mut written).await {
        Ok(answers) => Ok(answers),
        Err(error) if error.kind() == ErrorKind::IdTaken => {
            take_back(sql, conn, &written).await?;
            Err(error)
        }
        Err(error) => Err(error),
    }
}

async fn write(
    sql: &Statements,
    conn: &mut SqliteConnection,
    entries: &[Entry],
    now: Timestamp,
    written: &mut Written,
) -> Result<Vec<Appended>> {
    let mut answers: Vec<Option<Appended>> = vec![None; entries.len()];
    for (entry, answer) in entries.iter().zip(&mut answers) {
        if !win_key(sql, conn, &entry.message, now, written).await? {
            *answer = first_one(sql, conn, &entry.message, written).await?;
        }
    }
    let is_new = |message: &Message| !written.seqs.contains_key(&message.id().as_uuid());
    let winners = entries.iter().zip(&answers).filter(|(_, answer)| answer.is_none());
    let messages = winners.map(|(entry, _)| &entry.message).filter(|message| is_new(message));
    let messages: Vec<_> = messages.collect();
    insert(sql, conn, &messages, now, written).await?;
    let mut places = Vec::with_capacity(messages.len());
    let is_hot = entries.iter().any(|entry| entry.birth != Birth::Ready);
    let paused = if is_hot { paused(sql, conn).await? } else { Paused::default() };
    for (entry, answer) in entries.iter().zip(&mut answers).filter(|(_, a)| a.is_none()) {
        let id = entry.message.id().as_uuid();
        if !written.seqs.contains_key(&id) {
            *answer = first_one(sql, conn, &entry.message, written).await?;
        }
        if let Some(seq) = written.seqs.get(&id).filter(|_| answer.is_none()) {
            let (place, leased) = place(entry, *seq, &paused, now);
            places.push(place);
            *answer = Some(Appended::New { work: WorkId::new(*seq), leased });
        }
    }
    let places = json!(places).to_string();
    for statement in [&sql.append_place, &sql.append_park] {
        sqlx::query(statement.clone()).bind(&places).execute(&mut *conn).await.map_err(classify)?;
    }
    Ok(answers.into_iter().flatten().collect())
}

/// Whether the message is the first with its key; one without a key always is.
async fn win_key(
    sql: &Statements,
    conn: &mut SqliteConnection,
    message: &Message,
    now: Timestamp,
    written: &mut Written,
) -> Result<bool> {
    let Some(key) = message.unique_key() else { return Ok(true) };
    let inserted = sqlx::query(sql.append_key.clone())
        .bind(key.as_slice())
        .bind(message.id().as_uuid())
        .bind(now.as_micros())
        .bind(message.content_hash().to_vec())
        .execute(conn)
        .await
        .map_err(classify)?;
    let won = inserted.rows_affected() == 1;
    if won {
        written.keys.push(key);
    }
    Ok(won)
}

/// Inserts as many rows per statement as possible. What is not in `written` after that has a taken
/// id.
async fn insert(
    sql: &Statements,
    conn: &mut SqliteConnection,
    messages: &[&Message],
    now: Timestamp,
    written: &mut Written,
) -> Result<()> {
    let mut rest = messages;
    while !rest.is_empty() {
        let fits = sql.append_rows.iter().find(|(rows, _)| *rows <= rest.len());
        let Some((rows, statement)) = fits else { break };
        let (chunk, later) = rest.split_at(*rows);
        let mut query = sqlx::query(statement.clone());
        for message in chunk {
            query = bind(query, message, now);
        }
        for row in query.fetch_all(&mut *conn).await.map_err(classify)? {
            let id = row.try_get("id").map_err(classify)?;
            written.seqs.insert(id, row.try_get("seq").map_err(classify)?);
        }
        rest = later;
    }
    Ok(())
}

type Query<'a> = sqlx::query::Query<'a, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>;

fn bind<'a>(query: Query<'a>, message: &Message, now: Timestamp) -> Query<'a> {
    let own = |text: Option<&str>| text.map(str::to_owned);
    let content_type = Some(message.content_type());
    let origin = message.origin();
    query
        .bind(message.id().as_uuid())
        .bind(message.topic().as_str().to_owned())
        .bind(message.payload().to_vec())
        .bind(own(content_type.filter(|text| *text != Message::DEFAULT_CONTENT_TYPE)))
        .bind(message.headers().to_json())
        .bind(own(message.aggregate_type().map(AsRef::as_ref)))
        .bind(own(message.aggregate_id().map(AsRef::as_ref)))
        .bind(own(message.ordering_key().map(AsRef::as_ref)))
        .bind(own(message.tenant_id().map(AsRef::as_ref)))
        .bind(own(message.correlation_id().map(AsRef::as_ref)))
        .bind(own(message.causation_id().map(AsRef::as_ref)))
        .bind(message.idempotency_key().map(|key| key.as_uuid()))
        .bind(message.occurred_at().unwrap_or(now).as_micros())
        .bind(message.due().map(|due| due.resolve(now).as_micros()))
        .bind(message.expires().map(|at| at.resolve(now).as_micros()))
        .bind(message.priority())
        .bind(now.as_micros())
        .bind(own(origin.map(|origin| origin.source.as_ref())))
        .bind(own(origin.map(|origin| origin.message_id.as_ref())))
        .bind(own(origin.map(|origin| origin.consumer.as_ref())))
}

/// Takes note of a key without a message; whether that is new.
pub(super) async fn admit(
    sql: &Statements,
    conn: &mut SqliteConnection,
    key: [u8; 32],
    now: Timestamp,
) -> Result<bool> {
    let admitted = sqlx::query(sql.admit.clone())
        .bind(key.to_vec())
        .bind(MessageId::new().as_uuid())
        .bind(now.as_micros())
        .execute(conn)
        .await
        .map_err(classify)?;
    Ok(admitted.rows_affected() == 1)
}

/// Which message was first, for one whose key or id is taken. None when it was this very one, in an
/// append of this transaction that was cancelled halfway: then the rest of it is still to be
/// written.
async fn first_one(
    sql: &Statements,
    conn: &mut SqliteConnection,
    message: &Message,
    written: &mut Written,
) -> Result<Option<Appended>> {
    let own = Appended::Existed { id: message.id(), same_content: true };
    let row = sqlx::query(sql.append_lookup.clone())
        .bind(message.id().as_uuid())
        .bind(message.unique_key().map(|key| key.to_vec()))
        .fetch_one(conn)
        .await
        .map_err(classify)?;
    let first: Option<Uuid> = row.try_get("key_message_id").map_err(classify)?;
    if let Some(first) = first.filter(|first| *first != message.id().as_uuid()) {
        let said: Option<Vec<u8>> = row.try_get("key_content").map_err(classify)?;
        let same_content = said.is_none_or(|said| said == message.content_hash());
        return Ok(Some(Appended::Existed { id: MessageId::from(first), same_content }));
    }
    let stored: Option<i64> = row.try_get("seq").map_err(classify)?;
    let Some(seq) = stored else {
        // A key without its message: delivered and deleted, and still a duplicate.
        let gone: Option<i64> = row.try_get("gone_at").map_err(classify)?;
        return Ok(gone.map(|_| own));
    };
    let stored = stored_message(&row).and_then(|stored| stored.decode());
    if !stored.is_ok_and(|stored| stored.content_hash() == message.content_hash()) {
        return Err(id_taken(message.id()));
    }
    if row.try_get("placed").map_err(classify)? {
        return Ok(Some(own));
    }
    written.seqs.insert(message.id().as_uuid(), seq);
    Ok(None)
}

async fn take_back(sql: &Statements, conn: &mut SqliteConnection, written: &Written) -> Result<()> {
    let seqs: Vec<_> = written.seqs.values().collect();
    let undo = sqlx::query(sql.append_undo.clone()).bind(json!(seqs).to_string());
    undo.execute(&mut *conn).await.map_err(classify)?;
    for key in &written.keys {
        let undo = sqlx::query(sql.append_undo_keys.clone()).bind(key.to_vec());
        undo.execute(&mut *conn).await.map_err(classify)?;
    }
    Ok(())
}

/// The row of the queue or of the parked ones, and whether it is born leased.
fn place(entry: &Entry, seq: i64, paused: &Paused, now: Timestamp) -> (serde_json::Value, bool) {
    let message = &entry.message;
    let lane = message.lane();
    let wake_at = message.due().map(|due| due.resolve(now)).filter(|due| *due > now);
    let lease = match entry.birth {
        Birth::Leased { owner, token, lease }
            if wake_at.is_none() && lane.is_none() && !paused.covers(message.topic_hash()) =>
        {
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
