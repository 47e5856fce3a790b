//! Where a received message comes from, and for whom it is.

use serde::Serialize;

use crate::error::Result;
use crate::message::hash256;
use crate::text::{Consumer, Source, SourceMessageId};

/// The identity of a message in an inbox: an inbox takes each once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Origin {
    /// Who sent it.
    pub source: Source,
    /// The sender's name for it.
    pub message_id: SourceMessageId,
    /// For whom it is here.
    pub consumer: Consumer,
}

impl Origin {
    /// Parses the three parts.
    ///
    /// # Errors
    /// `Invalid` when one is empty, too long or has characters that are not allowed.
    pub fn new(
        source: impl Into<String>,
        message_id: impl Into<String>,
        consumer: impl Into<String>,
    ) -> Result<Self> {
        let (source, consumer) = (Source::new(source)?, Consumer::new(consumer)?);
        Self::named(source, message_id, consumer)
    }

    pub(crate) fn named(
        source: Source,
        message_id: impl Into<String>,
        consumer: Consumer,
    ) -> Result<Self> {
        Ok(Self { source, message_id: SourceMessageId::new(message_id)?, consumer })
    }

    /// The hash under which an inbox remembers it. It never changes.
    #[must_use]
    pub fn key(&self) -> [u8; 32] {
        hash256(&[self.source.as_str(), self.message_id.as_str(), self.consumer.as_str()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(source: &str, id: &str, consumer: &str) -> [u8; 32] {
        Origin::new(source, id, consumer).expect("legal").key()
    }

    #[test]
    fn inb_1_every_part_tells_messages_apart_however_they_run_into_each_other() {
        let keys = [
            key("shop", "1", "billing"),
            key("shop", "2", "billing"),
            key("shop", "1", "shipping"),
            key("stall", "1", "billing"),
            key("shop1", "1", "billing"),
            key("shop", "11", "billing"),
        ];
        for (at, one) in keys.iter().enumerate() {
            assert!(keys[at + 1..].iter().all(|other| other != one), "{at}");
        }
    }

    #[test]
    fn inb_1_the_key_is_the_same_for_ever() {
        let hex: String = key("shop", "1", "billing").iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "d059cba25a98ff5419d6669f865ca54572a43e2ec2dbfe721561fc134a6f971a");
    }

    #[test]
    fn inb_1_bad_parts_are_named() {
        for (origin, field) in [
            (Origin::new("", "1", "c"), "source"),
            (Origin::new("s", "x".repeat(256), "c"), "message_id"),
            (Origin::new("s", "1", "a\nb"), "consumer"),
        ] {
            let error = origin.expect_err(field);
            assert!(error.to_string().starts_with(field), "{error}");
        }
    }
}
