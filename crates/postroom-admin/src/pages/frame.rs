//! What is around every page: who asks, where they are, and the way to everything else.

use std::convert::Infallible;
use std::sync::Arc;

use askama::Template;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse as _, Response};

use super::act::value;
use super::flash::{self, Flash};
use super::{assets, icons, words};
use crate::access::{Access, Person, Right, Role};
use crate::desk::{Desk, Queue, Queues};
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
    /// All boxes, as they were when the request came.
    pub(super) queues: Arc<Queues>,
    flash: Option<Flash>,
}

impl FromRequestParts<Arc<Desk>> for Ask {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, desk: &Arc<Desk>) -> Result<Self, Infallible> {
        let Base(base) = Base::from_request_parts(parts, desk).await?;
        let caller = Caller::from_request_parts(parts, desk).await?;
        let here = parts.uri.path_and_query().map_or("/", |here| here.as_str()).to_owned();
        let query = decoded(parts.uri.query().unwrap_or_default());
        let flash = Flash::read(&parts.headers);
        Ok(Self { base, caller, here, query, queues: desk.queues(), flash })
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
    pub(super) fn queue(&self) -> Result<Arc<Queue>, Problem> {
        self.queues.find(self.get("store"), self.get("box"))
    }

    /// The box that a form with these fields is to change.
    pub(super) fn to_change(&self, fields: &[(String, String)]) -> Result<Arc<Queue>, Problem> {
        self.queues.find_to_change(value(fields, "store"), value(fields, "box"))
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

/// So many stores are shown as links.
const FEW_STORES: usize = 4;
/// So many are offered to who types.
const MOST_OFFERED: usize = 50;

/// The way to another one of many stores.
pub(super) struct Switch {
    /// The one that is shown.
    pub(super) current: String,
    pub(super) kind: &'static str,
    /// The page to show of the other one.
    pub(super) at: &'static str,
    /// Names to choose from; none when there are too many.
    pub(super) offered: Vec<String>,
}

impl Switch {
    fn new(queue: &Queue, ask: &Ask) -> Option<Self> {
        let count = ask.queues.databases();
        let names = ask.queues.names().filter(|_| count <= MOST_OFFERED);
        (count > FEW_STORES).then(|| Self {
            current: queue.database.clone(),
            kind: queue.kind,
            at: section(ask),
            offered: names.map(ToOwned::to_owned).collect(),
        })
    }
}

/// What the base template needs.
pub(super) struct Frame {
    pub(super) title: String,
    pub(super) base: String,
    /// Path and query of this page, to come back to.
    pub(super) here: String,
    /// The parameters that name the box, unless it is the first.
    scope: Vec<(&'static str, String)>,
    /// Where a script hears of news; empty when the page is not worth being fetched as often.
    pub(super) events: String,
    pub(super) switch: Option<Switch>,
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
        Self::with_box(desk, ask, Some((queue, sample)), place, title.into())
    }

    /// Around a page that is of no box: it stays at the one that is meant, if there is any.
    pub(super) fn around(
        desk: &Desk,
        ask: &Ask,
        place: Place,
        title: &str,
    ) -> Result<Self, Problem> {
        if ask.queues.is_empty() {
            return Ok(Self::with_box(desk, ask, None, place, title.to_owned()));
        }
        let queue = ask.queue()?;
        Ok(Self::new(desk, ask, &queue, &queue.sampler.at_hand(), place, title))
    }

    fn with_box(
        desk: &Desk,
        ask: &Ask,
        shown: Option<(&Queue, &Sample)>,
        place: Place,
        title: String,
    ) -> Self {
        let person = &*ask.caller;
        let queue = shown.map(|(queue, _)| queue);
        let may = |right| person.may(right) && !desk.read_only && shown.is_some();
        let is_kind = |kind| queue.is_some_and(|queue| queue.kind == kind);
        let mut frame = Self {
            title,
            base: ask.base.clone(),
            here: ask.here.clone(),
            scope: queue.map(|queue| scope(&ask.queues, queue)).unwrap_or_default(),
            events: format!("{}/api/v1/events", ask.base),
            switch: None,
            stores: Vec::new(),
            boxes: Vec::new(),
            nav: Vec::new(),
            read_only: desk.read_only,
            who: person.name.clone(),
            role: role(person),
            can_log_out: matches!(desk.access, Access::Tokens(_)),
            may_operate: may(Right::Operate),
            may_see_payloads: person.may(Right::Payload),
            may_purge: may(Right::Administer),
            may_publish: may(Right::Operate) && is_kind("outbox"),
            is_inbox: is_kind("inbox"),
            box_name: queue
                .map(|q| format!("the {} of {}", q.kind, q.database))
                .unwrap_or_default(),
            flash: ask.flash.clone(),
        };
        if let Some(queue) = queue {
            frame.switch = Switch::new(queue, ask);
            let own = [("store", queue.database.as_str()), ("box", queue.kind)];
            frame.events = match place == Place::Stores && frame.switch.is_some() {
                true => String::new(),
                false => link(&ask.base, "/api/v1/events", own.into_iter()),
            };
            frame.stores = frame.store_links(queue, ask);
            frame.boxes = frame.box_links(queue, ask);
        }
        frame.nav = frame.navigation(ask, shown, place, person);
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

    /// Of few stores; for many there is the switch.
    fn store_links(&self, queue: &Queue, ask: &Ask) -> Vec<Link> {
        if self.switch.is_some() {
            return Vec::new();
        }
        let pages = ask.queues.names().map(|name| {
            let pairs = [("store", name), ("box", queue.kind)];
            let has_it = ask.queues.of(name).any(|other| other.kind == queue.kind);
            let pairs = if has_it { &pairs } else { &pairs[..1] };
            Link {
                label: name.to_owned(),
                href: link(&self.base, section(ask), pairs.iter().copied()),
                current: name == queue.database,
            }
        });
        pages.collect()
    }

    fn box_links(&self, queue: &Queue, ask: &Ask) -> Vec<Link> {
        let pages = ask.queues.of(&queue.database).map(|other| {
            let scope = scope(&ask.queues, other);
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
        ask: &Ask,
        shown: Option<(&Queue, &Sample)>,
        place: Place,
        person: &Person,
    ) -> Vec<Group> {
        let place = if place == Place::Messages && self.is_inbox { Place::Inbox } else { place };
        let item = |at: Place, label, path: &str, icon, key| Item {
            label,
            href: self.to(path),
            icon,
            key,
            badge: shown.and_then(|(_, sample)| badge(at, sample)),
            current: at == place,
        };
        let of_box = |at: Place, label, kind, icon, key| {
            let mut there = shown.into_iter().flat_map(|(queue, _)| ask.queues.of(&queue.database));
            let there = there.find(|queue| queue.kind == kind);
            let there = there.map(|queue| scope(&ask.queues, queue)).unwrap_or_default();
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
        Place::Dead => ("bad", seen.dead_letters()),
        Place::Keys => ("warn", seen.blocked.len() as u64),
        Place::Topics => ("warn", seen.pauses.len() as u64),
        _ => return None,
    };
    (number > 0).then(|| Badge { class, text: words::count(number) })
}

/// A page of one thing in one box has no twin in another: links between boxes go to its list.
fn section(ask: &Ask) -> &'static str {
    section_of(ask.here.split('?').next().unwrap_or_default())
}

/// The list that a path belongs to.
pub(super) fn section_of(path: &str) -> &'static str {
    let sections = ["/messages", "/failures", "/dead", "/topics", "/keys", "/joins"];
    let more = ["/dispatchers", "/stores", "/jobs", "/audit", "/purge"];
    let mut all = sections.into_iter().chain(more);
    all.find(|section| path.starts_with(section)).unwrap_or("/")
}

/// Where databases come and go, every link says which one it means.
pub(super) fn scope(queues: &Queues, queue: &Queue) -> Vec<(&'static str, String)> {
    match queues.is_default(queue) {
        true => Vec::new(),
        false => vec![("store", queue.database.clone()), ("box", queue.kind.to_owned())],
    }
}

/// A page of a box, below the base path.
pub(super) fn page_of(queues: &Queues, queue: &Queue, path: &str) -> String {
    let scope = scope(queues, queue);
    link("", path, scope.iter().map(|(name, value)| (*name, value.as_str())))
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
