//! Answers to a client: JSON, or one sentence with the status code for its kind.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use vrdma_api::ApiError;

use vrdma_inventory::{Kind, Refusal};
use vrdma_threads::NotDone;

/// A request that was not carried out.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    sentence: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, sentence: impl Into<String>) -> Self {
        Self {
            status,
            sentence: sentence.into(),
        }
    }

    /// The host has no such thing, or not for this daemon.
    pub(super) fn conflict(sentence: String) -> Self {
        Self::new(StatusCode::CONFLICT, sentence)
    }

    /// The client did nothing wrong.
    pub(super) fn internal(sentence: String) -> Self {
        tracing::error!("{sentence}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, sentence)
    }
}

impl Problem {
    /// The sentence, for a log.
    pub(super) fn sentence(&self) -> &str {
        &self.sentence
    }

    /// The data path did not do it: `refused` turns its refusal into a problem.
    pub(super) fn of(not_done: NotDone, refused: fn(String) -> Self) -> Self {
        match not_done {
            NotDone::Silent(sentence) => Self::new(StatusCode::SERVICE_UNAVAILABLE, sentence),
            NotDone::Refused(sentence) => refused(sentence),
        }
    }
}

/// The client did nothing wrong.
impl From<NotDone> for Problem {
    fn from(not_done: NotDone) -> Self {
        Self::of(not_done, Self::internal)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal.kind {
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::Missing => StatusCode::NOT_FOUND,
            Kind::Conflict => StatusCode::CONFLICT,
        };
        Self::new(status, refusal.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (
            self.status,
            Json(ApiError {
                error: self.sentence,
            }),
        )
            .into_response()
    }
}
