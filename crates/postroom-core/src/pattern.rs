//! Patterns of topics.

/// Whether the topic fits the pattern; `*` stands for any characters, also none.
pub(crate) fn matches(pattern: &str, topic: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == topic };
    let Some(mut topic) = topic.strip_prefix(head) else { return false };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    // Each part is best found as early as possible: that leaves most for the others.
    for part in middle.split('*') {
        let Some(at) = topic.find(part) else { return false };
        topic = &topic[at + part.len()..];
    }
    topic.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dsp_4_patterns() {
        for (pattern, topic) in [
            ("order.*", "order.a.b"),
            ("*", ""),
            ("*.x", "a.x"),
            ("a*b*c", "abbc"),
            ("**", "a"),
            ("*ä*", "bär"),
        ] {
            assert!(matches(pattern, topic), "{pattern} {topic}");
        }
        for (pattern, topic) in
            [("order.*", "order"), ("*.x", "a.xy"), ("a*b", "ac"), ("A*", "a"), ("ab*ba", "aba")]
        {
            assert!(!matches(pattern, topic), "{pattern} {topic}");
        }
    }

    /// Every way to place every `*`.
    fn by_trying(pattern: &[char], topic: &[char]) -> bool {
        match pattern.split_first() {
            None => topic.is_empty(),
            Some(('*', rest)) => (0..=topic.len()).any(|at| by_trying(rest, &topic[at..])),
            Some((first, rest)) => topic.first() == Some(first) && by_trying(rest, &topic[1..]),
        }
    }

    proptest! {
        #[test]
        fn dsp_4_patterns_fit_as_by_trying(pattern in "[ab*]{0,8}", topic in "[ab]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = by_trying(&chars(&pattern), &chars(&topic));
            prop_assert_eq!(matches(&pattern, &topic), expected);
        }
    }
}
