//! redis-py as a client. Skipped, with a printed reason, where python3 or its redis module is missing.

mod common;

use std::process::Command;

#[test]
fn redis_py_works() {
    match Command::new("python3").args(["-c", "import redis"]).output() {
        Ok(output) if output.status.success() => {}
        Ok(_) => return println!("skipped: python3 has no module redis (python3 -m pip install redis)"),
        Err(error) => return println!("skipped: python3 is not installed ({error})"),
    }
    let server = common::start(common::options());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/redis_py.py");
    let output = Command::new("python3").args([script, &server.address.port().to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
