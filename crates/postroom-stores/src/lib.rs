//! Placeholder until its first content lands.
