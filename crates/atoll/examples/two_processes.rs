//! Two processes share a cache: `cargo run --release --example two_processes`.
//!
//! The parent makes a named pool and a value; the child, another process, opens the pool by its
//! name, reads the value and answers.

use atoll::{Pool, PoolOptions};
use std::process::Command;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(name) = std::env::args().nth(1) {
        return child(&name);
    }
    let name = format!("shm:/two-processes-{}", std::process::id());
    let pool = Pool::create(&name, &PoolOptions::default().capacity_bytes(16 << 20))?;
    let mut cache = pool.client()?;
    cache.set(b"question", b"six times seven")?;
    let status = Command::new(std::env::current_exe()?).arg(&name).status()?;
    let answer = cache.get(b"answer")?.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    println!("parent {}: the child answered {answer:?}", std::process::id());
    drop((cache, pool));
    Pool::remove(&name)?;
    if status.success() && answer.as_deref() == Some("42") { Ok(()) } else { Err("no answer".into()) }
}

fn child(name: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut cache = Pool::open(name)?.client()?;
    let question = cache.get(b"question")?.ok_or("the question is gone")?.to_vec();
    println!("child {}: the parent asks {:?}", std::process::id(), String::from_utf8_lossy(&question));
    cache.set(b"answer", b"42")?;
    Ok(())
}
