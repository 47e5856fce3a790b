//! What a page must be: well formed, and free of everything that runs.

use std::collections::HashSet;

/// Elements without an end.
const VOID: [&str; 6] = ["meta", "link", "input", "br", "hr", "img"];

/// Checks a page and answers its text with tags taken out.
///
/// # Panics
/// When something is not closed, an id is there twice, or something could run.
pub(crate) fn check(page: &str, path: &str) -> String {
    let mut open: Vec<String> = Vec::new();
    let mut ids = HashSet::new();
    let mut text = String::new();
    let mut rest = page.strip_prefix("<!doctype html>").unwrap_or_else(|| panic!("{path}: {page}"));
    while let Some(start) = rest.find('<') {
        text.push_str(&rest[..start]);
        let (tag, after) = tag(&rest[start..]);
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let last = open.pop();
            assert_eq!(last.as_deref(), Some(name), "{path}: what is open ends");
            continue;
        }
        let (name, attributes) = attributes(tag);
        for (attribute, value) in &attributes {
            assert!(!attribute.starts_with("on"), "{path}: {tag}");
            assert_ne!(attribute, "style", "{path}: {tag}");
            let is_link = ["href", "src", "action"].contains(&attribute.as_str());
            assert!(!is_link || is_ours(value), "{path}: {tag}");
            assert!(attribute != "id" || ids.insert(value.clone()), "{path}: two of {value}");
        }
        if name == "script" {
            assert!(attributes.iter().any(|(attribute, _)| attribute == "src"), "{path}: {tag}");
        }
        assert!(!["style", "iframe", "object", "embed", "base"].contains(&&*name), "{path}: {tag}");
        if !VOID.contains(&&*name) && !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, [""; 0], "{path}: everything is closed");
    text
}

fn is_ours(link: &str) -> bool {
    (link.starts_with('/') && !link.starts_with("//")) || link.starts_with('#')
}

/// A tag without its brackets. Values in quotes may contain some.
fn tag(text: &str) -> (&str, &str) {
    let mut quote = None;
    for (at, c) in text.char_indices().skip(1) {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, '>') => return (&text[1..at], &text[at + 1..]),
            _ => {}
        }
    }
    panic!("a tag without an end: {text:.200}");
}

fn attributes(tag: &str) -> (String, Vec<(String, String)>) {
    let tag = tag.trim_end_matches('/');
    let (name, mut rest) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
    let mut found = Vec::new();
    rest = rest.trim_start();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let attribute = rest[..end].to_lowercase();
        rest = &rest[end..];
        let mut value = String::new();
        if let Some(after) = rest.strip_prefix('=') {
            let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''));
            let quote = quote.unwrap_or_else(|| panic!("a value without quotes in {tag}"));
            let (inside, after) = after[1..].split_once(quote).expect("a closed quote");
            (value, rest) = (inside.to_owned(), after);
        }
        found.push((attribute, value));
        rest = rest.trim_start();
    }
    (name.to_lowercase(), found)
}
