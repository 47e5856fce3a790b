//! Headers: string to string, bounded, safe to write into any protocol.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::{Error, Result};

/// The headers of a message, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Headers(BTreeMap<String, String>);

impl Headers {
    /// The most characters a name may have.
    pub const MAX_NAME_CHARS: usize = 128;
    /// The most bytes that all names and values may have together.
    pub const MAX_BYTES: usize = 16 * 1024;
    /// The W3C trace context, which differs from one publish to the next.
    pub(crate) const TRACE: [&str; 2] = ["traceparent", "tracestate"];

    /// Sets a header; a second value for the same name replaces the first.
    ///
    /// # Errors
    /// `Invalid` when the name or the value is not allowed, or all headers together are too large.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<String>) -> Result<()> {
        let (name, value) = (name.into(), value.into());
        check_name(&name)?;
        check_value(&name, &value)?;
        let replaced = self.0.get(&name).map_or(0, |old| name.len() + old.len());
        let bytes = self.bytes() - replaced + name.len() + value.len();
        if bytes > Self::MAX_BYTES {
            return Err(Error::limit(
                "headers",
                format_args!("at most {} bytes in all", Self::MAX_BYTES),
                format_args!("{bytes} bytes with {name:?}"),
            ));
        }
        self.0.insert(name, value);
        Ok(())
    }

    /// The value of a header.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All headers by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The JSON object that stores keep, or nothing when there are no headers.
    #[must_use]
    pub fn to_json(&self) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        Some(serde_json::to_string(&self.0).expect("a map of strings always serialises"))
    }

    /// Reads what [`to_json`](Self::to_json) wrote, or what another language put there.
    ///
    /// # Errors
    /// `Codec` when it is not an object of strings, `Invalid` when a header breaks a limit.
    pub fn from_json(json: &str) -> Result<Self> {
        let map: BTreeMap<String, String> = serde_json::from_str(json).map_err(|source| {
            Error::new(crate::ErrorKind::Codec, "headers must be a JSON object of strings")
                .with_source(source)
        })?;
        let mut headers = Self::default();
        for (name, value) in map {
            headers.insert(name, value)?;
        }
        Ok(headers)
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.len()).sum()
    }
}

fn check_name(name: &str) -> Result<()> {
    let length = name.chars().count();
    if length == 0 || length > Headers::MAX_NAME_CHARS {
        return Err(Error::limit(
            "header name",
            format_args!("1 to {} characters", Headers::MAX_NAME_CHARS),
            format_args!("{length} characters"),
        ));
    }
    match name.chars().find(|c| !c.is_ascii_graphic()) {
        None => Ok(()),
        Some(c) => Err(Error::limit("header name", "visible ASCII", format_args!("{c:?}"))),
    }
}

fn check_value(name: &str, value: &str) -> Result<()> {
    match value.chars().find(|c| matches!(c, '\r' | '\n' | '\0')) {
        None => Ok(()),
        Some(c) => Err(Error::limit(
            &format!("value of header {name:?}"),
            "free of CR, LF and NUL",
            format_args!("{c:?}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, value: &str) -> Result<Headers> {
        let mut headers = Headers::default();
        headers.insert(name, value).map(|()| headers)
    }

    #[test]
    fn msg_2_names_are_1_to_128_visible_ascii() {
        assert!(of(&"n".repeat(128), "v").is_ok());
        for bad in ["", "two words", "näme", "a\nb", &"n".repeat(129)] {
            assert!(of(bad, "v").is_err(), "{bad:?}");
        }
    }

    #[test]
    fn msg_2_values_have_no_line_breaks() {
        assert!(of("n", "tab\tand ünïcode").is_ok());
        for bad in ["a\rb", "a\nb", "a\0b"] {
            let error = of("n", bad).expect_err(bad);
            assert!(error.to_string().contains("value of header \"n\""), "{error}");
        }
    }

    #[test]
    fn msg_2_all_headers_fit_16_kib_and_not_a_byte_more() {
        assert!(of("n", &"v".repeat(Headers::MAX_BYTES - 1)).is_ok());
        let error = of("n", &"v".repeat(Headers::MAX_BYTES)).expect_err("one too many");
        assert!(error.to_string().contains("at most 16384 bytes in all, got 16385"), "{error}");
    }

    #[test]
    fn replacing_a_value_counts_the_new_one_only() {
        let mut headers = of("n", &"v".repeat(Headers::MAX_BYTES - 1)).expect("fits");
        headers.insert("n", "short").expect("replaces");
        assert_eq!((headers.len(), headers.get("n")), (1, Some("short")));
    }

    #[test]
    fn json_round_trips_and_foreign_garbage_is_refused() {
        let headers = of("n", "\"quoted\" {}").expect("legal");
        let json = headers.to_json().expect("not empty");
        assert_eq!(Headers::from_json(&json).expect("own output"), headers);
        for bad in ["[]", "{\"n\":1}", "{\"n\":\"a\\nb\"}", "garbage"] {
            assert!(Headers::from_json(bad).is_err(), "{bad}");
        }
    }
}
