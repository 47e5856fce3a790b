//! The admin API through its router, on a SQLite file.

mod access;
mod acts;
mod browse;
mod described;
mod fuzz;
mod jobs;
mod world;
