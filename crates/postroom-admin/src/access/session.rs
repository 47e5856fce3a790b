//! Logins of browsers: a cookie that names a session of this process.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Extension;
use axum::extract::{Form, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use uuid::Uuid;

use super::guard::wants_html;
use super::guesses::Address;
use super::{Person, origin};
use crate::desk::Desk;
use crate::problem::Problem;
use crate::routes::{Base, Guarded, Need};

const COOKIE: &str = "postroom_session";
const MOST_SESSIONS: usize = 1_000;
const UNUSED: Duration = Duration::from_hours(12);
const LONGEST: Duration = Duration::from_hours(7 * 24);

pub(crate) fn routes() -> Guarded {
    Guarded::new().post("/login", Need::Public, log_in).post("/logout", Need::Public, log_out)
}

/// Who is logged in, by the hash of what their cookie says.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<[u8; 32], Session>>);

struct Session {
    person: Person,
    began: Instant,
    used: Instant,
}

impl Session {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.used) >= UNUSED || now.duration_since(self.began) >= LONGEST
    }
}

impl Sessions {
    /// The secret of a new session. When there are too many, the one that was not used for longest
    /// ends.
    fn begin(&self, person: Person, now: Instant) -> String {
        // Two of them have 244 random bits.
        let secret = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| !session.is_over(now));
        if sessions.len() >= MOST_SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                sessions.remove(&key);
            }
        }
        sessions.insert(key(&secret), Session { person, began: now, used: now });
        secret
    }

    pub(crate) fn person(&self, secret: &str, now: Instant) -> Option<Person> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.get_mut(&key(secret)).filter(|session| !session.is_over(now))?;
        session.used = now;
        Some(session.person.clone())
    }

    fn end(&self, secret: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key(secret));
    }
}

fn key(secret: &str) -> [u8; 32] {
    Sha256::digest(secret).into()
}

/// The secret of a session in the cookies of a request.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let pairs = all.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (name.trim(), value.trim()))
        .find(|(name, _)| *name == COOKIE)
        .map(|(_, value)| value)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    token: String,
    #[serde(default)]
    next: String,
}

/// A token for a session. A browser goes on to where it wanted, or back to the login.
async fn log_in(
    State(desk): State<Arc<Desk>>,
    Base(base): Base,
    Extension(address): Extension<Address>,
    uri: Uri,
    headers: HeaderMap,
    Form(login): Form<Login>,
) -> Result<Response, Problem> {
    let now = Instant::now();
    let look = || desk.access.person(Some(&login.token)).cloned();
    let Some(person) = desk.rates.guesses.check((address, &login.token), now, look)? else {
        if wants_html(&headers) {
            let next = escape(&login.next);
            return Ok(Redirect::to(&format!("{base}/login?failed=1&next={next}")).into_response());
        }
        let told = "no such token";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", told));
    };
    let secret = desk.sessions.begin(person, now);
    let next = if is_here(&login.next) { login.next.as_str() } else { "/" };
    let is_local = origin::is_loopback(&uri, &headers);
    let answer = Redirect::to(&format!("{base}{next}"));
    Ok(with_cookie(answer, &secret, &base, is_local, LONGEST))
}

async fn log_out(State(desk): State<Arc<Desk>>, Base(base): Base, request: Request) -> Response {
    let headers = request.headers();
    if let Some(secret) = cookie(headers) {
        desk.sessions.end(secret);
    }
    let is_local = origin::is_loopback(request.uri(), headers);
    with_cookie(Redirect::to(&format!("{base}/login")), "", &base, is_local, Duration::ZERO)
}

/// Not `Secure` on a loopback host only: browsers would not send it back over plain HTTP.
fn with_cookie(
    answer: Redirect,
    secret: &str,
    base: &str,
    is_local: bool,
    lasts: Duration,
) -> Response {
    let secure = if is_local { "" } else { "; Secure" };
    let age = lasts.as_secs();
    let cookie = format!(
        "{COOKIE}={secret}; Path={base}/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}"
    );
    let mut response = answer.into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Whether it is a path of ours: never another site, however a browser reads it.
fn is_here(next: &str) -> bool {
    let odd = |c: char| c.is_control() || c == '\\' || !c.is_ascii();
    next.starts_with('/') && !next.starts_with("//") && !next.contains(odd)
}

/// For a query: everything but letters, digits and a few signs in percents.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                escaped.push(char::from(byte));
            }
            _ => {
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Role;

    fn person() -> Person {
        Person { name: "ann".into(), role: Role::Viewer, payloads: false }
    }

    #[test]
    fn x24_a_session_ends_by_logout_and_by_time() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        let [first, second, third] = [0; 3].map(|_| sessions.begin(person(), start));
        assert_eq!(sessions.person(&first, start), Some(person()));
        sessions.end(&first);
        assert_eq!(sessions.person(&first, start), None);
        assert_eq!(sessions.person(&second, start + UNUSED), None, "nobody used it");
        let mut now = start;
        while now + UNUSED / 2 < start + LONGEST {
            now += UNUSED / 2;
            assert_eq!(sessions.person(&third, now), Some(person()), "it is used");
        }
        assert_eq!(sessions.person(&third, start + LONGEST), None, "even so it ends");
    }

    #[test]
    fn x17_sessions_are_bounded() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        for _ in 0..MOST_SESSIONS + 10 {
            sessions.begin(person(), now);
        }
        assert_eq!(sessions.0.lock().unwrap().len(), MOST_SESSIONS);
    }

    #[test]
    fn x03_a_login_leads_nowhere_else() {
        for here in ["/", "/messages?status=dead", "/a//b"] {
            assert!(is_here(here), "{here}");
        }
        for elsewhere in ["", "//evil", "/\\evil", "https://evil", "/a\r\nb", "evil", "/\tevil"] {
            assert!(!is_here(elsewhere), "{elsewhere}");
        }
    }
}
