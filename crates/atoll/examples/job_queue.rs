//! Two processes take jobs from a queue in the pool and share their results: `cargo run --release
//! --example job_queue`.
//!
//! A job is a number, handed out by a counter. What it comes to is stored under the job's name, and
//! a part that several jobs need is worked out by one process: the other one waits for its lease.

use atoll::{Cache, Pool, PoolOptions};
use std::convert::Infallible;
use std::process::Command;
use std::time::Duration;

const JOBS: i64 = 100;
const LEASE: Duration = Duration::from_secs(5);

/// Something expensive that ten jobs each have in common.
fn table_of(cache: &Cache, part: i64) -> Result<u64, Box<dyn std::error::Error>> {
    let load = || {
        std::thread::sleep(Duration::from_millis(20));
        Ok::<_, Infallible>((part as u64 * 1000).to_le_bytes().to_vec())
    };
    let bytes = cache.try_get_with_lease(format!("table:{part}").as_bytes(), LEASE, load)?;
    Ok(u64::from_le_bytes(bytes.as_slice().try_into()?))
}

/// Takes jobs until there are none.
fn work(name: &str) -> Result<(), Box<dyn std::error::Error>> {
    let cache = Cache::builder().build(&Pool::open(name)?)?;
    let mut done = 0;
    loop {
        let job = cache.increment(b"next job", 1)? - 1;
        if job >= JOBS {
            break;
        }
        let result = table_of(&cache, job % 10)? + job as u64;
        cache.set(format!("result:{job}").as_bytes(), &result.to_le_bytes())?;
        done += 1;
    }
    println!("process {}: {done} jobs, {} tables worked out", std::process::id(), cache.statistics().loads);
    cache.increment(b"tables", cache.statistics().loads as i64)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(name) = std::env::args().nth(1) {
        return work(&name);
    }
    let name = format!("shm:/job-queue-{}", std::process::id());
    let pool = Pool::create(&name, &PoolOptions::default().capacity_bytes(16 << 20))?;
    let mut other = Command::new(std::env::current_exe()?).arg(&name).spawn()?;
    let worked = work(&name);
    let ended = other.wait()?;
    let cache = Cache::builder().build(&pool)?;
    let mut right = 0;
    for job in 0..JOBS {
        let result = cache.get(format!("result:{job}").as_bytes())?;
        right += i64::from(result.is_some_and(|result| result == (job as u64 % 10 * 1000 + job as u64).to_le_bytes()));
    }
    let tables = cache.increment(b"tables", 0)?;
    println!("{right} of {JOBS} results are right; {tables} tables were worked out by both");
    drop((cache, pool));
    Pool::remove(&name)?;
    worked?;
    if ended.success() && right == JOBS && tables == 10 { Ok(()) } else { Err("something is wrong".into()) }
}
