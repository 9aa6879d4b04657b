//! The library as its users call it. One test program, since each would compile the engines anew.

#![forbid(unsafe_code)]

mod ahead;
mod examples;
mod listener;
mod near;
mod shared;
#[cfg(feature = "tcp")]
mod tcp;
mod waits;
