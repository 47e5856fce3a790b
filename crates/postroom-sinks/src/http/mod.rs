//! Messages as webhooks: one `POST` each, as a CloudEvents event, signed by Standard Webhooks.
//!
//! A redirect is never followed, and an address that is not public is never connected to unless the
//! configuration allows it: see [`HttpConfig`]. What an answer means is in one table, in `answer`.

mod addresses;
mod answer;
mod config;
mod request;
mod signature;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use ipnet::IpNet;
use postroom_core::lifecycle::Outcome;
use postroom_core::observe::Circuit;
use postroom_core::store::BoxFuture;
use postroom_core::{Delivery, Message, Sink};
use reqwest::{Client, Method, Response, StatusCode, header};

pub use self::addresses::Lookup;
use self::addresses::{Guard, SystemLookup};
use self::answer::{Answer, Pause};
pub use self::config::HttpConfig;
use self::config::Target;
use self::request::Requests;
use crate::breaker::Breaker;
use crate::chains::in_chains;
use crate::fault::Fault;
use crate::probe::{Probe, Probed};
use crate::tls;

/// How long the rest of an answer is waited for when its status is known.
const REST_OF_ANSWER: Duration = Duration::from_secs(1);

/// Sends each message to one URL.
///
/// Done means that the receiver answered with a 2xx status. The header `webhook-id` is the id of
/// the message, the same each time it is sent.
pub struct HttpSink {
    target: Target,
    client: Client,
    requests: Requests,
    breaker: Breaker,
    pause: Pause,
}

impl HttpSink {
    /// Sends as this says. Nothing is connected yet.
    ///
    /// # Errors
    /// A text that names the field which can not be used, and why.
    pub fn new(config: HttpConfig) -> Result<Self, String> {
        Self::with_lookup(config, Arc::new(SystemLookup))
    }

    /// Looks up names of hosts by this instead of by the operating system. Addresses that it finds
    /// are held to the same rules.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_lookup(config: HttpConfig, lookup: Arc<dyn Lookup>) -> Result<Self, String> {
        let target = Target::check(&config)?;
        let guard = Guard::new(lookup, target.rules.clone());
        let mut tls = tls::build(config.ca_file.as_deref())?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut client = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .dns_resolver(Arc::new(guard))
            .tls_backend_preconfigured(tls)
            // Half of the time is for the answer: what does not connect was not sent.
            .connect_timeout(target.timeout / 2)
            .tcp_keepalive(Duration::from_secs(15))
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(target.batch)
            .http2_initial_stream_window_size(64 * 1024)
            .http2_initial_connection_window_size(1024 * 1024)
            .http2_max_header_list_size(64 * 1024);
        if let Some(proxy) = &config.proxy {
            let proxy = reqwest::Proxy::all(proxy.reveal());
            client = client.proxy(proxy.map_err(|_| "proxy: is not the URL of a proxy")?);
        }
        let client = client.build().map_err(|error| deepest(&error))?;
        let breaker = Breaker::new(target.origin.clone());
        let requests = Requests::new(&target, config)?;
        Ok(Self { target, client, requests, breaker, pause: Pause::default() })
    }

    async fn send(&self, message: &Message) -> Result<(), Fault> {
        let request = self.requests.of(message)?;
        self.pause.check()?;
        self.breaker.check()?;
        let response = match self.client.execute(request).await {
            Ok(response) => response,
            Err(error) => return Err(self.unanswered(&error)),
        };
        self.breaker.reached();
        let answer = self.read(response).await;
        let fault = answer.fault();
        // Only this one is about all messages: a 503 may be about a message that it can not bear.
        if answer.status == StatusCode::TOO_MANY_REQUESTS
            && let Some(Fault::Throttled { after, why }) = &fault
        {
            self.pause.ask(*after, why);
        }
        fault.map_or(Ok(()), Err)
    }

    fn unanswered(&self, error: &reqwest::Error) -> Fault {
        let why = deepest(error);
        if error.is_connect() {
            return self
                .breaker
                .missed(format!("can not connect to {}: {why}", self.target.origin));
        }
        Fault::Transient(format!("no answer from {}: {why}", self.target.origin))
    }

    /// The answer, with the beginning of its body. A body that is too long, too slow or cut changes
    /// nothing: the status has been said. Whole ones leave the connection usable.
    async fn read(&self, mut response: Response) -> Answer {
        let mut body = Vec::new();
        let mut left = self.target.max_response_bytes;
        let rest = async {
            while let Ok(Some(chunk)) = response.chunk().await {
                answer::keep(&mut body, &chunk);
                left = left.saturating_sub(chunk.len());
                if left == 0 {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(REST_OF_ANSWER, rest).await;
        if !self.target.show_answers {
            body.clear();
        }
        let text = |name| response.headers().get(name).and_then(|v| v.to_str().ok());
        Answer {
            status: response.status(),
            retry_after: text(header::RETRY_AFTER).map(str::to_owned),
            location: text(header::LOCATION).and_then(|to| self.target.host_of(to)),
            body: answer::text(&self.requests.without_secrets(&String::from_utf8_lossy(&body))),
        }
    }
}

impl Sink for HttpSink {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(in_chains(batch, self.target.timeout, |delivery| self.send(delivery.message())))
    }

    fn max_batch(&self) -> usize {
        self.target.batch
    }

    fn takes_runs(&self) -> bool {
        true
    }
}

impl Probe for HttpSink {
    /// Asks for the head of the URL. Whatever is answered shows that somebody is there.
    fn probe(&self) -> BoxFuture<'_, Probed> {
        Box::pin(async move {
            let request = self.client.execute(self.requests.empty(Method::HEAD));
            match tokio::time::timeout(self.target.timeout, request).await {
                Ok(Ok(response)) => self.probed(&response),
                Ok(Err(error)) => {
                    Probed::broken(format!("{}: {}", self.target.origin, deepest(&error)))
                }
                Err(_) => Probed::broken(format!("{}: no answer", self.target.origin)),
            }
        })
    }

    fn circuit(&self) -> Circuit {
        self.breaker.circuit()
    }
}

impl HttpSink {
    fn probed(&self, response: &Response) -> Probed {
        let status = response.status();
        let mut warnings = self.target.warnings.clone();
        if status.is_redirection() {
            let to = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
            let to = to.and_then(|to| self.target.host_of(to)).unwrap_or_else(|| "?".to_owned());
            warnings.push(format!(
                "it redirects to {to}, which is never followed: put the final address in url"
            ));
        }
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            warnings.push(format!("it answers {}: look at headers", status.as_u16()));
        }
        let server = response.headers().get(header::SERVER).and_then(|name| name.to_str().ok());
        let server = server.map(|name| format!(", {}", answer::text(name)));
        let about = format!("{:?}{}", response.version(), server.unwrap_or_default());
        Probed { broken: None, warnings, about: Some(about) }
    }
}

impl fmt::Debug for HttpSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSink").field("to", &self.target.origin).finish_non_exhaustive()
    }
}

/// What is behind an error. The errors above it have the whole URL in their texts, which may hold a
/// secret.
fn deepest(error: &reqwest::Error) -> String {
    let Some(mut cause) = error.source() else { return "the request can not be made".to_owned() };
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
