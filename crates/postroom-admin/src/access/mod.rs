//! Who may do what.

pub(crate) mod guard;
pub(crate) mod guesses;
pub(crate) mod origin;
pub(crate) mod rates;
pub(crate) mod session;

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// What a person may do. Each role may do what the one before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Look.
    Viewer,
    /// Replay, discard, pause, resume, publish.
    Operator,
    /// Purge and read the audit log.
    Admin,
}

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// To look at everything but payloads.
    View,
    /// To see payloads and the values of headers.
    Payload,
    /// To act on messages and topics.
    Operate,
    /// To purge and to read the audit log.
    Administer,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::View => "view",
            Self::Payload => "see payloads",
            Self::Operate => "operate",
            Self::Administer => "administer",
        })
    }
}

/// Who makes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The name of the token, for the audit log.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// Whether they may see payloads.
    pub payloads: bool,
}

impl Person {
    /// Whether they may do what a request needs.
    #[must_use]
    pub fn may(&self, right: Right) -> bool {
        match right {
            Right::View => true,
            Right::Payload => self.payloads,
            Right::Operate => self.role >= Role::Operator,
            Right::Administer => self.role >= Role::Admin,
        }
    }
}

/// A token, kept as its hash.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    hash: [u8; 32],
    person: Person,
}

impl Token {
    /// A secret that makes whoever has it this person. It should be long and random: nothing but
    /// its length keeps others from guessing it.
    #[must_use]
    pub fn new(secret: &str, person: Person) -> Self {
        Self { hash: Sha256::digest(secret).into(), person }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("person", &self.person).finish_non_exhaustive()
    }
}

/// Who is let in.
#[derive(Clone, Debug)]
pub enum Access {
    /// Everybody who can reach it, as this person. Only for a loopback address, or behind something
    /// that lets nobody else through.
    Open(Person),
    /// Who has one of these tokens.
    Tokens(Vec<Token>),
}

impl Access {
    /// Everybody who can reach it may do everything: for a loopback address.
    #[must_use]
    pub fn local() -> Self {
        Self::Open(Person { name: "local".into(), role: Role::Admin, payloads: true })
    }

    /// Whose secret this is. Every token is compared, in constant time.
    #[must_use]
    pub(crate) fn person(&self, secret: Option<&str>) -> Option<&Person> {
        let tokens = match self {
            Self::Open(person) => return Some(person),
            Self::Tokens(tokens) => tokens,
        };
        let hash: [u8; 32] = Sha256::digest(secret?).into();
        tokens.iter().fold(None, |found, token| {
            let is_it = bool::from(token.hash.ct_eq(&hash));
            if is_it { Some(&token.person) } else { found }
        })
    }
}
