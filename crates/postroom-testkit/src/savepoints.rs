//! Random nesting of publish, flush, release and rollback: what the handle says was published is
//! what lies in the table.

use std::future::Future;
use std::pin::Pin;

use postroom_core::store::{StoreTransaction, TransactionalStore};
use postroom_core::{Message, MessageId, Savepoint};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::harness::{Env, Harness, Options, ids};

/// Runs `cases` random transactions on fresh stores.
///
/// # Panics
/// When rows and handle disagree, with the smallest transaction that shows it.
pub fn rows_equal_what_the_handle_says<H: Harness>(cases: u32) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&vec(step(), 1..8), |steps| {
        runtime.block_on(async {
            let env = Env::<H>::fresh(Options::default()).await;
            check(&env, &steps).await;
            env.harness.finish().await;
        });
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Publish,
    Flush,
    Row,
    Nested(Vec<Step>, Ending),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Release,
    Rollback,
    Drop,
}

fn step() -> impl Strategy<Value = Step> {
    let leaf = prop_oneof![4 => Just(Step::Publish), 1 => Just(Step::Flush), 1 => Just(Step::Row)];
    let ending = prop_oneof![Just(Ending::Release), Just(Ending::Rollback), Just(Ending::Drop)];
    leaf.prop_recursive(4, 24, 6, move |inner| {
        prop_oneof![
            2 => inner.clone(),
            1 => (vec(inner, 0..6), ending.clone()).prop_map(|(s, e)| Step::Nested(s, e)),
        ]
    })
}

/// What must be there after the commit.
#[derive(Default)]
struct Expected {
    messages: Vec<MessageId>,
    rows: Vec<i64>,
    next_row: i64,
}

impl Expected {
    fn row(&mut self) -> i64 {
        self.next_row += 1;
        self.rows.push(self.next_row);
        self.next_row
    }
}

async fn check<H: Harness>(env: &Env<H>, steps: &[Step]) {
    let mut expected = Expected::default();
    let mut tx = env.outbox.begin().await.expect("begin");
    for step in steps {
        match step {
            Step::Publish => expected.messages.push(tx.publish(message()).expect("stage")),
            Step::Flush => drop(tx.flush().await.expect("flush").to_vec()),
            Step::Row => env.harness.write_business_row(tx.conn(), expected.row()).await,
            Step::Nested(inner, ending) => {
                let savepoint = tx.savepoint().await.expect("savepoint");
                nested(env, savepoint, inner, *ending, &mut expected).await;
            }
        }
    }
    let committed = tx.commit().await.expect("commit");
    let said: Vec<_> = committed.published.iter().map(|published| published.id).collect();
    assert_eq!(said, expected.messages, "the handle's report");
    assert!(committed.published.iter().all(|published| !published.already_existed));
    let items = env.claim(1_000).await.items;
    assert_eq!(ids(&items), expected.messages, "the rows, in publish order");
    assert_eq!(env.harness.business_rows().await, expected.rows, "the application's rows");
}

fn nested<'a, H, T>(
    env: &'a Env<H>,
    mut savepoint: Savepoint<'a, H::Store, T>,
    steps: &'a [Step],
    ending: Ending,
    expected: &'a mut Expected,
) -> Pin<Box<dyn Future<Output = ()> + 'a>>
where
    H: Harness,
    T: StoreTransaction<Conn = <H::Store as TransactionalStore>::Conn> + 'a,
{
    Box::pin(async move {
        let (messages, rows) = (expected.messages.len(), expected.rows.len());
        for step in steps {
            match step {
                Step::Publish => {
                    expected.messages.push(savepoint.publish(message()).expect("stage"));
                }
                Step::Flush => drop(savepoint.flush().await.expect("flush").to_vec()),
                Step::Row => {
                    env.harness.write_business_row(savepoint.conn(), expected.row()).await;
                }
                Step::Nested(inner, ending) => {
                    let deeper = savepoint.savepoint().await.expect("savepoint");
                    nested(env, deeper, inner, *ending, expected).await;
                }
            }
        }
        match ending {
            Ending::Release => return savepoint.release().await.expect("release"),
            Ending::Rollback => savepoint.rollback().await.expect("rollback"),
            Ending::Drop => drop(savepoint),
        }
        expected.messages.truncate(messages);
        expected.rows.truncate(rows);
    })
}

fn message() -> Message {
    Message::builder("t").build().expect("legal")
}
