//! The JSON API, version 1, and its description.

mod boxes;
pub(crate) mod bulk;
mod export;
pub(crate) mod figures;
mod fleet;
pub(crate) mod input;
pub(crate) mod messages;
pub(crate) mod shape;

use axum::response::IntoResponse;
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, Ref, ResponseBuilder, Server};

use crate::access::Right;
use crate::live;
use crate::problem::Problem;
use crate::routes::{Base, Guarded, Need, Route};
use input::Query;
use shape::Safe;

pub(crate) const PREFIX: &str = "/api/v1";

/// Everything below [`PREFIX`]. The page that describes it is one of the pages.
pub(crate) fn routes() -> Guarded {
    Guarded::new().nest(PREFIX, v1())
}

fn v1() -> Guarded {
    let view = Need::Right(Right::View);
    let payload = Need::Right(Right::Payload);
    let operate = Need::Right(Right::Operate);
    let administer = Need::Right(Right::Administer);
    Guarded::new()
        .get("/openapi.json", view, openapi)
        .get("/fleet", view, fleet::fleet)
        .get("/stores", view, boxes::stores)
        .get("/stats", view, boxes::stats)
        .get("/snapshot", view, boxes::snapshot)
        .get("/events", view, live::events)
        .get("/messages", view, messages::list)
        .post_message("/messages", operate, messages::publish)
        .get("/messages/{id}", view, messages::show)
        .get("/messages/{id}/payload", payload, messages::payload)
        .post("/messages/{id}/replay", operate, messages::replay)
        .post("/messages/{id}/discard", operate, messages::discard)
        .post_message("/messages/{id}/copy", operate, messages::copy)
        .post("/messages/replay", operate, bulk::replay)
        .post("/messages/discard", operate, bulk::discard)
        .get("/export", view, export::export)
        .get("/jobs", view, bulk::jobs)
        .get("/jobs/{id}", view, bulk::job)
        .post("/jobs/{id}/cancel", operate, bulk::cancel)
        .get("/topics", view, boxes::topics)
        .post("/topics/{topic}/pause", operate, boxes::pause)
        .post("/topics/{topic}/resume", operate, boxes::resume)
        .post("/pause", operate, boxes::pause_all)
        .post("/resume", operate, boxes::resume_all)
        .post("/purge", administer, bulk::purge)
        .get("/failures", view, boxes::failures)
        .get("/keys", view, boxes::keys)
        .get("/nodes", view, boxes::nodes)
        .get("/joins", view, boxes::joins)
        .get("/joins/{id}", view, boxes::join)
        .get("/joins/{id}/members", view, boxes::members)
        .post("/joins/{id}/cancel", operate, boxes::cancel_join)
        .get("/audit", administer, boxes::audit)
}

/// This description.
#[utoipa::path(get, path = "/openapi.json", tag = "api",
    responses((status = 200, body = serde_json::Value)))]
async fn openapi(Base(base): Base, query: Query) -> Result<impl IntoResponse, Problem> {
    query.finish()?;
    Ok(Safe(document(&base)))
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Postroom admin API", description = "Look at messages and act on them."),
    paths(
        openapi,
        fleet::fleet,
        boxes::stores,
        boxes::stats,
        boxes::snapshot,
        live::events,
        messages::list,
        messages::publish,
        messages::show,
        messages::payload,
        messages::replay,
        messages::discard,
        messages::copy,
        bulk::replay,
        bulk::discard,
        export::export,
        bulk::jobs,
        bulk::job,
        bulk::cancel,
        boxes::topics,
        boxes::pause,
        boxes::resume,
        boxes::pause_all,
        boxes::resume_all,
        bulk::purge,
        boxes::failures,
        boxes::keys,
        boxes::nodes,
        boxes::joins,
        boxes::join,
        boxes::members,
        boxes::cancel_join,
        boxes::audit
    ),
    components(schemas(Problem))
)]
struct Described;

/// The description of the API: what every operation has in common is added here.
pub(crate) fn document(base: &str) -> OpenApi {
    let mut document = Described::openapi();
    document.servers = Some(vec![Server::new(format!("{base}{PREFIX}"))]);
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    document.info.license = None;
    document.info.contact = None;
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("token", bearer);
    document.security = Some(vec![SecurityRequirement::new("token", Vec::<String>::new())]);
    for route in v1().list() {
        if let Some(item) = document.paths.paths.get_mut(&route.path)
            && let Some(operation) = operation(item, &route)
        {
            complete(operation, &route);
        }
    }
    document
}

fn operation<'a>(item: &'a mut PathItem, route: &Route) -> Option<&'a mut Operation> {
    match route.method.as_str() {
        "GET" => item.get.as_mut(),
        _ => item.post.as_mut(),
    }
}

/// Adds the right that it needs, and how it may be refused.
fn complete(operation: &mut Operation, route: &Route) {
    for right in route.need.rights() {
        operation.description = Some(match operation.description.take() {
            Some(text) => format!("{text}\n\nNeeds the right to {right}."),
            None => format!("Needs the right to {right}."),
        });
    }
    let is_change = route.method != axum::http::Method::GET;
    let refusals = [
        ("400", "The body is not JSON.", is_change),
        ("401", "A token is needed.", true),
        ("403", "The token does not have the right, or nothing may be changed.", true),
        ("404", "There is no such thing.", true),
        ("409", "Something is in the way.", is_change),
        ("413", "The body is too large.", is_change),
        ("415", "The body is not said to be JSON.", is_change),
        ("422", "A parameter or field is wrong; the message names it.", true),
        ("429", "Too many requests; see Retry-After.", true),
        ("503", "The database does not answer; try again later.", true),
    ];
    for (status, text, _) in refusals.into_iter().filter(|(_, _, applies)| *applies) {
        let problem = Content::new(Some(Ref::from_schema_name("Problem")));
        let response =
            ResponseBuilder::new().description(text).content("application/json", problem);
        operation.responses.responses.insert(status.to_owned(), response.build().into());
    }
}
