//! Contestants in turns: each round runs all of them, so that a noisy machine disturbs all alike.

use std::pin::Pin;

use crate::progress::Rounds;
use crate::report::Series;

type Run<'a> = Box<dyn Fn() -> Pin<Box<dyn Future<Output = anyhow::Result<Vec<f64>>> + 'a>> + 'a>;

/// Somebody who is measured: ourselves, the control, or a peer.
pub(crate) struct Contestant<'a> {
    /// One for each number that a run yields.
    series: Vec<Series>,
    run: Run<'a>,
}

impl<'a> Contestant<'a> {
    /// Whose run yields one number.
    pub(crate) fn new<F>(series: Series, run: impl Fn() -> F + 'a) -> Self
    where
        F: Future<Output = anyhow::Result<f64>> + 'a,
    {
        let run = move || {
            let one = run();
            async move { Ok(vec![one.await?]) }
        };
        Self::many(vec![series], run)
    }

    /// Whose run yields a number for each of these.
    pub(crate) fn many<F>(series: Vec<Series>, run: impl Fn() -> F + 'a) -> Self
    where
        F: Future<Output = anyhow::Result<Vec<f64>>> + 'a,
    {
        Self { series, run: Box::new(move || Box::pin(run())) }
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
            let values = (contestant.run)().await?;
            for (series, value) in contestant.series.iter_mut().zip(values) {
                series.rounds.push(value);
            }
        }
    }
    Ok(contestants.into_iter().flat_map(|contestant| contestant.series).collect())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::report::Role;

    #[tokio::test]
    async fn contestants_take_turns_and_keep_their_own_numbers() {
        let runs = RefCell::new(Vec::new());
        let runner = |name: &'static str, value: f64| {
            let runs = &runs;
            Contestant::new(Series::new(name, Role::Peer), move || async move {
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
        let one = Contestant::many(series, || async { Ok(vec![1.0, 9.0]) });
        let series = hold("P0", "test", 2, vec![one]).await.unwrap();
        assert_eq!(series[0].rounds, [1.0, 1.0]);
        assert_eq!(series[1].rounds, [9.0, 9.0]);
    }
}
