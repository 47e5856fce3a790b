//! Asking a sink how it is, before messages find out.

use postroom_core::observe::Circuit;
use postroom_core::store::BoxFuture;

/// A sink that can be asked whether its receiver is there and set up as it should be. It sends no
/// message.
pub trait Probe {
    /// Goes there and looks.
    fn probe(&self) -> BoxFuture<'_, Probed>;

    /// Whether messages are sent there now. Answers at once, from what the last ones met.
    fn circuit(&self) -> Circuit {
        Circuit::Closed
    }
}

/// What a [`Probe`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// Why it can not be used, if so.
    pub broken: Option<String>,
    /// What works and may still surprise, with what to do about it.
    pub warnings: Vec<String>,
    /// What it is, such as a product with its version.
    pub about: Option<String>,
}

impl Probed {
    /// It can not be used.
    pub fn broken(why: impl ToString) -> Self {
        Self { broken: Some(why.to_string()), ..Self::default() }
    }
}

/// What a probe found, or that it found nobody in this time.
#[cfg(any(feature = "amqp", feature = "kafka", feature = "nats", feature = "redis"))]
pub(crate) async fn within(
    limit: std::time::Duration,
    look: impl Future<Output = Result<Probed, crate::fault::Fault>>,
) -> Probed {
    match tokio::time::timeout(limit, look).await {
        Ok(found) => found.unwrap_or_else(Probed::broken),
        Err(_) => Probed::broken(format!("no answer within {limit:?}")),
    }
}
