//! The description of the API as a page, for people.

use std::fmt::Write as _;

use axum::response::Html;
use utoipa::openapi::path::{Operation, Parameter};
use utoipa::openapi::{RefOr, Required};

use super::input::Query;
use super::{PREFIX, document};
use crate::problem::Problem;
use crate::routes::Base;

/// Every operation with its parameters, from the same document that programs read.
pub(super) async fn page(Base(base): Base, query: Query) -> Result<Html<String>, Problem> {
    query.finish()?;
    let document = document(&base);
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Postroom admin API</title>\
         <link rel=\"stylesheet\" href=\"{base}/assets/app.css\"></head><body><main>\
         <h1>Postroom admin API</h1>\
         <p>All paths begin with <code>{base}{PREFIX}</code>. Send your token as \
         <code>Authorization: Bearer</code>. The same for programs: \
         <a href=\"{base}{PREFIX}/openapi.json\">openapi.json</a>.</p>"
    );
    for (path, item) in &document.paths.paths {
        for (method, operation) in [("GET", &item.get), ("POST", &item.post)] {
            if let Some(operation) = operation {
                describe(&mut html, method, path, operation);
            }
        }
    }
    html += "</main></body></html>";
    Ok(Html(html))
}

fn describe(html: &mut String, method: &str, path: &str, operation: &Operation) {
    let _ = write!(html, "<section><h2><code>{method} {}</code></h2>", escape(path));
    for text in [&operation.summary, &operation.description].into_iter().flatten() {
        let _ = write!(html, "<p>{}</p>", escape(text));
    }
    let parameters = operation.parameters.iter().flatten();
    let rows: String = parameters.filter_map(row).collect();
    if !rows.is_empty() {
        let head = "<table><thead><tr><th>Parameter</th><th>What it means</th></tr></thead>";
        let _ = write!(html, "{head}<tbody>{rows}</tbody></table>");
    }
    html.push_str("</section>");
}

fn row(parameter: &RefOr<Parameter>) -> Option<String> {
    let RefOr::T(parameter) = parameter else { return None };
    let needed = if parameter.required == Required::True { " (needed)" } else { "" };
    let (name, text) = (&parameter.name, parameter.description.as_deref().unwrap_or_default());
    let (name, text) = (escape(name), escape(text));
    Some(format!("<tr><td><code>{name}</code>{needed}</td><td>{text}</td></tr>"))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
