//! `timestamptz` without chrono or time: enabling those in sqlx would change the types that a
//! user's own `query!` calls infer.

use postroom_core::Timestamp;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{
    PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef, Postgres,
};
use sqlx::{Decode, Encode, Type};

/// A time as PostgreSQL sends it: microseconds since the year 2000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PgTime(pub(crate) Timestamp);

/// 2000-01-01 in microseconds since the Unix epoch.
const EPOCH: i64 = 946_684_800_000_000;
/// The earliest time that PostgreSQL knows (4714 BC), in microseconds since 2000.
const EARLIEST: i64 = -211_813_488_000_000_000;

const TIMESTAMPTZ: PgTypeInfo = PgTypeInfo::with_oid(Oid(1184));
const TIMESTAMPTZ_ARRAY: PgTypeInfo = PgTypeInfo::with_oid(Oid(1185));

impl PgTime {
    fn to_wire(self) -> i64 {
        self.0.as_micros().saturating_sub(EPOCH).max(EARLIEST)
    }

    /// Infinity saturates.
    fn from_wire(micros: i64) -> Self {
        Self(Timestamp::from_micros(micros.saturating_add(EPOCH)))
    }
}

impl Type<Postgres> for PgTime {
    fn type_info() -> PgTypeInfo {
        TIMESTAMPTZ
    }
}

impl PgHasArrayType for PgTime {
    fn array_type_info() -> PgTypeInfo {
        TIMESTAMPTZ_ARRAY
    }
}

impl Encode<'_, Postgres> for PgTime {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode_by_ref(&self.to_wire(), buf)
    }
}

impl Decode<'_, Postgres> for PgTime {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        match value.format() {
            PgValueFormat::Binary => {
                let bytes: [u8; 8] = value.as_bytes()?.try_into()?;
                Ok(Self::from_wire(i64::from_be_bytes(bytes)))
            }
            PgValueFormat::Text => Err("times are read through prepared statements only".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_wire() {
        for micros in [0, 1, -1, EPOCH, 1_800_000_000_123_456] {
            let time = PgTime(Timestamp::from_micros(micros));
            assert_eq!(PgTime::from_wire(time.to_wire()), time);
        }
    }

    #[test]
    fn infinity_and_prehistory_saturate() {
        assert_eq!(PgTime::from_wire(i64::MAX).0, Timestamp::FAR_FUTURE);
        let prehistoric = PgTime(Timestamp::from_micros(i64::MIN));
        assert_eq!(prehistoric.to_wire(), EARLIEST);
    }
}
