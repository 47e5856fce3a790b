//! A text that is shown to nobody.

use std::fmt;

/// A password, a token, a URL with one of them. `Debug` and `Display` show stars.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the text in.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for whoever sends it to where it belongs.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

#[cfg(any(feature = "amqp", feature = "nats", feature = "redis", test))]
impl Secret {
    /// The text of somebody who may have been told this secret, without it: neither the whole nor,
    /// if it is a URL, the password in it.
    pub(crate) fn hidden_from(&self, text: &str) -> String {
        let user = self.0.split_once("://").map_or("", |(_, rest)| rest);
        let user = user.split(['/', '?']).next().and_then(|host| host.rsplit_once('@'));
        let password =
            user.and_then(|(user, _)| user.split_once(':')).map(|(_, password)| password);
        let mut text = text.to_owned();
        for secret in [Some(self.0.as_str()), password].into_iter().flatten() {
            if !secret.is_empty() {
                text = text.replace(secret, "***");
            }
        }
        text
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<T: Into<String>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_2_a_secret_shows_stars() {
        let secret = Secret::new("hunter2");
        assert_eq!(
            format!("{secret} {secret:?} {:#?}", Some(&secret)),
            "*** *** Some(\n    ***,\n)"
        );
        assert_eq!(secret.reveal(), "hunter2");
    }

    #[test]
    fn sec_2_what_a_client_says_is_shown_without_the_password() {
        let url = Secret::new("amqp://me:hunter2@host/v");
        let shown = url.hidden_from("amqp://me:hunter2@host/v: hunter2 is wrong for me");
        assert_eq!(shown, "***: *** is wrong for me");
        assert_eq!(Secret::new("amqp://host/a@b:c").hidden_from("c at host"), "c at host");
        assert_eq!(Secret::new("token").hidden_from("bad token"), "bad ***");
        assert_eq!(Secret::new("").hidden_from("text"), "text");
    }
}
