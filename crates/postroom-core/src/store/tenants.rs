//! Tenants that take turns: the arithmetic that every store shares.
//!
//! A fair claim goes from tenant to tenant, by the hash of the tenant's name from the highest down,
//! and around, from behind the one where the claim before stopped. Of those that have something to
//! take it visits at most [`TENANTS`] and divides its room among them in equal [parts](part).
//! Within its part a tenant's messages come by priority and place, as in any claim. The first ones
//! of all tenants come before the second ones.
//!
//! What a tenant leaves of its part goes to the others, in a further round: of those tenants that
//! have more, and of those that were not visited before. So a claim ends when it is full or when
//! nobody has anything left. Messages without a tenant are one [tenant](NOBODY).

/// The most tenants that one round visits.
pub const TENANTS: u32 = 64;

/// The most tenants with waiting messages that one round looks at to find those that came due.
pub const LOOKS: u32 = 256;

/// So many rounds that take nothing, one after the other, end a claim: everything was looked at, or
/// others hold it.
const FRUITLESS: u32 = 64;

/// The tenant of messages without one, behind all others. A hash that is this number by chance is
/// taken for it, which costs that tenant a part of its own and nothing else.
pub const NOBODY: i64 = i64::MIN;

/// A message's tenant by the hash of its name.
#[must_use]
pub fn tenant_of(hash: Option<i64>) -> i64 {
    hash.unwrap_or(NOBODY)
}

/// How many tenants a round visits at most.
#[must_use]
pub fn tenants_wanted(room: u32) -> u32 {
    room.min(TENANTS)
}

/// How many items the tenant that comes as number `place`, from 0, of `tenants` may give.
#[must_use]
pub fn part(room: u32, tenants: u32, place: u32) -> u32 {
    let tenants = tenants.max(1);
    room / tenants + u32::from(place < room % tenants)
}

/// What a round saw and took.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// The first tenant that it visited.
    pub first: Option<i64>,
    /// Where it ended.
    pub last: Option<i64>,
    /// Whether it visited every tenant that has something to take.
    pub was_all: bool,
    /// Whether a tenant used all of its part and may have more.
    pub is_more: bool,
    /// How many items it took.
    pub taken: u32,
}

/// One claim's way around the tenants.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    after: i64,
    fruitless: u32,
}

impl Default for Rotation {
    /// Starts with the first tenant.
    fn default() -> Self {
        Self::behind(i64::MIN)
    }
}

impl Rotation {
    /// Starts behind this tenant.
    #[must_use]
    pub fn behind(tenant: i64) -> Self {
        Self { after: tenant, fruitless: 0 }
    }

    /// The tenant behind which the next round begins, and the next claim after this one.
    #[must_use]
    pub fn after(&self) -> i64 {
        self.after
    }

    /// Takes note of a round that left so much room. Answers whether there should be another.
    pub fn go_on(&mut self, round: Round, room: u32) -> bool {
        // After all of them, another one is the first of the next round: it has what can not be
        // divided.
        let here = if round.was_all { round.first } else { round.last };
        self.after = here.unwrap_or(self.after);
        self.fruitless = if round.taken == 0 { self.fruitless + 1 } else { 0 };
        let is_more = !round.was_all || round.is_more && round.taken > 0;
        room > 0 && is_more && self.fruitless < FRUITLESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Round =
        Round { first: Some(9), last: Some(3), was_all: true, is_more: false, taken: 5 };

    #[test]
    fn fleet_6_the_parts_fill_the_room_and_differ_by_one_at_most() {
        for room in 1..300 {
            for tenants in 1..=tenants_wanted(room) {
                let parts: Vec<_> = (0..tenants).map(|place| part(room, tenants, place)).collect();
                assert_eq!(parts.iter().sum::<u32>(), room);
                assert!(parts[0] - parts[parts.len() - 1] <= 1 && parts[parts.len() - 1] > 0);
            }
        }
    }

    #[test]
    fn fleet_6_a_claim_goes_on_while_it_has_room_and_somebody_has_more() {
        let mut rotation = Rotation::default();
        assert!(!rotation.go_on(ROUND, 7), "nobody has more");
        assert_eq!(rotation.after(), 9, "the second one is the next to be first");
        assert!(rotation.go_on(Round { is_more: true, ..ROUND }, 7));
        assert!(!rotation.go_on(Round { is_more: true, ..ROUND }, 0), "it is full");
        assert!(rotation.go_on(Round { was_all: false, ..ROUND }, 7));
        assert_eq!(rotation.after(), 3, "others come first");
    }

    #[test]
    fn fleet_6_a_claim_ends_when_others_hold_everything() {
        let mut rotation = Rotation::default();
        let nothing = Round { was_all: false, taken: 0, ..ROUND };
        let rounds = (0..1_000).take_while(|_| rotation.go_on(nothing, 7)).count();
        assert_eq!(rounds as u32, FRUITLESS - 1);
        assert!(!Rotation::default().go_on(Round { is_more: true, taken: 0, ..ROUND }, 7));
    }
}
