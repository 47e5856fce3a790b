//! What a webhook needs to be told, and whether that can be.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use reqwest::Url;

use super::addresses::Rules;
use crate::cloud_event::{CloudEvents, Mode};
use crate::secret::Secret;

/// The longest time for one request. A lease is longer.
const MAX_TIMEOUT: Duration = Duration::from_secs(25);
const MAX_BATCH: usize = 256;

/// Where webhooks go, and how.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Where to, such as `https://example.com/hooks`. It has no user name and no password: see
    /// [`headers`](Self::headers). Nothing but its host appears in logs and errors, since paths of
    /// webhooks are often secret.
    pub url: Secret,
    /// Whether the attributes of the event are headers or part of the body. Default: headers.
    pub mode: Mode,
    /// The events.
    pub events: CloudEvents,
    /// The secrets that sign, as in Standard Webhooks: `whsec_` and 24 to 64 bytes of base64. All
    /// of them sign each request. To change one, add the new one, tell it to the receiver, and take
    /// the old one away. Default: none, and nothing is signed.
    pub secrets: Vec<Secret>,
    /// Headers that every request has, such as `authorization`. They go before headers of messages.
    pub headers: Vec<(String, Secret)>,
    /// How long a request may take from the first look at the name of the host to the status of the
    /// answer; half of it is for the connection. Default 10 s, at most 25 s.
    pub timeout: Duration,
    /// How much of the body of an answer is read. Default 64 KiB.
    pub max_response_bytes: usize,
    /// Whether the first 200 characters of the body of a failure are kept with the error, and
    /// logged. Receivers like to repeat what they were sent. Default: no.
    pub show_answers: bool,
    /// Addresses that may be connected to although they are not public, such as `10.0.0.0/8`. An
    /// address at which clouds give out credentials is opened only by a range of that one address.
    pub allow: Vec<IpNet>,
    /// Addresses that are never connected to. This goes before `allow`.
    pub deny: Vec<IpNet>,
    /// Whether `url` may begin with `http:`. Everybody on the way can then read the messages.
    /// Default: no.
    pub allow_http: bool,
    /// Certificates (PEM) of authorities that are trusted beside those of the operating system.
    pub ca_file: Option<PathBuf>,
    /// A proxy that all requests go through; those of the environment are not looked at. Which
    /// addresses may be connected to is then the proxy's to decide.
    pub proxy: Option<Secret>,
    /// How many messages one call takes. Those of different ordering keys, or without one, are sent
    /// side by side, each by a request of its own. Default 16, at most 256.
    pub batch: usize,
}

impl HttpConfig {
    /// Unsigned events to this URL.
    pub fn new(url: impl Into<Secret>) -> Self {
        Self {
            url: url.into(),
            mode: Mode::default(),
            events: CloudEvents::default(),
            secrets: Vec::new(),
            headers: Vec::new(),
            timeout: Duration::from_secs(10),
            max_response_bytes: 64 * 1024,
            show_answers: false,
            allow: Vec::new(),
            deny: Vec::new(),
            allow_http: false,
            ca_file: None,
            proxy: None,
            batch: 16,
        }
    }
}

/// A configuration that was looked at.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) url: Url,
    /// Scheme, host and port: what may be shown.
    pub(super) origin: String,
    pub(super) timeout: Duration,
    pub(super) max_response_bytes: usize,
    pub(super) show_answers: bool,
    pub(super) batch: usize,
    pub(super) rules: Rules,
    pub(super) warnings: Vec<String>,
}

impl Target {
    pub(super) fn check(config: &HttpConfig) -> Result<Self, String> {
        let url = Url::parse(config.url.reveal()).map_err(|e| format!("url: {e}"))?;
        let host = url.host_str().ok_or("url: has no host")?.to_owned();
        if !url.username().is_empty() || url.password().is_some() {
            return Err("url: holds a user name or password; put them into headers, as \
                        authorization"
                .to_owned());
        }
        match url.scheme() {
            "https" => {}
            "http" if config.allow_http => {}
            "http" => return Err("url: is not https; allow_http = true permits that".to_owned()),
            other => return Err(format!("url: begins with {other}:, and must with https:")),
        }
        let public = Rules::new(&config.allow, &config.deny);
        // The resolver never sees an address that stands in the URL itself.
        if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            public.judge(address).map_err(|why| format!("url: {why}"))?;
        }
        check_range("timeout", config.timeout, Duration::from_millis(1), MAX_TIMEOUT)?;
        check_range("batch", config.batch, 1, MAX_BATCH)?;
        Ok(Self {
            origin: url.origin().ascii_serialization(),
            timeout: config.timeout,
            max_response_bytes: config.max_response_bytes,
            show_answers: config.show_answers,
            batch: config.batch,
            rules: if config.proxy.is_some() { Rules::anything() } else { public },
            warnings: warnings(config, &url),
            url,
        })
    }

    /// The host that a `location` of this URL leads to.
    pub(super) fn host_of(&self, location: &str) -> Option<String> {
        self.url.join(location).ok()?.host_str().map(|host| host.chars().take(255).collect())
    }
}

fn check_range<T: PartialOrd + std::fmt::Debug>(
    field: &str,
    value: T,
    least: T,
    most: T,
) -> Result<(), String> {
    if value < least || value > most {
        return Err(format!("{field}: is {value:?}, and must be {least:?} to {most:?}"));
    }
    Ok(())
}

fn warnings(config: &HttpConfig, url: &Url) -> Vec<String> {
    let mut warnings = Vec::new();
    if config.secrets.is_empty() {
        let text = "requests are not signed, so that the receiver can not know who sends them: set \
                    secrets";
        warnings.push(text.to_owned());
    }
    if url.scheme() == "http" {
        let text = "messages are sent over plain http, for everybody on the way to read and to \
                    change: use https";
        warnings.push(text.to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(config: &HttpConfig) -> String {
        Target::check(config).expect_err("refused")
    }

    #[test]
    fn sec_4_only_https_unless_http_is_allowed() {
        assert!(refused(&HttpConfig::new("http://example.com/")).contains("allow_http"));
        let plain = HttpConfig { allow_http: true, ..HttpConfig::new("http://example.com/") };
        Target::check(&plain).expect("allowed");
        for url in ["ftp://example.com/", "file:///etc/passwd", "example.com", "https://", ""] {
            let config = HttpConfig { allow_http: true, ..HttpConfig::new(url) };
            assert!(refused(&config).starts_with("url: "), "{url}");
        }
    }

    #[test]
    fn x06_user_names_and_passwords_are_refused_and_not_shown() {
        for url in ["https://hunter2@example.com/", "https://u:hunter2@example.com/"] {
            let error = refused(&HttpConfig::new(url));
            assert!(error.contains("authorization") && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn x06_every_spelling_of_an_address_that_is_not_public_is_refused() {
        let hosts = "
            127.0.0.1 2130706433 0x7f000001 017700000001 127.1 0x7f.1 0177.0.0.1 127.0.0.1.
            %31%32%37.0.0.1 １２７.0.0.1 0 0.0.0.0 10.0.0.1 169.254.169.254 0xa9fea9fe 2852039166
            [::1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [0:0:0:0:0:ffff:a9fe:a9fe]
            [::127.0.0.1] [64:ff9b::7f00:1] [2002:7f00:1::] [fe80::1] [fd00:ec2::254]
        ";
        for host in hosts.split_whitespace() {
            let error = refused(&HttpConfig::new(format!("https://{host}/")));
            assert!(error.contains("not a public address"), "{host}: {error}");
        }
        Target::check(&HttpConfig::new("https://93.184.216.34/")).expect("a public one");
        Target::check(&HttpConfig::new("https://[2606:2800:220:1::1]/")).expect("a public one");
    }

    #[test]
    fn sec_2_nothing_secret_is_shown() {
        let config = HttpConfig {
            secrets: vec!["whsec_hunter2".into()],
            headers: vec![("authorization".to_owned(), "hunter2".into())],
            proxy: Some("http://u:hunter2@proxy".into()),
            ..HttpConfig::new("https://example.com/hunter2?hunter2")
        };
        assert!(!format!("{config:?}").contains("hunter2"));
        let target = Target::check(&config).expect("legal");
        assert_eq!(target.origin, "https://example.com");
    }

    #[test]
    fn b34_a_request_is_shorter_than_a_lease() {
        let slow = HttpConfig { timeout: Duration::from_secs(26), ..HttpConfig::new("https://a/") };
        assert_eq!(refused(&slow), "timeout: is 26s, and must be 1ms to 25s");
        let none = HttpConfig { batch: 0, ..HttpConfig::new("https://a/") };
        assert_eq!(refused(&none), "batch: is 0, and must be 1 to 256");
    }
}
