//! What was measured, in one shape for all figures: printed for people, written as JSON, drawn.
//!
//! A figure has cases, a case has contestants, and a contestant has one number per round. What we
//! promise about them is a verdict: a number next to its bar.

pub(crate) mod json;
pub(crate) mod lines;
pub(crate) mod numbers;
pub(crate) mod picture;

use serde::{Deserialize, Serialize};

use crate::machine::Setup;
use crate::neighbours::TOO_MUCH;
use numbers::{median, spread};

/// One of the figures of the project, by its id.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) id: String,
    pub(crate) title: String,
    /// Sizes, settings, and what the control is.
    pub(crate) notes: Vec<String>,
    pub(crate) cases: Vec<Case>,
    /// What depends on a size or on time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) panels: Vec<Panel>,
    /// Where it was measured; of each figure, because a report may be of several runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) setup: Option<Setup>,
    /// The part of the processor that others used meanwhile, where that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) others: Option<f64>,
}

/// One quantity, and everybody of whom it was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Case {
    pub(crate) what: String,
    pub(crate) unit: Unit,
    pub(crate) series: Vec<Series>,
    pub(crate) verdicts: Vec<Verdict>,
}

/// The numbers of one contestant, round by round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(crate) who: String,
    /// Which of its numbers or settings, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) which: Option<String>,
    pub(crate) role: Role,
    /// Version and settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    pub(crate) rounds: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    Ours,
    Control,
    Peer,
}

/// What a number counts. Times are seconds; they are shown in what reads best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unit {
    #[serde(rename = "msg/s")]
    MessagesPerSecond,
    #[serde(rename = "MB/s")]
    MegabytesPerSecond,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "B")]
    Bytes,
    #[serde(rename = "MiB")]
    Mebibytes,
    #[serde(rename = "messages")]
    Messages,
    #[serde(rename = "queries/s")]
    QueriesPerSecond,
    #[serde(rename = "connections")]
    Connections,
    #[serde(rename = "files")]
    Files,
    #[serde(rename = "%")]
    Percent,
    #[serde(rename = "×")]
    Times,
}

/// Whether a number reached its bar. Against somebody it is a ratio of medians.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Verdict {
    pub(crate) of: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) against: Option<String>,
    pub(crate) value: f64,
    pub(crate) bar: f64,
    pub(crate) better: Better,
    pub(crate) met: bool,
    /// Rounds differ, or others were busy, so much that it says little, whether met or not.
    #[serde(default)]
    pub(crate) noisy: bool,
}

/// A round that is so many times another one was disturbed by something else on the machine.
const NOISE: f64 = 1.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Higher,
    Lower,
}

/// Lines over one axis: a size, or time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x: String,
    /// The axis shows orders of magnitude.
    pub(crate) logarithmic: bool,
    pub(crate) unit: Unit,
    pub(crate) lines: Vec<Line>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Figure {
    pub(crate) fn new(id: &str, title: &str) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            notes: Vec::new(),
            cases: Vec::new(),
            panels: Vec::new(),
            setup: None,
            others: None,
        }
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    pub(crate) fn case(mut self, case: Case) -> Self {
        self.cases.push(case);
        self
    }

    pub(crate) fn panel(mut self, panel: Panel) -> Self {
        self.panels.push(panel);
        self
    }

    /// Takes note of what others did meanwhile. Too much of it, and no verdict about time is to be
    /// trusted; bytes are as many.
    pub(crate) fn beside(mut self, others: Option<f64>) -> Self {
        self.others = others;
        if others.is_some_and(|share| share > TOO_MUCH) {
            let timed = self.cases.iter_mut().filter(|case| case.unit.is_timed());
            let verdicts = timed.flat_map(|case| &mut case.verdicts);
            verdicts.for_each(|verdict| verdict.noisy = true);
        }
        self
    }

    pub(crate) fn verdicts(&self) -> impl Iterator<Item = (&Case, &Verdict)> {
        self.cases.iter().flat_map(|case| case.verdicts.iter().map(move |verdict| (case, verdict)))
    }
}

impl Case {
    pub(crate) fn new(what: impl Into<String>, unit: Unit, series: Vec<Series>) -> Self {
        Self { what: what.into(), unit, series, verdicts: Vec::new() }
    }

    /// One number of ours, measured once.
    pub(crate) fn single(what: impl Into<String>, unit: Unit, value: f64) -> Self {
        Self::new(what, unit, vec![Series { rounds: vec![value], ..Series::ours() }])
    }

    /// The median of a contestant next to a fixed bar. Who is not there is not judged.
    pub(crate) fn bar(mut self, of: &str, bar: f64) -> Self {
        if let Some(value) = self.median_of(of) {
            let verdict = Verdict::new(of, None, value, bar, self.unit.better());
            self.verdicts.push(verdict.noisy(self.is_noisy(of)));
        }
        self
    }

    /// The ratio of two medians next to a bar. Who is not there is not judged.
    pub(crate) fn bar_over(mut self, of: &str, against: &str, bar: f64) -> Self {
        if let Some((value, other)) = self.median_of(of).zip(self.median_of(against)) {
            let (ratio, better) = (value / other, self.unit.better());
            let noisy = self.is_noisy(of) || self.is_noisy(against);
            let verdict = Verdict::new(of, Some(against), ratio, bar, better);
            self.verdicts.push(verdict.noisy(noisy));
        }
        self
    }

    /// The ratio to the best of the peers that were measured, if any.
    pub(crate) fn bar_over_best_peer(self, of: &str, bar: f64) -> Self {
        let peers = self.series.iter().filter(|one| one.role == Role::Peer && one.is_measured());
        let order = |a: &&Series, b: &&Series| a.median().total_cmp(&b.median());
        let best = match self.unit.better() {
            Better::Higher => peers.max_by(order),
            Better::Lower => peers.min_by(order),
        };
        match best.map(Series::name) {
            Some(best) => self.bar_over(of, &best, bar),
            None => self,
        }
    }

    pub(crate) fn median_of(&self, name: &str) -> Option<f64> {
        let measured = |one: &&Series| one.is_measured() && one.name() == name;
        self.series.iter().find(measured).map(Series::median)
    }

    fn is_noisy(&self, name: &str) -> bool {
        let named = self.series.iter().find(|series| series.name() == name);
        named.map(Series::spread).is_some_and(|(low, high)| high > low * NOISE)
    }

    pub(crate) fn ours(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(|series| series.role == Role::Ours)
    }
}

impl Series {
    /// What we are called where we are alone.
    pub(crate) const OURS: &str = "Postroom";
    pub(crate) const CONTROL: &str = "control";

    pub(crate) fn new(who: impl Into<String>, role: Role) -> Self {
        Self { who: who.into(), which: None, role, note: None, rounds: Vec::new() }
    }

    pub(crate) fn ours() -> Self {
        Self::new(Self::OURS, Role::Ours)
    }

    pub(crate) fn control() -> Self {
        Self::new(Self::CONTROL, Role::Control)
    }

    pub(crate) fn which(mut self, which: &str) -> Self {
        self.which = Some(which.to_owned());
        self
    }

    pub(crate) fn rounds(mut self, rounds: Vec<f64>) -> Self {
        self.rounds = rounds;
        self
    }

    /// By which verdicts and tables know it.
    pub(crate) fn name(&self) -> String {
        match &self.which {
            Some(which) => format!("{}, {which}", self.who),
            None => self.who.clone(),
        }
    }

    /// Who was left out has no numbers.
    pub(crate) fn is_measured(&self) -> bool {
        !self.rounds.is_empty()
    }

    pub(crate) fn median(&self) -> f64 {
        median(&self.rounds)
    }

    pub(crate) fn spread(&self) -> (f64, f64) {
        spread(&self.rounds)
    }
}

impl Unit {
    fn is_timed(self) -> bool {
        !matches!(self, Self::Bytes | Self::Mebibytes | Self::Connections | Self::Files)
    }

    pub(crate) fn better(self) -> Better {
        match self {
            Self::MessagesPerSecond | Self::MegabytesPerSecond => Better::Higher,
            _ => Better::Lower,
        }
    }
}

impl Verdict {
    fn new(of: &str, against: Option<&str>, value: f64, bar: f64, better: Better) -> Self {
        let met = match better {
            Better::Higher => value >= bar,
            Better::Lower => value <= bar,
        };
        let against = against.map(str::to_owned);
        Self { of: of.to_owned(), against, value, bar, better, met, noisy: false }
    }

    fn noisy(mut self, noisy: bool) -> Self {
        self.noisy = noisy;
        self
    }

    pub(crate) fn sign(&self) -> &'static str {
        match self.better {
            Better::Higher => "≥",
            Better::Lower => "≤",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(unit: Unit) -> Case {
        let ours = Series::ours().rounds(vec![90.0, 80.0, 100.0]);
        let control = Series::control().rounds(vec![100.0, 120.0, 81.0]);
        Case::new("a case", unit, vec![ours, control])
    }

    #[test]
    fn a_rate_has_to_be_at_least_its_bar() {
        let case = case(Unit::MessagesPerSecond);
        let case = case.bar_over("Postroom", "control", 0.9).bar_over("Postroom", "control", 0.91);
        let met: Vec<_> = case.verdicts.iter().map(|verdict| verdict.met).collect();
        assert_eq!(met, [true, false]);
        assert_eq!(case.verdicts[0].value, 0.9);
    }

    #[test]
    fn a_time_has_to_be_at_most_its_bar() {
        let case = case(Unit::Seconds).bar("Postroom", 90.0).bar("Postroom", 89.0);
        let met: Vec<_> = case.verdicts.iter().map(|verdict| verdict.met).collect();
        assert_eq!(met, [true, false]);
    }

    #[test]
    fn who_was_not_measured_is_not_judged() {
        let case = case(Unit::Seconds).bar_over("Postroom", "nobody", 1.0).bar("nobody", 1.0);
        assert!(case.verdicts.is_empty());
    }

    #[test]
    fn the_best_peer_is_the_fastest_one_that_ran() {
        let peer = |name: &str, rounds| Series::new(name, Role::Peer).rounds(rounds);
        let mut case = case(Unit::MessagesPerSecond);
        case.series.push(peer("slow", vec![10.0]));
        case.series.push(peer("fast", vec![60.0]));
        case.series.push(peer("missing", Vec::new()));
        let case = case.bar_over_best_peer("Postroom", 1.5);
        assert_eq!(case.verdicts[0].against.as_deref(), Some("fast"));
        assert!(case.verdicts[0].met && case.verdicts.len() == 1);
    }

    #[test]
    fn rounds_that_differ_much_are_told() {
        let ours = Series::ours().rounds(vec![76.0, 70.0, 75.0]);
        let control = Series::control().rounds(vec![39.0, 38.0, 89.0]);
        let case = Case::new("a case", Unit::MessagesPerSecond, vec![ours, control]);
        let case = case.bar_over("Postroom", "control", 0.8).bar("Postroom", 70.0);
        let noisy: Vec<_> = case.verdicts.iter().map(|verdict| verdict.noisy).collect();
        assert_eq!(noisy, [true, false]);
    }

    #[test]
    fn a_busy_machine_makes_all_verdicts_noisy() {
        let judged = || case(Unit::MessagesPerSecond).bar_over("Postroom", "control", 0.8);
        let noisy = |others| Figure::new("P1", "a title").case(judged()).beside(others);
        let is_noisy = |figure: Figure| figure.cases[0].verdicts[0].noisy;
        assert!(is_noisy(noisy(Some(0.5))));
        assert!(!is_noisy(noisy(Some(0.02))) && !is_noisy(noisy(None)));
        let bytes = Case::single("log", Unit::Bytes, 1.0).bar("Postroom", 2.0);
        assert!(!is_noisy(Figure::new("P4", "a title").case(bytes).beside(Some(0.5))));
    }
}
