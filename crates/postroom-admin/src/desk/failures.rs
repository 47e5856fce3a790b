//! Failures that look alike, so that a thousand of them are one line.

use std::collections::HashMap;

use postroom_core::lifecycle::DeadReason;
use postroom_core::store::Failing;
use postroom_core::{MessageId, Timestamp};

/// The longest pattern, in characters.
const LONGEST: usize = 200;
/// Longer words are no words.
const LONGEST_WORD: usize = 60;

/// Failures of one topic with the same pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) topic: String,
    /// Why they are dead; nothing for those that will be tried again.
    pub(crate) reason: Option<DeadReason>,
    pub(crate) pattern: String,
    pub(crate) count: u64,
    /// The newest of them.
    pub(crate) example: MessageId,
    /// Its error.
    pub(crate) error: Option<String>,
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
}

/// The groups, largest first.
pub(crate) fn groups(failing: &[Failing]) -> Vec<Group> {
    let mut groups: HashMap<(&str, Option<DeadReason>, String), Group> = HashMap::new();
    for failure in failing {
        let pattern = pattern(failure.error.as_deref().unwrap_or_default());
        let key = (failure.topic.as_str(), failure.reason, pattern.clone());
        let group = groups.entry(key).or_insert_with(|| Group {
            topic: failure.topic.clone(),
            reason: failure.reason,
            pattern,
            count: 0,
            example: failure.id,
            error: failure.error.clone(),
            first: failure.at,
            last: failure.at,
        });
        group.count += 1;
        group.first = group.first.min(failure.at);
        if failure.at > group.last {
            group.last = failure.at;
            group.example = failure.id;
            group.error.clone_from(&failure.error);
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by(|a, b| {
        b.count.cmp(&a.count).then(b.last.cmp(&a.last)).then(a.pattern.cmp(&b.pattern))
    });
    groups
}

/// An error without what differs from one time to the next: `order <n> timed out`.
pub(crate) fn pattern(error: &str) -> String {
    let mut pattern = String::new();
    // One line says what happened; what follows is a trace.
    let line = error.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut rest = line;
    while let Some(next) = rest.chars().next() {
        let (token, placeholder) = token(rest, next, pattern.chars().next_back());
        let piece = placeholder.unwrap_or(token);
        // It is cut between words: half of one could look like something else.
        if pattern.chars().count() + piece.chars().count() > LONGEST {
            break;
        }
        pattern.push_str(piece);
        rest = &rest[token.len()..];
    }
    pattern.truncate(pattern.trim_end().len());
    pattern
}

/// What the text begins with, and what stands for it.
fn token(rest: &str, first: char, before: Option<char>) -> (&str, Option<&'static str>) {
    // What we wrote ourselves stays as it is.
    for known in ["<id>", "<n>", "<hex>", "<text>", "<query>"] {
        if rest.starts_with(known) {
            return (&rest[..known.len()], None);
        }
    }
    if matches!(first, '"' | '\'' | '`')
        && !before.is_some_and(char::is_alphanumeric)
        && let Some(end) = rest[1..].find(first)
    {
        return (&rest[..end + 2], Some("<text>"));
    }
    if first == '?' && before.is_some_and(|before| !before.is_whitespace()) {
        let ends = |c: char| c.is_whitespace() || "\"'`<>".contains(c);
        let end = rest.find(ends).unwrap_or(rest.len());
        if rest[1..end].contains('=') {
            return (&rest[..end], Some("<query>"));
        }
    }
    if first.is_ascii_alphanumeric() {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
        if is_uuid(&rest[..end]) {
            return (&rest[..end], Some("<id>"));
        }
        let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        return (&rest[..end], stand_in(&rest[..end]));
    }
    (&rest[..first.len_utf8()], None)
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36 && uuid::Uuid::try_parse(word).is_ok()
}

fn stand_in(word: &str) -> Option<&'static str> {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if digits == word.len() {
        Some("<n>")
    } else if word.strip_prefix("0x").is_some_and(|hex| !hex.is_empty() && is_hex(hex))
        || (word.len() >= 8 && digits > 0 && is_hex(word))
    {
        Some("<hex>")
    } else if digits > 0 && word.bytes().next().is_some_and(|first| first.is_ascii_digit()) {
        // A number with a unit, such as 30s.
        Some("<n>")
    } else if word.chars().count() > LONGEST_WORD {
        Some("<text>")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn adm_2_what_differs_between_failures_is_left_out() {
        for (error, expected) in [
            ("order 7 timed out after 30s", "order <n> timed out after <n>"),
            (
                "HTTP 503 from https://a.example/x?token=1&b=2 again",
                "HTTP <n> from https://a.example/x<query> again",
            ),
            ("no row 019a8a00-0000-7000-8000-000000000001 found", "no row <id> found"),
            ("bad value \"abc 'x'\" at line 3", "bad value <text> at line <n>"),
            ("don't know what's wrong", "don't know what's wrong"),
            ("at 0xDEADBEEF in deadbeef01", "at <hex> in <hex>"),
            ("utf8 of sha256", "utf8 of sha256"),
            ("first line 1\nsecond line 2", "first line <n>"),
            ("\n\n  indented", "indented"),
            ("", ""),
        ] {
            assert_eq!(pattern(error), expected);
        }
    }

    #[test]
    fn adm_2_failures_that_look_alike_are_one_group() {
        let failing = |error: &str, at: i64, reason| Failing {
            id: MessageId::new(),
            topic: "order.placed".into(),
            reason,
            attempts: 1,
            error: Some(error.into()),
            at: Timestamp::from_micros(at),
        };
        let all = [
            failing("order 1 timed out", 5, None),
            failing("order 2 timed out", 9, None),
            failing("order 3 timed out", 7, Some(DeadReason::Attempts)),
            failing("gone", 1, None),
        ];
        let groups = groups(&all);
        assert_eq!(groups.iter().map(|group| group.count).collect::<Vec<_>>(), [2, 1, 1]);
        let first = &groups[0];
        assert_eq!((first.example, first.first, first.last), (all[1].id, all[0].at, all[1].at));
        assert_eq!(first.error.as_deref(), Some("order 2 timed out"));
    }

    proptest! {
        #[test]
        fn adm_2_a_pattern_is_its_own_pattern(error in "\\PC{0,300}") {
            let once = pattern(&error);
            prop_assert!(once.chars().count() <= LONGEST);
            prop_assert_eq!(pattern(&once), once);
        }

        #[test]
        fn adm_2_so_is_one_of_texts_like_errors(
            parts in prop::collection::vec("[a-c0-9<>?='\" \n/-]{0,12}|<n>|<text>|0x1f|\\PC", 0..30)
        ) {
            let once = pattern(&parts.concat());
            prop_assert_eq!(pattern(&once), once);
        }
    }
}
