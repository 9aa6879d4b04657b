//! The table of objects and what stands on it (`ditto`, `kvs`, the queues), one program for all its
//! suites: the engines are compiled once for them. What holds for every engine is in the program
//! `engines`.
//!
//! | module | what it shows |
//! |---|---|
//! | `holes` | each hole of the prototype, opened, is seen |
//! | `expiry` | expired objects are removed in time |
//! | `stay` | what fits stays |
//! | `size_classes` | objects of all sizes have their share of the memory |
//! | `shm` | shared memory |
//!
//! `cargo test -p atoll-cases --test table stay::` runs one of them.

mod expiry;
mod holes;
mod shm;
mod size_classes;
mod stay;
