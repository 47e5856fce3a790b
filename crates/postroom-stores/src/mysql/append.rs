//! Writing messages inside the caller's transaction.

use std::collections::{HashMap, HashSet};

use postroom_core::store::{Appended, Birth, Entry, Paused, id_taken};
use postroom_core::{ErrorKind, Message, MessageId, Result, Timestamp, WorkId};
use serde_json::json;
use sqlx::mysql::{MySqlArguments, MySqlConnection, MySqlRow};
use sqlx::query::Query;
use sqlx::{MySql, Row, SqlStr};
use uuid::Uuid;

use super::MySqlStore;
use super::classify::{classify, is_duplicate};
use super::row::{flag, int, stored_message, time};
use super::session::broken;
use crate::names::repeat_values;

const WHAT: &str = "publish";

/// What one call has written, for taking it back.
#[derive(Default)]
struct Written {
    seqs: HashMap<Uuid, i64>,
    keys: Vec<[u8; 32]>,
}

/// What the database says before a message is written.
struct Begun {
    now: Timestamp,
    /// How far apart the places of one statement are: on a Galera node not 1.
    step: i64,
    paused: Paused,
}

/// A place in the queue, or among those that wait.
struct Place<'a> {
    message: &'a Message,
    seq: i64,
    wake_at: Option<Timestamp>,
    lease: Option<(Uuid, Uuid, Timestamp)>,
    expires_at: Option<i64>,
}

impl MySqlStore {
    pub(super) async fn append_entries(
        &self,
        conn: &mut MySqlConnection,
        entries: &[Entry],
    ) -> Result<Vec<Appended>> {
        let mut written = Written::default();
        let answers = self.write(conn, entries, &mut written).await;
        if answers.as_ref().is_err_and(|error| error.kind() == ErrorKind::IdTaken) {
            self.take_back(conn, &written).await?;
        }
        answers
    }

    async fn write(
        &self,
        conn: &mut MySqlConnection,
        entries: &[Entry],
        written: &mut Written,
    ) -> Result<Vec<Appended>> {
        let begun = self.begin_append(conn).await?;
        let mut answers: Vec<Option<Appended>> = vec![None; entries.len()];
        self.win_keys(conn, entries, &begun, written, &mut answers).await?;
        self.insert(conn, entries, &begun, written, &mut answers).await?;
        let mut places = Vec::with_capacity(entries.len());
        for (entry, answer) in entries.iter().zip(&mut answers) {
            let seq = written.seqs.get(&entry.message.id().as_uuid()).filter(|_| answer.is_none());
            if let Some(seq) = seq {
                let place = Place::of(entry, *seq, &begun);
                let leased = place.lease.is_some();
                *answer = Some(Appended::New { work: WorkId::new(*seq), leased });
                places.push(place);
            }
        }
        self.place(conn, &places).await?;
        answers.into_iter().map(|answer| answer.ok_or_else(|| broken("an answer"))).collect()
    }

    async fn begin_append(&self, conn: &mut MySqlConnection) -> Result<Begun> {
        let query = self.query(&self.sql.append_begin).bind(self.now());
        let rows = query.fetch_all(conn).await.map_err(|error| classify(WHAT, error))?;
        Begun::read(&rows).map_err(|error| classify(WHAT, error))
    }

    /// Answers for messages whose key another one has.
    async fn win_keys(
        &self,
        conn: &mut MySqlConnection,
        entries: &[Entry],
        begun: &Begun,
        written: &mut Written,
        answers: &mut [Option<Appended>],
    ) -> Result<()> {
        let keyed = |place: usize| entries[place].message.unique_key().map(|key| (key, place));
        let mut keys: Vec<_> = (0..entries.len()).filter_map(keyed).collect();
        if keys.is_empty() {
            return Ok(());
        }
        // In the order of the hash, so that two flushes with the same keys do not deadlock.
        keys.sort_unstable();
        let writer = Uuid::new_v4().as_u64_pair().1.cast_signed();
        let mut query = sqlx::query(repeat_values(&self.sql.append_key, keys.len()));
        for (key, place) in &keys {
            let message = &entries[*place].message;
            query = query
                .bind(key.to_vec())
                .bind(writer)
                .bind(begun.now.as_micros())
                .bind(message.id().as_uuid())
                .bind(message.content_hash().to_vec());
        }
        query.execute(&mut *conn).await.map_err(|error| classify(WHAT, error))?;
        let won = self.won_keys(conn, keys.iter().map(|(key, _)| *key), writer).await?;
        let (won, lost): (Vec<_>, Vec<_>) =
            keys.into_iter().partition(|(key, _)| won.contains(key));
        written.keys.extend(won.iter().map(|(key, _)| *key));
        let losers: Vec<_> = lost.iter().map(|(_, place)| *place).collect();
        self.look_up(conn, entries, &losers, written, answers).await
    }

    /// Which of the keys this writer wrote.
    async fn won_keys(
        &self,
        conn: &mut MySqlConnection,
        keys: impl Iterator<Item = [u8; 32]>,
        writer: i64,
    ) -> Result<HashSet<[u8; 32]>> {
        let keys: Vec<_> = keys.map(|key| hex(&key)).collect();
        let query = self.query(&self.sql.append_won).bind(json!(keys).to_string()).bind(writer);
        let rows = query.fetch_all(conn).await.map_err(|error| classify(WHAT, error))?;
        let mut won = HashSet::with_capacity(rows.len());
        for row in &rows {
            let hash: Vec<u8> = row.try_get("hash").map_err(|error| classify(WHAT, error))?;
            won.extend(<[u8; 32]>::try_from(hash).ok());
        }
        Ok(won)
    }

    /// Takes note of a key without a message; whether that is new.
    pub(super) async fn admit_key(
        &self,
        conn: &mut MySqlConnection,
        key: [u8; 32],
    ) -> Result<bool> {
        let writer = Uuid::new_v4().as_u64_pair().1.cast_signed();
        let query = self.query(&self.sql.admit).bind(self.now()).bind(key.to_vec());
        let query = query.bind(writer).bind(MessageId::new().as_uuid());
        query.execute(&mut *conn).await.map_err(|error| classify("receive", error))?;
        Ok(!self.won_keys(conn, std::iter::once(key), writer).await?.is_empty())
    }

    /// Writes the messages that have no answer yet. In one statement, unless an id is taken.
    async fn insert(
        &self,
        conn: &mut MySqlConnection,
        entries: &[Entry],
        begun: &Begun,
        written: &mut Written,
        answers: &mut [Option<Appended>],
    ) -> Result<()> {
        let is_new = |place: &usize| {
            answers[*place].is_none()
                && !written.seqs.contains_key(&entries[*place].message.id().as_uuid())
        };
        let new: Vec<_> = (0..entries.len()).filter(is_new).collect();
        if self.insert_rows(conn, entries, &new, begun, written).await? {
            return Ok(());
        }
        let mut losers = Vec::new();
        for place in new {
            if !self.insert_rows(conn, entries, &[place], begun, written).await? {
                losers.push(place);
            }
        }
        self.look_up(conn, entries, &losers, written, answers).await
    }

    /// Whether they could be written; an id that is taken stops them all.
    async fn insert_rows(
        &self,
        conn: &mut MySqlConnection,
        entries: &[Entry],
        places: &[usize],
        begun: &Begun,
        written: &mut Written,
    ) -> Result<bool> {
        if places.is_empty() {
            return Ok(true);
        }
        let mut query = sqlx::query(repeat_values(&self.sql.append, places.len()));
        for place in places {
            query = bind(query, &entries[*place].message, begun.now);
        }
        let first = match query.execute(conn).await {
            Ok(done) => done.last_insert_id().cast_signed(),
            Err(error) if is_duplicate(&error) => return Ok(false),
            Err(error) => return Err(classify(WHAT, error)),
        };
        let seqs = std::iter::successors(Some(first), |seq| Some(seq + begun.step));
        let ids = places.iter().map(|place| entries[*place].message.id().as_uuid());
        written.seqs.extend(ids.zip(seqs));
        Ok(true)
    }

    /// Answers for messages whose key or id is taken. None for one that was taken by itself, in an
    /// append of this transaction that was cancelled halfway: its rest is still to be written.
    async fn look_up(
        &self,
        conn: &mut MySqlConnection,
        entries: &[Entry],
        losers: &[usize],
        written: &mut Written,
        answers: &mut [Option<Appended>],
    ) -> Result<()> {
        if losers.is_empty() {
            return Ok(());
        }
        let wanted: Vec<_> = losers
            .iter()
            .map(|place| {
                let message = &entries[*place].message;
                (message.id().as_uuid().simple(), message.unique_key().map(|key| hex(&key)))
            })
            .map(|(id, key)| json!([id.to_string(), key]))
            .collect();
        let query = self.query(&self.sql.append_lookup).bind(json!(wanted).to_string());
        let rows = query.fetch_all(conn).await.map_err(|error| classify(WHAT, error))?;
        for (place, row) in losers.iter().zip(&rows) {
            let message = &entries[*place].message;
            match Found::read(row, message).map_err(|error| classify(WHAT, error))? {
                Found::Existed { id, same_content } => {
                    answers[*place] = Some(Appended::Existed { id, same_content });
                }
                Found::OtherContent => return Err(id_taken(message.id())),
                Found::Halfway(seq) => {
                    written.seqs.extend(seq.map(|seq| (message.id().as_uuid(), seq)));
                }
            }
        }
        Ok(())
    }

    async fn place(&self, conn: &mut MySqlConnection, places: &[Place<'_>]) -> Result<()> {
        let (parked, live): (Vec<_>, Vec<_>) =
            places.iter().partition(|place| place.wake_at.is_some());
        let (ordered, plain): (Vec<_>, Vec<_>) =
            live.into_iter().partition(|place| place.message.lane().is_some());
        let kinds: [(&SqlStr, Vec<&Place<'_>>, Bind); 3] = [
            (&self.sql.append_place, plain, |place, query| place.bind_plain(query)),
            (&self.sql.append_ordered, ordered, |place, query| place.bind_ordered(query)),
            (&self.sql.append_park, parked, |place, query| place.bind_parked(query)),
        ];
        for (statement, places, bind) in kinds {
            if places.is_empty() {
                continue;
            }
            let query = sqlx::query(repeat_values(statement, places.len()));
            let query = places.into_iter().fold(query, |query, place| bind(place, query));
            query.execute(&mut *conn).await.map_err(|error| classify(WHAT, error))?;
        }
        Ok(())
    }

    async fn take_back(&self, conn: &mut MySqlConnection, written: &Written) -> Result<()> {
        let ids: Vec<_> = written.seqs.keys().map(|id| id.simple().to_string()).collect();
        let keys: Vec<_> = written.keys.iter().map(hex).collect();
        let query = self.query(&self.sql.append_undo);
        let query = query.bind(json!(ids).to_string()).bind(json!(keys).to_string());
        query.execute(conn).await.map(drop).map_err(|error| classify(WHAT, error))
    }
}

impl Begun {
    fn read(rows: &[MySqlRow]) -> sqlx::Result<Self> {
        let first = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        let mut pauses = Vec::new();
        for row in rows {
            if flag(row, "is_pause")? {
                pauses.push(row.try_get("topic_hash")?);
            }
        }
        let (now, step) = (time(first, "now")?, int(first, "step")?.max(1));
        Ok(Self { now, step, paused: Paused::of(pauses) })
    }
}

enum Found {
    Existed {
        id: MessageId,
        same_content: bool,
    },
    OtherContent,
    /// What this transaction left behind: the message without a place, or only its key.
    Halfway(Option<i64>),
}

impl Found {
    fn read(row: &MySqlRow, message: &Message) -> sqlx::Result<Self> {
        let own = message.id();
        let same = Self::Existed { id: own, same_content: true };
        let key_owner: Option<Uuid> = row.try_get("key_message_id")?;
        if let Some(first) = key_owner.map(MessageId::from).filter(|first| *first != own) {
            let said: Option<Vec<u8>> = row.try_get("key_content")?;
            // An empty hash is that of a key without a message.
            let said = said.filter(|said| !said.is_empty());
            let same_content = said.is_none_or(|said| said == message.content_hash());
            return Ok(Self::Existed { id: first, same_content });
        }
        let seq: Option<i64> = row.try_get("seq")?;
        if seq.is_none() {
            // Deleted after its delivery; its key says that it was there.
            let gone: Option<i64> = row.try_get("key_settled_at")?;
            return Ok(gone.map_or(Self::Halfway(None), |_| same));
        }
        match stored_message(row)?.decode() {
            Ok(there) if there.content_hash() == message.content_hash() => {}
            _ => return Ok(Self::OtherContent),
        }
        Ok(if flag(row, "placed")? { same } else { Self::Halfway(seq) })
    }
}

type MySqlQuery = Query<'static, MySql, MySqlArguments>;
type Bind = fn(&Place<'_>, MySqlQuery) -> MySqlQuery;

impl<'a> Place<'a> {
    fn of(entry: &'a Entry, seq: i64, begun: &Begun) -> Self {
        let message = &entry.message;
        let now = begun.now;
        let wake_at = message.due().map(|due| due.resolve(now)).filter(|due| *due > now);
        let is_plain = wake_at.is_none() && message.lane().is_none();
        let lease = match entry.birth {
            // Nothing of a paused topic is born leased.
            Birth::Leased { owner, token, lease }
                if is_plain && !begun.paused.covers(message.topic_hash()) =>
            {
                Some((token.as_uuid(), owner.as_uuid(), now.saturating_add(lease)))
            }
            _ => None,
        };
        let expires_at = message.expires().map(|at| at.resolve(now).as_micros());
        Self { message, seq, wake_at, lease, expires_at }
    }

    fn bind_plain(&self, query: MySqlQuery) -> MySqlQuery {
        let (token, owner, until) =
            self.lease.unwrap_or((Uuid::nil(), Uuid::nil(), Timestamp::from_micros(0)));
        query
            .bind(-self.message.priority())
            .bind(self.seq)
            .bind(self.message.id().as_uuid())
            .bind(self.message.topic_hash())
            .bind(self.message.tenant_hash())
            .bind(self.expires_at)
            .bind(self.lease.is_some())
            .bind(token)
            .bind(owner)
            .bind(until.as_micros())
    }

    fn bind_ordered(&self, query: MySqlQuery) -> MySqlQuery {
        let lane = self.message.lane();
        query
            .bind(lane.map(|lane| lane.slot))
            .bind(lane.map(|lane| lane.key_hash))
            .bind(self.seq)
            .bind(self.message.id().as_uuid())
            .bind(self.message.topic_hash())
            .bind(self.message.tenant_hash())
            .bind(self.expires_at)
            .bind(self.message.priority())
    }

    fn bind_parked(&self, query: MySqlQuery) -> MySqlQuery {
        let lane = self.message.lane();
        query
            .bind(self.seq)
            .bind(lane.map_or(-self.message.priority(), |_| ORDERED_BAND))
            .bind(self.wake_at.map(Timestamp::as_micros))
            .bind(self.message.id().as_uuid())
            .bind(lane.map(|lane| lane.slot))
            .bind(lane.map(|lane| lane.key_hash))
            .bind(self.message.topic_hash())
            .bind(self.message.tenant_hash())
            .bind(self.message.priority())
            .bind(self.expires_at)
    }
}

/// Where rows with an ordering key wait for their time.
const ORDERED_BAND: i16 = 1000;

fn bind(query: MySqlQuery, message: &Message, now: Timestamp) -> MySqlQuery {
    let own = |text: Option<&str>| text.map(str::to_owned);
    let content_type = Some(message.content_type());
    let origin = message.origin();
    query
        .bind(message.id().as_uuid())
        .bind(now.as_micros())
        .bind(message.topic().as_str().to_owned())
        .bind(message.payload().to_vec())
        // Most messages are JSON: that is not written down each time.
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
        .bind(own(origin.map(|origin| origin.source.as_ref())))
        .bind(own(origin.map(|origin| origin.message_id.as_ref())))
        .bind(own(origin.map(|origin| origin.consumer.as_ref())))
}

fn hex(bytes: &[u8; 32]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string can not fail.
        _ = write!(text, "{byte:02x}");
        text
    })
}
