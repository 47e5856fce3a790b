//! `postroom man`: the manual, from the same text as `--help`.

use std::path::Path;

use clap::CommandFactory as _;

use super::Report;
use crate::args::{Cli, Man};
use crate::failure::{Exit, Failure};

pub(super) fn run(args: &Man) -> Result<Report, Failure> {
    match &args.dir {
        Some(dir) => write_all(dir),
        None => {
            let mut page = Vec::new();
            // A vector takes everything.
            let _ = clap_mangen::Man::new(Cli::command()).render(&mut page);
            Ok(Report::data(String::from_utf8_lossy(&page)))
        }
    }
}

fn write_all(dir: &Path) -> Result<Report, Failure> {
    let written = std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), dir))
        .and_then(|()| std::fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect());
    let files: Vec<_> = written.map_err(|error: std::io::Error| {
        let what = format!("can not write the manual to {}", dir.display());
        Failure::new(Exit::Error, what).why(&error)
    })?;
    let is_ours = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("postroom");
    let pages = files.iter().filter(|name| is_ours(name)).count();
    Ok(Report::data(format!("Wrote {pages} pages to {}.\n", dir.display())))
}
