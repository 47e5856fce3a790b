//! Where a store is, told by a URL that may hold a password.

use std::fmt;

use postroom_core::{Error, ErrorKind, Result};

/// The databases that a URL can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Sqlite,
    Postgres,
    MySql,
}

impl Kind {
    pub(super) fn of(url: &str) -> Option<Self> {
        match url.split_once(':')? {
            ("sqlite", path) if !path.is_empty() => Some(Self::Sqlite),
            ("postgres" | "postgresql", rest) if rest.starts_with("//") => Some(Self::Postgres),
            ("mysql" | "mariadb", rest) if rest.starts_with("//") => Some(Self::MySql),
            _ => None,
        }
    }
}

/// What a URL has to look like.
pub(super) const KINDS: &str = "sqlite:FILE, postgres://USER@HOST/DATABASE or \
                                mysql://USER@HOST/DATABASE";

/// The URL of a store, as a [query](super::SqlQuery) found it, and the schema of its tables. It may
/// hold a password: `Debug` and [`shown`](Self::shown) leave that out.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    url: String,
    schema: Option<String>,
}

impl StoreUrl {
    pub(super) fn new(url: String, schema: Option<String>) -> Self {
        Self { url, schema }
    }

    /// The whole URL, for the driver and for nobody else.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.url
    }

    /// The schema, where the row says which.
    #[must_use]
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// For people: without password and parameters.
    #[must_use]
    pub fn shown(&self) -> String {
        masked(&self.url)
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreUrl")
            .field("url", &self.shown())
            .field("schema", &self.schema)
            .finish()
    }
}

/// The password between user and host. One may contain `/` and `@` by mistake: the last `@` ends
/// it.
fn password(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let (login, _) = rest.rsplit_once('@')?;
    login.split_once(':').map(|(_, secret)| secret).filter(|secret| !secret.is_empty())
}

/// The URL with `***` for its password and without its parameters, which may hold another.
pub(super) fn masked(url: &str) -> String {
    let shown = match password(url) {
        Some(secret) => url.replacen(&format!(":{secret}@"), ":***@", 1),
        None => url.to_owned(),
    };
    match shown.split_once('?') {
        Some((base, _)) => format!("{base}?…"),
        None => shown,
    }
}

/// A text that may quote the URL or its password, without them.
pub(super) fn scrubbed(text: &str, url: &str) -> String {
    let shown = masked(url);
    let text = text.replace(url, &shown);
    match password(url) {
        // One that is a word of what everybody sees is no secret.
        Some(secret) if !shown.contains(secret) => text.replace(secret, "***"),
        _ => text,
    }
}

/// A URL with names in braces that stand for the columns of a row.
#[derive(Clone)]
pub(super) struct Template {
    kind: Kind,
    parts: Vec<Part>,
}

#[derive(Clone)]
enum Part {
    Plain(String),
    Column(String),
}

impl Template {
    /// # Errors
    /// `Invalid`; it never shows the template, which may hold a password.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let bad = |what: &str| Error::new(ErrorKind::Invalid, format!("the URL template {what}"));
        let kind = Kind::of(text).ok_or_else(|| bad(&format!("must begin as {KINDS}")))?;
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let Some((column, after)) = after.split_once('}') else {
                return Err(bad("has a { without its }"));
            };
            if column.is_empty() || column.contains('{') {
                return Err(bad("must have the name of a column between { and }"));
            }
            parts.push(Part::Plain(before.to_owned()));
            parts.push(Part::Column(column.to_owned()));
            rest = after;
        }
        if parts.is_empty() {
            return Err(bad("names no column: write {database} where the row's column belongs"));
        }
        parts.push(Part::Plain(rest.to_owned()));
        Ok(Self { kind, parts })
    }

    /// The URL of a row. `value` gives the text of a column, or says why there is none.
    pub(super) fn fill<'a>(
        &self,
        value: impl Fn(&str) -> Result<&'a str, String>,
    ) -> Result<String, String> {
        let mut url = String::new();
        for part in &self.parts {
            match part {
                Part::Plain(text) => url.push_str(text),
                Part::Column(column) => {
                    let text = value(column)?;
                    self.check(text).map_err(|why| format!("column {column} {why}"))?;
                    url.push_str(&encoded(text));
                }
            }
        }
        Ok(url)
    }

    /// A tenant's name must not lead out of the folder of the tenants.
    fn check(&self, text: &str) -> Result<(), &'static str> {
        let is_path = text.contains(['/', '\\', '\0']) || matches!(text, "." | "..");
        match self.kind {
            _ if text.is_empty() => Err("is empty"),
            Kind::Sqlite if is_path => Err("is a path, and has to be a part of a file's name"),
            _ => Ok(()),
        }
    }
}

/// Everything but letters, digits and `-._~` as `%XX`, so that it is one piece wherever it stands.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str, text: &str) -> Result<String, String> {
        let template = Template::parse(template).expect("a template");
        template.fill(|_| Ok(text))
    }

    #[test]
    fn fleet_1_a_column_is_one_piece_of_a_url_whatever_it_holds() {
        let template = "postgres://relay:pw@db/{database}?sslmode=require";
        let plain = filled(template, "acme_1").expect("filled");
        assert_eq!(plain, "postgres://relay:pw@db/acme_1?sslmode=require");
        let nasty = filled(template, "a@b/c?d=e%20#ü").expect("filled");
        assert_eq!(nasty, "postgres://relay:pw@db/a%40b%2Fc%3Fd%3De%2520%23%C3%BC?sslmode=require");
    }

    #[test]
    fn sec_1_a_tenant_can_not_name_a_file_in_another_folder() {
        let template = "sqlite:/data/{id}.db";
        assert_eq!(filled(template, "a b").as_deref(), Ok("sqlite:/data/a%20b.db"));
        for bad in ["../etc", "..", ".", "a/b", "a\\b", "", "a\0"] {
            let error = filled(template, bad).expect_err("leads elsewhere");
            assert!(error.starts_with("column id is "), "{error}");
        }
    }

    #[test]
    fn sec_2_neither_debug_nor_a_bad_template_shows_a_password() {
        let url = StoreUrl::new("postgres://a:s3cret@db/x?password=s3cret".into(), None);
        assert!(!format!("{url:?}").contains("s3cret"), "{url:?}");
        for bad in ["postgres://a:s3cret@db/{", "oracle://a:s3cret@db/{x}", "mysql://a:s3cret@db"] {
            let error = Template::parse(bad).err().expect(bad).to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
        let told = scrubbed("no login with s3cret at mysql://a:s3cret@db", "mysql://a:s3cret@db");
        assert_eq!(told, "no login with *** at mysql://a:***@db");
    }
}
