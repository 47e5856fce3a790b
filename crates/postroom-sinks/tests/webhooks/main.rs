//! Webhooks against real receivers on loopback, some of which misbehave.

#![cfg(feature = "http")]

mod addresses;
mod answers;
mod encrypted;
mod events;
mod misbehaviour;
mod receiver;
mod signatures;
mod suite;
