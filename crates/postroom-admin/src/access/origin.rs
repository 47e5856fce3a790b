//! Where a request comes from, and whom it thinks it talks to.

use std::net::Ipv4Addr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};

/// Whether it is meant for a loopback name or address, at any port. A page of another site that
/// makes its own name mean 127.0.0.1 is found out by this.
pub(crate) fn is_loopback(uri: &Uri, headers: &HeaderMap) -> bool {
    let Some(host) = host(uri, headers) else { return false };
    let name = host.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name == "::1"
        || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

/// Whether a browser says that it comes from our own pages, or from its user.
pub(crate) fn is_same(uri: &Uri, headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin" || site == "none";
    }
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let Some((_, origin)) = origin.and_then(|origin| origin.split_once("://")) else {
        return false;
    };
    host(uri, headers).is_some_and(|host| host.as_str().eq_ignore_ascii_case(origin))
}

/// Exactly one: with two, a proxy and we could mean different ones.
fn host(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => uri.authority().cloned(),
        (Some(host), None) => host.to_str().ok()?.parse().ok(),
        (Some(_), Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn x01_only_loopback_hosts_are_loopback() {
        let uri = Uri::from_static("/");
        for host in ["localhost", "LOCALHOST:7070", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:9"]
        {
            assert!(is_loopback(&uri, &headers(&[("host", host)])), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "0.0.0.0",
            "[::ffff:127.0.0.1]",
            "2130706433",
            "user@localhost",
            "",
        ] {
            let is = is_loopback(&uri, &headers(&[("host", host)]));
            assert_eq!(is, host.starts_with("user@"), "{host}");
        }
        assert!(!is_loopback(&uri, &headers(&[])));
    }

    #[test]
    fn x03_a_change_has_to_come_from_our_own_pages() {
        let uri = Uri::from_static("/");
        let same = |pairs: &[_]| is_same(&uri, &headers(pairs));
        let host = ("host", "localhost:7070");
        assert!(same(&[host, ("sec-fetch-site", "same-origin")]));
        assert!(same(&[host, ("sec-fetch-site", "none")]));
        assert!(same(&[host, ("origin", "http://localhost:7070")]));
        for foreign in [
            [host, ("sec-fetch-site", "same-site")],
            [host, ("sec-fetch-site", "cross-site")],
            [host, ("origin", "http://localhost:3000")],
            [host, ("origin", "http://evil.example")],
            [host, ("origin", "null")],
            [host, ("origin", "localhost:7070")],
        ] {
            assert!(!same(&foreign), "{foreign:?}");
        }
        assert!(!same(&[host]));
        // What the browser says of the site counts more than an origin that fits.
        let both = [host, ("origin", "http://localhost:7070"), ("sec-fetch-site", "cross-site")];
        assert!(!same(&both));
    }
}
