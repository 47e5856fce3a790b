//! Identities. Each is its own type, so that a message id is never passed where a lease token
//! belongs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::clock;
use crate::error::{Error, ErrorKind, Result};

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $field:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// The UUID inside.
            #[must_use]
            pub fn as_uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                let uuid = Uuid::parse_str(text).map_err(|source| {
                    let shown: String = text.chars().take(64).collect();
                    Error::new(
                        ErrorKind::Invalid,
                        format!(concat!($field, " must be a UUID, got {:?}"), shown),
                    )
                    .with_source(source)
                })?;
                Self::checked(uuid)
            }
        }
    };
}

uuid_id! {
    /// The logical identity of a message. It never changes; handlers and sinks dedupe by it.
    MessageId, "message id"
}
uuid_id! {
    /// The identity of a [join](crate::Join).
    JoinId, "join id"
}
uuid_id! {
    /// The identity of one running dispatcher or custom claimer. Never nil.
    OwnerToken, "owner token"
}
uuid_id! {
    /// The fence of one claim: fresh for each claim call, never reused.
    LeaseToken, "lease token"
}

macro_rules! ascending {
    ($name:ident) => {
        impl $name {
            /// A new UUIDv7, monotonic within the process.
            #[must_use]
            #[expect(
                clippy::new_without_default,
                reason = "a default id that differs each time surprises"
            )]
            pub fn new() -> Self {
                Self(clock::ordered_uuid())
            }

            fn checked(uuid: Uuid) -> Result<Self> {
                Ok(Self(uuid))
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }
    };
}

ascending!(MessageId);
ascending!(JoinId);

impl OwnerToken {
    /// A fresh random owner.
    #[must_use]
    pub fn random() -> Self {
        Self(clock::random_uuid())
    }

    fn checked(uuid: Uuid) -> Result<Self> {
        if uuid.is_nil() {
            return Err(Error::new(
                ErrorKind::Invalid,
                "owner token must not be nil; use OwnerToken::random()",
            ));
        }
        Ok(Self(uuid))
    }
}

impl TryFrom<Uuid> for OwnerToken {
    type Error = Error;

    fn try_from(uuid: Uuid) -> Result<Self> {
        Self::checked(uuid)
    }
}

impl LeaseToken {
    /// A fresh random token.
    #[must_use]
    pub fn random() -> Self {
        Self(clock::random_uuid())
    }

    fn checked(uuid: Uuid) -> Result<Self> {
        Ok(Self(uuid))
    }
}

impl From<Uuid> for LeaseToken {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

/// The place of a message in its queue, and the name by which ack, abandon and fail speak of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkId(i64);

impl WorkId {
    /// The work item with this sequence number.
    #[must_use]
    pub fn new(seq: i64) -> Self {
        Self(seq)
    }

    /// The sequence number.
    #[must_use]
    pub fn seq(self) -> i64 {
        self.0
    }
}

impl fmt::Display for WorkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for WorkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkId({})", self.0)
    }
}

/// A time-bounded right to one work item: which item, and the token of the claim that took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lease {
    /// The work item.
    pub work: WorkId,
    /// The token of the claim. A later claim of the same item has another one.
    pub token: LeaseToken,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_ids_ascend_within_the_process() {
        let ids: Vec<_> = (0..1_000).map(|_| MessageId::new()).collect();
        assert!(ids.is_sorted());
        assert!(ids.iter().all(|id| id.as_uuid().get_version_num() == 7));
    }

    #[test]
    fn wq_2_a_nil_owner_is_refused() {
        let error = OwnerToken::try_from(Uuid::nil()).expect_err("nil");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("owner token"));
        assert!("00000000-0000-0000-0000-000000000000".parse::<OwnerToken>().is_err());
    }

    #[test]
    fn a_malformed_id_names_the_field() {
        let error = "order 7".parse::<MessageId>().expect_err("not a uuid");
        assert_eq!(error.to_string(), "message id must be a UUID, got \"order 7\"");
    }
}
