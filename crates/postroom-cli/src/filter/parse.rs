//! The language of `--where`: `topic=order.* and status=dead and error~"timed out"`.

use std::fmt;
use std::ops::Range;

use postroom::Timestamp;
use postroom::lifecycle::DeadReason;
use postroom::store::Status;

use super::{Aggregate, Bound, Side, Term, Topics, When};
use crate::args::{duration, time};

/// The fields with their operators, as an error names them.
const FIELDS: [(&str, &[&str]); 10] = [
    ("status", &["=", "!="]),
    ("topic", &["=", "!="]),
    ("tenant", &["=", "!="]),
    ("aggregate", &["=", "!="]),
    ("key", &["=", "!="]),
    ("error", &["~"]),
    ("attempts", &["=", ">", "<"]),
    ("age", &[">", "<"]),
    ("created", &[">", "<"]),
    ("reason", &["=", "!="]),
];

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    text: String,
    at: Range<usize>,
    what: String,
}

impl std::error::Error for Problem {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.text[..self.at.start].chars().count();
        let marked = self.text[self.at.clone()].chars().count().max(1);
        // A line end in the text would move the mark.
        let line: String =
            self.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        writeln!(f, "{}", self.what)?;
        writeln!(f, "  {line}")?;
        write!(f, "  {}{}", " ".repeat(before), "^".repeat(marked))
    }
}

/// Terms with `and` between them.
pub(crate) fn parse(text: &str) -> Result<Vec<Term>, Problem> {
    let mut parser = Parser { text, at: 0 };
    let mut terms = vec![parser.term()?];
    while let Some(word) = parser.word() {
        if !text[word.clone()].eq_ignore_ascii_case("and") {
            let what = "expected `and`; a value with spaces is written in quotes";
            return Err(parser.problem(word, what));
        }
        terms.push(parser.term()?);
    }
    Ok(terms)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn term(&mut self) -> Result<Term, Problem> {
        let field = self.take(|c| c.is_alphanumeric() || c == '_');
        let name = &self.text[field.clone()];
        let Some((_, operators)) = FIELDS.iter().find(|(known, _)| *known == name) else {
            let fields = FIELDS.map(|(name, _)| name).join(", ");
            let what = match name {
                "" => format!("expected a field: {fields}"),
                _ => format!("there is no field `{name}`; there are {fields}"),
            };
            return Err(self.problem(field, what));
        };
        let operator = self.take(|c| "=!~<>".contains(c));
        let sign = &self.text[operator.clone()];
        if !operators.contains(&sign) {
            let what = format!("`{name}` is compared by {}", operators.join(" or "));
            return Err(self.problem(operator, what));
        }
        let (value, place) = self.value()?;
        term(name, sign, value).map_err(|what| self.problem(place, what))
    }

    /// The next characters of a kind, after any space.
    fn take(&mut self, kind: impl Fn(char) -> bool) -> Range<usize> {
        let rest = self.text[self.at..].trim_start();
        let start = self.text.len() - rest.len();
        self.at = start + rest.find(|c| !kind(c)).unwrap_or(rest.len());
        start..self.at
    }

    fn word(&mut self) -> Option<Range<usize>> {
        Some(self.take(|c| !c.is_whitespace())).filter(|word| !word.is_empty())
    }

    /// A word, or anything in quotes.
    fn value(&mut self) -> Result<(&str, Range<usize>), Problem> {
        let start = self.take(|_| false).start;
        let rest = &self.text[start..];
        let Some(quote) = rest.chars().next().filter(|c| ['"', '\''].contains(c)) else {
            let word = self.take(|c| !c.is_whitespace());
            if word.is_empty() {
                return Err(self.problem(word, "expected a value"));
            }
            return Ok((&self.text[word.clone()], word));
        };
        let Some(length) = rest[1..].find(quote) else {
            return Err(self.problem(start..self.text.len(), "the quotes are not closed"));
        };
        let place = start..start + length + 2;
        self.at = place.end;
        Ok((&self.text[start + 1..place.end - 1], place))
    }

    fn problem(&self, at: Range<usize>, what: impl Into<String>) -> Problem {
        Problem { text: self.text.to_owned(), at, what: what.into() }
    }
}

fn term(field: &str, sign: &str, value: &str) -> Result<Term, String> {
    let is = sign != "!=";
    Ok(match field {
        "status" => Term::Status(is, parse_status(value)?),
        "topic" => Term::Topic(is, topics(value)?),
        "tenant" => Term::Tenant(is, value.to_owned()),
        "aggregate" => Term::Aggregate(is, aggregate(value)),
        "key" => Term::Key(is, value.to_owned()),
        "reason" => Term::Reason(is, parse_reason(value)?),
        "error" => Term::Error(value.to_owned()),
        "attempts" => attempts(sign, value)?,
        "age" => {
            // Older is written before.
            let side = if sign == ">" { Side::Before } else { Side::Since };
            Term::Created(side, When::Ago(duration(value)?))
        }
        _ => {
            let side = if sign == ">" { Side::Since } else { Side::Before };
            Term::Created(side, When::At(instant(value)?))
        }
    })
}

fn attempts(sign: &str, value: &str) -> Result<Term, String> {
    let n: u32 = value.parse().map_err(|_| "expected a number".to_owned())?;
    Ok(match sign {
        ">" => Term::Attempts(Bound::AtLeast, n.saturating_add(1)),
        "<" => Term::Attempts(Bound::Below, n),
        _ => Term::Attempts(Bound::Exactly, n),
    })
}

/// A topic; `*` at its end stands for anything.
pub(crate) fn topics(text: &str) -> Result<Topics, String> {
    match text.strip_suffix('*') {
        Some(start) if start.contains('*') => Err("a * can stand at the end only".to_owned()),
        Some(start) => Ok(Topics::StartingWith(start.to_owned())),
        None if text.contains('*') => Err("a * can stand at the end only".to_owned()),
        None => Ok(Topics::Exactly(text.to_owned())),
    }
}

/// `order/7`, or `order` for all of them.
pub(crate) fn aggregate(text: &str) -> Aggregate {
    match text.split_once('/') {
        Some((kind, id)) => Aggregate { kind: kind.to_owned(), id: Some(id.to_owned()) },
        None => Aggregate { kind: text.to_owned(), id: None },
    }
}

fn parse_status(text: &str) -> Result<Status, String> {
    Ok(match text {
        "pending" => Status::Pending,
        "leased" => Status::Leased,
        "failed" => Status::Failed,
        "done" => Status::Done,
        "dead" => Status::Dead,
        _ => return Err("a status is pending, leased, failed, done or dead".to_owned()),
    })
}

/// A reason by its name in JSON.
pub(crate) fn parse_reason(text: &str) -> Result<DeadReason, String> {
    let name = |reason: DeadReason| reason.as_str().replace(' ', "_");
    DeadReason::ALL
        .into_iter()
        .find(|reason| name(*reason) == text)
        .ok_or_else(|| format!("a reason is {}", DeadReason::ALL.map(name).join(", ")))
}

/// A time, or how long ago.
pub(crate) fn when(text: &str) -> Result<When, String> {
    match (duration(text), instant(text)) {
        (Ok(age), _) => Ok(When::Ago(age)),
        (_, Ok(time)) => Ok(When::At(time)),
        _ => Err("expected a time such as 2030-01-31T08:00:00Z, or how long ago: 90m, 7d".into()),
    }
}

fn instant(text: &str) -> Result<Timestamp, String> {
    time(text).map(Timestamp::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        parse(text).expect_err(text).to_string()
    }

    #[test]
    fn cli_1_spaces_quotes_and_case_of_and_do_not_matter() {
        let expected = parse("topic=a and error~'no route'").expect("legal");
        for same in [
            "topic = a and error ~ 'no route'",
            "  topic=a AND error~\"no route\"  ",
            "topic='a' And error~'no route'",
        ] {
            assert_eq!(parse(same).expect(same), expected, "{same}");
        }
        let quoted = parse("error~'a and topic=b'").expect("legal");
        assert_eq!(quoted, [Term::Error("a and topic=b".into())]);
        assert_eq!(parse("key=a=b").expect("legal"), [Term::Key(true, "a=b".into())]);
        assert_eq!(parse("error~''").expect("legal"), [Term::Error(String::new())]);
    }

    #[test]
    fn cli_1_a_mistake_is_shown_where_it_is() {
        let expected = "there is no field `topci`; there are status, topic, tenant, aggregate, \
                        key, error, attempts, age, created, reason\n  \
                        status=dead and topci=a\n                  ^^^^^";
        assert_eq!(problem("status=dead and topci=a"), expected);
        for (text, what, mark) in [
            ("", "expected a field: status, topic", "\n  ^"),
            ("topic~a", "`topic` is compared by = or !=", "       ^"),
            ("attempts>=3", "`attempts` is compared by = or > or <", "          ^^"),
            ("topic", "`topic` is compared by = or !=", "       ^"),
            ("topic=", "expected a value", "        ^"),
            ("status=lost", "a status is pending, leased", "         ^^^^"),
            ("reason=bad", "a reason is attempts_used_up, ", "         ^^^"),
            ("attempts>x", "expected a number", "           ^"),
            ("age>1 hour", "expected a duration", "      ^"),
            ("created>today", "expected a time with its offset", "          ^^^^^"),
            ("topic=a*b", "a * can stand at the end only", "        ^^^"),
            ("topic=a status=dead", "expected `and`", "          ^^^^^^^^^^^"),
            ("topic=a and", "expected a field", "             ^"),
            ("error~'open", "the quotes are not closed", "        ^^^^^"),
            ("tenant=größe x", "expected `and`", "               ^"),
        ] {
            let problem = problem(text);
            assert!(problem.starts_with(what), "{text}: {problem}");
            assert!(problem.ends_with(mark), "{text}: {problem}");
        }
    }

    #[test]
    fn cli_1_no_text_breaks_the_parser() {
        let alphabet = ["topic", "=", "!=", "~", "'", "\"", " ", "and", "é", "*", "1h", "\n", "😀"];
        let mut random = 7_u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..8 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text += alphabet[(random >> 33) as usize % alphabet.len()];
            }
            if let Err(problem) = parse(&text) {
                assert_eq!(problem.to_string().lines().count(), 3, "{text:?}");
            }
        }
    }

    #[test]
    fn cli_1_since_is_a_time_or_an_age() {
        assert_eq!(when("90m"), Ok(When::Ago(std::time::Duration::from_secs(5_400))));
        assert!(matches!(when("2030-01-31T08:00:00Z"), Ok(When::At(_))));
        assert!(when("yesterday").is_err());
    }
}
