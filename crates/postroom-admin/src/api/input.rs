//! What requests say, checked: what is unknown, broken or too much is refused by its name.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::{Json, RequestExt as _};
use postroom_core::lifecycle::DeadReason;
use postroom_core::store::{List, Status};
use postroom_core::{MessageId, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::{IntoParams, ToSchema};

use crate::desk::{Desk, Queue, words};
use crate::problem::Problem;

/// The most characters of one parameter.
const MOST_CHARS: usize = 1_000;
const STATUSES: [Status; 5] =
    [Status::Pending, Status::Leased, Status::Failed, Status::Done, Status::Dead];

/// The parameters of a request. Each is taken once; what is left at the end is unknown.
pub(crate) struct Query {
    pairs: BTreeMap<String, String>,
    /// Whether it is a request to change something.
    is_change: bool,
}

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let axum::extract::Query(pairs) =
            query.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
        let mut taken = BTreeMap::new();
        for (name, value) in pairs {
            check_text(&name, &value)?;
            if taken.insert(name.clone(), value).is_some() {
                return Err(Problem::invalid(format!("parameter {name:?} is given twice")));
            }
        }
        Ok(Self { pairs: taken, is_change: !parts.method.is_safe() })
    }
}

impl Query {
    /// A parameter; an empty one counts as none, so that forms may send all they have.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.pairs.remove(name).filter(|value| !value.is_empty())
    }

    pub(crate) fn parse<T>(&mut self, name: &str) -> Result<Option<T>, Problem>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        let parsed = self.text(name).map(|value| value.parse());
        parsed.transpose().map_err(|error| Problem::invalid(format!("parameter {name:?}: {error}")))
    }

    /// `limit`, in bounds.
    pub(crate) fn limit(&mut self, default: u32, most: u32) -> Result<u32, Problem> {
        let limit = self.parse("limit")?.unwrap_or(default);
        match (1..=most).contains(&limit) {
            true => Ok(limit),
            false => Err(Problem::invalid(format!("limit must be 1 to {most}, got {limit}"))),
        }
    }

    /// The box that `store` and `box` name.
    pub(crate) fn queue(&mut self, desk: &Desk) -> Result<Arc<Queue>, Problem> {
        let (store, kind) = (self.text("store"), self.text("box"));
        let (queues, store, kind) = (desk.queues(), store.as_deref(), kind.as_deref());
        match self.is_change {
            true => queues.find_to_change(store, kind),
            false => queues.find(store, kind),
        }
    }

    /// All filters.
    pub(crate) fn filter(&mut self) -> Result<Filter, Problem> {
        Ok(Filter {
            status: self.text("status"),
            topic: self.text("topic"),
            topic_prefix: self.text("topic_prefix"),
            tenant: self.text("tenant"),
            aggregate_type: self.text("aggregate_type"),
            aggregate_id: self.text("aggregate_id"),
            ordering_key: self.text("ordering_key"),
            since: self.text("since"),
            until: self.text("until"),
            error: self.text("error"),
            min_attempts: self.parse("min_attempts")?,
            reason: self.text("reason"),
        })
    }

    /// Refuses what nobody took.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        match self.pairs.first_key_value() {
            None => Ok(()),
            Some((name, _)) => Err(Problem::invalid(format!("there is no parameter {name:?}"))),
        }
    }
}

/// Which box of which database.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it describes what Query::queue takes")]
pub(super) struct Where {
    /// The name of a database. Default: the first one; a change has to name one where there are
    /// several that come and go.
    store: Option<String>,
    /// `outbox` or `inbox`. Default: the first one there is.
    r#box: Option<String>,
}

/// Which page.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it describes what Query takes")]
pub(super) struct Paging {
    /// `next` of the page before.
    before: Option<String>,
    /// How many at most. Default 50.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
}

/// Which messages are meant. What is left out filters nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, ToSchema, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    /// `pending`, `leased`, `failed` (pending after a bad attempt), `done` or `dead`.
    pub(crate) status: Option<String>,
    /// Exactly this topic.
    pub(crate) topic: Option<String>,
    /// Topics that start with this.
    pub(crate) topic_prefix: Option<String>,
    /// Exactly this tenant.
    pub(crate) tenant: Option<String>,
    /// Exactly this type of aggregate.
    pub(crate) aggregate_type: Option<String>,
    /// Exactly this aggregate.
    pub(crate) aggregate_id: Option<String>,
    /// Exactly this ordering key.
    pub(crate) ordering_key: Option<String>,
    /// Written then or later: RFC 3339, or how long ago, such as `15m`.
    pub(crate) since: Option<String>,
    /// Written before: RFC 3339, or how long ago.
    pub(crate) until: Option<String>,
    /// A part of the last error. Case matters.
    pub(crate) error: Option<String>,
    /// At least so many bad attempts.
    pub(crate) min_attempts: Option<u32>,
    /// Why a message is dead: `attempts_used_up`, `permanent_error`, `lost_leases`, `expired`,
    /// `undecodable` or `discarded`.
    pub(crate) reason: Option<String>,
}

impl Filter {
    /// As stores take it.
    pub(crate) fn list(self) -> Result<List, Problem> {
        let now = Timestamp::host_now();
        let text = |name: &str, text: Option<String>| match text {
            Some(text) => check_text(name, &text).map(|()| Some(text)),
            None => Ok(None),
        };
        Ok(List {
            status: self.status.as_deref().map(status).transpose()?,
            topic: text("topic", self.topic)?,
            topic_prefix: text("topic_prefix", self.topic_prefix)?,
            tenant: text("tenant", self.tenant)?,
            aggregate_type: text("aggregate_type", self.aggregate_type)?,
            aggregate_id: text("aggregate_id", self.aggregate_id)?,
            ordering_key: text("ordering_key", self.ordering_key)?,
            since: self.since.map(|since| past("since", &since, now)).transpose()?,
            until: self.until.map(|until| past("until", &until, now)).transpose()?,
            error: text("error", self.error)?,
            min_attempts: self.min_attempts,
            reason: self.reason.as_deref().map(reason).transpose()?,
            before: None,
            limit: 50,
        })
    }
}

/// No database likes NUL, and no log likes pages.
fn check_text(name: &str, text: &str) -> Result<(), Problem> {
    let length = text.chars().count();
    if length > MOST_CHARS {
        let told = format!("{name:.40} must be at most {MOST_CHARS} characters, got {length}");
        return Err(Problem::invalid(told));
    }
    match text.contains('\0') {
        true => Err(Problem::invalid(format!("{name:.40} must be free of NUL characters"))),
        false => Ok(()),
    }
}

fn status(text: &str) -> Result<Status, Problem> {
    let found = STATUSES.into_iter().find(|status| words::status(*status) == text);
    found.ok_or_else(|| {
        let known = STATUSES.map(words::status).join(", ");
        Problem::invalid(format!("status must be one of {known}, got {text:?}"))
    })
}

fn reason(text: &str) -> Result<DeadReason, Problem> {
    let found = DeadReason::ALL.into_iter().find(|reason| words::reason(*reason) == text);
    found.ok_or_else(|| {
        let known = DeadReason::ALL.map(words::reason).join(", ");
        Problem::invalid(format!("reason must be one of {known}, got {text:?}"))
    })
}

/// RFC 3339, or how long ago.
fn past(name: &str, text: &str, now: Timestamp) -> Result<Timestamp, Problem> {
    when(name, text, |age| now.saturating_sub(age))
}

/// RFC 3339, or how long from now.
pub(super) fn future(name: &str, text: &str, now: Timestamp) -> Result<Timestamp, Problem> {
    when(name, text, |delay| now.saturating_add(delay))
}

fn when(
    name: &str,
    text: &str,
    distant: impl Fn(Duration) -> Timestamp,
) -> Result<Timestamp, Problem> {
    let time = match text.parse::<jiff::Timestamp>() {
        Ok(time) => Some(Timestamp::from_micros(time.as_microsecond())),
        Err(_) => duration(text).map(distant),
    };
    // Databases do not know every year that there was.
    time.filter(|time| *time >= Timestamp::from_micros(0)).ok_or_else(|| {
        let told = "an RFC 3339 time since 1970 or a duration such as 15m, 12h or 7d";
        Problem::invalid(format!("{name} must be {told}, got {text:?}"))
    })
}

/// `90s`, `15m`, `12h`, `7d`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
    count.checked_mul(seconds).map(Duration::from_secs)
}

/// A body of JSON. No body is an empty object.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<Desk>> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &Arc<Desk>) -> Result<Self, Problem> {
        let is_json = is_json(request.headers());
        let refused = |status, told| Problem::new(status, "bad_body", told);
        let bytes: Bytes = request.extract().await.map_err(
            |rejection: axum::extract::rejection::BytesRejection| {
                refused(rejection.status(), rejection.body_text())
            },
        )?;
        let bytes = match bytes.is_empty() {
            true => Bytes::from_static(b"{}"),
            false if is_json => bytes,
            false => {
                let told = "the body must be application/json, and its Content-Type must say so";
                return Err(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, told.into()));
            }
        };
        let Json(body) = Json::from_bytes(&bytes)
            .map_err(|rejection| refused(rejection.status(), rejection.body_text()))?;
        Ok(Self(body))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

/// The one parameter in a path.
pub(crate) struct Named(pub(crate) String);

impl Named {
    pub(crate) fn message(&self) -> Result<MessageId, Problem> {
        Ok(self.0.parse()?)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(name) = path.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
        check_text("the path", &name)?;
        Ok(Self(name))
    }
}

/// Why somebody does it.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reason {
    /// Goes into the audit log. At most 500 characters.
    pub(crate) reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adm_1_times_are_points_or_distances() {
        let now = Timestamp::from_micros(1_700_000_000_000_000);
        let ago = |seconds| now.saturating_sub(Duration::from_secs(seconds));
        assert_eq!(past("since", "15m", now).unwrap(), ago(900));
        assert_eq!(past("since", "2h", now).unwrap(), ago(7_200));
        assert_eq!(past("since", "7d", now).unwrap(), ago(604_800));
        assert_eq!(past("since", "2023-11-14T22:13:20Z", now).unwrap(), now);
        assert_eq!(past("since", "2023-11-14T23:13:20+01:00", now).unwrap(), now);
        for bad in [
            "",
            "m",
            "-1h",
            "1.5h",
            "15",
            "99999999999999999999d",
            "18446744073709551615d",
            "1969-12-31T23:59:59Z",
            "-004000-01-01T00:00:00Z",
            "yesterday",
            "15µ",
        ] {
            let problem = past("since", bad, now).expect_err(bad);
            assert!(problem.message.starts_with("since must be"), "{}", problem.message);
        }
    }
}
