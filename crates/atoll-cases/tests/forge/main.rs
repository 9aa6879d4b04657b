//! `forge`, one program for all its suites: the engines are compiled once for them.
//!
//! | module | what it shows |
//! |---|---|
//! | `sim` | what is promised, on the simulated fabric, under every liberty of the contract |
//! | `crashes` | the same while clients die and stand still anywhere |
//! | `holes` | each hole of the prototypes, opened, is seen |
//! | `torn_words` | words of one READ are of different moments |
//! | `variants` | what is promised depends on none of its techniques |
//! | `glcache` | with the learned rule |
//! | `expiry` | what has expired goes in time |
//! | `fits` | what fits stays |
//! | `timed` | what verbs cost, in virtual time |
//! | `shm` | on shared memory, by one thread |
//! | `processes` | on shared memory, by processes of several threads, checked by their common history (`ticketed`) |
//!
//! `cargo test -p atoll-cases --test forge crashes::` runs one of them.

mod crashes;
mod expiry;
mod fits;
mod glcache;
mod holes;
mod processes;
mod shm;
mod sim;
mod ticketed;
mod timed;
mod torn_words;
mod variants;
