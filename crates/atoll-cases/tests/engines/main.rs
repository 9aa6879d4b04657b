//! What holds for every engine, one program for all suites: the engines are compiled once for them.
//!
//! | module | what it shows |
//! |---|---|
//! | `promises` | promises 1, 4 and 5, over many seeds |
//! | `interleavings` | promises 1 and 4, in every interleaving of small cases |
//! | `expiry` | promise 2, with clocks that are wrong |
//! | `shared_memory` | promises 1, 5 and 6, on shared memory |
//! | `holes` | each hole that several engines can have, opened, is seen |
//! | `orders` | rare orders, made on purpose |
//! | `staged` | values that are stored while they arrive |
//! | `stands_still` | a client that stands still delays no other |
//! | `hot_key` | clients that set one key do not wait for each other |
//! | `idle` | what idle clients cost |
//! | `in_flight` | clients with many operations under way |
//! | `dropped` | futures that are dropped on the way |
//! | `resizing` | no verb touches memory that was given back |
//! | `absences` | a memory node that ends and comes back empty |
//! | `misses` | why a lookup finds nothing |
//! | `limits` | limits at their edges |
//! | `free_chunks` | searches for a free chunk |
//! | `hostile` | any bytes in the pool: values of the key, misses or errors |
//! | `any_bytes` | any bytes for the decoders (`decoders`, which the fuzz targets share) |
//!
//! `cargo test -p atoll-cases --test engines orders::` runs one of them.

mod absences;
mod any_bytes;
mod attributes;
mod cut_off;
mod decoders;
mod dropped;
mod expiry;
mod free_chunks;
mod holes;
mod hostile;
mod hot_key;
mod idle;
mod in_flight;
mod interleavings;
mod limits;
mod misses;
mod orders;
mod promises;
mod resizing;
mod shared_memory;
mod staged;
mod stands_still;
