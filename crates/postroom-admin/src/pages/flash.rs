//! What came of the last action, told once on the next page. It travels in a cookie, so that it
//! arrives whichever of several processes shows that page.

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use postroom_core::store::Changed;
use serde::{Deserialize, Serialize};

use super::frame::decoded;
use super::words;

const COOKIE: &str = "postroom_flash";
/// A cookie has room for some 4,000 bytes.
const MOST_ITEMS: usize = 12;
const MOST_CHARS: usize = 160;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Flash {
    /// Empty when all is well, else `warn` or `bad`.
    pub(super) class: String,
    pub(super) text: String,
    pub(super) items: Vec<String>,
}

impl Flash {
    pub(super) fn good(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub(super) fn warn(text: impl Into<String>) -> Self {
        Self { class: "warn".into(), text: text.into(), items: Vec::new() }
    }

    /// What became of each message: `verb` is what was done to them.
    pub(super) fn of(changed: &Changed, verb: &str) -> Self {
        let done = words::many(changed.applied.len() as u64, "message", "messages");
        if changed.refused.is_empty() {
            return Self::good(format!("{verb} {done}."));
        }
        let refused = changed.refused.len() as u64;
        let mut flash = Self::warn(format!("{verb} {done}, and not {}.", words::count(refused)));
        for (id, why) in changed.refused.iter().take(MOST_ITEMS) {
            flash.items.push(format!("{id}: {}", why.as_str()));
        }
        if refused > MOST_ITEMS as u64 {
            flash.items.push(format!("and {} more", words::count(refused - MOST_ITEMS as u64)));
        }
        flash
    }

    /// Tells it on the page at `back`, which is below the base path.
    pub(super) fn redirect(mut self, base: &str, back: &str) -> Response {
        let cut = |text: &mut String| {
            let end = text.char_indices().nth(MOST_CHARS).map_or(text.len(), |(end, _)| end);
            text.truncate(end);
        };
        cut(&mut self.text);
        self.items.iter_mut().for_each(cut);
        let back = if is_here(back) { back } else { "/" };
        let mut response = Redirect::to(&format!("{base}{back}")).into_response();
        let json = serde_json::to_string(&self).unwrap_or_default();
        let cookie = format!(
            "{COOKIE}={}; Path={base}/; Max-Age=60; HttpOnly; SameSite=Strict",
            words::encoded(&json)
        );
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        response
    }

    pub(super) fn read(headers: &HeaderMap) -> Option<Self> {
        let all = headers.get_all(header::COOKIE).iter().filter_map(|all| all.to_str().ok());
        let mut pairs = all.flat_map(|all| all.split(';')).filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(name, _)| name.trim() == COOKIE)?;
        let (_, json) = decoded(&format!("json={}", value.trim())).pop()?;
        serde_json::from_str(&json).ok()
    }
}

/// The cookie that ends the flash.
pub(super) fn spent(base: &str) -> String {
    format!("{COOKIE}=; Path={base}/; Max-Age=0; HttpOnly; SameSite=Strict")
}

/// Whether it is a path of ours, however a browser reads it.
fn is_here(path: &str) -> bool {
    let odd = |c: char| c.is_control() || c == '\\' || !c.is_ascii();
    path.starts_with('/') && !path.starts_with("//") && !path.contains(odd)
}

#[cfg(test)]
mod tests {
    use postroom_core::MessageId;
    use postroom_core::store::Refusal;

    use super::*;

    #[test]
    fn it_arrives_as_it_was_sent() {
        let refused = vec![(MessageId::new(), Refusal::Done)];
        let changed = Changed { applied: vec![MessageId::new()], refused };
        let flash = Flash::of(&changed, "Replayed");
        assert_eq!(flash.text, "Replayed 1 message, and not 1.");
        let response = flash.clone().redirect("/base", "/dead?topic=a%20b");
        assert_eq!(response.headers()[header::LOCATION], "/base/dead?topic=a%20b");
        let cookie = response.headers()[header::SET_COOKIE].to_str().unwrap();
        assert!(cookie.ends_with("; Path=/base/; Max-Age=60; HttpOnly; SameSite=Strict"));
        let mut headers = HeaderMap::new();
        let sent = format!("other=1; {}", cookie.split(';').next().unwrap());
        headers.insert(header::COOKIE, sent.parse().unwrap());
        assert_eq!(Flash::read(&headers), Some(flash));
    }

    #[test]
    fn x03_it_leads_nowhere_else() {
        for back in ["https://evil", "//evil", "/\\evil", "", "/a\nb"] {
            let response = Flash::good("x").redirect("", back);
            assert_eq!(response.headers()[header::LOCATION], "/", "{back:?}");
        }
    }

    #[test]
    fn sec_6_it_fits_in_a_cookie() {
        let refused = (0..500).map(|_| (MessageId::new(), Refusal::Undecodable)).collect();
        let flash = Flash::of(&Changed { applied: Vec::new(), refused }, "Replayed");
        assert_eq!(flash.items.len(), MOST_ITEMS + 1);
        let response = flash.redirect("", "/");
        assert!(response.headers()[header::SET_COOKIE].len() < 4_000);
    }
}
