//! `cargo xtask tidy`: the house rules that compilers do not know.
//!
//! Each rule is a function from the files of the repository to a list of problems, so that its
//! test plants a violation in a few lines of text. Takes seconds and needs no network.

mod crates;
mod layout;
mod sql;
mod text;

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use postroom_servers::process;

use crate::workspace;

/// What is wrong, where, and what to do about it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    path: String,
    line: usize,
    message: String,
}

impl Problem {
    fn new(path: impl Into<String>, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.into(), line, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// A file of the repository; the path has forward slashes and starts at the root.
#[derive(Debug)]
struct SourceFile {
    path: String,
    /// Empty for files that no rule reads.
    text: String,
}

/// The files that git knows or would add.
#[derive(Debug)]
struct Tree(Vec<SourceFile>);

impl Tree {
    fn load(root: &Path) -> Result<Self> {
        let mut command = Command::new("git");
        command.current_dir(root);
        command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let list = process::capture_ok(&mut command)?;
        let mut files = Vec::new();
        for path in list.split_terminator('\0') {
            let full = root.join(path);
            // Deleted, but not yet in the index.
            if !full.is_file() {
                continue;
            }
            let text = if is_read(path) { fs::read_to_string(&full)? } else { String::new() };
            files.push(SourceFile { path: path.to_owned(), text });
        }
        Ok(Self(files))
    }

    fn get(&self, path: &str) -> Option<&SourceFile> {
        self.0.iter().find(|file| file.path == path)
    }

    /// The files with one of these endings.
    fn ending(&self, endings: &'static [&str]) -> impl Iterator<Item = &SourceFile> {
        self.0.iter().filter(|file| endings.iter().any(|ending| file.path.ends_with(ending)))
    }

    /// The paths below a folder (named with a slash at its end), relative to it.
    fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter_map(move |file| file.path.strip_prefix(folder))
    }
}

fn is_read(path: &str) -> bool {
    let endings = [".rs", ".sql", ".md", ".toml", "EXCEPTIONS"];
    endings.iter().any(|ending| path.ends_with(ending))
}

/// Runs every rule and prints the problems; any problem is a failure.
pub(crate) fn run() -> Result<()> {
    let tree = Tree::load(&workspace::root())?;
    let rules: [fn(&Tree) -> Vec<Problem>; 10] = [
        text::long_lines,
        text::long_files,
        text::banned_words,
        text::open_ends,
        sql::dead_statements,
        sql::equal_names,
        sql::unchecked_sql,
        layout::root_entries,
        layout::adr_index,
        layout::quickstart,
    ];
    let mut problems: Vec<_> = rules.iter().flat_map(|rule| rule(&tree)).collect();
    problems.extend(crates::direction(&workspace::metadata()?));
    problems.sort();
    if problems.is_empty() {
        println!("tidy: {} files, no problems", tree.0.len());
        return Ok(());
    }
    problems.iter().for_each(|problem| println!("{problem}"));
    bail!("tidy found problems (listed above): {}", problems.len())
}

/// A tree of files that exist only in a test.
#[cfg(test)]
fn planted(files: &[(&str, &str)]) -> Tree {
    let file = |&(path, text): &(&str, &str)| SourceFile { path: path.into(), text: text.into() };
    Tree(files.iter().map(file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_reads_like_a_compiler_message() {
        let problem = Problem::new("a/b.rs", 7, "too long (break it)");
        assert_eq!(problem.to_string(), "a/b.rs:7: too long (break it)");
    }

    #[test]
    fn tree_has_our_own_files_and_no_build_output() {
        let tree = Tree::load(&workspace::root()).unwrap();
        assert!(tree.get("xtask/src/tidy/mod.rs").is_some_and(|file| !file.text.is_empty()));
        assert_eq!(tree.below("target/").count(), 0);
    }
}
