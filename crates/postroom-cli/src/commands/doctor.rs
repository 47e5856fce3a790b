//! `postroom doctor`.

use std::path::Path;

use postroom_sinks::Probed;
use serde_json::json;

use super::Report;
use super::up::probe;
use crate::args;
use crate::config::Loaded;
use crate::doctor::{Finding, Fix, Level, examine};
use crate::failure::{Exit, Failure};
use crate::fleet::Unseen;
use crate::render::{Screen, inert, json, paint, style};
use crate::store::Target;

pub(super) async fn run(
    args: &args::Doctor,
    file: Option<&Path>,
    target: &Target,
    as_json: bool,
    screen: &Screen,
) -> Result<Report, Failure> {
    if let Some(path) = file {
        return all(&Loaded::read(path, None)?, args, target, as_json, screen).await;
    }
    let findings = examine(target, args).await?;
    let worst = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok);
    let report = Report::data(match as_json {
        true => json::document(&json!({ "worst": worst, "findings": findings })),
        false => page(&target.to_string(), &findings, screen.color),
    });
    Ok(match worst {
        Level::Problem => report.ends_with(Exit::Error),
        _ => report,
    })
}

/// Every database and every sink of a configuration file. One that can not be reached is a finding
/// like any other.
async fn all(
    config: &Loaded,
    args: &args::Doctor,
    target: &Target,
    as_json: bool,
    screen: &Screen,
) -> Result<Report, Failure> {
    let mut sections = Vec::new();
    let (found, unseen) = config.stores.look().await;
    let named = found.iter().map(|found| {
        let target = &*found.store.place;
        (format!("{}: {target}", found.store.id), target)
    });
    let alone = config.stores.is_empty().then(|| (target.to_string(), target));
    for (title, target) in named.chain(alone) {
        let findings = examine(target, args).await.unwrap_or_else(|failure| {
            let what = failure.map(|text| target.url().scrub(text)).in_one_line();
            vec![Finding::problem("server", what)]
        });
        sections.push((title, findings));
    }
    for Unseen { source, failure } in unseen {
        let finding = Finding::problem("source", failure.in_one_line());
        sections.push((format!("discover.{source}"), vec![finding]));
    }
    let mut sinks = Vec::new();
    for sink in &config.sinks {
        sinks.extend(findings_of(&sink.name, sink.kind, probe(sink).await));
    }
    sections.push(("sinks".to_owned(), sinks));
    let levels = sections.iter().flat_map(|(_, findings)| findings).map(|finding| finding.level);
    let worst = levels.max().unwrap_or(Level::Ok);
    let report = Report::data(match as_json {
        true => {
            let section = |title, found| json!({ "title": title, "findings": found });
            let sections: Vec<_> =
                sections.iter().map(|(title, found)| section(title, found)).collect();
            json::document(&json!({ "worst": worst, "sections": sections }))
        }
        false => {
            let pages = sections.iter().map(|(title, found)| page(title, found, screen.color));
            pages.collect::<Vec<_>>().join("\n")
        }
    });
    Ok(match worst {
        Level::Problem => report.ends_with(Exit::Error),
        _ => report,
    })
}

/// What a sink says about itself.
fn findings_of(name: &str, kind: &str, probed: Probed) -> Vec<Finding> {
    let Probed { broken, warnings, about } = probed;
    if let Some(why) = broken {
        let what = format!("{name} ({kind}) can not be used");
        return vec![Finding::problem("sink", what).why(why)];
    }
    let about = about.unwrap_or_else(|| kind.to_owned());
    if warnings.is_empty() {
        return vec![Finding::ok("sink", format!("{name}: {about}"))];
    }
    let warning = |why| Finding::warning("sink", format!("{name}: {about}")).why(why);
    warnings.into_iter().map(warning).collect()
}

/// One line for each check, with what to do about those that are not fine.
fn page(title: &str, findings: &[Finding], color: bool) -> String {
    let mut text = paint(&inert(title), style::HEAD, color) + "\n";
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    for finding in findings {
        let (mark, look) = match finding.level {
            Level::Ok => ("✓", style::GOOD),
            Level::Warning => ("!", style::MIND),
            Level::Problem => ("✗", style::BAD),
        };
        let (mark, check) = (paint(mark, look, color), finding.check);
        text += &format!("{mark} {check:width$}  {}\n", line(&finding.what));
        let fix = finding.fix.as_ref().map(|fix| match fix {
            Fix::Sql(sql) => ("sql", sql),
            Fix::Command(command) => ("run", command),
        });
        let why = finding.why.as_ref().map(|why| ("why", why));
        for (label, part) in [why, fix].into_iter().flatten() {
            let label = paint(&format!("{label}:"), style::DIM, color);
            text += &format!("  {:width$}  {label} {}\n", "", line(part));
        }
    }
    text + &summary(findings) + "\n"
}

fn summary(findings: &[Finding]) -> String {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let some = |n: usize, word: &str| match n {
        1 => format!("1 {word}"),
        n => format!("{n} {word}s"),
    };
    match (count(Level::Problem), count(Level::Warning)) {
        (0, 0) => "All is well.".to_owned(),
        (0, warnings) => format!("No problem; {}.", some(warnings, "warning")),
        (problems, 0) => format!("{}.", some(problems, "problem")),
        (problems, warnings) => {
            format!("{}, {}.", some(problems, "problem"), some(warnings, "warning"))
        }
    }
}

fn line(text: &str) -> String {
    inert(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1_each_finding_says_what_why_and_what_mends_it() {
        let findings = [
            Finding::ok("server", "PostgreSQL 17"),
            Finding::warning("pauses", "topic a\u{1b}[2J is paused")
                .why("broker full")
                .command("postroom resume --topic a"),
            Finding::problem("schema", "index x is missing").sql("create index\n  on x (y)"),
        ];
        let expected = "\
outbox of x
✓ server  PostgreSQL 17
! pauses  topic a\\u{1b}[2J is paused
          why: broker full
          run: postroom resume --topic a
✗ schema  index x is missing
          sql: create index on x (y)
1 problem, 1 warning.
";
        assert_eq!(page("outbox of x", &findings, false), expected);
        assert_eq!(summary(&findings[..1]), "All is well.");
        assert_eq!(summary(&findings[..2]), "No problem; 1 warning.");
        assert!(page("x", &findings, true).contains("\u{1b}[31m"), "colours on demand");
    }
}
