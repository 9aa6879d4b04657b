//! Public measurements of the cards that the profiles are of. Their letters are those of
//! [`profiles`](atoll_sim::network::profiles).

use super::Row;
use crate::measure::load::{Load, Network, Window, Words};
use crate::measure::simulated::Simulated;
use atoll_fabric::Kind;
use atoll_sim::network::Profile;
use atoll_sim::network::profile::ClientTimes;
use atoll_sim::network::profiles::{CX3_56G, CX6_100G};
use atoll_sim::network::traffic::VerbKind;

/// Longer than any queue of these loads.
const WINDOW: Window = Window { warm_up_ns: 2_000_000, counted_ns: 2_000_000 };
/// Clients and batches of each that keep every NIC busy.
const MANY: (u16, u16) = (32, 8);

/// What a load does, and the median latency: millions a second, and microseconds.
fn reached(profile: Profile, memory: Kind, load: &Load) -> (f64, f64) {
    let mut network = Simulated { profile, memory, window: WINDOW };
    let done = network.run(load).expect("nothing fails on a simulated network");
    (1e3 / done.batch_ns(), done.median_ns() / 1e3)
}

fn mops(profile: Profile, memory: Kind, verb: VerbKind, bytes: u64, words: Words) -> f64 {
    let (clients, outstanding) = MANY;
    let load = Load { batch: vec![verb], bytes, words, clients, outstanding };
    reached(profile, memory, &load).0
}

/// Of ConnectX-3: \[C\].
pub(super) fn cx3_56g() -> Vec<Row> {
    const COUNTER: &str = "[C] RESULTS.md, Results";
    const LATENCY: &str = "[C] clock-measurements.md, 6a";
    let on_host = |verb, words| mops(CX3_56G, Kind::Host, verb, 8, words);
    let latency_us = |verb| reached(CX3_56G, Kind::Host, &Load::one(verb, 8)).1;
    // One thread without coroutines: 8 queue pairs, each with 16 READs outstanding; a client here
    // has at most 64.
    let client = ClientTimes { switch_ps: 0, ..CX3_56G.client };
    let one = Load { outstanding: 64, ..Load::one(VerbKind::Read, 8) };
    let thread = reached(Profile { client, ..CX3_56G }, Kind::Host, &one).0;
    let row = |what, source, printed, model| Row::new(&CX3_56G, what, source, printed, model);
    vec![
        row("FAA on one word, Mops", COUNTER, 2.62..=2.71, on_host(VerbKind::FetchAndAdd, Words::One)).used(),
        row("FAA on other words, Mops", COUNTER, 2.67..=2.70, on_host(VerbKind::FetchAndAdd, Words::Random)),
        row("READ, Mops", COUNTER, 26.48..=26.50, on_host(VerbKind::Read, Words::Random)),
        row("READs of one thread, Mops", COUNTER, 6.05..=6.38, thread),
        row("READ latency, us", LATENCY, 1.92..=1.92, latency_us(VerbKind::Read)).used(),
        row("FAA latency, us", LATENCY, 1.89..=1.89, latency_us(VerbKind::FetchAndAdd)).used(),
    ]
}

/// Of ConnectX-6: \[F\] and \[M\].
pub(super) fn cx6_100g() -> Vec<Row> {
    const FUSA: &str = "[F] section III-A";
    const ONE_HOST: &str = "[M] two NICs of one host";
    let on = |memory, verb, words| mops(CX6_100G, memory, verb, 8, words);
    let (swap, add) = (VerbKind::CompareAndSwap, VerbKind::FetchAndAdd);
    let blocks = |verb| mops(CX6_100G, Kind::Host, verb, 64, Words::Random);
    let row = |what, source, printed: f64, model| Row::new(&CX6_100G, what, source, printed..=printed, model);
    vec![
        row("CAS on other words, Mops", FUSA, 42.3, on(Kind::Host, swap, Words::Random)).elsewhere(),
        row("CAS on one word, Mops", ONE_HOST, 2.04, on(Kind::Host, swap, Words::One)).used(),
        row("FAA on one word, Mops", ONE_HOST, 2.17, on(Kind::Host, add, Words::One)),
        row("CAS on one word on the NIC, Mops", ONE_HOST, 8.65, on(Kind::Device, swap, Words::One)).used(),
        row("FAA on one word on the NIC, Mops", ONE_HOST, 8.27, on(Kind::Device, add, Words::One)),
        row("READ of 64 bytes, Mops", ONE_HOST, 65.0, blocks(VerbKind::Read)).elsewhere(),
        row("WRITE of 64 bytes, Mops", ONE_HOST, 106.3, blocks(VerbKind::Write)).elsewhere(),
    ]
}
