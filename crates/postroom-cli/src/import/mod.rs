//! Imports the rows of an existing outbox table.
//!
//! There is no bookmark. A row's id and key are the same in every run, so the store itself tells
//! what was imported before: a run that was killed is started again, and two at once share the
//! work.

mod dialect;
mod row;
mod shape;
mod source;
mod table;

use indicatif::{ProgressBar, ProgressStyle};
use postroom::{ErrorKind, Message, OutboxConfig, Published};

pub(crate) use shape::{Field, Mapping, Shape};

use crate::args;
use crate::failure::Failure;
use crate::store::{Ending, OpenStore};
use crate::url::Url;
use row::OldRow;
use source::Source;
use table::{Plan, Wanted};

/// So many refused rows are kept for the report; all are counted and shown as they come.
const REFUSALS_KEPT: usize = 1_000;

/// A chunk is also full with so many bytes of payload.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// An old table that was found and understood; nothing is written yet.
pub(crate) struct Found {
    source: Source,
    plan: Plan,
    pub(crate) total: u64,
}

impl Found {
    /// Looks for the table and all columns that are needed.
    pub(crate) async fn new(args: &args::Import, url: &Url) -> Result<Self, Failure> {
        let mut source = Source::connect(url).await?;
        let wanted = Wanted::new(args.table.as_deref().unwrap_or(args.from.table()));
        let table = source.find(url.kind, &wanted).await?;
        let plan = Plan::new(url.kind, table, args.from, &args.map, args.status)?;
        let total = source.count(&plan).await?;
        Ok(Self { source, plan, total })
    }

    pub(crate) fn table(&self) -> String {
        self.plan.table().to_string()
    }

    /// Imports all rows.
    pub(crate) async fn import(
        self,
        store: &OpenStore,
        chunk: usize,
        ending: Ending,
    ) -> Result<Tally, Failure> {
        let max_payload = OutboxConfig::default().max_payload_bytes;
        let table = self.plan.table().name.clone();
        let bar = progress(self.total);
        let mut import =
            Import { store, ending, bar, waiting: Vec::new(), tally: Tally::default() };
        let mut rows = self.source.rows(&self.plan, max_payload);
        let mut bytes = 0;
        while let Some(row) = rows.recv().await {
            let mut row: OldRow = row?;
            import.tally.rows += 1;
            let old_id = row.old_id();
            match row.message(&table, max_payload) {
                Ok(message) => {
                    bytes += message.payload().len();
                    import.waiting.push((old_id, message));
                }
                Err(reason) => import.refuse(old_id, reason),
            }
            if import.waiting.len() >= chunk || bytes >= CHUNK_BYTES {
                import.write().await?;
                bytes = 0;
            }
        }
        import.write().await?;
        import.bar.finish_and_clear();
        Ok(import.tally)
    }
}

/// What became of the rows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) rows: u64,
    pub(crate) imported: u64,
    pub(crate) already_there: u64,
    pub(crate) refused: u64,
    /// The first of them: old id and reason.
    pub(crate) refusals: Vec<(String, String)>,
}

struct Import<'a> {
    store: &'a OpenStore,
    ending: Ending,
    bar: ProgressBar,
    waiting: Vec<(String, Message)>,
    tally: Tally,
}

impl Import<'_> {
    /// Writes what waits, in one transaction. When one of them has the id of another message, each
    /// gets its own, so that only that one is refused.
    async fn write(&mut self) -> Result<(), Failure> {
        let waiting = std::mem::take(&mut self.waiting);
        let messages: Vec<_> = waiting.iter().map(|(_, message)| message.clone()).collect();
        match self.store.publish_all(messages, self.ending).await {
            Ok(published) => {
                for ((old_id, _), published) in waiting.into_iter().zip(published) {
                    self.count(old_id, published);
                }
            }
            Err(error) if error.kind() == ErrorKind::IdTaken => {
                for (old_id, message) in waiting {
                    self.write_one(old_id, message).await?;
                }
            }
            Err(error) => return Err(interrupted(error)),
        }
        Ok(())
    }

    async fn write_one(&mut self, old_id: String, message: Message) -> Result<(), Failure> {
        let id = message.id();
        match self.store.publish_all(vec![message], self.ending).await {
            Ok(published) => published.into_iter().for_each(|one| self.count(old_id.clone(), one)),
            Err(error) if error.kind() == ErrorKind::IdTaken => {
                self.refuse(old_id, format!("message {id} is there and says something else"));
            }
            Err(error) => return Err(interrupted(error)),
        }
        Ok(())
    }

    fn count(&mut self, old_id: String, published: Published) {
        match published {
            Published { already_existed: false, .. } => self.tally.imported += 1,
            Published { same_content: true, .. } => self.tally.already_there += 1,
            // Nothing may be lost in silence.
            Published { id, .. } => {
                let reason = format!("message {id} has its key and says something else");
                return self.refuse(old_id, reason);
            }
        }
        self.bar.inc(1);
    }

    fn refuse(&mut self, old_id: String, reason: String) {
        let line = crate::render::inert(&format!("refused {old_id}: {reason}"));
        self.bar.suspend(|| eprintln!("{line}"));
        self.bar.inc(1);
        self.tally.refused += 1;
        if self.tally.refusals.len() < REFUSALS_KEPT {
            self.tally.refusals.push((old_id, reason));
        }
    }
}

fn interrupted(error: postroom::Error) -> Failure {
    Failure::from(error).next("run it again: what was written is found, and not written twice")
}

/// Shown when standard error is a terminal.
fn progress(total: u64) -> ProgressBar {
    let template = "{bar:32} {pos}/{len} rows, {per_sec}, {eta} left";
    let style = ProgressStyle::with_template(template);
    let bar = ProgressBar::new(total);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
