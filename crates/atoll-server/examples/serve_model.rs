//! Serves an in-memory map, to measure the server without a pool behind it: `serve_model PORT
//! [METRICS-ADDRESS [MEMCACHED-ADDRESS]]`.

use atoll_cache::{Cache, model::Model};
use atoll_fabric::Clock;
use atoll_server::serve::Both;
use atoll_server::{Memcached, PoolFacts, Redis, ServeError, ServerOptions};
use std::convert::Infallible;

fn main() -> Result<(), ServeError> {
    let mut args = std::env::args().skip(1);
    let port = args.next().and_then(|port| port.parse().ok()).unwrap_or(6390);
    let mut address = || args.next().and_then(|address| address.parse().ok());
    let options = ServerOptions { port: Some(port), metrics: address(), second: address(), ..ServerOptions::default() };
    let facts = PoolFacts {
        fabric: "none".to_owned(),
        engine: "model".to_owned(),
        experts: None,
        capacity_bytes: Box::new(|| 0),
        provided_bytes: Box::new(|| 0),
        used_bytes: Box::new(|| 0),
        wall_clock_ahead_ms: Box::new(|| 0),
        nodes_absent: Box::new(|| 0),
        try_join: Box::new(|| Ok(())),
        near: Box::new(|| None),
    };
    let redis = Redis::default();
    let memcached = Memcached::new(&redis);
    atoll_server::serve(Both::new(redis, memcached), options, facts, |_| {
        Ok::<_, Infallible>(Cache::new(Model::new(Clock::host())))
    })
}
