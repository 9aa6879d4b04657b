//! The table of objects and what stands on it (`ditto`, `kvs`, the queues), one program for all its
//! suites: the engines are compiled once for them.
//!
//! | module | what it shows |
//! |---|---|
//! | `sim` | what is promised, on the simulated fabric, under every liberty of the contract and all faults |
//! | `explored` | the same in every interleaving of small cases |
//! | `holes` | each hole of the prototype, opened, is seen |
//! | `expiry` | what has expired goes in time |
//! | `stay` | what fits stays |
//! | `size_classes` | objects of all sizes have their part of the memory |
//! | `shm` | on shared memory, by one thread and by several |
//!
//! `cargo test -p atoll-cases --test table stay::` runs one of them.

mod expiry;
mod explored;
mod holes;
mod shm;
mod sim;
mod size_classes;
mod stay;
