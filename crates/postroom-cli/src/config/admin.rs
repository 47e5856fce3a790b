//! The section `[admin]`: who sees the dashboard, and where.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use postroom_admin::{Limit, Person, Role, Thresholds, Token};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::Spanned;

use super::problem::Problem;
use super::text::{Hidden, Span};

const DEFAULT_PORT: u16 = 7878;

/// A shorter token can be guessed.
const LEAST_TOKEN: usize = 16;

/// Why a token is not one, if so.
pub(crate) fn least_token(token: &str) -> Option<String> {
    let length = token.chars().count();
    (length < LEAST_TOKEN)
        .then(|| format!("a token has at least {LEAST_TOKEN} characters; this one has {length}"))
}

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// Nowhere.
    Off,
    At(SocketAddr),
}

impl Default for Listen {
    fn default() -> Self {
        Self::At((Ipv4Addr::LOCALHOST, DEFAULT_PORT).into())
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            text => text.parse().map(Self::At).map_err(|_| {
                format!("{text:?} is no address such as 127.0.0.1:7878 or [::1]:7878, and not off")
            }),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::At(address) => address.fmt(f),
        }
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Listen {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Listen".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["127.0.0.1:7878", "off"] })
    }
}

/// The dashboard, the admin API, health and metrics.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Admin {
    /// Where it is served; `off` for nowhere
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<Listen>,
    /// The path under which a proxy in front serves it, such as /postroom
    base_path: String,
    /// Whether it shows everything and changes nothing
    read_only: bool,
    /// Who may come, by token; without any it is open to everybody on this machine
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tokens: Vec<TokenSection>,
    /// Whether something in front speaks TLS; needed when others can reach the address
    behind_tls: bool,
    /// Whether X-Forwarded-Prefix and X-Forwarded-For of a proxy in front are believed
    trust_proxy: bool,
    /// Whether the metrics are for everybody, without a token
    public_metrics: bool,
    /// When things are not well
    health: Health,
}

/// A token.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TokenSection {
    /// Who has it, for the audit log
    name: String,
    /// What they may do
    role: RoleName,
    /// Whether they see payloads and the values of headers
    #[serde(default)]
    payloads: bool,
    /// The token itself, of 16 characters at least
    #[schemars(with = "Hidden")]
    token: Spanned<Hidden>,
}

/// What the owner of a token may do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum RoleName {
    /// Look
    Viewer,
    /// Replay, discard, pause, resume and publish, too
    Operator,
    /// Purge and read the audit log, too
    Admin,
}

impl From<RoleName> for Role {
    fn from(role: RoleName) -> Self {
        match role {
            RoleName::Viewer => Self::Viewer,
            RoleName::Operator => Self::Operator,
            RoleName::Admin => Self::Admin,
        }
    }
}

/// When things are not well.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Health {
    /// Messages that can be claimed or are held
    backlog: Marks<u64>,
    /// The age of the oldest message that can be claimed
    oldest: Marks<Span>,
    /// The share of deliveries that failed in the last five minutes, 0 to 1
    failure_ratio: Marks<f64>,
    /// Fewer deliveries than this in five minutes say nothing about that
    min_deliveries: u64,
    /// Dead letters
    dead: Marks<u64>,
    /// Whether messages that wait need a dispatcher that is alive
    dispatcher: bool,
}

impl Default for Health {
    fn default() -> Self {
        let defaults = Thresholds::default();
        Self {
            backlog: defaults.backlog.into(),
            oldest: Marks {
                degraded: defaults.oldest.degraded.map(Span),
                unhealthy: defaults.oldest.unhealthy.map(Span),
            },
            failure_ratio: defaults.failure_ratio.into(),
            min_deliveries: defaults.min_deliveries,
            dead: defaults.dead.into(),
            dispatcher: defaults.dispatcher,
        }
    }
}

/// From when on; what is left out is not judged.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Marks<T> {
    /// More than this is degraded
    #[serde(skip_serializing_if = "Option::is_none")]
    degraded: Option<T>,
    /// More than this is unhealthy
    #[serde(skip_serializing_if = "Option::is_none")]
    unhealthy: Option<T>,
}

impl<T> From<Limit<T>> for Marks<T> {
    fn from(Limit { degraded, unhealthy }: Limit<T>) -> Self {
        Self { degraded, unhealthy }
    }
}

impl<T> Marks<T> {
    fn map<U>(self, to: impl Fn(T) -> U) -> Limit<U> {
        Limit { degraded: self.degraded.map(&to), unhealthy: self.unhealthy.map(&to) }
    }
}

impl From<Health> for Thresholds {
    fn from(health: Health) -> Self {
        Self {
            backlog: health.backlog.map(|value| value),
            oldest: health.oldest.map(|span: Span| -> Duration { span.0 }),
            failure_ratio: health.failure_ratio.map(|value| value),
            min_deliveries: health.min_deliveries,
            dead: health.dead.map(|value| value),
            dispatcher: health.dispatcher,
            ..Self::default()
        }
    }
}

/// What the section means.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdminSettings {
    /// What is written, if anything is.
    pub(crate) listen: Option<Listen>,
    pub(crate) base_path: String,
    pub(crate) read_only: bool,
    pub(crate) tokens: Vec<Token>,
    pub(crate) behind_tls: bool,
    pub(crate) trust_proxy: bool,
    pub(crate) public_metrics: bool,
    pub(crate) thresholds: Thresholds,
}

impl Admin {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) -> AdminSettings {
        let mut tokens = Vec::new();
        for section in &self.tokens {
            let TokenSection { name, role, payloads, token } = section;
            if let Some(why) = least_token(token.get_ref().reveal()) {
                problems.push(Problem::new(Some(token.span()), format!("token of {name}: {why}")));
            }
            let person = Person { name: name.clone(), role: (*role).into(), payloads: *payloads };
            tokens.push(Token::new(token.get_ref().reveal(), person));
        }
        if !self.base_path.is_empty() && !self.base_path.starts_with('/') {
            problems.push(Problem::new(None, "admin: base_path begins with a slash"));
        }
        AdminSettings {
            listen: self.listen,
            base_path: self.base_path.clone(),
            read_only: self.read_only,
            tokens,
            behind_tls: self.behind_tls,
            trust_proxy: self.trust_proxy,
            public_metrics: self.public_metrics,
            thresholds: self.health.into(),
        }
    }
}
