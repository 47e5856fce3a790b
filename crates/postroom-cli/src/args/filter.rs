//! Which messages: filters as options, and as a text.

use clap::Args;
use postroom::lifecycle::DeadReason;

use super::StatusName;
use crate::filter::{
    Aggregate, Bound, Filter, Side, Term, Topics, When, aggregate, parse, parse_reason, topics,
    when,
};

/// What `--help` says about the language of `--where`.
pub(crate) const WHERE_HELP: &str = "\
Filters all have to hold. --where takes them as one text, with `and` between the terms:
  status, topic, tenant, aggregate, key, reason   = and !=; a topic may end in *
  error                                           ~ (contains; case matters)
  attempts                                        = > <
  age, created                                    > <; such as age>1h
Values with spaces are written in quotes.

Example:
  --where 'topic=order.* and status=dead and error~\"timed out\" and age>1h'";

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct Filters {
    /// Terms with `and` between them, which `postroom list --help` explains
    #[arg(long = "where", value_name = "FILTER", value_parser = expression)]
    pub(crate) expression: Option<Expression>,

    /// Only these
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<StatusName>,

    /// Only this topic, or with * at the end those that start so
    #[arg(long, value_parser = topics)]
    pub(crate) topic: Option<Topics>,

    /// Only this tenant
    #[arg(long, value_name = "ID")]
    pub(crate) tenant: Option<String>,

    /// Only this aggregate, or all of a type
    #[arg(long, value_name = "TYPE[/ID]", value_parser = whole_aggregate)]
    pub(crate) aggregate: Option<Aggregate>,

    /// Only this ordering key
    #[arg(long)]
    pub(crate) key: Option<String>,

    /// Only with this text in the last error; case matters
    #[arg(long, value_name = "TEXT")]
    pub(crate) error: Option<String>,

    /// Only written then or later: a time, or how long ago
    #[arg(long, value_name = "WHEN", value_parser = when)]
    pub(crate) since: Option<When>,

    /// Only written before: a time, or how long ago
    #[arg(long, value_name = "WHEN", value_parser = when)]
    pub(crate) until: Option<When>,

    /// Only with at least so many bad attempts
    #[arg(long, value_name = "N")]
    pub(crate) min_attempts: Option<u32>,

    /// Only dead ones of this reason, such as permanent_error
    #[arg(long, value_parser = parse_reason)]
    pub(crate) reason: Option<DeadReason>,
}

/// The terms of `--where`: one value for clap, not many.
#[derive(Clone, Debug)]
pub(crate) struct Expression(Vec<Term>);

fn expression(text: &str) -> Result<Expression, crate::filter::Problem> {
    parse(text).map(Expression)
}

fn whole_aggregate(text: &str) -> Result<Aggregate, std::convert::Infallible> {
    Ok(aggregate(text))
}

impl Filters {
    pub(crate) fn filter(self) -> Filter {
        let mut terms = self.expression.map_or_else(Vec::new, |expression| expression.0);
        terms.extend(self.status.map(|status| Term::Status(true, status.into())));
        terms.extend(self.topic.map(|topics| Term::Topic(true, topics)));
        terms.extend(self.tenant.map(|tenant| Term::Tenant(true, tenant)));
        terms.extend(self.aggregate.map(|aggregate| Term::Aggregate(true, aggregate)));
        terms.extend(self.key.map(|key| Term::Key(true, key)));
        terms.extend(self.error.map(Term::Error));
        terms.extend(self.since.map(|when| Term::Created(Side::Since, when)));
        terms.extend(self.until.map(|when| Term::Created(Side::Before, when)));
        terms.extend(self.min_attempts.map(|least| Term::Attempts(Bound::AtLeast, least)));
        terms.extend(self.reason.map(|reason| Term::Reason(true, reason)));
        Filter { terms }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::{Cli, Command};
    use super::*;

    fn filter(arguments: &[&str]) -> Filter {
        let cli = Cli::try_parse_from([&["postroom", "list"], arguments].concat());
        match cli.expect("legal").command {
            Command::List(args) => args.filters.filter(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn cli_1_options_mean_the_same_as_terms() {
        for (option, term) in [
            ("--status=dead", "status=dead"),
            ("--topic=a.*", "topic=a.*"),
            ("--tenant=acme", "tenant=acme"),
            ("--aggregate=order/7", "aggregate=order/7"),
            ("--aggregate=order", "aggregate=order"),
            ("--key=k", "key=k"),
            ("--error=x y", "error~'x y'"),
            ("--since=1h", "age<1h"),
            ("--until=1h", "age>1h"),
            ("--since=2030-01-31T08:00:00Z", "created>2030-01-31T08:00:00Z"),
            ("--min-attempts=3", "attempts>2"),
            ("--reason=lost_leases", "reason=lost_leases"),
        ] {
            assert_eq!(filter(&[option]), filter(&[&format!("--where={term}")]), "{option}");
        }
        assert_eq!(filter(&["--where=topic=a", "--status=dead"]).terms.len(), 2);
        assert!(filter(&[]).is_empty());
    }
}
