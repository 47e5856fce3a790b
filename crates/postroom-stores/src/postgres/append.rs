//! Writing messages inside the caller's transaction.

use postroom_core::store::{Appended, Birth, Entry, id_taken};
use postroom_core::{Error, ErrorKind, Message, MessageId, Result, When, WorkId, micros};
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};
use uuid::Uuid;

use super::PgStore;
use super::classify::{classify, is_taken};
use super::row::stored_message;
use super::session::broken;
use super::time::PgTime;

/// A loser whose winner is not there any more is tried once more.
const TRIES: usize = 2;

impl PgStore {
    pub(super) async fn append_entries(
        &self,
        conn: &mut PgConnection,
        entries: &[Entry],
    ) -> Result<Vec<Appended>> {
        let mut answers: Vec<Option<Appended>> = vec![None; entries.len()];
        let mut written = Written::default();
        let mut open: Vec<usize> = (0..entries.len()).collect();
        // All are asked: none is fresh after this try.
        let fresh = entries.iter().filter(|entry| entry.message.take_fresh()).count();
        let mut fresh = fresh == entries.len();
        for _ in 0..TRIES {
            let tried: Vec<_> = open.iter().map(|&place| &entries[place]).collect();
            for (place, answer) in self.insert(conn, &tried, fresh, &mut written).await? {
                answers[open[place]] = Some(answer);
            }
            open.retain(|&place| answers[place].is_none());
            if open.is_empty() {
                break;
            }
            fresh = false;
            let losers: Vec<_> = open.iter().map(|&place| &entries[place]).collect();
            for (place, found) in self.look_up(conn, &losers).await?.into_iter().enumerate() {
                match found {
                    Found::Same { id, same_content } => {
                        answers[open[place]] = Some(Appended::Existed { id, same_content });
                    }
                    Found::Nothing => self.forget_key(conn, losers[place], &mut written).await?,
                    Found::Other => {
                        self.undo(conn, &written).await?;
                        return Err(id_taken(losers[place].message.id()));
                    }
                }
            }
            open.retain(|&place| answers[place].is_none());
        }
        if !open.is_empty() {
            self.undo(conn, &written).await?;
            return Err(Error::new(
                ErrorKind::Contention,
                "publish: a rival with the same key came and went; run it again",
            ));
        }
        answers.into_iter().map(|answer| answer.ok_or_else(|| broken("an answer"))).collect()
    }

    /// Takes note of a key without a message; whether that is new.
    pub(super) async fn admit_key(&self, conn: &mut PgConnection, key: [u8; 32]) -> Result<bool> {
        let query = self.query(&self.sql.admit).bind(self.now());
        let query = query.bind(key.to_vec()).bind(MessageId::new().as_uuid());
        let admitted = query.execute(conn).await.map_err(|error| classify("receive", error))?;
        Ok(admitted.rows_affected() == 1)
    }

    /// Writes what is not there; answers for what it wrote, by place in the list.
    async fn insert(
        &self,
        conn: &mut PgConnection,
        entries: &[&Entry],
        fresh: bool,
        written: &mut Written,
    ) -> Result<Vec<(usize, Appended)>> {
        let statement = if fresh { &self.sql.append_fresh } else { &self.sql.append };
        let query = Columns::of(entries).bind(self.query(statement).bind(self.now()));
        let rows = query.fetch_all(conn).await.map_err(|error| match fresh {
            true if is_taken(&error) => made_up_twice(error),
            _ => classify("publish", error),
        })?;
        let mut answers = Vec::with_capacity(rows.len());
        for row in rows {
            let tried = Tried::read(&row).map_err(|error| classify("publish", error))?;
            let message = &entries[tried.place].message;
            written.keys.extend(key_row(message));
            if tried.inserted {
                written.ids.push(message.id().as_uuid());
                written.seqs.push(tried.seq);
                let work = WorkId::new(tried.seq);
                answers.push((tried.place, Appended::New { work, leased: tried.leased }));
            }
        }
        Ok(answers)
    }

    /// What is in the way of messages that were not written. A statement of its own, because only a
    /// later snapshot sees a rival that committed meanwhile.
    async fn look_up(&self, conn: &mut PgConnection, losers: &[&Entry]) -> Result<Vec<Found>> {
        let ids: Vec<_> = losers.iter().map(|entry| entry.message.id().as_uuid()).collect();
        let keys: Vec<_> = losers.iter().map(|entry| key_row(&entry.message)).collect();
        let query = self.query(&self.sql.append_lookup).bind(ids).bind(keys);
        let rows = query.fetch_all(conn).await.map_err(|error| classify("publish", error))?;
        let mut found = vec![Found::Nothing; losers.len()];
        for row in &rows {
            let place = place(row).map_err(|error| classify("publish", error))?;
            found[place] = Found::read(row, &losers[place].message)
                .map_err(|error| classify("publish", error))?;
        }
        Ok(found)
    }

    async fn undo(&self, conn: &mut PgConnection, written: &Written) -> Result<()> {
        let query = self.query(&self.sql.append_undo);
        let query = query.bind(&written.ids).bind(&written.seqs).bind(&written.keys);
        query.execute(conn).await.map(drop).map_err(|error| classify("publish", error))
    }

    /// Before a second try, gives up a key that was won for a message that was not written: else
    /// the message would find itself to be its own duplicate.
    async fn forget_key(
        &self,
        conn: &mut PgConnection,
        entry: &Entry,
        written: &mut Written,
    ) -> Result<()> {
        let Some(key) = key_row(&entry.message) else { return Ok(()) };
        let Some(won) = written.keys.iter().position(|won| *won == key) else { return Ok(()) };
        let keys = vec![written.keys.swap_remove(won)];
        self.undo(conn, &Written { keys, ..Written::default() }).await
    }
}

/// Somebody wrote a message with the id of one that was not written yet. The transaction is lost;
/// the next try looks first.
fn made_up_twice(error: sqlx::Error) -> Error {
    let problem = "publish: the id of a message that is new here is taken; publish it again";
    Error::new(ErrorKind::Contention, problem).with_source(error)
}

/// What one append wrote, for taking it back.
#[derive(Default)]
struct Written {
    ids: Vec<Uuid>,
    seqs: Vec<i64>,
    keys: Vec<Vec<u8>>,
}

struct Tried {
    place: usize,
    seq: i64,
    inserted: bool,
    leased: bool,
}

impl Tried {
    fn read(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            place: place(row)?,
            seq: row.try_get("seq")?,
            inserted: row.try_get("inserted")?,
            leased: row.try_get("leased")?,
        })
    }
}

/// The place in the list; SQL counts from one.
fn place(row: &PgRow) -> sqlx::Result<usize> {
    let place: i64 = row.try_get("place")?;
    usize::try_from(place - 1).map_err(|error| sqlx::Error::Decode(error.into()))
}

#[derive(Clone)]
enum Found {
    Same { id: MessageId, same_content: bool },
    Other,
    Nothing,
}

impl Found {
    fn read(row: &PgRow, message: &Message) -> sqlx::Result<Self> {
        let own = message.id();
        let same = Self::Same { id: own, same_content: true };
        let key_owner: Option<Uuid> = row.try_get("key_message_id")?;
        if let Some(first) = key_owner.map(MessageId::from).filter(|first| *first != own) {
            let said: Option<Vec<u8>> = row.try_get("key_content")?;
            // An empty hash is that of a key without a message.
            let said = said.filter(|said| !said.is_empty());
            let same_content = said.is_none_or(|said| said == message.content_hash());
            return Ok(Self::Same { id: first, same_content });
        }
        if row.try_get::<Option<Uuid>, _>("id")?.is_none() {
            // Deleted after its delivery; its key says that it was there.
            return Ok(key_owner.map_or(Self::Nothing, |_| same));
        }
        let there = stored_message(row)?.decode();
        Ok(match there {
            Ok(there) if there.content_hash() == message.content_hash() => same,
            _ => Self::Other,
        })
    }
}

fn key_row(message: &Message) -> Option<Vec<u8>> {
    message.unique_key().map(|key| key.to_vec())
}

type PgQuery = sqlx::query::Query<'static, sqlx::Postgres, sqlx::postgres::PgArguments>;

/// The parameters of `append.sql`, an element per message.
#[derive(Default)]
struct Columns<'a> {
    ids: Vec<Uuid>,
    topics: Vec<&'a str>,
    payloads: Vec<&'a [u8]>,
    content_types: Vec<Option<&'a str>>,
    headers: Vec<Option<String>>,
    aggregate_types: Vec<Option<&'a str>>,
    aggregate_ids: Vec<Option<&'a str>>,
    ordering_keys: Vec<Option<&'a str>>,
    tenant_ids: Vec<Option<&'a str>>,
    correlation_ids: Vec<Option<&'a str>>,
    causation_ids: Vec<Option<&'a str>>,
    idempotency_keys: Vec<Option<Uuid>>,
    key_rows: Vec<Option<Vec<u8>>>,
    content_hashes: Vec<Option<Vec<u8>>>,
    occurred: Vec<Option<PgTime>>,
    due: Vec<Option<PgTime>>,
    due_micros: Vec<Option<i64>>,
    expires: Vec<Option<PgTime>>,
    expires_micros: Vec<Option<i64>>,
    priorities: Vec<i16>,
    slots: Vec<Option<i16>>,
    key_hashes: Vec<Option<i64>>,
    tenant_hashes: Vec<Option<i64>>,
    topic_hashes: Vec<i64>,
    owners: Vec<Option<Uuid>>,
    tokens: Vec<Option<Uuid>>,
    leases: Vec<Option<i64>>,
    sources: Vec<Option<&'a str>>,
    source_ids: Vec<Option<&'a str>>,
    consumers: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    fn of(entries: &[&'a Entry]) -> Self {
        let mut columns = Self::default();
        for entry in entries {
            columns.push_message(&entry.message);
            columns.push_state(entry);
        }
        columns
    }

    fn push_message(&mut self, message: &'a Message) {
        self.ids.push(message.id().as_uuid());
        self.topics.push(message.topic().as_str());
        self.payloads.push(message.payload());
        let content_type = message.content_type();
        // Most messages are JSON: that is not written down each time.
        let named = Some(content_type).filter(|name| *name != Message::DEFAULT_CONTENT_TYPE);
        self.content_types.push(named);
        self.headers.push(message.headers().to_json());
        self.aggregate_types.push(message.aggregate_type().map(AsRef::as_ref));
        self.aggregate_ids.push(message.aggregate_id().map(AsRef::as_ref));
        self.ordering_keys.push(message.ordering_key().map(AsRef::as_ref));
        self.tenant_ids.push(message.tenant_id().map(AsRef::as_ref));
        self.correlation_ids.push(message.correlation_id().map(AsRef::as_ref));
        self.causation_ids.push(message.causation_id().map(AsRef::as_ref));
        self.idempotency_keys.push(message.idempotency_key().map(|key| key.as_uuid()));
        let key_row = key_row(message);
        self.content_hashes.push(key_row.as_ref().map(|_| message.content_hash().to_vec()));
        self.key_rows.push(key_row);
        self.occurred.push(message.occurred_at().map(PgTime));
        self.priorities.push(message.priority());
        let origin = message.origin();
        self.sources.push(origin.map(|origin| origin.source.as_str()));
        self.source_ids.push(origin.map(|origin| origin.message_id.as_str()));
        self.consumers.push(origin.map(|origin| origin.consumer.as_str()));
    }

    fn push_state(&mut self, entry: &'a Entry) {
        let message = &entry.message;
        let (at, after) = split(message.due());
        self.due.push(at);
        self.due_micros.push(after);
        let (at, after) = split(message.expires());
        self.expires.push(at);
        self.expires_micros.push(after);
        let lane = message.lane();
        self.slots.push(lane.map(|lane| lane.slot));
        self.key_hashes.push(lane.map(|lane| lane.key_hash));
        self.tenant_hashes.push(message.tenant_hash());
        self.topic_hashes.push(message.topic_hash());
        let (owner, token, lease) = match entry.birth {
            Birth::Ready => (None, None, None),
            Birth::Leased { owner, token, lease } => {
                (Some(owner.as_uuid()), Some(token.as_uuid()), Some(micros(lease)))
            }
        };
        self.owners.push(owner);
        self.tokens.push(token);
        self.leases.push(lease);
    }

    /// In the order of the parameters, after the clock.
    fn bind(self, query: PgQuery) -> PgQuery {
        query
            .bind(self.ids)
            .bind(self.topics)
            .bind(self.payloads)
            .bind(self.content_types)
            .bind(self.headers)
            .bind(self.aggregate_types)
            .bind(self.aggregate_ids)
            .bind(self.ordering_keys)
            .bind(self.tenant_ids)
            .bind(self.correlation_ids)
            .bind(self.causation_ids)
            .bind(self.idempotency_keys)
            .bind(self.key_rows)
            .bind(self.content_hashes)
            .bind(self.occurred)
            .bind(self.due)
            .bind(self.due_micros)
            .bind(self.expires)
            .bind(self.expires_micros)
            .bind(self.priorities)
            .bind(self.slots)
            .bind(self.key_hashes)
            .bind(self.tenant_hashes)
            .bind(self.topic_hashes)
            .bind(self.owners)
            .bind(self.tokens)
            .bind(self.leases)
            .bind(self.sources)
            .bind(self.source_ids)
            .bind(self.consumers)
    }
}

fn split(when: Option<When>) -> (Option<PgTime>, Option<i64>) {
    match when {
        None => (None, None),
        Some(When::At(time)) => (Some(PgTime(time)), None),
        Some(When::After(delay)) => (None, Some(micros(delay))),
    }
}
