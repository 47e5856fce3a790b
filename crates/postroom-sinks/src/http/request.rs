//! A message as a request: the HTTP binding of CloudEvents.

use bytes::Bytes;
use postroom_core::{Message, Timestamp};
use reqwest::header::{
    CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use reqwest::{Method, Request, Url};

use super::config::{HttpConfig, Target};
use super::signature::Signer;
use crate::cloud_event::{CloudEvents, Mode, STRUCTURED, percent_encoded};
use crate::fault::Fault;
use crate::names;
use crate::secret::Secret;

/// Headers that belong to the protocol, or say who is asking. A message can not set them.
const OWNED: [&str; 18] = [
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
];

/// Words of secrets that are shorter, such as `Basic`, are in many texts.
const SECRET_WORD: usize = 7;

/// Makes requests of messages.
pub(super) struct Requests {
    url: Url,
    mode: Mode,
    events: CloudEvents,
    signer: Signer,
    fixed: HeaderMap,
    secrets: Vec<Secret>,
}

impl Requests {
    pub(super) fn new(target: &Target, config: HttpConfig) -> Result<Self, String> {
        let signer = Signer::new(&config.secrets)?;
        let mut fixed = HeaderMap::new();
        let agent = concat!("postroom/", env!("CARGO_PKG_VERSION"));
        fixed.insert(USER_AGENT, HeaderValue::from_static(agent));
        for (name, value) in &config.headers {
            let (name, value) = fixed_header(name, value)?;
            fixed.insert(name, value);
        }
        let secrets = config.headers.into_iter().map(|(_, value)| value);
        let secrets = secrets.chain(config.secrets).collect();
        let (url, mode, events) = (target.url.clone(), config.mode, config.events);
        Ok(Self { url, mode, events, signer, fixed, secrets })
    }

    /// A request without a message.
    pub(super) fn empty(&self, method: Method) -> Request {
        let mut request = Request::new(method, self.url.clone());
        *request.headers_mut() = self.fixed.clone();
        request
    }

    /// The request of a message, signed now.
    pub(super) fn of(&self, message: &Message) -> Result<Request, Fault> {
        names::check(message)?;
        let mut request = self.empty(Method::POST);
        let headers = request.headers_mut();
        for (name, value) in message.headers().iter() {
            let header = parsed_name(name)?;
            if !is_owned(header.as_str()) && !self.fixed.contains_key(&header) {
                headers.append(header, parsed(name, value)?);
            }
        }
        let body = match self.mode {
            Mode::Binary => {
                for (name, value) in self.events.attributes(message) {
                    let name = format!("ce-{name}");
                    headers.insert(parsed_name(&name)?, parsed(&name, &percent_encoded(&value))?);
                }
                let kind = parsed("content-type", message.content_type())?;
                headers.insert(CONTENT_TYPE, kind);
                message.payload().clone()
            }
            Mode::Structured => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(STRUCTURED));
                Bytes::from(self.events.structured(message))
            }
        };
        let id = message.id().to_string();
        let seconds = (Timestamp::host_now().as_micros() / 1_000_000).to_string();
        if let Some(signature) = self.signer.sign(&id, &seconds, &body) {
            headers.insert("webhook-signature", parsed("webhook-signature", &signature)?);
        }
        headers.insert("webhook-id", parsed("webhook-id", &id)?);
        headers.insert("webhook-timestamp", parsed("webhook-timestamp", &seconds)?);
        if body.is_empty() {
            // The client would say nothing, and some servers then answer 411.
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        *request.body_mut() = Some(body.into());
        Ok(request)
    }

    /// A text of the receiver, which may repeat what it was told.
    pub(super) fn without_secrets(&self, text: &str) -> String {
        let words = self.secrets.iter().flat_map(|secret| secret.reveal().split_whitespace());
        let words = words.filter(|word| word.len() >= SECRET_WORD);
        words.fold(text.to_owned(), |text, word| text.replace(word, "***"))
    }
}

fn fixed_header(name: &str, value: &Secret) -> Result<(HeaderName, HeaderValue), String> {
    let header = HeaderName::from_bytes(name.as_bytes());
    let header = header.map_err(|_| format!("headers: {name:?} is not the name of a header"))?;
    let allowed = matches!(header.as_str(), "authorization" | "cookie" | "user-agent");
    if is_owned(header.as_str()) && !allowed {
        return Err(format!("headers: {header} is set by the sink itself"));
    }
    let value = HeaderValue::from_bytes(value.reveal().as_bytes());
    let mut value = value.map_err(|_| format!("headers: the value of {header} has line breaks"))?;
    value.set_sensitive(true);
    Ok((header, value))
}

/// Whether a header of this name, in lower case, is the sink's own.
fn is_owned(name: &str) -> bool {
    OWNED.contains(&name) || name.starts_with("ce-") || name.starts_with("webhook-")
}

fn parsed_name(name: &str) -> Result<HeaderName, Fault> {
    let parsed = HeaderName::from_bytes(name.as_bytes());
    parsed.map_err(|_| Fault::Permanent(format!("header name {name:?} is not a plain name")))
}

fn parsed(name: &str, value: &str) -> Result<HeaderValue, Fault> {
    let parsed = HeaderValue::from_bytes(value.as_bytes());
    parsed.map_err(|_| Fault::Permanent(format!("the value of header {name} can not be sent")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(config: HttpConfig) -> Requests {
        Requests::new(&Target::check(&config).expect("legal"), config).expect("legal")
    }

    fn plain() -> HttpConfig {
        HttpConfig::new("https://example.com/hook")
    }

    #[test]
    fn rly_2_headers_of_a_message_go_along_and_never_replace_those_of_the_sink() {
        let fixed = vec![("X-Api".to_owned(), Secret::new("mine"))];
        let requests = requests(HttpConfig { headers: fixed, ..plain() });
        let mut message = Message::builder("t").header("x-tenant", "ä").header("x-api", "forged");
        for name in OWNED.iter().chain(&["ce-id", "CE-Type", "webhook-id", "Webhook-Signature"]) {
            message = message.header(*name, "forged");
        }
        let message = message.header("traceparent", "00-a-b-01").build().expect("legal");
        let request = requests.of(&message).expect("a request");
        assert!(request.headers().values().all(|value| value != "forged"), "{request:?}");
        assert_eq!(request.headers()["x-tenant"], "ä".as_bytes());
        assert_eq!(request.headers()["x-api"], "mine");
        assert_eq!(request.headers()["traceparent"], "00-a-b-01");
        assert_eq!(request.headers()["ce-traceparent"], "00-a-b-01");
        assert!(!request.headers().contains_key("webhook-signature"), "there is no secret");
    }

    #[test]
    fn x09_a_name_that_is_not_plain_is_a_dead_letter() {
        let message = Message::builder("t").header("a:b", "c").build().expect("legal");
        assert!(matches!(requests(plain()).of(&message), Err(Fault::Permanent(_))));
    }

    #[test]
    fn sec_2_headers_of_the_configuration_are_checked_and_not_shown() {
        for (name, value) in [("a b", "hunter2"), ("host", "hunter2"), ("x", "hunter2\r\ny: z")] {
            let headers = vec![(name.to_owned(), Secret::new(value))];
            let config = HttpConfig { headers, ..plain() };
            let target = Target::check(&config).expect("legal");
            let Err(error) = Requests::new(&target, config) else { panic!("{name}") };
            assert!(error.starts_with("headers: ") && !error.contains("hunter2"), "{error}");
        }
        let headers = vec![("authorization".to_owned(), Secret::new("Bearer hunter2"))];
        let requests = requests(HttpConfig { headers, ..plain() });
        let request = requests.empty(Method::HEAD);
        assert!(!format!("{request:?}").contains("hunter2"));
        let echo = requests.without_secrets("you said authorization: Bearer hunter2");
        assert_eq!(echo, "you said authorization: Bearer ***");
    }
}
