//! The description of the API as a page, from the same document that programs read.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use utoipa::openapi::path::{Operation, Parameter};
use utoipa::openapi::{RefOr, Required};

use super::frame::{Ask, Frame, Place};
use crate::api::{PREFIX, document};
use crate::desk::Desk;
use crate::problem::Problem;

#[derive(Template)]
#[template(path = "api.html")]
struct Api {
    frame: Frame,
    prefix: String,
    operations: Vec<Described>,
}

struct Described {
    id: String,
    method: &'static str,
    path: String,
    summary: String,
    texts: Vec<String>,
    parameters: Vec<Named>,
}

struct Named {
    name: String,
    is_needed: bool,
    text: String,
}

pub(super) async fn api(State(desk): State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    let frame = Frame::around(&desk, &ask, Place::Api, "API")?;
    let document = document(&ask.base);
    let mut operations = Vec::new();
    for (path, item) in &document.paths.paths {
        for (method, operation) in [("GET", &item.get), ("POST", &item.post)] {
            operations.extend(operation.as_ref().map(|o| described(method, path, o)));
        }
    }
    ask.show(&Api { prefix: frame.plain(PREFIX), operations, frame })
}

fn described(method: &'static str, path: &str, operation: &Operation) -> Described {
    let text = operation.description.as_deref().unwrap_or_default();
    let paragraphs = text.split("\n\n").map(str::trim).filter(|text| !text.is_empty());
    Described {
        id: format!("{method}{}", path.replace(['/', '{', '}'], "-")),
        method,
        path: path.to_owned(),
        summary: operation.summary.clone().unwrap_or_default(),
        texts: paragraphs.map(ToOwned::to_owned).collect(),
        parameters: operation.parameters.iter().flatten().filter_map(named).collect(),
    }
}

fn named(parameter: &RefOr<Parameter>) -> Option<Named> {
    let RefOr::T(parameter) = parameter else { return None };
    Some(Named {
        name: parameter.name.clone(),
        is_needed: parameter.required == Required::True,
        text: parameter.description.clone().unwrap_or_default(),
    })
}
