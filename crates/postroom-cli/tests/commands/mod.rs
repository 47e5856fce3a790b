//! What needs no server: outputs, help, the manual.

mod outputs;
