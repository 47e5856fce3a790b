//! Forms that change something: done, then told on the page where they came from.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Form, State};
use axum::response::Response;
use postroom_core::store::Act;
use postroom_core::{JoinId, MessageId};

use super::filter::Filter;
use super::flash::Flash;
use super::frame::Ask;
use super::list::capital;
use crate::desk::Desk;
use crate::desk::jobs::{JobId, Pace};
use crate::problem::Problem;

/// The fields of a form, in their order.
#[derive(Debug)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// What was written into a field; nothing when it is empty.
    fn get(&self, name: &str) -> Option<&str> {
        self.raw(name).map(str::trim).filter(|value| !value.is_empty())
    }

    fn raw(&self, name: &str) -> Option<&str> {
        let mut values = self.0.iter().filter(|(key, _)| key == name);
        values.next().map(|(_, value)| value.as_str())
    }

    fn ids(&self) -> Result<Vec<MessageId>, Problem> {
        let ids = self.0.iter().filter(|(key, _)| key == "id");
        Ok(ids.map(|(_, id)| id.parse()).collect::<Result<_, _>>()?)
    }

    /// Tells it on the page that the form was on.
    fn back(&self, ask: &Ask, flash: Flash) -> Response {
        flash.redirect(&ask.base, self.get("back").unwrap_or("/"))
    }
}

/// What was written into a field, as it stands; nothing when it is blank.
pub(super) fn value<'a>(written: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut values = written.iter().filter(|(key, _)| key == name);
    values.next().map(|(_, value)| value.as_str()).filter(|value| !value.trim().is_empty())
}

type Filled = Form<Vec<(String, String)>>;

/// What `replay` and `discard` mean.
pub(super) fn act_of(word: Option<&str>) -> Result<Act, Problem> {
    let all = [Act::Replay, Act::Discard];
    all.into_iter().find(|act| word == Some(act.as_str())).ok_or_else(|| {
        Problem::invalid(format!("act must be replay or discard, got {:?}", word.unwrap_or("")))
    })
}

pub(super) async fn messages(
    State(desk): State<Arc<Desk>>,
    ask: Ask,
    Form(fields): Filled,
) -> Result<Response, Problem> {
    let fields = Fields(fields);
    let queue = &*ask.to_change(&fields.0)?;
    let act = act_of(fields.get("act"))?;
    let ids = fields.ids()?;
    if ids.is_empty() {
        return Ok(fields.back(&ask, Flash::warn("No message was selected.")));
    }
    let changed = desk.act(&ask.caller, queue, act, &ids, fields.get("why")).await?;
    queue.sampler.look();
    Ok(fields.back(&ask, Flash::of(&changed, &capital(act.done()))))
}

pub(super) async fn pause(
    State(desk): State<Arc<Desk>>,
    ask: Ask,
    Form(fields): Filled,
) -> Result<Response, Problem> {
    let fields = Fields(fields);
    let queue = &*ask.to_change(&fields.0)?;
    let topic = fields.get("topic");
    let is_new = desk.pause(&ask.caller, queue, topic, fields.get("why")).await?;
    queue.sampler.look();
    let what = topic.unwrap_or("The whole queue");
    Ok(fields.back(
        &ask,
        match is_new {
            true => Flash::good(format!("{what} is paused. What runs finishes.")),
            false => Flash::warn(format!("{what} was paused already; that pause stays as it is.")),
        },
    ))
}

pub(super) async fn resume(
    State(desk): State<Arc<Desk>>,
    ask: Ask,
    Form(fields): Filled,
) -> Result<Response, Problem> {
    let fields = Fields(fields);
    let queue = &*ask.to_change(&fields.0)?;
    let topic = fields.get("topic");
    let was_paused = desk.resume(&ask.caller, queue, topic, fields.get("why")).await?;
    queue.sampler.look();
    let what = topic.unwrap_or("The whole queue");
    Ok(fields.back(
        &ask,
        match was_paused {
            true => Flash::good(format!("{what} goes on.")),
            false => Flash::warn(format!("{what} was not paused.")),
        },
    ))
}

/// Begins a job on everything that matches.
pub(super) async fn begin(
    State(desk): State<Arc<Desk>>,
    ask: Ask,
    Form(fields): Filled,
) -> Result<Response, Problem> {
    let list = Filter::of(&fields).list()?;
    let fields = Fields(fields);
    let queue = &*ask.to_change(&fields.0)?;
    let pace = Pace {
        limit: number(&fields, "limit")?,
        rate: number(&fields, "rate")?.unwrap_or(Pace::RATE),
    };
    let act = act_of(fields.get("act"))?;
    let id = desk.begin(&ask.caller, queue, act, list, pace, fields.get("why"))?;
    let flash = Flash::good("It has begun. You can leave this page.");
    Ok(flash.redirect(&ask.base, &format!("/jobs/{id}")))
}

fn number<T: std::str::FromStr>(fields: &Fields, name: &str) -> Result<Option<T>, Problem> {
    let wrong = |text: &str| Problem::invalid(format!("{name} must be a number, got {text:?}"));
    fields.get(name).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
}

pub(super) async fn cancel_job(
    State(desk): State<Arc<Desk>>,
    ask: Ask,
    Form(fields): Filled,
) -> Result<Response, Problem> {
    let fields = Fields(fields);
    let id: JobId = fields.get("id").unwrap_or_default().parse()?;
    let was_running = desk.cancel(&ask.caller, id).await?;
    let told = if was_running { "It stops after this chunk." } else { "It had ended already." };
    Ok(fields.back(&ask, Flash::good(told)))
}

pub(super) async fn cancel_join(
    State(desk): State<Arc<Desk>>,
    ask: Ask,
    Form(fields): Filled,
) -> Result<Response, Problem> {
    let fields = Fields(fields);
    let id: JoinId = fields.get("id").unwrap_or_default().parse()?;
    let queue = &*ask.to_change(&fields.0)?;
    let was_open = desk.cancel_join(&ask.caller, queue, id, fields.get("why")).await?;
    Ok(fields.back(
        &ask,
        match was_open {
            true => Flash::good("The join is cancelled. It publishes nothing."),
            false => Flash::warn("The join had ended already."),
        },
    ))
}

/// One `name: value` a line.
pub(super) fn headers(text: &str) -> Result<BTreeMap<String, String>, Problem> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let pair = |line: &str| {
        let (name, value) = line.split_once(':').ok_or_else(|| {
            Problem::invalid(format!("a header must be name: value, got {line:?}"))
        })?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    };
    lines.map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_they_are_shown() {
        let read = headers("a: b: c\r\n\r\nx:\n").expect("headers");
        assert_eq!(
            read.into_iter().collect::<Vec<_>>(),
            [("a".to_owned(), "b: c".to_owned()), ("x".to_owned(), String::new())]
        );
        assert!(headers("no colon").is_err());
    }
}
