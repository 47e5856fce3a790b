//! What the gate did, step by step.

use std::time::Duration;

use crate::table;

/// One line per step: its name, how it ended, how long it took.
#[derive(Debug, Default)]
pub(super) struct Summary(Vec<Vec<String>>);

impl Summary {
    pub(super) fn record(&mut self, step: &str, passed: bool, elapsed: Duration) {
        let result = if passed { "ok" } else { "FAILED" };
        self.0.push(vec![step.into(), result.into(), format!("{:.1}", elapsed.as_secs_f64())]);
    }

    /// Notes a step that was not reached.
    pub(super) fn skip(&mut self, step: &str) {
        self.0.push(vec![step.into(), "not run".into(), "-".into()]);
    }

    /// How many steps have a line.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn render(&self) -> String {
        let mut rows = vec![["step", "result", "seconds"].map(String::from).to_vec()];
        rows.extend(self.0.iter().cloned());
        table::render(&rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_line() {
        let mut summary = Summary::default();
        summary.record("format", true, Duration::from_millis(1250));
        summary.record("clippy", false, Duration::from_secs(61));
        summary.skip("tests");
        let text = summary.render();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "step     result  seconds");
        assert_eq!(lines[2], "format       ok      1.2");
        assert_eq!(lines[3], "clippy   FAILED     61.0");
        assert_eq!(lines[4], "tests   not run        -");
        assert_eq!(summary.len(), 3);
    }
}
