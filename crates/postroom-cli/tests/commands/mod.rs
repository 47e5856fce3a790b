//! What needs no server: outputs, stops, the manual.

mod outputs;
mod stops;
