//! What a caller is told when a request can not be carried out.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use postroom_core::{Error, ErrorKind};
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::Right;
use crate::api::shape::Safe;
use crate::desk::jobs::JobId;

/// An answer that says what is wrong and what to do about it. Never what a database said: that is
/// logged.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    #[serde(skip)]
    pub(crate) status: StatusCode,
    /// A word for programs.
    pub(crate) code: &'static str,
    /// A sentence for people.
    pub(crate) message: String,
    /// The job that is in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    /// After how many seconds it is worth another try.
    #[serde(skip)]
    retry_after: Option<u64>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), job: None, retry_after: None }
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message)
    }

    pub(crate) fn bug() -> Self {
        let told = "this is a bug of Postroom; the log says more";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", told)
    }
}

impl Problem {
    pub(crate) fn unavailable() -> Self {
        let told = "the database did not answer as expected; the log says more";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", told)
    }

    pub(crate) fn forbidden(name: &str, right: Right) -> Self {
        let told = format!("{name} may not do this: it needs the right to {right}");
        Self::new(StatusCode::FORBIDDEN, "forbidden", told)
    }

    pub(crate) fn job(mut self, id: JobId) -> Self {
        self.job = Some(id.to_string());
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Invalid => Self::invalid(error.to_string()),
            ErrorKind::IdTaken => Self::new(StatusCode::CONFLICT, "id_taken", error.to_string()),
            kind => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(?kind, error = %error, cause, "an admin request failed");
                Self::unavailable()
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Safe(&self)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        // For who shows it as a page.
        response.extensions_mut().insert(self);
        response
    }
}
