//! The options of `cargo xtask bench`.
//!
//! The task runner reads this file too, so that it shows this help and finds mistakes before it
//! builds the benchmarks and starts servers. Therefore nothing here knows the rest of the program.

use std::path::PathBuf;

use clap::Parser;

/// Measures Postroom next to the same SQL through the bare driver, and says which bars are met.
#[derive(Clone, Debug, Parser)]
#[command(name = "cargo xtask bench", after_help = LIST, max_term_width = 100)]
pub(crate) struct Arguments {
    /// 20,000 messages, and only P1 to P4, P7 and P8: three minutes
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these figures or curves, such as P1,P7 or C2
    #[arg(long, value_delimiter = ',', value_name = "ID", value_parser = id)]
    pub(crate) only: Vec<&'static str>,
    /// The scale curves, C1 to C5, instead of the figures
    #[arg(long, conflicts_with_all = ["quick", "only"])]
    pub(crate) curves: bool,
    /// Messages in the backlog of each round; default 200,000
    #[arg(long, value_name = "N", value_parser = count(100, 100_000_000))]
    pub(crate) messages: Option<u64>,
    /// Rounds, whose medians are compared
    #[arg(long, value_name = "N", default_value = "5", value_parser = count(1, 1_000))]
    pub(crate) rounds: u64,
    /// Messages per claim
    #[arg(long, value_name = "N", default_value = "2000", value_parser = count(1, 10_000))]
    pub(crate) batch: u64,
    /// Bytes of payload
    #[arg(long, value_name = "BYTES", default_value = "200", value_parser = count(1, 1_000_000))]
    pub(crate) payload: u64,
    /// Settled messages in the large database of P5
    #[arg(long, value_name = "N", default_value = "5000000", value_parser = count(0, MANY))]
    pub(crate) settled: u64,
    /// Backlog in the large database of P5, and in P10
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = count(10_000, MANY))]
    pub(crate) backlog: u64,
    /// How long P6 holds its old transaction
    #[arg(long, value_name = "N", default_value = "10", value_parser = count(1, 600))]
    pub(crate) minutes: u64,
    /// Messages per second in P6
    #[arg(long, value_name = "N", default_value = "5000", value_parser = count(100, 1_000_000))]
    pub(crate) rate: u64,
    /// Databases of P11, one number after the other, and of the last one also files
    #[arg(long, value_name = "N", value_delimiter = ',', default_values = ["1", "100", "500"],
        value_parser = count(1, 10_000))]
    pub(crate) stores: Vec<u64>,
    /// Messages in the table whose pages P12 looks at
    #[arg(long, value_name = "N", default_value = "5000000", value_parser = count(10_000, MANY))]
    pub(crate) kept: u64,
    /// Where C1 ends
    #[arg(long, value_name = "N", default_value = "5000000", value_parser = count(10_000, MANY))]
    pub(crate) max_backlog: u64,
    /// Where C2 ends
    #[arg(long, value_name = "N", default_value = "10000000", value_parser = count(0, MANY))]
    pub(crate) max_settled: u64,
    /// Other projects in the same rounds of P1, P3 and P8; installed on first use
    #[arg(long)]
    pub(crate) peers: bool,
    /// Seconds until a peer that still drains is stopped; what it did until then is its rate
    #[arg(long, value_name = "N", default_value = "60", value_parser = count(1, 3_600))]
    pub(crate) patience: u64,
    /// The folder for report.json and the pictures
    #[arg(long, value_name = "DIR", env = "POSTROOM_BENCH_OUT", default_value = "target/bench")]
    pub(crate) out: PathBuf,
    /// Draw and print what is in report.json already, and measure nothing
    #[arg(long, conflicts_with_all = ["quick", "only", "curves", "peers"])]
    pub(crate) redraw: bool,
    /// The figures of this run as one JSON document instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// One process of a fleet, for P11
    #[arg(long, hide = true)]
    pub(crate) fleet_node: Option<String>,
    /// The process whose memory is looked at, for P10
    #[arg(long, hide = true)]
    pub(crate) memory_node: Option<String>,
}

const MANY: u64 = 1_000_000_000;

/// All that can be measured.
const IDS: [&str; 17] = [
    "P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "C1", "C2", "C3",
    "C4", "C5",
];

/// What is quick enough to be looked at often.
const QUICK: [&str; 6] = ["P1", "P2", "P3", "P4", "P7", "P8"];

const LIST: &str = "\
Each round runs all contestants in turns. What counts are ratios of medians: all share the
machine's noise. The report goes to stdout, progress to stderr; JSON and a picture per figure go
to a folder, where figures that are measured one after the other make one report.

Figures:
  P1   drain a backlog, PostgreSQL
  P2   the hot path: a business row and a message per transaction, delivered and settled
  P3   from the return of COMMIT to the start of the handler
  P4   bytes of write-ahead log per message, from publish to settled
  P5   a claim with many settled messages and a large backlog, next to one with few
  P6   a steady load while an old transaction is open
  P7   ordered drains, next to an unordered one
  P8   SQLite: drain, and hot path
  P9   MariaDB: drain
  P10  memory of a dispatcher while it drains a large backlog
  P11  what hundreds of idle databases cost
  P12  pages of the dashboard at millions of messages

Curves:
  C1   backlog: how fast it is drained, and how long a claim takes
  C2   settled messages: the same
  C3   payload: messages and megabytes per second
  C4   workers: with a handler that does nothing, and with one that waits
  C5   keys: ordered drains";

fn id(text: &str) -> Result<&'static str, String> {
    let known = IDS.into_iter().find(|id| id.eq_ignore_ascii_case(text));
    known.ok_or_else(|| format!("there is no such figure; it is one of {}", IDS.join(", ")))
}

fn count(least: u64, most: u64) -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(least..=most)
}

impl Arguments {
    /// What is measured, in order.
    pub(crate) fn ids(&self) -> Vec<&'static str> {
        let wanted = |id: &&'static str| match (self.only.is_empty(), self.curves, self.quick) {
            (false, ..) => self.only.contains(id),
            (_, true, _) => id.starts_with('C'),
            (.., true) => QUICK.contains(id),
            _ => id.starts_with('P') && !self.redraw,
        };
        IDS.iter().copied().filter(wanted).collect()
    }

    pub(crate) fn needs_postgres(&self) -> bool {
        self.ids().iter().any(|id| !["P8", "P9"].contains(id))
    }

    pub(crate) fn needs_mariadb(&self) -> bool {
        self.ids().contains(&"P9")
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(words: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(["bench"].into_iter().chain(words.split_whitespace()))
    }

    #[test]
    fn options_are_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn without_a_word_all_figures_are_measured_and_no_curve() {
        let ids = parse("").unwrap().ids();
        assert_eq!((ids.len(), ids[0], ids[11]), (12, "P1", "P12"));
    }

    #[test]
    fn some_are_chosen_by_name() {
        assert_eq!(parse("--quick").unwrap().ids(), QUICK);
        assert!(parse("--redraw").unwrap().ids().is_empty());
        assert_eq!(parse("--only p7,C2,P1").unwrap().ids(), ["P1", "P7", "C2"]);
        assert_eq!(parse("--quick --only P9").unwrap().ids(), ["P9"]);
        assert!(!parse("--only P8").unwrap().needs_postgres());
        assert!(parse("--curves").unwrap().ids().iter().all(|id| id.starts_with('C')));
    }

    #[test]
    fn bad_input_names_the_option_and_what_it_may_be() {
        for (words, option, limit) in [
            ("--only P99", "--only", "P1, P2"),
            ("--rounds 0", "--rounds", "1..=1000"),
            ("--payload 0", "--payload", "1..=1000000"),
            ("--messages 5", "--messages", "100..="),
            ("--batch 20000", "--batch", "1..=10000"),
        ] {
            let error = parse(words).unwrap_err().to_string();
            assert!(error.contains(option) && error.contains(limit), "{words}: {error}");
        }
    }
}
