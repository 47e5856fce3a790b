//! The short texts of a message: parsed once, valid ever after.
//!
//! Lengths count characters. NUL is refused everywhere because PostgreSQL cannot store it, and
//! control characters where a value ends up in a protocol line.

use std::fmt;

use serde::Serialize;

use crate::error::{Error, Result};

#[derive(Clone, Copy)]
enum Allowed {
    NoControl,
    NoNul,
}

fn parse(field: &str, max: usize, allowed: Allowed, text: String) -> Result<String> {
    let length = text.chars().count();
    if length == 0 || length > max {
        return Err(Error::limit(
            field,
            format_args!("1 to {max} characters"),
            format_args!("{length} characters"),
        ));
    }
    let refused = |c: char| match allowed {
        Allowed::NoControl => c.is_control(),
        Allowed::NoNul => c == '\0',
    };
    match text.chars().position(refused) {
        None => Ok(text),
        Some(at) => Err(Error::limit(
            field,
            match allowed {
                Allowed::NoControl => "free of control characters",
                Allowed::NoNul => "free of NUL characters",
            },
            format_args!("{:?} at character {at}", text.chars().nth(at).unwrap_or_default()),
        )),
    }
}

macro_rules! short_text {
    ($(#[$doc:meta])* $name:ident, $field:literal, $max:literal, $allowed:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The most characters it may have.
            pub const MAX_CHARS: usize = $max;

            /// Parses the text.
            ///
            /// # Errors
            /// `Invalid` when it is empty, too long or has characters that are not allowed.
            pub fn new(text: impl Into<String>) -> Result<Self> {
                parse($field, Self::MAX_CHARS, Allowed::$allowed, text.into()).map(Self)
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

short_text! {
    /// What a message is about; case-sensitive; handlers and sinks are chosen by it.
    Topic, "topic", 255, NoControl
}
short_text! {
    /// The media type of the payload.
    ContentType, "content_type", 255, NoControl
}
short_text! {
    /// The kind of thing that the event happened to.
    AggregateType, "aggregate_type", 64, NoNul
}
short_text! {
    /// Which of its kind.
    AggregateId, "aggregate_id", 128, NoNul
}
short_text! {
    /// Messages of one box and tenant with the same key are handled one at a time, in order.
    OrderingKey, "ordering_key", 255, NoNul
}
short_text! {
    /// Whose message it is.
    TenantId, "tenant_id", 64, NoNul
}
short_text! {
    /// What the message belongs to, across services.
    CorrelationId, "correlation_id", 255, NoNul
}
short_text! {
    /// What caused the message.
    CausationId, "causation_id", 255, NoNul
}
short_text! {
    /// Who sends messages to an inbox, such as a service, a broker's subject or a partner.
    Source, "source", 255, NoNul
}
short_text! {
    /// The sender's name for a message, unique within its source.
    SourceMessageId, "message_id", 255, NoNul
}
short_text! {
    /// What people, log lines and figures call a store of a fleet; it stays the same wherever the
    /// database moves.
    StoreId, "store id", 64, NoControl
}
short_text! {
    /// The part of a service for which messages take effect once.
    Consumer, "consumer", 128, NoControl
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn msg_2_a_topic_of_255_characters_passes_and_256_does_not() {
        assert!(Topic::new("ä".repeat(255)).is_ok());
        let error = Topic::new("ä".repeat(256)).expect_err("too long");
        assert_eq!(error.to_string(), "topic must be 1 to 255 characters, got 256 characters");
        assert!(Topic::new("").is_err());
    }

    #[test]
    fn msg_2_control_characters_are_refused_where_protocols_carry_the_text() {
        for bad in ["order\nplaced", "order\u{7f}", "\0", "a\u{85}b"] {
            let error = Topic::new(bad).expect_err(bad);
            assert!(error.to_string().starts_with("topic must be free of control"), "{error}");
        }
        assert!(TenantId::new("line\nbreak").is_ok());
        assert!(TenantId::new("nul\0").is_err());
    }
}
