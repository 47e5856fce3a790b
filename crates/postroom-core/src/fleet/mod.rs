//! Many stores in one process: who they are, whose turn it is, and which one a message belongs to.
//!
//! - [`Discovery`] says which stores there are; [`Stores`] keeps the list and the open handles.
//! - [`Fleet`] delivers the messages of all of them, in [room](FleetConfig::places) that they
//!   share; a [`Strategy`] decides who fills it next.
//! - [`Router`] finds the outbox of a tenant.
//! - [`Home`] is where the processes of a fleet divide its stores among themselves.
//!
//! What is here costs something for each store that is listed, but nothing waits for one: a store
//! that can not be opened, is slow or hangs keeps its own messages waiting and no others.

mod crew;
mod home;
mod identities;
mod list;
mod member;
pub(crate) mod room;
mod router;
mod run;
mod stores;
mod strategy;
mod watcher;

pub use home::{Home, Share, ShareRequest, divide};
pub use list::{Discovery, Listed};
pub use member::{MemberState, MemberStatus};
pub use router::{Router, RoutingKey};
pub use run::{Fleet, FleetConfig, Refreshed, RunningFleet};
pub use stores::{Opened, Opener, Stores};
pub use strategy::{DrainFirst, FairShare, RoundRobin, Strategy, Waiting};
pub use watcher::Watcher;

pub use crate::text::StoreId;
