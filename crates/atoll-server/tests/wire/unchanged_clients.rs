//! Clients that were written for Redis or memcached, unchanged: a script for each lies in
//! `tests/clients`, and a client that is not on the machine is skipped.
//!
//! What is not of Python is installed into `target/clients`, by `scripts/clients`.

use crate::common::{Running, TestPool, options, start, start_on, start_with, with_memcached};
use atoll_cache::EngineOptions;
use atoll_server::ServerOptions;
use atoll_sim::requirement::{offered, python_module, redis_py, required};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/");
const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/clients/");

/// A server over a pool, with two threads that serve both protocols.
fn serve() -> Running {
    start_on(&EngineOptions::default(), ServerOptions { threads: 2, ..with_memcached() })
}

/// Something in `target/clients`, for [`offered`].
fn installed(path: &str) -> Result<PathBuf, String> {
    let place = Path::new(INSTALLED).join(path);
    if place.exists() { Ok(place) } else { Err(format!("target/clients/{path} is not there: scripts/clients")) }
}

/// A program that is ended if it takes longer than any of these scripts does.
fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.arg("120").arg(name);
    command
}

fn script(language: &str, name: &str) -> Command {
    let mut command = program(language);
    command.arg(Path::new(SCRIPTS).join(name));
    command
}

fn begin(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end(child: Child) {
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&said));
}

/// Runs a script with the ports of a server: that of Redis, and that of memcached.
fn run(command: &mut Command, server: &Running) {
    end(begin(command.args([server.address.port(), server.memcached().port()].map(|port| port.to_string()))));
}

#[test]
fn redis_py_works() {
    let Some(()) = required("redis-py", redis_py()) else { return };
    // One thread: what it counts shows at once.
    let server = start(options());
    end(begin(script("python3", "redis_py.py").arg(server.address.port().to_string())));
}

#[test]
fn redis_py_works_with_asyncio_and_pools() {
    let Some(()) = required("redis-py", redis_py()) else { return };
    let server = serve();
    end(begin(script("python3", "redis_asyncio.py").arg(server.address.port().to_string())));
}

#[test]
fn redis_pys_own_cache_hears_of_changes() {
    let Some(()) = required("redis-py", redis_py()) else { return };
    let pool = TestPool::new(&EngineOptions::default());
    let servers = [(); 2].map(|()| start_with(options(), pool.process()));
    let ports = servers.each_ref().map(|server| server.address.port().to_string());
    end(begin(script("python3", "redis_py_tracking.py").args(ports)));
}

#[test]
fn pymemcache_works() {
    let Some(()) = required("pymemcache", python_module("pymemcache")) else { return };
    let server = start(with_memcached());
    end(begin(script("python3", "pymemcache_clients.py").arg(server.memcached().port().to_string())));
}

#[test]
fn pylibmc_works() {
    let Some(()) = offered("pylibmc", python_module("pylibmc")) else { return };
    let server = serve();
    end(begin(script("python3", "pylibmc_clients.py").arg(server.memcached().port().to_string())));
}

#[test]
fn django_redis_works() {
    let Some(()) = offered("django", python_module("django_redis")) else { return };
    run(&mut script("python3", "django_redis_cache.py"), &serve());
}

#[test]
fn djangos_own_tests_of_its_caches_pass() {
    let found = ["django", "redis", "pymemcache", "pylibmc"].into_iter().try_for_each(python_module);
    let Some(tests) = offered("django", found.and_then(|()| installed("django/tests"))) else { return };
    let begin_tests = |class: &str| {
        let server = serve();
        let mut command = program("python3");
        command.current_dir(&tests).env("PYTHONPATH", SCRIPTS).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("REDIS_PORT", server.address.port().to_string());
        command.env("MEMCACHED_PORT", server.memcached().port().to_string());
        command.args(["-W", "ignore", "runtests.py", "--settings=django_settings", "--parallel=1"]);
        (begin(command.arg(format!("cache.tests.{class}"))), server)
    };
    // They sleep most of their time, so they run beside each other.
    let classes = ["RedisCacheTests", "PyMemcacheCacheTests", "PyLibMCCacheTests"];
    for (class, (child, _server)) in classes.map(|class| (class, begin_tests(class))) {
        // Some of them expect to be back within the second that a key lives, which a busy machine
        // does not let them: they may run again, alone.
        if !child.wait_with_output().unwrap().status.success() {
            let (child, _server) = begin_tests(class);
            end(child);
        }
    }
}

#[test]
fn celery_keeps_its_results() {
    let found = ["celery", "redis", "pylibmc"].into_iter().try_for_each(python_module);
    let Some(()) = offered("celery", found) else { return };
    run(&mut script("python3", "celery_results.py"), &serve());
}

/// Runs a script of node with a module of `target/clients`.
fn runs_in_node(name: &str, module: &str, file: &str) {
    let Some(_) = offered(name, installed(&format!("node/node_modules/{module}"))) else { return };
    run(script("node", file).env("NODE_PATH", Path::new(INSTALLED).join("node/node_modules")), &serve());
}

#[test]
fn node_redis_works() {
    runs_in_node("node-redis", "redis", "node_redis.cjs");
}

#[test]
fn ioredis_works() {
    runs_in_node("ioredis", "ioredis", "ioredis.cjs");
}

#[test]
fn go_redis_works() {
    let Some(client) = offered("go-redis", installed("go-redis")) else { return };
    run(&mut program(client), &serve());
}

#[test]
fn jedis_works() {
    let Some(jars) = offered("jedis", installed("jedis")) else { return };
    let mut command = program("java");
    command.arg("-cp").arg(jars.join("*")).arg(Path::new(SCRIPTS).join("jedis/Jedis.java"));
    run(&mut command, &serve());
}
