//! Postroom.

pub use postroom_core::*;
pub use postroom_derive::Event;
