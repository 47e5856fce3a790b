//! A payload for people: JSON indented, text as it is, anything else as a hex dump.

use std::fmt::Write as _;

use super::inert_lines;

/// The kind of a payload, and the payload as lines.
pub(crate) fn render(payload: &[u8]) -> (&'static str, String) {
    if payload.is_empty() {
        return ("empty", String::new());
    }
    let Ok(text) = std::str::from_utf8(payload) else {
        return ("binary", hex_dump(payload));
    };
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => ("JSON", inert_lines(&indented(text))),
        Err(_) => ("text", inert_lines(text)),
    }
}

/// Lower-case hex without spaces.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Legal JSON with new white space. Names keep their order and numbers all their digits, which a
/// round through a value does not promise.
fn indented(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth));
    };
    for c in json.chars() {
        if quoted {
            text.push(c);
            quoted = c != '"' || escaped;
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            ' ' | '\n' | '\r' | '\t' => {}
            '}' | ']' => {
                depth -= 1;
                if !text.ends_with(['{', '[']) {
                    line(&mut text, depth);
                }
                text.push(c);
            }
            _ => {
                if text.ends_with(['{', '[']) {
                    line(&mut text, depth);
                }
                quoted = c == '"';
                depth += usize::from(matches!(c, '{' | '['));
                text.push(c);
                match c {
                    ',' => line(&mut text, depth),
                    ':' => text.push(' '),
                    _ => {}
                }
            }
        }
    }
    text
}

/// Sixteen bytes a line: offset, hex, and what is printable.
fn hex_dump(bytes: &[u8]) -> String {
    let mut dump = String::new();
    for (index, line) in bytes.chunks(16).enumerate() {
        let _ = write!(dump, "{:08x} ", index * 16);
        for place in 0..16 {
            let gap = if place == 8 { "  " } else { " " };
            match line.get(place) {
                Some(byte) => _ = write!(dump, "{gap}{byte:02x}"),
                None => _ = write!(dump, "{gap}  "),
            }
        }
        let visible = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' };
        let text: String = line.iter().map(visible).collect();
        let _ = writeln!(dump, "  |{text}|");
    }
    dump.truncate(dump.trim_end().len());
    dump
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_keeps_its_order_and_numbers() {
        let (kind, text) = render(br#"{"b":1,"a":[2]}"#);
        assert_eq!(kind, "JSON");
        assert_eq!(text, "{\n  \"b\": 1,\n  \"a\": [\n    2\n  ]\n}");
        let (_, text) = render(br#" {"n" : 12345678901234567890.50, "e":[ ],"s":"{\"[,:\\"} "#);
        let expected =
            "{\n  \"n\": 12345678901234567890.50,\n  \"e\": [],\n  \"s\": \"{\\\"[,:\\\\\"\n}";
        assert_eq!(text, expected);
        assert_eq!(render(b"{}").1, "{}");
        assert_eq!(render(b"[[1]]").1, "[\n  [\n    1\n  ]\n]");
    }

    #[test]
    fn text_is_inert() {
        assert_eq!(render(b"a\n\x1b[2Jb"), ("text", "a\n\\u{1b}[2Jb".to_owned()));
        assert_eq!(render(b""), ("empty", String::new()));
    }

    #[test]
    fn bytes_are_dumped() {
        let (kind, text) = render(b"\xff\x00hello, world!!\x01");
        assert_eq!(kind, "binary");
        let expected = "\
00000000  ff 00 68 65 6c 6c 6f 2c  20 77 6f 72 6c 64 21 21  |..hello,.world!!|
00000010  01                                                |.|";
        assert_eq!(text, expected);
        assert_eq!(hex(b"\xff\x00"), "ff00");
    }
}
