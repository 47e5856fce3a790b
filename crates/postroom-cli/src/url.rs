//! Which database a URL means, and how to show it without its password.

use std::borrow::Cow;

use crate::failure::{Exit, Failure};

/// A database URL that was understood.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Url {
    raw: String,
    pub(crate) kind: Kind,
}

/// The databases that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `sqlite:path` or `sqlite::memory:`.
    Sqlite,
    /// `postgres://…`.
    Postgres,
    /// `mysql://…` or `mariadb://…`.
    MySql,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::MySql => "mysql",
        }
    }
}

impl Url {
    pub(crate) fn parse(raw: &str) -> Result<Self, Failure> {
        let kind = match raw.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Kind::Sqlite,
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => Kind::Postgres,
            Some(("mysql" | "mariadb", rest)) if rest.starts_with("//") => Kind::MySql,
            _ => {
                let what = format!("unknown database URL {:?}", masked(raw));
                let next = "use sqlite:FILE, sqlite::memory:, postgres://USER@HOST/DATABASE or \
                    mysql://USER@HOST/DATABASE";
                return Err(Failure::new(Exit::Invalid, what).next(next));
            }
        };
        Ok(Self { raw: raw.to_owned(), kind })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.raw
    }

    /// The file of a SQLite database, unless it is in memory.
    pub(crate) fn file(&self) -> Option<Cow<'_, str>> {
        let path = self.raw.strip_prefix("sqlite:")?;
        let path = path.strip_prefix("//").unwrap_or(path);
        let path = path.split('?').next().unwrap_or(path);
        (path != ":memory:" && !path.is_empty()).then(|| decoded(path))
    }

    /// The URL of a file, whatever it is called.
    pub(crate) fn of_file(file: &str) -> String {
        format!("sqlite:{}", file.replace('%', "%25").replace('?', "%3F"))
    }

    /// The value of a parameter behind the `?`.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let (_, parameters) = self.raw.split_once('?')?;
        let pairs = parameters.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Whether the database is on this host: a file, a socket or a loopback address.
    pub(crate) fn is_local(&self) -> bool {
        if self.kind == Kind::Sqlite {
            return true;
        }
        let (_, rest) = self.raw.split_once("://").unwrap_or_default();
        let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        // Parameters may name another host.
        if parameters.contains("host") || parameters.contains("socket") {
            return false;
        }
        let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
        let place = place.split('/').next().unwrap_or_default();
        let host = match place.strip_prefix('[') {
            Some(literal) => literal.split(']').next().unwrap_or_default(),
            None => place.split(':').next().unwrap_or_default(),
        };
        let is_loopback = |address: std::net::IpAddr| address.is_loopback();
        host == "localhost" || host.parse().is_ok_and(is_loopback)
    }

    /// For people: without passwords.
    pub(crate) fn shown(&self) -> String {
        masked(&self.raw)
    }

    /// A text that may quote the URL or its password, without them.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let shown = self.shown();
        let text = text.replace(&self.raw, &shown);
        match password(&self.raw) {
            // A password that is a word of the URL, such as its user, is no secret, and to blot it
            // out everywhere would leave nothing to read.
            Some(secret) if !shown.contains(secret) => text.replace(secret, "***"),
            _ => text,
        }
    }
}

impl std::fmt::Debug for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Url({})", self.shown())
    }
}

/// A text with `%XX` as what it stands for; the same where that is not UTF-8.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The password between user and host.
fn password(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    // A password may contain `/` by mistake, and `@` too: the last `@` ends it.
    let (login, _) = rest.rsplit_once('@')?;
    login.split_once(':').map(|(_, secret)| secret)
}

/// The URL with `***` for its password and without its parameters, which may hold another.
pub(crate) fn masked(url: &str) -> String {
    let shown = match password(url) {
        Some(secret) => url.replacen(&format!(":{secret}@"), ":***@", 1),
        None => url.to_owned(),
    };
    match shown.split_once('?') {
        Some((base, _)) => format!("{base}?…"),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_say_which_database() {
        for (url, kind) in [
            ("sqlite:postroom.db", Kind::Sqlite),
            ("sqlite::memory:", Kind::Sqlite),
            ("sqlite:///var/lib/app.db", Kind::Sqlite),
            ("postgres://localhost/app", Kind::Postgres),
            ("postgresql://localhost/app", Kind::Postgres),
            ("mysql://localhost/app", Kind::MySql),
            ("mariadb://localhost/app", Kind::MySql),
        ] {
            assert_eq!(Url::parse(url).expect(url).kind, kind, "{url}");
        }
        for bad in
            ["", "sqlite:", "postroom.db", "oracle://localhost/app", "postgres:app", "mysql:app"]
        {
            let failure = Url::parse(bad).expect_err(bad);
            assert_eq!(failure.exit(), Exit::Invalid, "{bad}");
        }
    }

    #[test]
    fn files_are_found_in_sqlite_urls() {
        let file = |url: &str| Url::parse(url).expect(url).file().map(Cow::into_owned);
        assert_eq!(file("sqlite:a.db").as_deref(), Some("a.db"));
        assert_eq!(file("sqlite:///var/a.db?mode=rw").as_deref(), Some("/var/a.db"));
        assert_eq!(file("sqlite:a%20b%2.db").as_deref(), Some("a b%2.db"));
        for odd in ["100%25.db", "what?.db", "a b.db", "ü%.db"] {
            assert_eq!(file(&Url::of_file(odd)).as_deref(), Some(odd));
        }
        assert_eq!(file("sqlite::memory:"), None);
        assert_eq!(file("postgres://h/d"), None);
    }

    #[test]
    fn only_loopback_is_this_host() {
        let is_local = |url: &str| Url::parse(url).expect(url).is_local();
        for url in [
            "sqlite:a.db",
            "postgres://localhost/app",
            "postgres://app:p@ss@127.0.0.1:5432/app",
            "mysql://root@[::1]:3306/app",
        ] {
            assert!(is_local(url), "{url}");
        }
        for url in [
            "postgres://db/app",
            "postgres://localhost@db.example/app",
            "postgres://localhost.example/app",
            "postgres://127.0.0.1@10.0.0.7/app",
            "postgres://localhost/app?host=db.example",
            "mysql://127.0.0.1.example:3306/app",
        ] {
            assert!(!is_local(url), "{url}");
        }
    }

    #[test]
    fn sec_2_passwords_are_never_shown() {
        for raw in [
            "postgres://app:s3cret@db/app",
            "postgres://app:s3cret@db/app?password=s3cret",
            "postgres://db/app?user=app&password=s3cret",
            "postgres://app:s3c@ret/s3cret@db/app",
            "mysql://app:s3cret@db/app",
        ] {
            let shown = masked(raw);
            assert!(!shown.contains("s3c"), "{shown}");
        }
        let url = Url::parse("postgres://app:s3cret@db/app").expect("legal");
        assert_eq!(url.scrub("no login for app with s3cret"), "no login for app with ***");
        let common = Url::parse("postgres://postgres:postgres@db/app").expect("legal");
        let text = "no answer from postgres://postgres:***@db/app";
        assert_eq!(common.scrub(text), text);
        assert_eq!(format!("{url:?}"), "Url(postgres://app:***@db/app)");
    }
}
