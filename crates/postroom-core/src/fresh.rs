//! Whether anybody can have written a message before.

use std::sync::atomic::{AtomicBool, Ordering};

/// True once: for the first writer of a message whose id was made up here. A store may then write
/// it without looking whether the id is there, which is the dearer way.
pub(crate) struct Fresh(AtomicBool);

impl Fresh {
    /// For an id that was made up a moment ago.
    pub(crate) fn yes() -> Self {
        Self(AtomicBool::new(true))
    }

    /// For an id that came from elsewhere.
    pub(crate) fn no() -> Self {
        Self(AtomicBool::new(false))
    }

    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Clone for Fresh {
    /// Original and copy may both be written, in any order: from now on neither is fresh.
    fn clone(&self) -> Self {
        self.take();
        Self::no()
    }
}

impl PartialEq for Fresh {
    /// Says nothing about what the message says.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Fresh {}

#[cfg(test)]
mod tests {
    use crate::{Message, MessageId, TraceContext};

    fn message() -> Message {
        Message::builder("order.placed").build().expect("legal")
    }

    #[test]
    fn pub_6_a_message_is_fresh_once_however_many_handles_it_has() {
        let message = message();
        let other = message.clone();
        assert!(message.take_fresh());
        assert!(!other.take_fresh() && !message.take_fresh());
    }

    #[test]
    fn pub_6_an_id_from_elsewhere_is_never_fresh() {
        let message = Message::builder("order.placed").id(MessageId::new());
        assert!(!message.build().expect("legal").take_fresh());
    }

    #[test]
    fn pub_6_neither_of_two_versions_of_a_message_is_fresh() {
        let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned();
        let trace = TraceContext { traceparent, tracestate: None };
        let message = message();
        let traced = message.clone().traced(&trace).expect("legal");
        assert!(!traced.take_fresh() && !message.take_fresh());
        let only = self::message().traced(&trace).expect("legal");
        assert!(only.take_fresh(), "there is no other version of it");
    }
}
