//! A payload as text that people can read. It is shown and never interpreted.

use std::fmt::Write as _;

use serde::de::IgnoredAny;

/// More than this is to be downloaded.
const MOST_TEXT: usize = 64 * 1024;
const MOST_HEX: usize = 4 * 1024;
const HEX_ROW: usize = 16;

/// A payload to show.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// `JSON`, `text` or `bytes`.
    pub(super) kind: &'static str,
    pub(super) text: String,
    /// Whether the end is left out.
    pub(super) cut: bool,
    /// What else it can be shown as.
    pub(super) views: Vec<&'static str>,
}

/// As somebody asks for it. Else JSON is indented, other text is left as it is, and the rest is a
/// hex dump.
pub(super) fn show(payload: &[u8], wanted: Option<&str>) -> Shown {
    let text = std::str::from_utf8(payload).ok().filter(|text| is_readable(text));
    let json = text.filter(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    let views = [json.map(|_| "JSON"), Some("text"), Some("bytes")];
    let best = if json.is_some() { "JSON" } else { text.map_or("bytes", |_| "text") };
    let views: Vec<_> = views.into_iter().flatten().collect();
    let kind = views.iter().copied().find(|view| Some(*view) == wanted).unwrap_or(best);
    let (text, cut) = match (kind, json) {
        ("JSON", Some(json)) => start_of(&indented(json)),
        ("bytes", _) => {
            let end = payload.len().min(MOST_HEX);
            (dump(&payload[..end]), end < payload.len())
        }
        _ => text.map_or_else(|| lossy(payload), start_of),
    };
    Shown { kind, text, cut, views }
}

/// What is no text, as if it were some.
fn lossy(payload: &[u8]) -> (String, bool) {
    let start = &payload[..payload.len().min(MOST_TEXT)];
    let (text, cut) = start_of(&String::from_utf8_lossy(start).replace(is_odd, "\u{fffd}"));
    (text, cut || start.len() < payload.len())
}

fn start_of(text: &str) -> (String, bool) {
    let end = text.floor_char_boundary(MOST_TEXT);
    (text[..end].to_owned(), end < text.len())
}

fn is_readable(text: &str) -> bool {
    !text.contains(is_odd)
}

fn is_odd(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\r' | '\t')
}

/// Indents valid JSON and changes nothing else: numbers, escapes and the order of fields stay as
/// they were written.
fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    let mut chars = json.chars().peekable();
    while let Some(c) = chars.next() {
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            ' ' | '\n' | '\r' | '\t' => {}
            '{' | '[' => {
                out.push(c);
                while chars.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                if let Some(close) = chars.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                in_string = c == '"';
                out.push(c);
            }
        }
        if out.len() > 2 * MOST_TEXT {
            break;
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    // Deep nesting is not worth a screen of spaces.
    out.extend(std::iter::repeat_n("  ", depth.min(40)));
}

fn dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (row, chunk) in bytes.chunks(HEX_ROW).enumerate() {
        let _ = write!(out, "{:06x} ", row * HEX_ROW);
        for at in 0..HEX_ROW {
            let gap = if at == HEX_ROW / 2 { "  " } else { " " };
            out.push_str(gap);
            match chunk.get(at) {
                Some(byte) => {
                    let _ = write!(out, "{byte:02x}");
                }
                None => out.push_str("  "),
            }
        }
        out.push_str("  ");
        let shown = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' };
        out.extend(chunk.iter().map(shown));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_its_numbers_stay_as_written() {
        let json = br#"{"n":1.10000000000000000001e+7,"s":"a\"{,:}","e":{},"l":[1, 2]}"#;
        let shown = show(json, None);
        assert_eq!(shown.kind, "JSON");
        assert_eq!(
            shown.text,
            "{\n  \"n\": 1.10000000000000000001e+7,\n  \"s\": \"a\\\"{,:}\",\n  \"e\": {},\n  \
             \"l\": [\n    1,\n    2\n  ]\n}"
        );
    }

    #[test]
    fn what_is_not_json_is_text_and_what_is_not_text_is_bytes() {
        assert_eq!(show(b"{oops", None).kind, "text");
        assert_eq!(show(b"", None).kind, "text");
        let shown = show(b"\x00\xffAB", None);
        assert_eq!(shown.kind, "bytes");
        assert!(shown.text.starts_with("000000  00 ff 41 42"), "{}", shown.text);
        assert!(shown.text.ends_with("..AB\n"), "{}", shown.text);
    }

    #[test]
    fn adm_2_it_is_shown_as_it_is_asked_for() {
        let shown = show(b"[1]", Some("text"));
        assert_eq!((shown.kind, &*shown.text), ("text", "[1]"));
        assert_eq!(shown.views, ["JSON", "text", "bytes"]);
        assert!(show(b"[1]", Some("bytes")).text.starts_with("000000  5b 31 5d"));
        let shown = show(b"\x00\xffAB", Some("JSON"));
        assert_eq!((shown.kind, shown.views), ("bytes", vec!["text", "bytes"]), "it is none");
        assert_eq!(show(b"\x00\xffAB\n", Some("text")).text, "\u{fffd}\u{fffd}AB\n");
        assert_eq!(show(b"x", Some("<script>")).kind, "text");
    }

    #[test]
    fn sec_6_a_large_payload_is_cut_at_a_character() {
        let shown = show("ü".repeat(MOST_TEXT).as_bytes(), None);
        assert!(shown.cut && shown.text.len() <= MOST_TEXT);
        assert!(show(&vec![0u8; 1 << 20], None).text.len() < 100 * 1024);
        let deep = "[".repeat(100) + &"]".repeat(100);
        assert_eq!(show(deep.as_bytes(), None).kind, "JSON");
    }
}
