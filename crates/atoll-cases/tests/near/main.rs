//! Coherent near caches: what reads promise, over many seeds, in every interleaving of small cases,
//! and with each guard of the protocol switched off.

mod absences;
mod cache;
mod case;
mod cost;
mod explored;
mod holes;
mod network;
mod object;
mod regular;
mod shared;
mod swarm;
