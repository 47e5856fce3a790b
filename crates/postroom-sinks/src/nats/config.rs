//! How to reach NATS.

use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use async_nats::{ConnectOptions, ServerAddr};
use postroom_core::Retry;

use crate::cloud_event::{CloudEvents, Mode};
use crate::names;
use crate::secret::Secret;

/// How to reach NATS, and where messages go there.
#[derive(Clone, Debug)]
pub struct NatsConfig {
    /// The server: `nats://host:4222`, or `tls://host:4222` to insist on TLS. Several, separated by
    /// commas, are members of one cluster. A user and password, `nats://user:password@host`, are
    /// taken from the first.
    pub url: Secret,
    /// A file of credentials, as `nsc` makes them. Default: none.
    pub credentials_file: Option<PathBuf>,
    /// A token. Default: none.
    pub token: Option<Secret>,
    /// A PEM file with certificate authorities to trust besides those of the system. Default: none.
    pub ca_file: Option<PathBuf>,
    /// The subject, in which `{topic}`, `{tenant}` and `{aggregate_type}` stand for the message's.
    /// Default: `{topic}`.
    pub subject: String,
    /// The stream that must take it (`Nats-Expected-Stream`). Default: whichever takes the subject.
    pub stream: Option<String>,
    /// The events that messages become.
    pub events: CloudEvents,
    /// How they travel. Default: binary.
    pub mode: Mode,
    /// How long a message may wait for its acknowledgement. Default: 10 s.
    pub timeout: Duration,
    /// The longest time between the first and the last attempt of a message. A stream that forgets
    /// ids sooner may store one twice, which the probe warns of. Default: that of the default retry
    /// policy, about two and a half minutes.
    pub retry_horizon: Duration,
}

impl NatsConfig {
    /// The defaults, for this server.
    pub fn new(url: impl Into<Secret>) -> Self {
        Self {
            url: url.into(),
            credentials_file: None,
            token: None,
            ca_file: None,
            subject: "{topic}".to_owned(),
            stream: None,
            events: CloudEvents::default(),
            mode: Mode::default(),
            timeout: Duration::from_secs(10),
            retry_horizon: horizon(&Retry::default()),
        }
    }
}

/// The longest time between the first and the last attempt under this policy, when all of them
/// fail at once.
#[must_use]
pub fn horizon(retry: &Retry) -> Duration {
    (1..retry.max_attempts).map(|attempt| retry.delay(attempt, 1.0)).sum()
}

/// Servers to dial, without the user and password that a URL may name: the client writes addresses
/// to its log.
#[derive(Debug)]
pub(super) struct Servers {
    addresses: Vec<ServerAddr>,
    user: Option<(String, Secret)>,
}

impl Servers {
    /// Reads the setting `url`.
    pub(super) fn parse(url: &Secret) -> Result<Self, String> {
        let wrong = "url is not one of NATS; write nats://host:4222, or tls://host:4222 for TLS";
        let (mut addresses, mut user) = (Vec::new(), None);
        for url in url.reveal().split(',') {
            let (scheme, rest) = url.trim().split_once("://").ok_or(wrong)?;
            if scheme != "nats" && scheme != "tls" {
                return Err(wrong.to_owned());
            }
            let (named, host) = rest.rsplit_once('@').map_or((None, rest), |(n, h)| (Some(n), h));
            if let Some(named) = named.filter(|_| user.is_none()) {
                let (name, password) = named.split_once(':').unwrap_or((named, ""));
                let decoded =
                    |text| percent_decoded(text).ok_or("url: the user is not encoded well");
                user = Some((decoded(name)?, Secret::new(decoded(password)?)));
            }
            let address = ServerAddr::from_str(&format!("{scheme}://{host}"));
            addresses.push(address.map_err(|_| wrong.to_owned())?);
        }
        Ok(Self { addresses, user })
    }

    /// Their addresses.
    pub(super) fn addresses(&self) -> &[ServerAddr] {
        &self.addresses
    }
}

impl NatsConfig {
    /// Fails with a text that names the setting which is wrong.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.timeout.is_zero() {
            return Err("timeout is zero; the default is 10 s".to_owned());
        }
        if self.token.is_some() && self.credentials_file.is_some() {
            return Err("token and credentials_file are both set; give one of them".to_owned());
        }
        if let Some(stream) = &self.stream {
            names::plain("stream", stream).map_err(|fault| fault.to_string())?;
        }
        Ok(())
    }

    /// What the client needs to know to log in.
    pub(super) async fn options(&self, servers: &Servers) -> Result<ConnectOptions, String> {
        let mut options = ConnectOptions::new().name("postroom");
        if let Some((user, password)) = &servers.user {
            options = options.user_and_password(user.clone(), password.reveal().to_owned());
        }
        if let Some(token) = &self.token {
            options = options.token(token.reveal().to_owned());
        }
        if let Some(path) = &self.credentials_file {
            let problem = |error| format!("credentials_file {}: {error}", path.display());
            options = options.credentials_file(path).await.map_err(problem)?;
        }
        Ok(options)
    }

    /// The text of a client, without our secrets.
    pub(super) fn hidden_from(&self, text: &str) -> String {
        let text = self.url.hidden_from(text);
        self.token.as_ref().map_or_else(|| text.clone(), |token| token.hidden_from(&text))
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_2_the_addresses_that_the_client_logs_have_no_password() {
        let url = Secret::new("nats://me:p%40ss@one:4222,tls://two:4223");
        let servers = Servers::parse(&url).expect("legal");
        let (user, password) = servers.user.as_ref().expect("a user");
        assert_eq!((user.as_str(), password.reveal()), ("me", "p@ss"));
        assert!(!format!("{servers:?}").contains("ss@"), "{servers:?}");
        let hosts: Vec<_> = servers.addresses().iter().map(ServerAddr::host).collect();
        assert_eq!(hosts, ["one", "two"]);
        assert!(servers.addresses()[1].tls_required());
    }

    #[test]
    fn rly_2_a_wrong_url_is_told_and_not_repeated() {
        for url in ["", "host:4222", "ws://host", "http://me:secret@host", "nats://me:%zz@host"] {
            let error = Servers::parse(&Secret::new(url)).expect_err(url);
            assert!(error.starts_with("url") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn b32_the_horizon_is_the_sum_of_the_longest_waits() {
        let horizon = horizon(&Retry::default());
        assert_eq!(horizon.as_millis(), 153_300, "1.5 times 102.2 s");
    }
}
