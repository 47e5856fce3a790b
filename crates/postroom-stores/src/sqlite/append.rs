//! Writing messages inside the caller's transaction.

use std::collections::HashMap;

use postroom_core::store::{Appended, Birth, Entry, Paused};
use postroom_core::{ErrorKind, Message, MessageId, Result, Timestamp, WorkId};
use serde_json::json;
use sqlx::Row;
use sqlx::sqlite::SqliteConnection;
use uuid::Uuid;

use super::admin::stored_message;
use super::classify::classify;
use super::control::paused;
use super::first::{First, InTheWay};
use super::sql::Statements;
use super::values::{self, Value, place};

/// What one call has written, for taking it back.
struct Written<'a> {
    /// Places that were given before.
    reserved: &'a HashMap<MessageId, i64>,
    seqs: HashMap<Uuid, i64>,
    keys: Vec<[u8; 32]>,
}

pub(super) async fn append(
    sql: &Statements,
    conn: &mut SqliteConnection,
    entries: &[Entry],
    now: Timestamp,
) -> Result<Vec<Appended>> {
    append_at(sql, conn, entries, &HashMap::new(), now).await
}

/// The same for messages of which some have their place already.
pub(super) async fn append_at(
    sql: &Statements,
    conn: &mut SqliteConnection,
    entries: &[Entry],
    reserved: &HashMap<MessageId, i64>,
    now: Timestamp,
) -> Result<Vec<Appended>> {
    let mut written = Written { reserved, seqs: HashMap::new(), keys: Vec::new() };
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
    written: &mut Written<'_>,
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
    written: &mut Written<'_>,
) -> Result<bool> {
    let Some(key) = message.unique_key() else { return Ok(true) };
    let values = values::key(message, now).into_iter().flatten();
    let insert = bind(sqlx::query(sql.append_key.clone()), values);
    let inserted = insert.execute(conn).await.map_err(classify)?;
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
    written: &mut Written<'_>,
) -> Result<()> {
    let mut rest = messages;
    while !rest.is_empty() {
        let fits = sql.append_rows.iter().find(|(rows, _)| *rows <= rest.len());
        let Some((rows, statement)) = fits else { break };
        let (chunk, later) = rest.split_at(*rows);
        let mut query = sqlx::query(statement.clone());
        for message in chunk {
            let seq = written.reserved.get(&message.id()).copied();
            query = bind(query, values::message(message, seq, now));
        }
        for row in query.fetch_all(&mut *conn).await.map_err(classify)? {
            let id = row.try_get("id").map_err(classify)?;
            written.seqs.insert(id, row.try_get("seq").map_err(classify)?);
        }
        rest = later;
    }
    Ok(())
}

pub(super) type Query = sqlx::query::Query<'static, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>;

pub(super) fn bind(query: Query, values: impl IntoIterator<Item = Value>) -> Query {
    values.into_iter().fold(query, |query, value| match value {
        Value::Null => query.bind(None::<i64>),
        Value::Integer(number) => query.bind(number),
        Value::Text(text) => query.bind(text),
        Value::Blob(bytes) => query.bind(bytes),
    })
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

/// Which message was first, for one whose key or id is taken. None when the rest of this very one
/// is still to be written.
async fn first_one(
    sql: &Statements,
    conn: &mut SqliteConnection,
    message: &Message,
    written: &mut Written<'_>,
) -> Result<Option<Appended>> {
    let lookup = bind(sqlx::query(sql.append_lookup.clone()), values::lookup(message));
    let row = lookup.fetch_one(conn).await.map_err(classify)?;
    let read = || -> sqlx::Result<InTheWay> {
        Ok(InTheWay {
            key_message_id: row.try_get("key_message_id")?,
            key_content: row.try_get("key_content")?,
            gone: row.try_get::<Option<i64>, _>("gone_at")?.is_some(),
            seq: row.try_get("seq")?,
            placed: row.try_get("placed")?,
        })
    };
    let stored = || stored_message(&row).and_then(|stored| stored.decode());
    match read().map_err(classify)?.first_one(message, stored)? {
        First::Existed { id, same_content } => Ok(Some(Appended::Existed { id, same_content })),
        First::Unplaced { seq } => {
            written.seqs.insert(message.id().as_uuid(), seq);
            Ok(None)
        }
        First::Unwritten => Ok(None),
    }
}

async fn take_back(
    sql: &Statements,
    conn: &mut SqliteConnection,
    written: &Written<'_>,
) -> Result<()> {
    let seqs: Vec<_> = written.seqs.values().collect();
    let undo = sqlx::query(sql.append_undo.clone()).bind(json!(seqs).to_string());
    undo.execute(&mut *conn).await.map_err(classify)?;
    for key in &written.keys {
        let undo = sqlx::query(sql.append_undo_keys.clone()).bind(key.to_vec());
        undo.execute(&mut *conn).await.map_err(classify)?;
    }
    Ok(())
}
