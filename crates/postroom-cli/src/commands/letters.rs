//! `postroom replay` and `postroom discard`.

use postroom::store::{AdminStore, Changed, Refusal};
use serde_json::json;

use super::Report;
use crate::args;
use crate::failure::{Exit, Failure};
use crate::render::{json, table};

pub(super) async fn replay(
    args: &args::Letters,
    store: &dyn AdminStore,
    as_json: bool,
) -> Result<Report, Failure> {
    Ok(report(&store.replay(&args.ids).await?, "replayed", as_json))
}

pub(super) async fn discard(
    args: &args::Letters,
    store: &dyn AdminStore,
    as_json: bool,
) -> Result<Report, Failure> {
    Ok(report(&store.discard(&args.ids).await?, "discarded", as_json))
}

/// Says of each message what became of it. All of them, or the command has failed in part.
fn report(changed: &Changed, done: &'static str, as_json: bool) -> Report {
    let report = Report::data(match as_json {
        true => document(changed, done),
        false => table::changed(changed, done),
    });
    let is_missing = |(_, why): &(_, Refusal)| *why == Refusal::Missing;
    match changed.refused.len() {
        0 => report,
        left => {
            let all = left + changed.applied.len();
            let exit =
                if changed.refused.iter().any(is_missing) { Exit::NotFound } else { Exit::Error };
            report.note(format!("{left} of {all} not {done}.")).ends_with(exit)
        }
    }
}

fn document(changed: &Changed, done: &'static str) -> String {
    let refused = changed.refused.iter();
    let refused: Vec<_> = refused
        .map(|(id, why)| json!({ "id": id, "reason": why.as_str().replace(' ', "_") }))
        .collect();
    json::document(&json!({ done: changed.applied, "refused": refused }))
}

#[cfg(test)]
mod tests {
    use postroom::MessageId;

    use super::*;

    fn id(last: char) -> MessageId {
        format!("019a8a00-0000-7000-8000-00000000000{last}").parse().expect("a UUID")
    }

    #[test]
    fn cli_1_a_replay_that_is_not_complete_has_an_exit_code() {
        let mut changed = Changed { applied: vec![id('1')], refused: Vec::new() };
        assert_eq!(report(&changed, "replayed", false).exit, None);
        changed.refused.push((id('2'), Refusal::Held));
        let half = report(&changed, "replayed", false);
        assert_eq!(
            (half.exit, half.note.as_deref()),
            (Some(Exit::Error), Some("1 of 2 not replayed."))
        );
        changed.refused.push((id('3'), Refusal::Missing));
        assert_eq!(report(&changed, "replayed", false).exit, Some(Exit::NotFound));
        let expected = json!({
            "replayed": ["019a8a00-0000-7000-8000-000000000001"],
            "refused": [
                { "id": "019a8a00-0000-7000-8000-000000000002", "reason": "being_handled" },
                { "id": "019a8a00-0000-7000-8000-000000000003", "reason": "no_such_message" },
            ],
        });
        assert_eq!(document(&changed, "replayed"), json::document(&expected));
    }
}
