//! The report as JSON. Figures that are measured one after the other make one report.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::Figure;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Document {
    pub(crate) figures: Vec<Figure>,
}

/// Puts these figures in the place of older ones with their ids, and leaves the others.
pub(crate) fn merge(into: &Path, figures: &[Figure]) -> anyhow::Result<Document> {
    let name = || into.display().to_string();
    let document = match fs::read_to_string(into) {
        Ok(text) => serde_json::from_str(&text)
            .with_context(|| format!("{} is no report; remove it or give another --out", name()))?,
        Err(error) if error.kind() == ErrorKind::NotFound => Document::default(),
        Err(error) => return Err(error).with_context(name),
    };
    let document = document.with(figures);
    fs::write(into, text(&document)?).with_context(name)?;
    Ok(document)
}

pub(crate) fn text(document: &Document) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(document)? + "\n")
}

impl Document {
    fn with(mut self, figures: &[Figure]) -> Self {
        self.figures.retain(|old| figures.iter().all(|new| new.id != old.id));
        self.figures.extend_from_slice(figures);
        self.figures.sort_by_key(|figure| place(&figure.id));
        self
    }
}

/// The figures first, then the curves, each by number.
fn place(id: &str) -> (bool, u32, String) {
    let number = id.get(1..).and_then(|number| number.parse().ok()).unwrap_or(u32::MAX);
    (!id.starts_with('P'), number, id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Case, Unit};

    fn figure(id: &str, value: f64) -> Figure {
        Figure::new(id, "a title").case(Case::single("a case", Unit::Bytes, value))
    }

    #[test]
    fn figures_are_merged_by_id_and_sorted_by_number() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.json");
        merge(&file, &[figure("C1", 1.0), figure("P10", 1.0), figure("P2", 1.0)]).unwrap();
        merge(&file, &[figure("P2", 2.0), figure("P9", 2.0)]).unwrap();
        let read: Document = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let ids: Vec<_> = read.figures.iter().map(|figure| figure.id.as_str()).collect();
        assert_eq!(ids, ["P2", "P9", "P10", "C1"]);
        let values: Vec<_> =
            read.figures.iter().map(|figure| figure.cases[0].series[0].median()).collect();
        assert_eq!(values, [2.0, 2.0, 1.0, 1.0]);
    }

    #[test]
    fn a_file_that_is_no_report_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.json");
        fs::write(&file, "notes").unwrap();
        let error = merge(&file, &[figure("P1", 1.0)]).unwrap_err();
        assert!(error.to_string().contains("--out"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "notes");
    }
}
