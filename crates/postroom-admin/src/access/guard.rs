//! Stands before every handler: who is it, may they, do they really want it, and not too often.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use tokio::time::Instant;

use super::guesses::Address;
use super::{Access, Person, origin, session};
use crate::desk::Desk;
use crate::problem::Problem;
use crate::routes::{Base, Caller, Need};

/// A handler has this long until its answer begins. Streams take longer only after that.
const PATIENCE: Duration = Duration::from_secs(10);

const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'";

/// What the guard of one route knows.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) desk: Arc<Desk>,
    pub(crate) need: Need,
}

/// How somebody proved who they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// By a header that no other site can make a browser send.
    Bearer,
    /// By what a browser sends by itself, or by nothing.
    Ambient,
}

/// Lets the request through, or answers why not.
pub(crate) async fn check(
    State(Guard { desk, need }): State<Guard>,
    mut request: Request,
    next: Next,
) -> Response {
    let base = base_path(&desk, request.headers());
    request.extensions_mut().insert(Base(base.clone()));
    let address = Address::of(&request, desk.trusts_forwarded_for);
    request.extensions_mut().insert(address);
    match admit(&desk, need, address, &request) {
        Ok(Some(person)) => {
            request.extensions_mut().insert(Caller(person));
        }
        Ok(None) => {}
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => {
            return ask_who(&base, &request, problem);
        }
        Err(problem) => return problem.into_response(),
    }
    match tokio::time::timeout(PATIENCE, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "timeout",
            format!("no answer within {} s; ask for less, or try again later", PATIENCE.as_secs()),
        )
        .into_response(),
    }
}

fn admit(
    desk: &Desk,
    need: Need,
    address: Address,
    request: &Request,
) -> Result<Option<Person>, Problem> {
    let headers = request.headers();
    let is_open = matches!(desk.access, Access::Open(_));
    if is_open && !desk.guarded_elsewhere && !origin::is_loopback(request.uri(), headers) {
        let told = "without tokens, only requests to a loopback address are answered; \
                    set a token, or ask for http://localhost";
        return Err(Problem::new(StatusCode::FORBIDDEN, "foreign_host", told));
    }
    let (person, proof) = who(desk, need, address, headers)?;
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    if need != Need::Public {
        let person = person.as_ref().ok_or_else(|| {
            let told = "a token is needed: Authorization: Bearer <token>";
            Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", told)
        })?;
        if let Some(right) = need.rights().find(|right| !person.may(*right)) {
            return Err(Problem::forbidden(&person.name, right));
        }
        if changes {
            desk.may_change()?;
        }
    }
    if changes && proof == Proof::Ambient && !origin::is_same(request.uri(), headers) {
        let told = "a change needs an Authorization header, or has to come from our own pages";
        return Err(Problem::new(StatusCode::FORBIDDEN, "cross_origin", told));
    }
    if let Some(person) = person.as_ref().filter(|_| need != Need::Public) {
        desk.rates.check(&person.name, changes)?;
    }
    Ok(person)
}

/// Who it is, and by what. What is public is so for those who guess, too.
fn who(
    desk: &Desk,
    need: Need,
    address: Address,
    headers: &HeaderMap,
) -> Result<(Option<Person>, Proof), Problem> {
    if let Access::Open(person) = &desk.access {
        return Ok((Some(person.clone()), Proof::Ambient));
    }
    let now = Instant::now();
    let Some(secret) = bearer(headers) else {
        let session = session::cookie(headers);
        let person = session.and_then(|id| desk.sessions.person(id, now));
        return Ok((person, Proof::Ambient));
    };
    let look = || desk.access.person(Some(secret)).cloned();
    match desk.rates.guesses.check((address, secret), now, look) {
        Ok(person) => Ok((person, Proof::Bearer)),
        Err(_) if need == Need::Public => Ok((None, Proof::Bearer)),
        Err(problem) => Err(problem),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, secret) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

/// A browser that wants a page is sent to the login; everybody else is told.
fn ask_who(base: &str, request: &Request, problem: Problem) -> Response {
    let uri = request.uri();
    let is_api = uri.path() == "/api" || uri.path().starts_with("/api/");
    if request.method() == Method::GET && !is_api && wants_html(request.headers()) {
        let here = uri.path_and_query().map_or("/", |here| here.as_str());
        return Redirect::to(&format!("{base}/login?next={}", session::escape(here)))
            .into_response();
    }
    let mut response = problem.into_response();
    let challenge = HeaderValue::from_static("Bearer");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}

pub(crate) fn wants_html(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

pub(crate) fn base_path(desk: &Desk, headers: &HeaderMap) -> String {
    let forwarded = headers.get("x-forwarded-prefix").and_then(|prefix| prefix.to_str().ok());
    match forwarded {
        Some(prefix) if desk.trusts_forwarded_prefix && is_path(prefix) => {
            format!("{}{}", prefix.trim_end_matches('/'), desk.base_path)
        }
        _ => desk.base_path.clone(),
    }
}

/// Whether it can stand in links as it is. Two slashes at its start would name another host.
pub(crate) fn is_path(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    text.starts_with('/') && !text.starts_with("//") && text.chars().all(plain)
}

pub(crate) async fn no_such_path() -> Problem {
    Problem::not_found("there is nothing at this path")
}

pub(crate) async fn no_such_method(method: Method) -> Problem {
    let told = format!("{method} is not possible here");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", told)
}

pub(crate) fn panicked(_: Box<dyn Any + Send>) -> Response {
    tracing::error!("an admin request panicked");
    Problem::bug().into_response()
}

/// Headers of every answer. A handler that wants another one, such as for assets, has set it.
pub(crate) async fn seal(mut response: Response) -> Response {
    const SEALS: [(HeaderName, &str); 5] = [
        (header::CONTENT_SECURITY_POLICY, CSP),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Not `no-referrer`: with that, browsers hide the origin from our own forms, too.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in SEALS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}
