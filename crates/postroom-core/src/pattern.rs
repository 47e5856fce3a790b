//! Topics, patterns of topics, and what is chosen by them.

/// Which messages something takes, in the order in which it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Topics {
    Exact(String),
    Pattern(String),
    All,
}

impl Topics {
    pub(crate) fn named(topics: String) -> Self {
        if topics.contains('*') { Self::Pattern(topics) } else { Self::Exact(topics) }
    }

    pub(crate) fn contain(&self, topic: &str) -> bool {
        match self {
            Self::Exact(name) => name == topic,
            Self::Pattern(pattern) => matches(pattern, topic),
            Self::All => true,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Exact(_) => 0,
            Self::Pattern(_) => 1,
            Self::All => 2,
        }
    }
}

/// Things by topic: exact ones first, then patterns, then those for all, each in the order in which
/// they came.
#[derive(Clone, Debug)]
pub(crate) struct ByTopic<T>(Vec<(Topics, T)>);

impl<T> ByTopic<T> {
    pub(crate) fn add(&mut self, topics: Topics, thing: T) {
        let at = self.0.partition_point(|(others, _)| others.rank() <= topics.rank());
        self.0.insert(at, (topics, thing));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Topics, &T)> {
        self.0.iter().map(|(topics, thing)| (topics, thing))
    }

    pub(crate) fn chosen(&self, topic: &str) -> impl Iterator<Item = &T> {
        self.iter().filter(move |(topics, _)| topics.contain(topic)).map(|(_, thing)| thing)
    }
}

impl<T> Default for ByTopic<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

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
