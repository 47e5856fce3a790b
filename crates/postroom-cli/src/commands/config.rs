//! `postroom config`.

use std::path::Path;

use serde_json::{Value, json};

use super::Report;
use super::up::probe;
use crate::args::{ConfigAction, ConfigCheck};
use crate::config::{Loaded, NamedSink, schema};
use crate::failure::{Exit, Failure};
use crate::fleet::Source;
use crate::render::{Screen, count, json, table};
use crate::store::{Access, Target};

pub(super) async fn run(
    action: &ConfigAction,
    file: &Path,
    as_json: bool,
    screen: &Screen,
) -> Result<Report, Failure> {
    match action {
        ConfigAction::Schema => Ok(Report::data(json::document(&schema()))),
        ConfigAction::Print => {
            let text = Loaded::read(file, None)?.print();
            Ok(Report::data(if as_json { json::document(&json!({ "toml": text })) } else { text }))
        }
        ConfigAction::Check(args) => check(args, file, as_json, screen).await,
    }
}

/// A line of what the check found: a thing, what it is, and how it is.
struct Line {
    what: &'static str,
    name: String,
    is: String,
    broken: Option<String>,
    warnings: Vec<String>,
}

impl Line {
    fn new(what: &'static str, name: impl Into<String>, is: impl Into<String>) -> Self {
        Self { what, name: name.into(), is: is.into(), broken: None, warnings: Vec::new() }
    }

    fn row(&self, connect: bool) -> [String; 4] {
        let state = match &self.broken {
            Some(why) => why.clone(),
            None if !self.warnings.is_empty() => self.warnings.join("; "),
            None if connect && matches!(self.what, "store" | "discover" | "sink") => {
                "ok".to_owned()
            }
            None => String::new(),
        };
        [self.what.to_owned(), self.name.clone(), self.is.clone(), state]
    }

    fn document(&self) -> Value {
        let Self { what, name, is, broken, warnings } = self;
        json!({ "what": what, "name": name, "is": is, "broken": broken, "warnings": warnings })
    }
}

async fn check(
    args: &ConfigCheck,
    file: &Path,
    as_json: bool,
    screen: &Screen,
) -> Result<Report, Failure> {
    let config = Loaded::read(file, None)?;
    let mut lines = Vec::new();
    for listed in &config.stores.fixed {
        lines.push(store(listed.id.as_str(), &listed.place, args.connect).await);
    }
    for source in &config.stores.sources {
        lines.push(discover(source, args.connect).await);
    }
    for named in &config.sinks {
        lines.push(sink(named, args.connect).await);
    }
    lines.extend(config.route_list().map(|(topics, sink)| Line::new("route", topics, sink)));
    for topic in &args.topics {
        let to = config.sink_of(topic).unwrap_or("no route takes it");
        lines.push(Line::new("topic", topic.as_str(), to));
    }
    let report = Report::data(match as_json {
        true => {
            let lines: Vec<_> = lines.iter().map(Line::document).collect();
            json::document(&json!({ "config": lines }))
        }
        false => {
            let rows: Vec<_> = lines.iter().map(|line| line.row(args.connect)).collect();
            table::plain(["", "NAME", "IS", ""], &rows, screen)
        }
    });
    let broken = lines.iter().filter(|line| line.broken.is_some()).count();
    Ok(match broken {
        0 => report.note(format!("{} is fine.", file.display())),
        _ => report.note(format!("{broken} can not be used.")).ends_with(Exit::Unavailable),
    })
}

async fn store(name: &str, target: &Target, connect: bool) -> Line {
    let mut line = Line::new("store", name, target.to_string());
    if connect {
        match target.open(Access::Existing).await {
            Ok(store) => store.close().await,
            Err(failure) => {
                line.broken = Some(failure.map(|text| target.url().scrub(text)).in_one_line());
            }
        }
    }
    line
}

/// With a look at which stores it finds; these are not opened.
async fn discover(source: &Source, connect: bool) -> Line {
    let mut line = Line::new("discover", source.name(), source.to_string());
    if connect {
        match source.look().await {
            Ok(found) => line.is += &format!(" ({})", count(found.len(), "store")),
            Err(failure) => line.broken = Some(failure.in_one_line()),
        }
    }
    line
}

async fn sink(named: &NamedSink, connect: bool) -> Line {
    let mut line = Line::new("sink", &named.name, named.kind);
    if connect {
        let probed = probe(named).await;
        if let Some(about) = probed.about {
            line.is = format!("{} ({about})", named.kind);
        }
        (line.broken, line.warnings) = (probed.broken, probed.warnings);
    }
    line
}
