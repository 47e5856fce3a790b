//! Our own little pictures, 16 by 16, drawn with strokes.

pub(super) const OVERVIEW: &str = r#"<path d="M2 12.5l3.5-4 3 2.5L14 4.5"/>"#;
pub(super) const MESSAGES: &str = concat!(
    r#"<rect x="2" y="3.5" width="12" height="9" rx="1.5"/>"#,
    r#"<path d="M2.5 5l5.5 4 5.5-4"/>"#,
);
pub(super) const FAILURES: &str = concat!(
    r#"<path d="M8 2.5l6 11H2z"/>"#,
    r#"<path d="M8 6.8v3"/>"#,
    r#"<path d="M8 11.8v.1"/>"#,
);
pub(super) const DEAD: &str = concat!(
    r#"<path d="M2 9.5h3.5l1 2h3l1-2H14"/>"#,
    r#"<path d="M2 9.5v3a1 1 0 0 0 1 1h10a1 1 0 0 0 1-1v-3"/>"#,
    r#"<path d="M6 2.5l4 4M10 2.5l-4 4"/>"#,
);
pub(super) const TOPICS: &str =
    r#"<path d="M6.5 2.5l-1.5 11M11 2.5l-1.5 11M2.5 5.8h11.5M2 10.2h11.5"/>"#;
pub(super) const KEYS: &str = r#"<path d="M3 4h1M3 8h1M3 12h1M6.5 4H13M6.5 8H13M6.5 12H13"/>"#;
pub(super) const INBOX: &str = concat!(
    r#"<path d="M2 9.5h3.5l1 2h3l1-2H14"/>"#,
    r#"<path d="M2 9.5v3a1 1 0 0 0 1 1h10a1 1 0 0 0 1-1v-3"/>"#,
    r#"<path d="M8 2v5M5.8 5L8 7.2 10.2 5"/>"#,
);
pub(super) const JOINS: &str = concat!(
    r#"<path d="M2.5 4h3c2 0 2 4 4 4h4M2.5 12h3c2 0 2-4 4-4"/>"#,
    r#"<path d="M11.5 6l2 2-2 2"/>"#,
);
pub(super) const DISPATCHERS: &str = concat!(
    r#"<rect x="2.5" y="2.5" width="11" height="4.5" rx="1"/>"#,
    r#"<rect x="2.5" y="9" width="11" height="4.5" rx="1"/>"#,
    r#"<path d="M5 4.8v.1M5 11.3v.1"/>"#,
);
pub(super) const STORES: &str = concat!(
    r#"<ellipse cx="8" cy="4" rx="5.5" ry="1.8"/>"#,
    r#"<path d="M2.5 4v8c0 1 2.5 1.8 5.5 1.8s5.5-.8 5.5-1.8V4M2.5 8c0 1 2.5 1.8 5.5"#,
    r#" 1.8s5.5-.8 5.5-1.8"/>"#,
);
pub(super) const JOBS: &str =
    concat!(r#"<path d="M13.5 8a5.5 5.5 0 1 1-1.7-4"/>"#, r#"<path d="M13.5 2v2.7h-2.7"/>"#);
pub(super) const AUDIT: &str = concat!(
    r#"<rect x="3" y="2" width="10" height="12" rx="1.5"/>"#,
    r#"<path d="M5.5 5.5h5M5.5 8h5M5.5 10.5h3"/>"#,
);
pub(super) const API: &str = r#"<path d="M5.5 4.5L2 8l3.5 3.5M10.5 4.5L14 8l-3.5 3.5"/>"#;
