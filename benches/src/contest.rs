//! Contestants in turns: each round runs all of them, so that a noisy machine disturbs all alike.

use std::pin::Pin;

use anyhow::ensure;

use crate::progress::{Rounds, say};
use crate::report::{Role, Series};

type Run<'a> = Box<dyn Fn() -> Pin<Box<dyn Future<Output = anyhow::Result<Measured>> + 'a>> + 'a>;

/// What one run yields.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) values: Vec<f64>,
    /// Version and settings, of those who tell.
    pub(crate) note: Option<String>,
    /// It takes so long that once is enough.
    pub(crate) is_last: bool,
}

impl From<f64> for Measured {
    fn from(value: f64) -> Self {
        vec![value].into()
    }
}

impl From<Vec<f64>> for Measured {
    fn from(values: Vec<f64>) -> Self {
        Self { values, note: None, is_last: false }
    }
}

/// Somebody who is measured: ourselves, the control, or a peer.
pub(crate) struct Contestant<'a> {
    /// One for each number that a run yields.
    series: Vec<Series>,
    run: Run<'a>,
    /// It failed, or is slow, and is not asked again.
    is_out: bool,
}

impl<'a> Contestant<'a> {
    /// Whose run yields a number for each of these.
    pub(crate) fn new<F, M>(series: impl Into<Vec<Series>>, run: impl Fn() -> F + 'a) -> Self
    where
        F: Future<Output = anyhow::Result<M>> + 'a,
        M: Into<Measured>,
    {
        let run = move || {
            let run = run();
            async move { Ok(run.await?.into()) }
        };
        let run: Run<'a> = Box::new(move || Box::pin(run()));
        Self { series: series.into(), run, is_out: false }
    }

    async fn run_once(&mut self) -> anyhow::Result<()> {
        let measured = (self.run)().await?;
        let (wanted, values) = (self.series.len(), measured.values.len());
        self.is_out = measured.is_last;
        ensure!(wanted == values, "{values} numbers where {wanted} are expected");
        for (series, value) in self.series.iter_mut().zip(measured.values) {
            series.rounds.push(value);
            if measured.note.is_some() {
                series.note.clone_from(&measured.note);
            }
        }
        Ok(())
    }

    /// Others may be missing or fail: they are left out, and the report says why. We may not.
    fn leave_out(&mut self, id: &str, error: anyhow::Error) -> anyhow::Result<()> {
        if self.series.iter().any(|series| series.role != Role::Peer) {
            return Err(error);
        }
        self.is_out = true;
        for series in &mut self.series {
            say(id, &format!("{} is left out: {error:#}", series.name()));
            series.note = Some(format!("left out: {error:#}"));
        }
        Ok(())
    }
}

/// Runs all of them so many times. Who begins changes from round to round.
pub(crate) async fn hold(
    id: &str,
    what: &str,
    rounds: usize,
    mut contestants: Vec<Contestant<'_>>,
) -> anyhow::Result<Vec<Series>> {
    for round in Rounds::new(id, what, rounds) {
        for turn in 0..contestants.len() {
            let place = (round + turn) % contestants.len();
            let contestant = &mut contestants[place];
            if contestant.is_out {
                continue;
            }
            if let Err(error) = contestant.run_once().await {
                contestant.leave_out(id, error)?;
            }
        }
    }
    Ok(contestants.into_iter().flat_map(|contestant| contestant.series).collect())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn named(name: &str, role: Role) -> [Series; 1] {
        [Series::new(name, role)]
    }

    #[tokio::test]
    async fn contestants_take_turns_and_keep_their_own_numbers() {
        let runs = RefCell::new(Vec::new());
        let runner = |name: &'static str, value: f64| {
            let runs = &runs;
            Contestant::new(named(name, Role::Ours), move || async move {
                runs.borrow_mut().push(name);
                Ok(value)
            })
        };
        let contestants = vec![runner("a", 1.0), runner("b", 2.0)];
        let series = hold("P0", "test", 3, contestants).await.unwrap();
        assert_eq!(*runs.borrow(), ["a", "b", "b", "a", "a", "b"]);
        let rounds: Vec<_> = series.iter().map(|one| one.rounds.clone()).collect();
        assert_eq!(rounds, [[1.0; 3], [2.0; 3]]);
    }

    #[tokio::test]
    async fn a_run_may_have_several_numbers() {
        let series = vec![Series::ours().which("p50"), Series::ours().which("p99")];
        let one = Contestant::new(series, || async { Ok(vec![1.0, 9.0]) });
        let series = hold("P0", "test", 2, vec![one]).await.unwrap();
        assert_eq!(series[0].rounds, [1.0, 1.0]);
        assert_eq!(series[1].rounds, [9.0, 9.0]);
    }

    #[tokio::test]
    async fn who_is_slow_runs_once() {
        let slow = Contestant::new(named("slow", Role::Peer), || async {
            Ok(Measured { values: vec![1.0], note: None, is_last: true })
        });
        let series = hold("P0", "test", 3, vec![slow]).await.unwrap();
        assert_eq!(series[0].rounds, [1.0]);
    }

    #[tokio::test]
    async fn a_peer_that_fails_is_left_out_and_the_report_says_why() {
        let fails = || async { Err::<f64, _>(anyhow::anyhow!("not installed")) };
        let peer = Contestant::new(named("peer", Role::Peer), fails);
        let other = Contestant::new(named("other", Role::Peer), || async {
            let note = Some("1.2.3, 8 threads".to_owned());
            Ok(Measured { values: vec![1.0], note, is_last: false })
        });
        let series = hold("P0", "test", 2, vec![peer, other]).await.unwrap();
        assert_eq!((series[0].rounds.len(), series[1].rounds.len()), (0, 2));
        assert_eq!(series[0].note.as_deref(), Some("left out: not installed"));
        assert_eq!(series[1].note.as_deref(), Some("1.2.3, 8 threads"));
        let ours = Contestant::new(named("ours", Role::Ours), fails);
        assert!(hold("P0", "test", 1, vec![ours]).await.is_err());
    }
}
