//! A scenario over many seeds, and the command that replays one.
//!
//! | variable | effect |
//! |---|---|
//! | `ATOLL_SIM_SEED` | only this seed |
//! | `ATOLL_SIM_SEEDS` | so many seeds, instead of the test's own number |
//! | `ATOLL_SIM_FIRST` | from this seed on, instead of 0: fresh seeds for a nightly run |
//! | `ATOLL_SIM_STRICT` | switches these relaxations and faults off: `all`, or names as in [`strict`](crate::strict) |
//! | `ATOLL_SIM_TRACE` | a failing run prints its last so many events |
//!
//! What tests need beside the workspace, and how to skip those that miss it:
//! [`requirement`](crate::requirement).

/// Calls `scenario` for `count` seeds, or for what the environment says.
pub fn for_each_seed(count: u64, mut scenario: impl FnMut(u64)) {
    if let Some(seed) = variable("ATOLL_SIM_SEED") {
        return scenario(seed);
    }
    let first = variable("ATOLL_SIM_FIRST").unwrap_or(0);
    let count = variable("ATOLL_SIM_SEEDS").unwrap_or(count);
    (first..first.saturating_add(count)).for_each(&mut scenario);
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`, which is no number")))
}

/// The command that runs the present test again with `seed`.
pub fn replay_command(seed: u64) -> String {
    let package = std::env::var("CARGO_PKG_NAME").map_or(String::new(), |name| format!(" -p {name}"));
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").unwrap_or("");
    format!("ATOLL_SIM_TRACE=200 ATOLL_SIM_SEED={seed} cargo test{package} {test} -- --nocapture")
}
