//! The OpenAPI document and the reference say what the router does.

use std::collections::BTreeSet;

use postroom_admin::{Admin, Need};
use serde_json::Value;

use crate::world::World;

pub(crate) async fn document(world: &World) -> Value {
    world.get("viewer", "/api/v1/openapi.json").await.ok()
}

fn routes() -> BTreeSet<String> {
    let routes = Admin::routes().into_iter();
    let api = routes.filter_map(|route| {
        let path = route.path.strip_prefix("/api/v1")?;
        Some(format!("{} {path}", route.method))
    });
    api.collect()
}

#[tokio::test]
async fn adm_1_the_document_has_every_route_and_no_other() {
    let world = World::new().await;
    let document = document(&world).await;
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["servers"][0]["url"], "/api/v1");
    let mut described = BTreeSet::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            described.insert(format!("{} {path}", method.to_uppercase()));
            let text = operation["description"].as_str().expect("a description");
            assert!(text.contains("Needs the right to"), "{method} {path}");
        }
    }
    assert_eq!(described, routes());
}

#[tokio::test]
async fn adm_1_the_document_changes_only_on_purpose() {
    let world = World::new().await;
    let document = document(&world).await;
    insta::assert_snapshot!(serde_json::to_string_pretty(&document).expect("JSON"));
}

#[tokio::test]
async fn adm_1_the_page_names_every_operation() {
    let world = World::new().await;
    let page = world.get("viewer", "/api").await;
    assert!(page.header("content-type").starts_with("text/html"));
    let html = String::from_utf8(page.body.to_vec()).expect("UTF-8");
    for route in routes() {
        let (method, path) = route.split_once(' ').expect("two words");
        let shown = format!("{method}</span> <code class=\"strong\">{path}</code>");
        assert!(html.contains(&shown), "{route}");
    }
}

#[test]
fn adm_1_the_reference_has_every_route_with_its_right() {
    let reference = include_str!("../../../../docs/reference/admin-api.md");
    let documented: BTreeSet<_> =
        reference.lines().filter(|line| line.starts_with("| `")).filter_map(row).collect();
    let registered: BTreeSet<_> = Admin::routes()
        .into_iter()
        .filter(|route| {
            route.path.starts_with("/api/v1")
                || route.method == "POST" && route.need == Need::Public
        })
        .map(|route| {
            let rights: Vec<_> = route.need.rights().map(|right| right.to_string()).collect();
            let right = if rights.is_empty() { "–".to_owned() } else { rights.join(", ") };
            (format!("{} {}", route.method, route.path), right)
        })
        .collect();
    assert_eq!(documented, registered);
}

/// `` | `GET /api/v1/jobs` | view | text | ``
fn row(line: &str) -> Option<(String, String)> {
    let mut cells = line.split('|').map(str::trim).skip(1);
    let route = cells.next()?.trim_matches('`');
    route.contains(" /").then(|| (route.to_owned(), cells.next().unwrap_or_default().to_owned()))
}
