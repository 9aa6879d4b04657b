//! pymemcache as a client.

use crate::common::{start, with_memcached};
use atoll_sim::requirement::{python_module, required};
use std::process::Command;

#[test]
fn pymemcache_works() {
    let Some(()) = required("pymemcache", python_module("pymemcache")) else { return };
    let server = start(with_memcached());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wire/memcached_clients.py");
    let output = Command::new("python3").args([script, &server.memcached().port().to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
