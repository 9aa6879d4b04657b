//! The program as its users type it. One test program, since each would compile the engines anew.

#![forbid(unsafe_code)]

mod advise;
mod binary;

mod clock;
mod deploy;
mod doctor;
mod engines;
mod far;
mod full_host;
mod growth;
#[cfg(feature = "lab")]
mod lab;
mod logs;
mod namespaces;
mod near;
mod pool;
mod reboot;
mod serve;
mod settings;
mod start;
mod tcp;
mod top;
mod two_machines;
