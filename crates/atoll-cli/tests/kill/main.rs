//! Processes that die under load. A program of its own: these tests need the cores for themselves.

#![forbid(unsafe_code)]

#[allow(dead_code, reason = "these tests use a part")]
#[path = "../program/binary.rs"]
mod binary;

mod kill;
