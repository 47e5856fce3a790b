//! Random operations on a real store and on the reference, compared step by step.
