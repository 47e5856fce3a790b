//! Where a browser shows its token.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};

use super::assets;
use super::frame::Ask;
use crate::access::Access;
use crate::desk::Desk;
use crate::problem::Problem;

#[derive(Template)]
#[template(path = "login.html")]
struct Login {
    base: String,
    next: String,
    failed: bool,
}

impl Login {
    fn asset(&self, name: &str) -> String {
        format!("{}{}", self.base, assets::path(name))
    }
}

pub(super) async fn login(State(desk): State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    if matches!(desk.access, Access::Open(_)) {
        return Ok(Redirect::to(&format!("{}/", ask.base)).into_response());
    }
    let next = ask.get("next").unwrap_or_default().to_owned();
    ask.show(&Login { base: ask.base.clone(), next, failed: ask.get("failed").is_some() })
}
