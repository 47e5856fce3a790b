//! `postroom replay` and `postroom discard`: messages by id, or all that a filter finds.

use std::collections::BTreeMap;

use postroom::lifecycle::DeadReason;
use postroom::store::{Act, AdminStore, Changed, Refusal};
use postroom::{MessageId, Timestamp};
use serde_json::{Value, json};

use super::{Report, select};
use crate::args;
use crate::ask::confirm;
use crate::failure::{Exit, Failure};
use crate::filter::{Filter, Term};
use crate::render::{Screen, count, json, table};
use crate::work::Work;

/// How many messages are changed in one transaction.
const CHUNK: usize = 500;

/// Of the command line and its surroundings.
pub(super) struct Desk<'a> {
    pub(super) store: &'a dyn AdminStore,
    /// The queue, for people.
    pub(super) place: String,
    pub(super) json: bool,
    pub(super) screen: &'a Screen,
}

fn verb(act: Act) -> &'static str {
    match act {
        Act::Replay => "Replay",
        Act::Discard => "Discard",
    }
}

/// The filter with what goes without saying.
fn complete(act: Act, mut filter: Filter) -> Result<Filter, Failure> {
    let asked = filter.status();
    let status = act.status(asked).map_err(|error| {
        let next = match act {
            Act::Replay => "leave the status out of the filter",
            Act::Discard => "add --status dead, or another one",
        };
        Failure::new(Exit::Invalid, error.to_string()).next(next)
    })?;
    if asked.is_none() {
        filter.terms.push(Term::Status(true, status));
    }
    // What somebody discarded does not come back by the way, nor is it discarded twice.
    if !filter.names_a_reason() {
        filter.terms.push(Term::Reason(false, DeadReason::Discarded));
    }
    Ok(filter)
}

pub(super) async fn run(act: Act, args: args::Letters, desk: &Desk<'_>) -> Result<Report, Failure> {
    let filter = args.filters.filter();
    match (args.ids.is_empty(), filter.is_empty()) {
        (false, true) if args.dry_run => foresee(act, &args.ids, desk).await,
        (false, true) => {
            let changed = act.apply(desk.store, &args.ids).await?;
            Ok(each(&changed, act.done(), desk.json))
        }
        (true, false) => {
            let plan = Plan::make(&complete(act, filter)?, args.limit as usize, desk).await?;
            match plan {
                plan if args.dry_run => Ok(plan.report(act, desk)),
                plan if plan.ids.is_empty() => Ok(plan.report(act, desk)),
                plan => carry_out(act, &plan, args.yes, desk).await,
            }
        }
        (true, true) => {
            let what = "which messages? Neither an id nor a filter was given";
            let next = "give ids, or a filter such as --topic mail.sent";
            Err(Failure::new(Exit::Invalid, what).next(next))
        }
        (false, false) => {
            let what = "ids and filters do not go together";
            Err(Failure::new(Exit::Invalid, what).next("give either ids or filters"))
        }
    }
}

/// Says of each id what would become of it.
async fn foresee(act: Act, ids: &[MessageId], desk: &Desk<'_>) -> Result<Report, Failure> {
    let mut refusals = BTreeMap::new();
    for id in ids {
        let found = desk.store.get(*id).await?;
        refusals.insert(*id, act.refusal(found.as_ref().map(|detail| &detail.record)));
    }
    let changed = Changed::each(ids, |id| refusals[&id]);
    let mut report = match desk.json {
        true => {
            let mut document = as_json(&changed, act.done());
            document["dry_run"] = true.into();
            Report::data(json::document(&document))
        }
        false => Report::data(table::changed(&changed, &format!("to be {}", act.done()))),
    };
    report.exit = exit(&changed);
    Ok(report.note("Nothing was changed: this was a dry run."))
}

/// Messages that were found, and what to tell about them.
#[derive(Debug, Default)]
struct Plan {
    ids: Vec<MessageId>,
    topics: BTreeMap<String, usize>,
    oldest: Option<Timestamp>,
    /// Whether others match that are not among them.
    more: bool,
}

impl Plan {
    async fn make(filter: &Filter, limit: usize, desk: &Desk<'_>) -> Result<Self, Failure> {
        let search = filter.search(desk.screen.now);
        let mut plan = Self::default();
        let mut before = None;
        loop {
            let room = CHUNK.min(limit - plan.ids.len());
            let found = select::page(desk.store, &search, before, room).await?;
            for record in found.records {
                plan.ids.push(record.id);
                *plan.topics.entry(record.topic).or_default() += 1;
                plan.oldest = plan.oldest.into_iter().chain([record.created_at]).min();
            }
            before = found.next;
            if before.is_none() {
                return Ok(plan);
            }
            if plan.ids.len() == limit {
                plan.more = !select::page(desk.store, &search, before, 1).await?.records.is_empty();
                return Ok(plan);
            }
        }
    }

    fn report(&self, act: Act, desk: &Desk<'_>) -> Report {
        if desk.json {
            return Report::data(json::document(&json!({
                "dry_run": true,
                "matched": self.ids.len(),
                "more": self.more,
                "topics": self.topics,
                "oldest": self.oldest.map(crate::render::time::rfc3339),
            })));
        }
        if self.ids.is_empty() {
            return Report::default().note("No messages match.");
        }
        let would = format!("Would {}", verb(act).to_lowercase());
        let report = Report::data(format!("{would} {}", self.describe(desk)));
        report.note("Nothing was changed: this was a dry run.")
    }

    fn describe(&self, desk: &Desk<'_>) -> String {
        let count = count(self.ids.len(), "message");
        table::plan(
            &format!("{count} of the {}", desk.place),
            &self.topics,
            self.oldest,
            self.more,
            desk.screen,
        )
    }
}

async fn carry_out(act: Act, plan: &Plan, yes: bool, desk: &Desk<'_>) -> Result<Report, Failure> {
    let verb = verb(act);
    eprint!("{verb} {}", plan.describe(desk));
    if !confirm(&format!("{verb} them?"), yes)? {
        return Ok(Report::default().note("Nothing was changed.").ends_with(Exit::Error));
    }
    let total = plan.ids.len();
    let gerund = if act == Act::Replay { "Replaying" } else { "Discarding" };
    let what = format!("{gerund} {}", count(total, "message"));
    let mut work = Work::begin(&what, "the chunk that runs", Some(total))?;
    let mut changed = Changed::default();
    let mut stopped = false;
    for chunk in plan.ids.chunks(CHUNK) {
        let Changed { applied, refused } = act.apply(desk.store, chunk).await?;
        work.advance(chunk.len());
        changed.applied.extend(applied);
        changed.refused.extend(refused);
        stopped = changed.applied.len() + changed.refused.len() < total && work.must_stop().await;
        if stopped {
            break;
        }
    }
    drop(work);
    Ok(summary(act, total, &changed, stopped, desk.json))
}

/// What became of the messages that a filter found.
fn summary(act: Act, total: usize, changed: &Changed, stopped: bool, as_document: bool) -> Report {
    let done = act.done();
    let refused = changed.refused.len();
    let mut report = Report::data(if as_document {
        let mut document = as_json(changed, done);
        document["matched"] = total.into();
        document["stopped"] = stopped.into();
        json::document(&document)
    } else {
        let mut text = format!("{} {done}.\n", count(changed.applied.len(), "message"));
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, why) in &changed.refused {
            *reasons.entry(why.as_str()).or_default() += 1;
        }
        for (why, n) in reasons {
            text += &format!("{} not {done}: {why}.\n", count(n, "message"));
        }
        text
    });
    if stopped {
        let left = total - changed.applied.len() - refused;
        report = report.note(format!("Stopped; {} left as before.", count(left, "message")));
        return report.ends_with(Exit::Stopped);
    }
    match refused {
        0 => report,
        _ => report.ends_with(Exit::Error),
    }
}

/// Says of each message what became of it. All of them, or the command has failed in part.
fn each(changed: &Changed, done: &'static str, as_document: bool) -> Report {
    let mut report = Report::data(match as_document {
        true => json::document(&as_json(changed, done)),
        false => table::changed(changed, done),
    });
    report.exit = exit(changed);
    match changed.refused.len() {
        0 => report,
        left => {
            let all = left + changed.applied.len();
            report.note(format!("{left} of {all} not {done}."))
        }
    }
}

fn exit(changed: &Changed) -> Option<Exit> {
    let missing = changed.refused.iter().any(|(_, why)| *why == Refusal::Missing);
    match changed.refused.is_empty() {
        true => None,
        false if missing => Some(Exit::NotFound),
        false => Some(Exit::Error),
    }
}

fn as_json(changed: &Changed, done: &'static str) -> Value {
    let refused = changed.refused.iter();
    let refused: Vec<_> = refused
        .map(|(id, why)| json!({ "id": id, "reason": why.as_str().replace(' ', "_") }))
        .collect();
    json!({ done: changed.applied, "refused": refused })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::parse;

    fn id(last: char) -> MessageId {
        format!("019a8a00-0000-7000-8000-00000000000{last}").parse().expect("a UUID")
    }

    #[test]
    fn cli_1_a_replay_that_is_not_complete_has_an_exit_code() {
        let mut changed = Changed { applied: vec![id('1')], refused: Vec::new() };
        assert_eq!(each(&changed, "replayed", false).exit, None);
        changed.refused.push((id('2'), Refusal::Held));
        let half = each(&changed, "replayed", false);
        assert_eq!(
            (half.exit, half.note.as_deref()),
            (Some(Exit::Error), Some("1 of 2 not replayed."))
        );
        changed.refused.push((id('3'), Refusal::Missing));
        assert_eq!(each(&changed, "replayed", false).exit, Some(Exit::NotFound));
        let expected = json!({
            "replayed": ["019a8a00-0000-7000-8000-000000000001"],
            "refused": [
                { "id": "019a8a00-0000-7000-8000-000000000002", "reason": "being_handled" },
                { "id": "019a8a00-0000-7000-8000-000000000003", "reason": "no_such_message" },
            ],
        });
        assert_eq!(as_json(&changed, "replayed"), expected);
        let text = "1 message replayed.\n1 message not replayed: being handled.\n\
                    1 message not replayed: no such message.\n";
        let report = summary(Act::Replay, 3, &changed, false, false);
        assert_eq!((report.data.as_str(), report.exit), (text, Some(Exit::Error)));
        let report = summary(Act::Replay, 9, &changed, true, false);
        assert_eq!(report.note.as_deref(), Some("Stopped; 6 messages left as before."));
        assert_eq!(report.exit, Some(Exit::Stopped));
    }

    #[test]
    fn cli_1_a_filter_means_only_what_can_be_changed() {
        let filter = |text| Filter { terms: parse(text).expect(text) };
        let terms = |act: Act, text| complete(act, filter(text)).map(|filter| filter.terms);
        let replay = terms(Act::Replay, "topic=a").expect("legal");
        assert_eq!(replay, filter("topic=a and status=dead and reason!=discarded").terms);
        let again = terms(Act::Replay, "reason=discarded").expect("legal");
        assert_eq!(again, filter("reason=discarded and status=dead").terms);
        for (act, text) in [
            (Act::Replay, "status=failed"),
            (Act::Discard, "topic=a"),
            (Act::Discard, "status=done"),
            (Act::Discard, "status=leased"),
            (Act::Discard, "status!=dead"),
        ] {
            assert_eq!(terms(act, text).expect_err(text).exit(), Exit::Invalid, "{text}");
        }
    }
}
