//! What is around every page: who asks, where they are, and the way to everything else.

use std::convert::Infallible;
use std::sync::Arc;

use askama::Template;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse as _, Response};
use postroom_core::MessageId;

use super::flash::{self, Flash};
use super::{assets, attention, icons, words};
use crate::access::{Access, Person, Right, Role};
use crate::desk::{Desk, Queue};
use crate::problem::Problem;
use crate::routes::{Base, Caller};
use crate::sampler::Sample;

/// A request for a page.
pub(super) struct Ask {
    pub(super) base: String,
    pub(super) caller: Caller,
    /// Path and query below the base path.
    pub(super) here: String,
    /// The query, decoded.
    pub(super) query: Vec<(String, String)>,
    flash: Option<Flash>,
}

impl FromRequestParts<Arc<Desk>> for Ask {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, desk: &Arc<Desk>) -> Result<Self, Infallible> {
        let Base(base) = Base::from_request_parts(parts, desk).await?;
        let caller = Caller::from_request_parts(parts, desk).await?;
        let here = parts.uri.path_and_query().map_or("/", |here| here.as_str()).to_owned();
        let query = decoded(parts.uri.query().unwrap_or_default());
        Ok(Self { base, caller, here, query, flash: Flash::read(&parts.headers) })
    }
}

/// The pairs of a query or of a form.
pub(super) fn decoded(query: &str) -> Vec<(String, String)> {
    let uri = format!("/?{query}").parse().unwrap_or_default();
    axum::extract::Query::try_from_uri(&uri).map(|query| query.0).unwrap_or_default()
}

impl Ask {
    /// A value of the query; an empty one is none.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut values = self.query.iter().filter(|(key, _)| key == name);
        values.next().map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    /// The box that is meant.
    pub(super) fn queue<'a>(&self, desk: &'a Desk) -> Result<&'a Queue, Problem> {
        desk.queue(self.get("store"), self.get("box"))
    }

    /// A page as an answer. A flash is shown once.
    pub(super) fn show(&self, page: &impl Template) -> Result<Response, Problem> {
        let html = page.render().map_err(|error| {
            tracing::error!(%error, "a page could not be rendered");
            Problem::bug()
        })?;
        let mut response = Html(html).into_response();
        if self.flash.is_some() {
            let cookie = flash::spent(&self.base);
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
        }
        Ok(response)
    }
}

/// Where a page belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Overview,
    Messages,
    Failures,
    Dead,
    Topics,
    Keys,
    Inbox,
    Joins,
    Dispatchers,
    Stores,
    Audit,
    Jobs,
    Api,
}

pub(super) struct Link {
    pub(super) label: String,
    pub(super) href: String,
    pub(super) current: bool,
}

pub(super) struct Group {
    pub(super) label: &'static str,
    pub(super) items: Vec<Item>,
}

pub(super) struct Item {
    pub(super) label: &'static str,
    pub(super) href: String,
    pub(super) icon: &'static str,
    pub(super) key: Option<char>,
    pub(super) badge: Option<Badge>,
    pub(super) current: bool,
}

pub(super) struct Badge {
    pub(super) class: &'static str,
    pub(super) text: String,
}

/// What the base template needs.
pub(super) struct Frame {
    pub(super) title: String,
    pub(super) base: String,
    /// Path and query of this page, to come back to.
    pub(super) here: String,
    /// The parameters that name the box, unless it is the first.
    scope: Vec<(&'static str, String)>,
    pub(super) stores: Vec<Link>,
    pub(super) boxes: Vec<Link>,
    pub(super) nav: Vec<Group>,
    pub(super) read_only: bool,
    pub(super) who: String,
    pub(super) role: &'static str,
    pub(super) can_log_out: bool,
    /// Whether buttons that change something are shown.
    pub(super) may_operate: bool,
    pub(super) may_see_payloads: bool,
    /// Whether old messages may be purged here.
    pub(super) may_purge: bool,
    /// Whether messages may be published here.
    pub(super) may_publish: bool,
    pub(super) is_inbox: bool,
    /// Such as `the outbox of shop`.
    pub(super) box_name: String,
    pub(super) flash: Option<Flash>,
}

impl Frame {
    pub(super) fn new(
        desk: &Desk,
        ask: &Ask,
        queue: &Queue,
        sample: &Sample,
        place: Place,
        title: impl Into<String>,
    ) -> Self {
        let person = &*ask.caller;
        let mut frame = Self {
            title: title.into(),
            base: ask.base.clone(),
            here: ask.here.clone(),
            scope: scope(desk, queue),
            stores: Vec::new(),
            boxes: Vec::new(),
            nav: Vec::new(),
            read_only: desk.read_only,
            who: person.name.clone(),
            role: role(person),
            can_log_out: matches!(desk.access, Access::Tokens(_)),
            may_operate: person.may(Right::Operate) && !desk.read_only,
            may_see_payloads: person.may(Right::Payload),
            may_purge: person.may(Right::Administer) && !desk.read_only,
            may_publish: person.may(Right::Operate) && !desk.read_only && queue.kind == "outbox",
            is_inbox: queue.kind == "inbox",
            box_name: format!("the {} of {}", queue.kind, queue.database),
            flash: ask.flash.clone(),
        };
        frame.stores = frame.store_links(desk, queue, ask);
        frame.boxes = frame.box_links(desk, queue, ask);
        frame.nav = frame.navigation(desk, queue, sample, place, person);
        frame
    }

    /// A page of the same box.
    pub(super) fn to(&self, path: &str) -> String {
        self.with(path, &[])
    }

    /// A page of the same box, with parameters.
    pub(super) fn with(&self, path: &str, pairs: &[(&str, &str)]) -> String {
        let scope = self.scope.iter().map(|(name, value)| (*name, value.as_str()));
        link(&self.base, path, scope.chain(pairs.iter().copied()))
    }

    /// A path as the browser knows it, without parameters: for forms, which send their own.
    pub(super) fn plain(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// What forms send along so that they mean the same box.
    pub(super) fn hidden(&self) -> &[(&'static str, String)] {
        &self.scope
    }

    pub(super) fn asset(&self, name: &str) -> String {
        self.plain(&assets::path(name))
    }

    pub(super) fn message(&self, id: &impl ToString) -> String {
        self.to(&format!("/messages/{}", id.to_string()))
    }

    fn store_links(&self, desk: &Desk, queue: &Queue, ask: &Ask) -> Vec<Link> {
        let mut names: Vec<&str> = desk.queues.iter().map(|q| q.database.as_str()).collect();
        names.dedup();
        let pages = names.into_iter().map(|name| {
            let pairs = [("store", name), ("box", queue.kind)];
            let pairs =
                if desk.queue(Some(name), Some(queue.kind)).is_ok() { &pairs } else { &pairs[..1] };
            Link {
                label: name.to_owned(),
                href: link(&self.base, section(ask), pairs.iter().copied()),
                current: name == queue.database,
            }
        });
        pages.collect()
    }

    fn box_links(&self, desk: &Desk, queue: &Queue, ask: &Ask) -> Vec<Link> {
        let boxes = desk.queues.iter().filter(|other| other.database == queue.database);
        let pages = boxes.map(|other| {
            let scope = scope(desk, other);
            let pairs = scope.iter().map(|(name, value)| (*name, value.as_str()));
            Link {
                label: if other.kind == "inbox" { "Inbox" } else { "Outbox" }.to_owned(),
                href: link(&self.base, section(ask), pairs),
                current: other.kind == queue.kind,
            }
        });
        pages.collect()
    }

    fn navigation(
        &self,
        desk: &Desk,
        queue: &Queue,
        sample: &Sample,
        place: Place,
        person: &Person,
    ) -> Vec<Group> {
        let is_inbox = queue.kind == "inbox";
        let place = if place == Place::Messages && is_inbox { Place::Inbox } else { place };
        let item = |at: Place, label, path: &str, icon, key| Item {
            label,
            href: self.to(path),
            icon,
            key,
            badge: badge(at, sample),
            current: at == place,
        };
        let of_box = |at: Place, label, kind, icon, key| {
            let there =
                desk.queue(Some(&queue.database), Some(kind)).map(|queue| scope(desk, queue));
            let there = there.unwrap_or_default();
            let pairs = there.iter().map(|(name, value)| (*name, value.as_str()));
            let href = link(&self.base, "/messages", pairs);
            Item { label, href, icon, key, badge: None, current: at == place }
        };
        let mut system = vec![
            item(Place::Dispatchers, "Dispatchers", "/dispatchers", icons::DISPATCHERS, Some('n')),
            item(Place::Stores, "Stores", "/stores", icons::STORES, Some('s')),
            item(Place::Jobs, "Jobs", "/jobs", icons::JOBS, Some('b')),
        ];
        if person.may(Right::Administer) {
            system.push(item(Place::Audit, "Audit", "/audit", icons::AUDIT, Some('a')));
        }
        system.push(item(Place::Api, "API", "/api", icons::API, None));
        vec![
            Group {
                label: "Watch",
                items: vec![
                    item(Place::Overview, "Overview", "/", icons::OVERVIEW, Some('o')),
                    of_box(Place::Messages, "Messages", "outbox", icons::MESSAGES, Some('m')),
                    item(Place::Failures, "Failures", "/failures", icons::FAILURES, Some('f')),
                    item(Place::Dead, "Dead letters", "/dead", icons::DEAD, Some('d')),
                ],
            },
            Group {
                label: "Queues",
                items: vec![
                    item(Place::Topics, "Topics", "/topics", icons::TOPICS, Some('t')),
                    item(Place::Keys, "Ordering keys", "/keys", icons::KEYS, Some('k')),
                    of_box(Place::Inbox, "Inbox", "inbox", icons::INBOX, Some('i')),
                    item(Place::Joins, "Joins", "/joins", icons::JOINS, Some('j')),
                ],
            },
            Group { label: "System", items: system },
        ]
    }
}

/// What is worth a look without asking.
fn badge(place: Place, sample: &Sample) -> Option<Badge> {
    let seen = sample.seen.as_ref()?;
    let (class, number) = match place {
        Place::Failures => ("warn", seen.stats.failed),
        Place::Dead => ("bad", attention::dead_letters(seen)),
        Place::Keys => ("warn", seen.blocked.len() as u64),
        Place::Topics => ("warn", seen.pauses.len() as u64),
        _ => return None,
    };
    (number > 0).then(|| Badge { class, text: words::count(number) })
}

/// A page of one thing in one box has no twin in another: links between boxes go to its list.
fn section(ask: &Ask) -> &'static str {
    let path = ask.here.split('?').next().unwrap_or_default();
    let sections = ["/messages", "/failures", "/dead", "/topics", "/keys", "/joins"];
    let more = ["/dispatchers", "/stores", "/jobs", "/audit", "/purge"];
    let mut all = sections.into_iter().chain(more);
    all.find(|section| path.starts_with(section)).unwrap_or("/")
}

fn scope(desk: &Desk, queue: &Queue) -> Vec<(&'static str, String)> {
    match desk.queues.first() {
        Some(first) if first.database == queue.database && first.kind == queue.kind => Vec::new(),
        _ => vec![("store", queue.database.clone()), ("box", queue.kind.to_owned())],
    }
}

/// The page of a message, below the base path.
pub(super) fn message_in(desk: &Desk, queue: &Queue, id: MessageId) -> String {
    let scope = scope(desk, queue);
    let pairs = scope.iter().map(|(name, value)| (*name, value.as_str()));
    link("", &format!("/messages/{id}"), pairs)
}

fn link<'a>(base: &str, path: &str, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut href = format!("{base}{path}");
    let mut sign = if path.contains('?') { '&' } else { '?' };
    for (name, value) in pairs.filter(|(_, value)| !value.is_empty()) {
        href.push(sign);
        href.push_str(name);
        href.push('=');
        href.push_str(&words::encoded(value));
        sign = '&';
    }
    href
}

fn role(person: &Person) -> &'static str {
    match person.role {
        Role::Viewer => "viewer",
        Role::Operator => "operator",
        Role::Admin => "admin",
    }
}
