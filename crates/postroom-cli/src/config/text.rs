//! Texts and times of a configuration file.

use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::args::duration;
use crate::url::masked;

/// A text as it stands in the file, and what it means: `${NAME}` is the value of an environment
/// variable, `${file:PATH}` the content of a file, `$$` a dollar sign.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Text {
    written: String,
    value: String,
}

impl Text {
    pub(crate) fn as_str(&self) -> &str {
        &self.value
    }

    fn parse(written: &str) -> Result<Self, String> {
        Ok(Self { written: written.to_owned(), value: resolve(written)? })
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self { written: text.to_owned(), value: text.to_owned() }
    }
}

/// Shows what is written: the value of a variable may be anything.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.written, f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl JsonSchema for Text {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "${NAME} is an environment variable, ${file:PATH} the content of a file"
        })
    }
}

/// A secret, or a URL that may hold one. It is shown to nobody, as far as it is not a reference.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Hidden(Text);

impl Hidden {
    pub(crate) fn reveal(&self) -> &str {
        self.0.as_str()
    }

    /// What people may see: a reference as it is, a URL without what is secret in it, else stars.
    pub(crate) fn shown(&self) -> String {
        let written = &self.0.written;
        let inside = written.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        if inside.is_some_and(|name| !name.contains(['$', '{', '}'])) {
            return written.clone();
        }
        match written.split_once("://") {
            // Receivers of webhooks like to put a secret into the path.
            Some((scheme @ ("http" | "https"), rest)) => {
                let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
                let host = host.rsplit('@').next().unwrap_or_default();
                format!("{scheme}://{host}/…")
            }
            Some(_) => masked(written),
            None if written.starts_with("sqlite:") => written.clone(),
            None => "***".to_owned(),
        }
    }
}

impl From<&str> for Hidden {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.shown(), f)
    }
}

impl Serialize for Hidden {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.shown().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Hidden {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HiddenVisitor)
    }
}

impl JsonSchema for Hidden {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Text::json_schema(generator)
    }
}

/// The usual error for a value of the wrong type quotes the value.
struct HiddenVisitor;

impl Visitor<'_> for HiddenVisitor {
    type Value = Hidden;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Hidden, E> {
        Text::parse(text).map(Hidden).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<Hidden, E> {
        Err(E::custom("put quotes around it: it must be a text"))
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<Hidden, E> {
        self.visit_i64(0)
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<Hidden, E> {
        self.visit_i64(0)
    }
}

/// Puts the values in. Errors name variables and files, never values.
fn resolve(written: &str) -> Result<String, String> {
    let (mut value, mut rest) = (String::new(), written);
    while let Some((before, after)) = rest.split_once('$') {
        value.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            value.push('$');
            rest = after;
            continue;
        }
        let name = after.strip_prefix('{').and_then(|inside| inside.split_once('}'));
        let Some((name, after)) = name else {
            return Err(
                "`$` begins `${NAME}` or `${file:PATH}`; write `$$` for a dollar".to_owned()
            );
        };
        value.push_str(&look_up(name)?);
        rest = after;
    }
    value.push_str(rest);
    Ok(value)
}

fn look_up(name: &str) -> Result<String, String> {
    if let Some(path) = name.strip_prefix("file:") {
        let content = std::fs::read_to_string(path);
        let content = content.map_err(|error| format!("can not read the file {path}: {error}"))?;
        return Ok(content.trim_end_matches(['\r', '\n']).to_owned());
    }
    match std::env::var(name) {
        Ok(value) => Ok(value),
        Err(std::env::VarError::NotPresent) => {
            Err(format!("the environment variable {name} is not set"))
        }
        Err(_) => Err(format!("the environment variable {name} is not UTF-8")),
    }
}

/// A time such as `10s`, `1h30m` or `7d`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let millis = self.0.as_millis();
        let text = match (millis % 1_000, millis / 1_000) {
            (0, seconds) => format!("{seconds}s"),
            _ => format!("{millis}ms"),
        };
        text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        duration(&String::deserialize(deserializer)?).map(Self).map_err(D::Error::custom)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["10s", "1h30m", "7d"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rly_1_variables_and_files_are_put_in() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("secret");
        std::fs::write(&file, "hunter2\n").expect("written");
        let path = std::env::var("PATH").expect("everybody has one");
        let text = format!("a ${{PATH}} b ${{file:{}}} $$c", file.display());
        assert_eq!(resolve(&text), Ok(format!("a {path} b hunter2 $c")));
        assert_eq!(resolve("plain"), Ok("plain".to_owned()));
    }

    #[test]
    fn rly_1_what_is_missing_is_named() {
        let error = resolve("${POSTROOM_NO_SUCH_VARIABLE}").expect_err("unset");
        assert_eq!(error, "the environment variable POSTROOM_NO_SUCH_VARIABLE is not set");
        assert!(resolve("${file:/no/such}").expect_err("no file").contains("/no/such"));
        for bad in ["$", "a $HOME", "${HOME"] {
            assert!(resolve(bad).expect_err(bad).contains("$$"), "{bad}");
        }
    }

    #[test]
    fn sec_2_secrets_are_shown_to_nobody() {
        for (written, shown) in [
            ("hunter2", "***"),
            ("${TOKEN}", "${TOKEN}"),
            ("hunter2${TOKEN}", "***"),
            ("${A}hunter2${B}", "***"),
            ("nats://shop:hunter2@broker:4222", "nats://shop:***@broker:4222"),
            ("https://hooks.example/hunter2?key=hunter2", "https://hooks.example/…"),
            ("https://shop:hunter2@hooks.example", "https://hooks.example/…"),
            ("sqlite:shop.db", "sqlite:shop.db"),
        ] {
            let hidden = Hidden::from(written);
            assert_eq!(hidden.shown(), shown);
            assert!(!format!("{hidden:?}").contains("hunter2"));
            assert_eq!(hidden.reveal(), written);
        }
    }
}
