//! Styles and scripts, in the binary. Their path changes with their content, so that they can be
//! kept for ever.

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use rust_embed::Embed;
use sha2::{Digest as _, Sha256};

use crate::problem::Problem;
use crate::routes::{Guarded, Need};

#[derive(Embed)]
#[folder = "assets/"]
struct Assets;

/// One hash over all: a module that imports another by a relative path finds the one of its time.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut names: Vec<_> = Assets::iter().collect();
    names.sort_unstable();
    let mut hash = Sha256::new();
    for name in names {
        hash.update(name.as_bytes());
        if let Some(file) = Assets::get(&name) {
            hash.update(&file.data);
        }
    }
    let mut version = String::new();
    for byte in hash.finalize().iter().take(6) {
        let _ = write!(version, "{byte:02x}");
    }
    version
});

pub(super) fn routes() -> Guarded {
    Guarded::new().get("/assets/{version}/{name}", Need::Public, asset)
}

/// The path of an asset below the base path.
pub(super) fn path(name: &str) -> String {
    format!("/assets/{}/{name}", *VERSION)
}

/// An old path gives the asset of today, which a browser must not keep under that path.
async fn asset(
    Path((version, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Some(file) = Assets::get(&name) else {
        return Err(Problem::not_found("there is no such asset"));
    };
    let etag = format!("\"{}\"", *VERSION);
    let caching = match version == *VERSION {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    let kind = content_type(&name);
    let head = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, caching),
        (header::ETAG, etag.as_str()),
    ];
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known == etag.as_str());
    if known {
        return Ok((StatusCode::NOT_MODIFIED, head).into_response());
    }
    Ok((head, file.data.into_owned()).into_response())
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_asset_has_a_type_that_browsers_accept() {
        assert!(Assets::iter().count() >= 3);
        for name in Assets::iter() {
            assert_ne!(content_type(&name), "application/octet-stream", "{name}");
        }
        assert!(path("app.css").starts_with("/assets/"));
    }

    #[test]
    fn our_scripts_stay_small() {
        let lines = |name: &str| {
            let file = Assets::get(name).expect("embedded");
            String::from_utf8_lossy(&file.data).lines().count()
        };
        let all: usize = Assets::iter().filter(|n| n.ends_with(".js")).map(|n| lines(&n)).sum();
        assert!(all <= 600, "{all} lines of script");
    }
}
