//! What a caller is told when a request can not be carried out.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use postroom_core::{Error, ErrorKind};
use serde::Serialize;

/// An answer that says what is wrong and what to do about it. Never what a database said: that is
/// logged.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Problem {
    #[serde(skip)]
    pub(crate) status: StatusCode,
    /// A word for programs.
    pub(crate) code: &'static str,
    /// A sentence for people.
    pub(crate) message: String,
    /// After how many seconds it is worth another try.
    #[serde(skip)]
    retry_after: Option<u64>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after: None }
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message)
    }
}

impl Problem {
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Invalid => Self::invalid(error.to_string()),
            kind => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(?kind, error = %error, cause, "an admin request failed");
                let told = "the database did not answer as expected; the log says more";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", told)
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(&self)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        // For who shows it as a page.
        response.extensions_mut().insert(self);
        response
    }
}
