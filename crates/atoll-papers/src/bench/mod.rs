//! The bench: what all experiments on the simulated network have in common. The protocol code is
//! the code that also runs on real memory.
//!
//! An [`Experiment`] is a file that states its axes, its systems and what its paper prints. What
//! holds for all of them, after FORGE's section 6.1 where it says something (the figures of Ditto's
//! paper differ: see `ditto`):
//!
//! - **Testbed**: three compute nodes and, unless said otherwise, one memory node, on the profile
//!   `cx5-100g`. Threads are spread over the compute nodes. Threads of one node share a process. A
//!   thread has a processor of its own.
//! - **Closed loop**: a thread has one operation in flight, unless said otherwise, and begins the
//!   next when that has ended. In an open loop (`atoll lab sweep --rate`) requests arrive at
//!   random, and their latency counts from when they were to begin.
//! - **Warm-up**: the first fifth of every thread's requests is not counted, as in the paper. The
//!   cache is empty before it.
//! - **End**: counting ends when the first thread has no request left. All threads are at work
//!   until then.
//! - **On-demand fill**: a GET that misses is followed by a SET of the key. The SET is not counted
//!   as a request. Its time is part of the GET's latency and of the run, its verbs are part of the
//!   traffic.
//! - **Hit ratio**: GETs that hit over all GETs.
//! - **SCAN**: as many GETs of consecutive keys, one after the other. Each counts as a request. The
//!   paper does not say how it counts them. A read-modify-write is a GET and a SET and counts once.
//! - **Cache size**: all memory of the pool with its metadata and what clients hold open, as a
//!   share of the bytes of all keys and values that the load asks for. The paper's sizes are of the
//!   objects alone.
//! - **Objects** of FORGE's figures have 224 bytes of key and value: with its header an object then
//!   takes one block of 256 bytes, as in the prototypes of FORGE and Ditto.
//! - **Groups**: of at most 64 objects, as in the paper. A chunk is the largest power of two that
//!   these fill (16 KiB for objects of 224 bytes, which holds 64). It is smaller where the cache
//!   would have fewer than sixteen chunks a thread, but holds at least eight objects. Full runs
//!   have so many keys that groups are full ones; every result says how many objects its groups
//!   hold.
//! - **Evictions** are made by the thread that needs room. FORGE's paper takes them off the way of
//!   operations. `atoll lab sweep --evictors` does so, and shows what that changes here: YCSB A and
//!   C of 800 000 keys on `forge`, `forge-paper` and GLCache-DM have the same hit ratio within 0.3
//!   points, and the same P99 within 3 % at 128 threads; at 32 threads P99 of YCSB A is up to 8 %
//!   lower. One eviction makes room for many operations, so that few of them wait for it.
//! - **Numbers of keys and requests** are scaled down from the paper's 100 million requests, so
//!   that an experiment ends within twenty minutes on two cores. Each experiment says to what. The
//!   paper does not print its number of keys.
//! - **Repeatable**: the same options give the same digits.
//!
//! Beside a result stands what the paper's text or tables print for it. The paper's plots are
//! pictures, and nothing is read off them: most results have nothing beside them.
//!
//! | module | concept |
//! |---|---|
//! | [`experiment`] | an experiment, its options and its findings |
//! | [`sweep`] | lines of points over the same places: measured, and as figures |
//! | [`measured`] | a point, measured |
//! | [`setup`] | what a point runs on |
//! | [`sizes`] | the pool of a cache of this many bytes |
//! | [`loads`] | the loads of the papers' figures |
//! | [`footprint`] | the keys and bytes of a load |
//! | [`tenants`] | traces of few keys, for several tenants; objects of one size |
//! | [`baseline`] | the systems that FORGE is compared with |
//! | [`named`] | the engines that a user names |
//! | [`networks`] | other networks than the papers': the user's own, or one constant changed |
//! | [`record`] | what a run notes beside its figures |
//! | [`sensitivity`] | an experiment at half and twice of each assumed constant |
//! | [`ablation`] | an engine with one technique more, or less, from step to step |
//! | [`tuning`] | switches of the clients' engines |
//! | [`processor`] | the memory node's cores, for systems that need them |
//! | `point` | a point as a simulation, its threads and phases |
//! | `client` | a thread of a point |
//! | `tally` | what the threads of a point count |
//! | `system` | the engines that a point can run on |
//! | `in_flight` | an experiment of no paper: several operations of a thread at a time |

pub mod ablation;
pub mod baseline;
pub(crate) mod client;
pub mod experiment;
pub mod footprint;
pub(crate) mod in_flight;
pub mod loads;
pub mod measured;
pub mod named;
pub mod networks;
pub(crate) mod point;
pub mod processor;
pub mod record;
pub mod sensitivity;
pub mod setup;
pub mod sizes;
pub mod sweep;
pub(crate) mod system;
pub(crate) mod tally;
pub mod tenants;
pub mod tuning;

pub use baseline::Baseline;
pub use experiment::{Experiment, Findings, Options};

#[cfg(test)]
mod tests {
    use super::loads::ycsb;
    use super::measured::measure_all;
    use super::setup::Setup;
    use super::*;

    fn setup(workload: &str, keys: u64, requests: u64, threads: u16) -> Setup {
        let options = Options { quick: true, ..Options::default() };
        Setup::new(ycsb(workload, keys, requests, &options).unwrap(), threads, 1 << 18, 256, 7)
    }

    #[test]
    fn the_same_seed_gives_the_same_digits_however_many_points_run_at_a_time() {
        let setup = setup("ycsb-a", 2_000, 16_000, 8);
        let digits = |workers| -> Vec<(u64, u64, u64)> {
            let options = Options { workers, ..Options::default() };
            let measured = measure_all(&[setup.clone(), setup.clone()], &options).unwrap();
            measured.iter().map(|each| (each.requests, each.hits, each.ns)).collect()
        };
        let once = digits(1);
        assert_eq!(once[0], once[1]);
        assert_eq!(digits(2), once);
        // Of 12800 after the warm-up, the requests until the first thread had none left. A thread
        // that evicts more than others is behind.
        assert!(once[0].0 > 12_800 * 9 / 10 && once[0].1 > 0, "{once:?}");
    }

    #[test]
    fn threads_with_several_operations_in_flight_do_more_and_the_same_ones() {
        let one = setup("ycsb-c", 500, 8_000, 4);
        let sixteen = Setup { in_flight: 16, ..one.clone() };
        let measured =
            measure_all(&[one, sixteen.clone(), sixteen], &Options { workers: 2, ..Options::default() }).unwrap();
        assert!(measured[1].mops() > 4.0 * measured[0].mops(), "{} {}", measured[0].mops(), measured[1].mops());
        assert_eq!((measured[1].requests, measured[1].ns), (measured[2].requests, measured[2].ns));
        // Operations in flight end together, so the last ones of all threads are not counted.
        assert!(measured[1].requests > 5_000, "{}", measured[1].requests);
    }
}
