//! Problems as pages, for who looks with a browser.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse as _, Response};

use super::{assets, list};
use crate::access::guard;
use crate::desk::Desk;
use crate::problem::Problem;

#[derive(Template)]
#[template(path = "sorry.html")]
struct Sorry {
    base: String,
    title: String,
    message: String,
    code: &'static str,
    status: u16,
}

impl Sorry {
    fn asset(&self, name: &str) -> String {
        format!("{}{}", self.base, assets::path(name))
    }
}

/// Shows a problem as a page to a browser that asked for one. Its status stays.
pub(crate) async fn dress(State(desk): State<Arc<Desk>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_api = path == "/api" || path.starts_with("/api/");
    let is_page = !is_api && guard::wants_html(request.headers());
    let base = guard::base_path(&desk, request.headers());
    let response = next.run(request).await;
    match response.extensions().get::<Problem>() {
        Some(problem) if is_page => page(base, problem, &response),
        _ => response,
    }
}

fn page(base: String, problem: &Problem, response: &Response) -> Response {
    let title = match problem.status.as_u16() {
        401 => "Who are you?",
        403 => "You may not do this",
        404 => "There is nothing here",
        405 => "Not like this",
        422 | 400 => "This can not be done",
        429 => "Too many requests",
        503 => "Not available right now",
        _ => "Something went wrong",
    };
    let page = Sorry {
        base,
        title: title.to_owned(),
        message: format!("{}.", list::capital(problem.message.trim_end_matches('.'))),
        code: problem.code,
        status: problem.status.as_u16(),
    };
    let mut dressed = Html(page.render().unwrap_or_default()).into_response();
    *dressed.status_mut() = response.status();
    // Its type and length are those of the page; what else was said stays.
    for (name, value) in response.headers() {
        if !dressed.headers().contains_key(name) && name != "content-length" {
            dressed.headers_mut().insert(name.clone(), value.clone());
        }
    }
    dressed
}
