//! What is going on, for whoever waits: on stderr, so that stdout is the report.

use std::time::Instant;

/// Says what begins.
pub(crate) fn say(id: &str, what: &str) {
    eprintln!("{id} {what}");
}

/// Counts rounds, and says of each how much is left.
#[derive(Debug)]
pub(crate) struct Rounds<'a> {
    id: &'a str,
    what: &'a str,
    all: usize,
    done: usize,
    began: Instant,
}

impl<'a> Rounds<'a> {
    pub(crate) fn new(id: &'a str, what: &'a str, all: usize) -> Self {
        Self { id, what, all, done: 0, began: Instant::now() }
    }
}

impl Iterator for Rounds<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.done == self.all {
            return None;
        }
        let left = match self.done {
            0 => String::new(),
            done => {
                let each = self.began.elapsed().as_secs_f64() / done as f64;
                format!(", about {:.0} s to go", each * (self.all - done) as f64)
            }
        };
        let (id, what) = (self.id, self.what);
        eprintln!("{id} {what}: round {} of {}{left}", self.done + 1, self.all);
        self.done += 1;
        Some(self.done - 1)
    }
}
