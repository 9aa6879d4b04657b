//! What a server says on the wire: to a real redis-server beside it, to clients, to bytes that were
//! never meant for it. One program, since each would compile a server anew.

mod common;

mod acl;
mod administration;
mod clients;
mod differential;
mod documented;
mod downloads;
mod events;
mod hashes;
mod hyperloglog;
mod info;
mod limits;
mod lines;
mod locked_keys;
mod memcached;
mod memcached_differential;
mod memcached_parser;
mod monitor;
mod objects;
mod one_step;
mod parser;
mod pubsub;
mod redis_crate;
mod redis_exporter;
mod redis_sessions;
mod script_types;
mod scripts;
mod server;
mod slow;
mod tls;
mod tracking;
mod unchanged_clients;
mod uploads;
mod waiting;
