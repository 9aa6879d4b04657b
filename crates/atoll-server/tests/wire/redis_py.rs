//! redis-py as a client.

use crate::common;
use atoll_sim::requirement::{redis_py, required};
use std::process::Command;

#[test]
fn redis_py_works() {
    let Some(()) = required("redis-py", redis_py()) else { return };
    let server = common::start(common::options());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wire/redis_py.py");
    let output = Command::new("python3").args([script, &server.address.port().to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
