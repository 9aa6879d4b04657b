//! What holds for every engine, one program for all suites: the engines are compiled once for them.
//!
//! | module | what it shows |
//! |---|---|
//! | `orders` | rare orders, made on purpose |
//! | `stands_still` | a client that stands still is in nobody's way |
//! | `hot_key` | clients that set one key do not wait for each other |
//! | `idle` | what clients cost that do nothing |
//! | `in_flight` | clients with many operations under way |
//! | `dropped` | futures that are dropped on the way |
//! | `resizing` | no verb touches memory that was given back |
//! | `limits` | limits at their edges |
//! | `free_chunks` | searches for a free chunk |
//! | `hostile` | any bytes in the pool: values of the key, misses or errors |
//! | `any_bytes` | any bytes for the decoders (`decoders`, which the fuzz targets share) |
//!
//! `cargo test -p atoll-cases --test engines orders::` runs one of them.

mod any_bytes;
mod decoders;
mod dropped;
mod free_chunks;
mod hostile;
mod hot_key;
mod idle;
mod in_flight;
mod limits;
mod orders;
mod resizing;
mod stands_still;
