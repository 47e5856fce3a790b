//! The engine on the store in memory, most of it on a clock that is moved by hand. One binary,
//! because most of the time that it takes to build one is the same for each.

mod dispatcher;
mod documents;
mod fleet;
mod hot_path;
mod inbox;
mod observe;
mod order;
mod outages;
mod pause;
mod poll;
mod report;
mod simulation;
mod topics;
