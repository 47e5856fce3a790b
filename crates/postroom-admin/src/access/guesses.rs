//! How many wrong tokens somebody may try.
//!
//! Who tries is known by address. Too many different wrong tokens from one, and tokens that never
//! were right there are not even looked at for a while; one that was right goes on to work, so that
//! nobody is locked out by a neighbour. The same wrong token again is no new guess: a script with
//! an old token locks out nobody either.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{ConnectInfo, Request};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::rates::too_many;
use crate::problem::Problem;

const MINUTE: Duration = Duration::from_secs(60);
/// Whoever was right here so long ago is a stranger again.
const REMEMBERED: Duration = Duration::from_hours(24);
/// The most addresses with wrong tokens, and the most that tokens were right at.
const MOST_ADDRESSES: usize = 4_096;

type Hash = [u8; 32];

/// Whoever has one token is at one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address(IpAddr);

impl Address {
    /// Where a request comes from, as far as the server knows: one for all when it does not. A
    /// proxy adds where it got the request from at the end of `X-Forwarded-For`.
    pub(crate) fn of(request: &Request, trusts_proxy: bool) -> Self {
        let named = |text: &str| text.rsplit(',').next().and_then(|last| last.trim().parse().ok());
        let forwarded = || {
            let headers = request.headers().get_all("x-forwarded-for");
            headers.iter().next_back().and_then(|last| named(last.to_str().ok()?))
        };
        let connected = || {
            let info = request.extensions().get::<ConnectInfo<SocketAddr>>();
            info.map(|ConnectInfo(address)| address.ip())
        };
        let address = if trusts_proxy { forwarded() } else { None };
        Self::new(address.or_else(connected).unwrap_or(Ipv6Addr::UNSPECIFIED.into()))
    }

    /// Of IPv6 the network: one machine may have all addresses in it.
    fn new(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
            }
            address @ IpAddr::V4(_) => Self(address),
        }
    }
}

/// Which tokens were tried lately, as hashes.
#[derive(Debug)]
pub(crate) struct Guesses {
    most: usize,
    wrong: Mutex<HashMap<Address, VecDeque<(Instant, Hash)>>>,
    right: Mutex<HashMap<(Address, Hash), Instant>>,
}

impl Guesses {
    /// So many of one address in a minute.
    pub(crate) fn new(most: NonZeroU32) -> Self {
        let most = usize::try_from(most.get()).unwrap_or(usize::MAX);
        Self { most, wrong: Mutex::default(), right: Mutex::default() }
    }

    /// Whose token this is, by `look`; or why nobody looks.
    pub(crate) fn check<T>(
        &self,
        (address, token): (Address, &str),
        now: Instant,
        look: impl FnOnce() -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let hash = Sha256::digest(token).into();
        if !self.was_right(address, hash, now) {
            self.may_guess(address, hash, now)?;
        }
        let found = look();
        match found {
            Some(_) => self.note_right(address, hash, now),
            None => self.note_wrong(address, hash, now),
        }
        Ok(found)
    }

    fn was_right(&self, address: Address, hash: Hash, now: Instant) -> bool {
        let last = locked(&self.right).get(&(address, hash)).copied();
        last.is_some_and(|last| now.duration_since(last) < REMEMBERED)
    }

    fn may_guess(&self, address: Address, hash: Hash, now: Instant) -> Result<(), Problem> {
        let mut all = locked(&self.wrong);
        let Some(wrong) = all.get_mut(&address) else { return Ok(()) };
        wrong.retain(|(at, _)| now.duration_since(*at) < MINUTE);
        let Some((first, _)) = wrong.front() else {
            all.remove(&address);
            return Ok(());
        };
        if wrong.len() < self.most || wrong.iter().any(|(_, known)| *known == hash) {
            return Ok(());
        }
        let wait = MINUTE.saturating_sub(now.duration_since(*first));
        Err(too_many(wait, "too many wrong tokens from this address"))
    }

    fn note_wrong(&self, address: Address, hash: Hash, now: Instant) {
        let mut all = locked(&self.wrong);
        make_room(&mut all, &address, |wrong| {
            wrong.back().map(|(last, _)| *last).filter(|last| now.duration_since(*last) < MINUTE)
        });
        let wrong = all.entry(address).or_default();
        if wrong.iter().all(|(_, known)| *known != hash) {
            wrong.push_back((now, hash));
        }
    }

    fn note_right(&self, address: Address, hash: Hash, now: Instant) {
        let mut all = locked(&self.right);
        make_room(&mut all, &(address, hash), |last| {
            Some(*last).filter(|last| now.duration_since(*last) < REMEMBERED)
        });
        all.insert((address, hash), now);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets what is over, or else what is oldest, before a new key comes into a full map.
fn make_room<K, V>(all: &mut HashMap<K, V>, key: &K, last: impl Fn(&V) -> Option<Instant>)
where
    K: Copy + Eq + std::hash::Hash,
{
    if all.len() < MOST_ADDRESSES || all.contains_key(key) {
        return;
    }
    all.retain(|_, value| last(value).is_some());
    if all.len() < MOST_ADDRESSES {
        return;
    }
    let oldest = all.iter().min_by_key(|(_, value)| last(value)).map(|(key, _)| *key);
    if let Some(oldest) = oldest {
        all.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    const MOST: usize = 3;

    fn guesses() -> Guesses {
        Guesses::new(NonZeroU32::new(MOST as u32).expect("not zero"))
    }

    fn at(address: &str) -> Address {
        Address::new(address.parse().expect("an address"))
    }

    /// `right` is the token; whether it was let in, or not looked at.
    fn tries(guesses: &Guesses, address: Address, token: &str, now: Instant) -> Option<bool> {
        let look = || (token == "right").then_some(());
        guesses.check((address, token), now, look).ok().map(|found| found.is_some())
    }

    #[test]
    fn x17_after_too_many_wrong_tokens_no_new_one_is_looked_at() {
        let (guesses, here, now) = (guesses(), at("192.0.2.1"), Instant::now());
        for n in 0..MOST {
            assert_eq!(tries(&guesses, here, &format!("wrong {n}"), now), Some(false));
        }
        assert_eq!(tries(&guesses, here, "one more", now), None);
        assert_eq!(tries(&guesses, here, "right", now), None, "a lucky guess would not be seen");
        assert_eq!(tries(&guesses, here, "wrong 1", now), Some(false), "no new guess");
        assert_eq!(tries(&guesses, at("192.0.2.2"), "right", now), Some(true), "others may");
        assert_eq!(tries(&guesses, here, "right", now + MINUTE), Some(true), "a minute later");
    }

    #[test]
    fn x17_who_was_right_is_not_locked_out_by_neighbours() {
        let (guesses, here, now) = (guesses(), at("192.0.2.1"), Instant::now());
        assert_eq!(tries(&guesses, here, "right", now), Some(true));
        for n in 0..100 {
            tries(&guesses, here, &format!("wrong {n}"), now);
        }
        assert_eq!(tries(&guesses, here, "one more", now), None);
        assert_eq!(tries(&guesses, here, "right", now), Some(true));
        for _ in 0..100 {
            let again = tries(&guesses, at("192.0.2.2"), "an old token", now);
            assert_eq!(again, Some(false), "always the same one");
        }
        assert_eq!(tries(&guesses, at("192.0.2.2"), "right", now), Some(true));
    }

    #[test]
    fn x17_what_is_remembered_of_guesses_is_bounded() {
        let (guesses, start) = (guesses(), Instant::now());
        for n in 0..MOST_ADDRESSES as u32 + 100 {
            let address = Address::new(IpAddr::from(n.to_be_bytes()));
            let now = start + Duration::from_millis(n.into());
            for token in 0..MOST + 2 {
                tries(&guesses, address, &format!("wrong {token}"), now);
            }
            tries(&guesses, address, "right", now);
            guesses.note_right(address, [0; 32], now);
        }
        let wrong = guesses.wrong.lock().unwrap();
        assert_eq!(wrong.len(), MOST_ADDRESSES);
        assert!(wrong.values().all(|wrong| wrong.len() <= MOST));
        assert!(!wrong.contains_key(&at("0.0.0.0")), "the oldest is forgotten");
        assert_eq!(guesses.right.lock().unwrap().len(), MOST_ADDRESSES);
    }

    #[test]
    fn x17_an_address_is_that_of_the_client_as_far_as_it_is_known() {
        let request = |forwarded: &[&str]| {
            let mut request = Request::builder().uri("/");
            for one in forwarded {
                request = request.header("x-forwarded-for", *one);
            }
            let mut request = request.body(Body::empty()).unwrap();
            let proxy: SocketAddr = "192.0.2.9:1".parse().unwrap();
            request.extensions_mut().insert(ConnectInfo(proxy));
            request
        };
        let proxied = request(&["203.0.113.1", "203.0.113.2, 203.0.113.3"]);
        assert_eq!(Address::of(&proxied, true), at("203.0.113.3"), "what the proxy itself saw");
        assert_eq!(Address::of(&proxied, false), at("192.0.2.9"), "anybody can say that");
        assert_eq!(Address::of(&request(&["nonsense"]), true), at("192.0.2.9"));
        assert_eq!(at("2001:db8:1:2:3::4"), at("2001:db8:1:2::"), "one network");
        assert_ne!(at("2001:db8:1:3::"), at("2001:db8:1:2::"));
        assert_eq!(at("::ffff:192.0.2.9"), at("192.0.2.9"));
    }
}
