//! The suite that every fabric passes.
