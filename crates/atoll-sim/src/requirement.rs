//! What a test needs of the machine beside the workspace: a redis-server, a memcached, Python
//! modules, the shared traces.
//!
//! A test without what it needs shows nothing, so it fails and says what to install.
//! `ATOLL_TEST_SKIP` names what the machine may lack, separated by commas. Tests that need it are
//! skipped then.
//!
//! Clients of other languages are many: a test without its client is skipped, and says what to
//! install. With `ATOLL_TEST_NEED=clients` it fails, too; `./check` says so.
//!
//! | name | what is needed | who installs it |
//! |---|---|---|
//! | `redis-server` | redis-server 7 on the path | `./check`, by apt-get |
//! | `redis-py` | python3 with the module `redis` | `./check`, by pip |
//! | `memcached` | memcached 1.6 on the path | `./check`, by apt-get |
//! | `pymemcache` | python3 with the module `pymemcache` | `./check`, by pip |
//! | `django`, `celery`, `pylibmc` | python3 with the modules of that name; `django-redis`, and Django's tests | `./check`, by pip |
//! | `node-redis`, `ioredis`, `go-redis`, `jedis` | node, go or java with the client | `./check`, by npm, go or maven |
//! | `redis-exporter` | redis_exporter on the path | `./check`, by apt-get |
//! | `traces` | `../shared/traces` beside the checkout | no command: they are not published |
//! | `fuzz` | a nightly compiler with cargo-fuzz | `./check`, by rustup and cargo |

use std::io::Write;

const SKIP: &str = "ATOLL_TEST_SKIP";
const NEED: &str = "ATOLL_TEST_NEED";

/// What was found; `None`, with the reason printed, if it is missing and the environment permits
/// that.
///
/// # Panics
///
/// If it is missing and `ATOLL_TEST_SKIP` does not name it. `found` says what to do then.
pub fn required<T>(name: &str, found: Result<T, String>) -> Option<T> {
    judged(name, found, &std::env::var(SKIP).unwrap_or_default())
}

/// What was found; `None`, with a line on the error output, if it is missing and the environment
/// does not demand clients.
///
/// # Panics
///
/// If it is missing, `ATOLL_TEST_NEED` is `clients`, and `ATOLL_TEST_SKIP` does not name it.
pub fn offered<T>(name: &str, found: Result<T, String>) -> Option<T> {
    if std::env::var(NEED).is_ok_and(|need| need == "clients") {
        return required(name, found);
    }
    found.map_err(|missing| writeln!(std::io::stderr(), "skipped: {missing}")).ok()
}

fn judged<T>(name: &str, found: Result<T, String>, skipped: &str) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(missing) if skipped.split(',').any(|skipped| skipped.trim() == name) => {
            println!("skipped, as {SKIP} says: {missing}");
            None
        }
        Err(missing) => panic!("{missing}; with {SKIP}={name} this test is skipped"),
    }
}

/// Python with the module `redis`, for [`required`].
pub fn redis_py() -> Result<(), String> {
    python_module("redis")
}

/// Python with this module, for [`required`].
pub fn python_module(name: &str) -> Result<(), String> {
    match std::process::Command::new("python3").args(["-c", &format!("import {name}")]).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(_) => Err(format!("python3 has no module {name}: python3 -m pip install {name}")),
        Err(error) => Err(format!("python3 is not installed: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_used_whatever_may_be_skipped() {
        assert_eq!(judged("redis-py", Ok(7), "redis-py"), Some(7));
    }

    #[test]
    fn what_is_missing_is_skipped_only_if_it_is_named() {
        let missing = || Err::<(), _>("there is none".to_owned());
        assert_eq!(judged("traces", missing(), "redis-server, traces"), None);
        let refused = std::panic::catch_unwind(|| judged("traces", missing(), "redis-server,trace")).unwrap_err();
        let said = refused.downcast_ref::<String>().unwrap();
        assert!(said.contains("there is none") && said.contains("ATOLL_TEST_SKIP=traces"), "{said}");
    }
}
