//! Idempotency keys: the second publish of the same thing is a success that writes nothing.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::text::TenantId;

/// Names one logical message within a tenant. See [`derive`](Self::derive) for stable keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdempotencyKey(Uuid);

impl IdempotencyKey {
    /// A key from what the message is about, the same for ever and in every process.
    ///
    /// Each part is lower-cased (ASCII), `%` becomes `%25` and `:` becomes `%3A`, a missing version
    /// is
    /// `0`; the parts are joined by `:` and hashed (SHA-256, first 16 bytes, as a version 8 UUID).
    /// Entity ids that differ only in case therefore share a key.
    ///
    /// ```
    /// use postroom_core::IdempotencyKey;
    ///
    /// let first = IdempotencyKey::derive("acme", "orders", "42", "placed", Some("1"));
    /// assert_eq!(first, IdempotencyKey::derive("ACME", "orders", "42", "Placed", Some("1")));
    /// assert_ne!(first, IdempotencyKey::derive("acme", "orders", "42", "placed", None));
    /// ```
    #[must_use]
    pub fn derive(
        tenant: &str,
        category: &str,
        entity: &str,
        kind: &str,
        version: Option<&str>,
    ) -> Self {
        let parts = [tenant, category, entity, kind, version.unwrap_or("0")].map(canonical);
        let digest: [u8; 32] = Sha256::digest(parts.join(":").as_bytes()).into();
        let mut first = [0; 16];
        first.copy_from_slice(&digest[..16]);
        Self(Uuid::new_v8(first))
    }

    /// A name-based key (UUID version 5).
    #[must_use]
    pub fn v5(namespace: Uuid, name: &[u8]) -> Self {
        Self(Uuid::new_v5(&namespace, name))
    }

    /// The UUID inside.
    #[must_use]
    pub fn as_uuid(self) -> Uuid {
        self.0
    }

    /// The row key under which a store keeps it: SHA-256 over the length-prefixed tenant and key.
    #[must_use]
    pub fn scoped(self, tenant: Option<&TenantId>) -> [u8; 32] {
        let tenant = tenant.map_or("", TenantId::as_str);
        let mut hash = Sha256::new();
        for part in [tenant.as_bytes(), self.0.as_bytes().as_slice()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }
}

fn canonical(part: &str) -> String {
    part.to_ascii_lowercase().replace('%', "%25").replace(':', "%3A")
}

impl From<Uuid> for IdempotencyKey {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

impl FromStr for IdempotencyKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Uuid::parse_str(text).map(Self).map_err(|source| {
            Error::new(
                ErrorKind::Invalid,
                "idempotency_key must be a UUID; IdempotencyKey::derive makes one from any parts",
            )
            .with_source(source)
        })
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn msg_4_golden_values_never_change() {
        let golden = [
            (("acme", "orders", "42", "placed", Some("1")), "267deaec-5c4f-87f2-a67a-544ae997a64d"),
            (("", "", "", "", None), "11da9b38-bfac-8ba3-b231-a302b261f886"),
            (("a:b", "100%", "ÄÖ", "x", Some("0")), "75b91291-affa-894d-9fa1-f8e1142ff770"),
        ];
        for ((tenant, category, entity, kind, version), expected) in golden {
            let key = IdempotencyKey::derive(tenant, category, entity, kind, version);
            assert_eq!(key.to_string(), expected);
            assert_eq!(key.as_uuid().get_version_num(), 8);
        }
    }

    #[test]
    fn msg_4_escaping_keeps_parts_apart() {
        let joined = IdempotencyKey::derive("a:b", "c", "d", "e", None);
        let split = IdempotencyKey::derive("a", "b:c", "d", "e", None);
        let escaped = IdempotencyKey::derive("a%3Ab", "c", "d", "e", None);
        assert_ne!(joined, split);
        assert_ne!(joined, escaped);
    }

    #[test]
    fn the_scope_of_a_key_is_its_tenant() {
        let key = IdempotencyKey::derive("t", "c", "e", "k", None);
        let acme = TenantId::new("acme").expect("legal");
        assert_ne!(key.scoped(None), key.scoped(Some(&acme)));
        assert_eq!(key.scoped(Some(&acme)), key.scoped(Some(&acme.clone())));
    }
}
