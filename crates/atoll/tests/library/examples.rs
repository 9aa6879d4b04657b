//! The examples run, and do what they say.

use std::process::Command;

/// What an example prints. They are built with the tests.
fn run(name: &str) -> String {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    let output = Command::new(path.join("examples").join(name)).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn web_workers_ask_the_database_once_for_each_user() {
    assert!(run("web_workers").contains("the database was asked 10 times"));
}

#[test]
fn an_async_service_asks_upstream_once_for_each_price() {
    assert!(run("async_service").contains("upstream gave 9 prices"));
}

#[test]
fn two_processes_share_a_queue_and_its_results() {
    let text = run("job_queue");
    assert!(text.contains("100 of 100 results are right; 10 tables were worked out by both"), "{text}");
}

#[test]
fn two_processes_share_a_cache() {
    assert!(run("two_processes").contains("the child answered Some(\"42\")"));
}
