//! Running a victim of contention again.

use crate::error::{Error, ErrorKind, Result};

/// How often a victim of contention is run before the caller hears of it.
const TRIES: u32 = 5;

/// A victim was rolled back as a whole, so running it again is safe.
pub(crate) async fn again_on_contention<T, F>(call: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    for _ in 1..TRIES {
        match call().await {
            Err(error) if is_victim(&error) => {}
            answer => return answer,
        }
    }
    call().await
}

/// Also of a commit: the database said that it rolled back, and that another try may succeed.
fn is_victim(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Contention => true,
        ErrorKind::RolledBack => error.is_transient(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    async fn tries(error: impl Fn() -> Error) -> u32 {
        let count = Cell::new(0);
        let run = again_on_contention(|| async {
            count.set(count.get() + 1);
            Err::<(), _>(error())
        });
        run.await.expect_err("it never works");
        count.get()
    }

    #[tokio::test]
    async fn wq_9_victims_run_again_within_a_bound_and_nothing_else_does() {
        let rolled_back = || Error::new(ErrorKind::RolledBack, "no");
        assert_eq!(tries(|| Error::new(ErrorKind::Contention, "deadlock")).await, TRIES);
        assert_eq!(tries(|| rolled_back().transient(true)).await, TRIES);
        assert_eq!(tries(rolled_back).await, 1);
        for kind in [ErrorKind::CommitUnknown, ErrorKind::Unavailable, ErrorKind::IdTaken] {
            assert_eq!(tries(|| Error::new(kind, "no")).await, 1, "{kind:?}");
        }
    }
}
