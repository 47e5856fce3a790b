//! Many sends at once, without breaking the order of a key.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use futures_util::future::join_all;
use postroom_core::Delivery;
use postroom_core::lifecycle::Outcome;
use tokio::time::timeout;

use crate::fault::Fault;

/// Sends every message of a batch: those of one ordering key one after the other, up to the first
/// that fails; all others side by side. Each send has at most `limit`, and none begins that could
/// not end within the time that the dispatcher gives.
///
/// A sink that delivers by this may say that it [takes runs](postroom_core::Sink::takes_runs).
pub async fn in_chains<'a, F, R>(batch: &'a [Delivery], limit: Duration, send: F) -> Vec<Outcome>
where
    F: Fn(&'a Delivery) -> R,
    R: Future<Output = Result<(), Fault>>,
{
    let mut outcomes = vec![Outcome::Unstarted; batch.len()];
    let chains = chains(batch).into_iter().map(|chain| run(batch, chain, limit, &send));
    for (at, outcome) in join_all(chains).await.into_iter().flatten() {
        outcomes[at] = outcome;
    }
    outcomes
}

/// The places in the batch of each key, in their order; what has no key is alone.
fn chains(batch: &[Delivery]) -> Vec<Vec<usize>> {
    let mut chains: Vec<Vec<usize>> = Vec::new();
    let mut by_key = HashMap::new();
    for (at, delivery) in batch.iter().enumerate() {
        let message = delivery.message();
        let Some(key) = message.ordering_key() else {
            chains.push(vec![at]);
            continue;
        };
        let chain = *by_key.entry((message.tenant_id(), key)).or_insert(chains.len());
        match chains.get_mut(chain) {
            Some(chain) => chain.push(at),
            None => chains.push(vec![at]),
        }
    }
    chains
}

/// The answers of one chain up to its first failure; what is behind that was not started.
async fn run<'a, F, R>(
    batch: &'a [Delivery],
    chain: Vec<usize>,
    limit: Duration,
    send: &F,
) -> Vec<(usize, Outcome)>
where
    F: Fn(&'a Delivery) -> R,
    R: Future<Output = Result<(), Fault>>,
{
    let mut outcomes = Vec::with_capacity(chain.len());
    for at in chain {
        let delivery = &batch[at];
        // The first one always starts; whoever waits behind it must still have time to end.
        if !outcomes.is_empty() && delivery.time_left() <= limit {
            break;
        }
        let limit = limit.min(delivery.time_left());
        let sent = timeout(limit, send(delivery)).await.unwrap_or_else(|_| {
            Err(Fault::Transient(format!("no answer within {limit:?}; it may have arrived")))
        });
        let failed = sent.is_err();
        outcomes.push((at, sent.map_or_else(Outcome::from, |()| Outcome::Done)));
        if failed {
            break;
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use postroom_core::Message;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    fn delivery(topic: &str, key: Option<&str>, time: Duration) -> Delivery {
        let mut message = Message::builder(topic);
        if let Some(key) = key {
            message = message.ordering_key(key);
        }
        Delivery::detached(message.build().expect("legal"), time)
    }

    fn batch(list: &[(&str, Option<&str>)]) -> Vec<Delivery> {
        list.iter().map(|(topic, key)| delivery(topic, *key, 30 * LIMIT)).collect()
    }

    fn topic(delivery: &Delivery) -> String {
        delivery.message().topic().as_str().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn ord_1_a_key_goes_in_order_and_stops_at_its_first_failure() {
        let seen = Mutex::new(Vec::new());
        let batch = batch(&[
            ("a1", Some("a")),
            ("b1", Some("b")),
            ("bad", Some("a")),
            ("plain", None),
            ("a3", Some("a")),
            ("b2", Some("b")),
        ]);
        let outcomes = in_chains(&batch, LIMIT, |delivery| {
            seen.lock().expect("alive").push(topic(delivery));
            async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                match topic(delivery) == "bad" {
                    true => Err(Fault::permanent("no")),
                    false => Ok(()),
                }
            }
        })
        .await;
        let bad = Outcome::Permanent("no".to_owned());
        use Outcome::{Done, Unstarted};
        assert_eq!(outcomes, [Done, Done, bad, Done, Unstarted, Done]);
        let seen = seen.into_inner().expect("alive");
        assert_eq!(seen[..3], ["a1", "b1", "plain"], "keys run side by side");
        assert!(!seen.contains(&"a3".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn b34_a_send_that_never_ends_is_cut() {
        let batch = batch(&[("hangs", None), ("fine", None)]);
        let outcomes = in_chains(&batch, LIMIT, |delivery| async move {
            if topic(delivery) == "hangs" {
                std::future::pending::<()>().await;
            }
            Ok(())
        })
        .await;
        assert!(matches!(&outcomes[0], Outcome::Failed(why) if why.contains("1s")), "{outcomes:?}");
        assert_eq!(outcomes[1], Outcome::Done);
    }

    #[tokio::test(start_paused = true)]
    async fn b34_nothing_begins_that_could_not_end_in_time() {
        let time = LIMIT + LIMIT / 2;
        let batch: Vec<_> = (0..3).map(|_| delivery("t", Some("k"), time)).collect();
        let outcomes = in_chains(&batch, LIMIT, |_| async {
            tokio::time::sleep(LIMIT * 3 / 4).await;
            Ok(())
        })
        .await;
        assert_eq!(outcomes, [Outcome::Done, Outcome::Unstarted, Outcome::Unstarted]);
    }
}
