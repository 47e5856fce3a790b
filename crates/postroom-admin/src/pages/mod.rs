//! The dashboard: pages that are rendered here from what the desk knows. They decide nothing.
//!
//! A page is complete without a script: links, and forms that are answered by a redirect. Scripts
//! fetch the same page again and exchange the parts that are marked as live.

mod act;
mod api;
mod assets;
mod attention;
mod audit;
mod chart;
mod copy;
mod failures;
mod filter;
mod flash;
mod form;
mod frame;
mod icons;
mod jobs;
mod joins;
mod keys;
mod list;
mod login;
mod message;
mod nodes;
mod overview;
mod payload;
mod publish;
mod purge;
pub(crate) mod sorry;
mod stores;
mod topics;
mod words;

use crate::access::Right;
use crate::routes::{Guarded, Need};

/// Every page.
pub(crate) fn routes() -> Guarded {
    let (view, operate) = (Need::Right(Right::View), Need::Right(Right::Operate));
    let administer = Need::Right(Right::Administer);
    Guarded::new()
        .get("/", view, overview::overview)
        .get("/messages", view, list::messages)
        .get("/messages/{id}", view, message::message)
        .get("/messages/{id}/payload", Need::Right(Right::Payload), message::download)
        .get("/messages/{id}/copy", Need::Both(Right::Payload, Right::Operate), copy::copy)
        .post_message("/messages/copy", operate, copy::publish)
        .post("/messages/act", operate, act::messages)
        .get("/publish", operate, publish::form)
        .post_message("/publish", operate, publish::publish)
        .get("/purge", administer, purge::plan)
        .post("/purge", administer, purge::begin)
        .get("/plan", view, jobs::plan)
        .get("/jobs", view, jobs::jobs)
        .post("/jobs", operate, act::begin)
        .get("/jobs/{id}", view, jobs::job)
        .post("/jobs/cancel", operate, act::cancel_job)
        .get("/jump", view, list::jump)
        .get("/failures", view, failures::failures)
        .get("/dead", view, list::dead)
        .get("/topics", view, topics::topics)
        .post("/topics/pause", operate, act::pause)
        .post("/topics/resume", operate, act::resume)
        .get("/keys", view, keys::keys)
        .get("/joins", view, joins::joins)
        .get("/joins/{id}", view, joins::join)
        .post("/joins/cancel", operate, act::cancel_join)
        .get("/dispatchers", view, nodes::nodes)
        .get("/stores", view, stores::stores)
        .get("/switch", view, stores::switch)
        .get("/audit", administer, audit::audit)
        .get("/api", view, api::api)
        .get("/login", Need::Public, login::login)
        .merge(assets::routes())
}
