//! The figures that the papers print of their hardware, and the loads that reach the model's.
//!
//! Each load is what the paper says that it measured. No load changes anything of a profile. Where
//! a paper leaves the load open, the row says what was chosen.

use super::Row;
use super::load::{
    ADD, Clients, Operation, RandomVerb, Reached, Step, awaited, only, reached, read, swap, unawaited, write,
};
use atoll_fabric::Kind;
use atoll_sim::network::profiles::{CX3_56G, CX4_100G, CX5_100G, CX6_100G, CXL, TCP_25G};
use atoll_sim::network::traffic::VerbKind;
use atoll_sim::network::{CpuCosts, Profile};

/// FORGE, section 6.1: three compute nodes. Enough clients that the memory node is the limit.
const FORGE_NODES: u16 = 3;
const FORGE_CLIENTS: u16 = 256;

fn forge(clients: &[Vec<Operation>]) -> Reached {
    let clients: Vec<Clients> =
        clients.iter().map(|operations| Clients { count: FORGE_CLIENTS, operations: operations.clone() }).collect();
    reached(CX5_100G, CpuCosts::measured(), FORGE_NODES, &clients)
}

/// What FORGE prints of ConnectX-5.
pub(super) fn cx5_100g() -> Vec<Row> {
    let alone = |verb: RandomVerb| forge(&[only(&[verb])]).verb_mops(verb.kind);
    let (reads, writes) = (alone(read(8)), alone(write(8)));
    let (swaps, adds) = (alone(swap(Kind::Host)), alone(ADD));
    let swaps_device = alone(swap(Kind::Device));
    let beside = |memory| forge(&[only(&[read(8)]), only(&[swap(memory)])]).verb_mops(VerbKind::Read);
    let (fall, fall_device) = (reads / beside(Kind::Host), reads / beside(Kind::Device));
    let sets = forge(&[only(&[write(8), write(8), read(8), swap(Kind::Host)])]).mops();
    let row = |what, source, paper, model| Row::new(&CX5_100G, what, source, paper, model);
    let equal = "FORGE, Fig. 2b, section 2.2; as many clients READ as swap";
    vec![
        row("READ, Mops", "FORGE, Fig. 2a, section 5.2", 88.0..=88.0, reads).used(),
        row("WRITE, Mops", "FORGE, Fig. 2a, section 5.2", 107.0..=107.0, writes).used(),
        row("CAS in host memory, Mops", "FORGE, Fig. 2a, section 5.2", 20.0..=20.0, swaps).used(),
        row("FAA in host memory, Mops", "FORGE, Fig. 2a, section 2.2", 20.0..=20.0, adds).used(),
        row("CAS in device over host memory", "FORGE, section 2.2", 4.9..=4.9, swaps_device / swaps).used(),
        row("READ over CAS", "FORGE, section 2.2", 4.0..=5.0, reads / swaps).used(),
        row("WRITE over CAS", "FORGE, section 2.2", 4.0..=5.0, writes / swaps).used(),
        row("fall of READs beside CAS", equal, 4.3..=4.3, fall).used(),
        row("fall of READs, host over device memory", equal, 2.4..=3.0, fall / fall_device),
        // The paper prints the formula, and 12 for its value.
        row("2 WRITE, READ, CAS together, Mops", "FORGE, section 5.2", 12.49..=12.49, sets).used(),
    ]
}

/// What DiFache prints of ConnectX-4: without caches the memory node's link is the limit.
pub(super) fn cx4_100g() -> Vec<Row> {
    const OBJECT_BYTES: u64 = 1024;
    let get = Operation { percent: 95, steps: vec![awaited(&[read(OBJECT_BYTES)])] };
    let set_steps =
        vec![awaited(&[swap(Kind::Host)]), awaited(&[read(OBJECT_BYTES)]), awaited(&[write(OBJECT_BYTES), write(8)])];
    let set = Operation { percent: 5, steps: set_steps };
    let load = Clients { count: 128, operations: vec![get, set] };
    let reached = reached(CX4_100G, CpuCosts::measured(), 8, &[load]);
    let source = "DiFache, section 7, Fig. 10b";
    vec![Row::new(&CX4_100G, "1 KB objects, 5 % locked updates, Mops", source, 11.05..=11.05, reached.mops())]
}

/// What Ditto prints of ConnectX-6: YCSB without misses, limited by the messages of the memory
/// node's NIC.
pub(super) fn cx6_100g() -> Vec<Row> {
    const SLOTS_BYTES: u64 = 8 * 40;
    const BLOCK_BYTES: u64 = 256;
    let hotness = |every| [unawaited(&[write(8)], 1), unawaited(&[ADD], every)];
    let get = |every| {
        let steps = [awaited(&[read(8), read(SLOTS_BYTES)]), awaited(&[read(BLOCK_BYTES)])];
        steps.into_iter().chain(hotness(every)).collect::<Vec<Step>>()
    };
    let update = || {
        let steps = [
            awaited(&[read(8), read(SLOTS_BYTES), write(BLOCK_BYTES)]),
            awaited(&[read(BLOCK_BYTES)]),
            awaited(&[swap(Kind::Host)]),
        ];
        steps.into_iter().chain(hotness(11)).collect()
    };
    let insert = || {
        let steps = [
            awaited(&[read(8), read(SLOTS_BYTES), write(BLOCK_BYTES)]),
            awaited(&[swap(Kind::Host)]),
            awaited(&[read(SLOTS_BYTES)]),
        ];
        steps.into_iter().chain(hotness(11)).collect()
    };
    let load = |operations: Vec<(u64, Vec<Step>)>| {
        let operations = operations.into_iter().map(|(percent, steps)| Operation { percent, steps }).collect();
        reached(CX6_100G, CpuCosts::measured(), 8, &[Clients { count: 256, operations }])
    };
    let cached = load(vec![(100, get(11))]);
    let uncached = load(vec![(100, get(1))]);
    let row = |what, source, paper: f64, model| Row::new(&CX6_100G, what, source, paper..=paper, model);
    let p99_us = |reached: &Reached| reached.latencies.quantile(0.99) as f64 / 1e3;
    vec![
        row("YCSB C, Mops", "Ditto, section 5.3, Fig. 25", 13.2, cached.mops()).used(),
        row("YCSB C, smallest frequency cache, Mops", "Ditto, section 5.6, Fig. 25", 10.0, uncached.mops()).used(),
        row("YCSB A, Mops", "Ditto, section 5.3", 10.5, load(vec![(50, get(11)), (50, update())]).mops()),
        row("YCSB B, Mops", "Ditto, section 5.3", 13.1, load(vec![(95, get(11)), (5, update())]).mops()),
        row("YCSB D, Mops", "Ditto, section 5.3", 13.0, load(vec![(95, get(11)), (5, insert())]).mops()),
        row("YCSB C, 99th percentile, us", "Ditto, section 5.6", 21.0, p99_us(&cached)),
        row("YCSB C, smallest frequency cache, 99th percentile, us", "Ditto, section 5.6", 28.0, p99_us(&uncached)),
    ]
}

/// The links, by READs of 64 KiB.
pub(super) fn links() -> Vec<Row> {
    let of = |profile: &Profile, source, gbit_per_s: f64| {
        let clients = Clients { count: 16, operations: only(&[read(1 << 16)]) };
        let reached = reached(*profile, CpuCosts::measured(), 4, &[clients]);
        Row::new(profile, "link, Gbit/s", source, gbit_per_s..=gbit_per_s, reached.out_gbit_per_s()).used()
    };
    vec![
        of(&CX3_56G, "SELCC, section 7", 56.0),
        of(&CX4_100G, "DiFache, section 7", 100.0),
        of(&CX5_100G, "FORGE, section 6.1", 100.0),
        of(&CX6_100G, "Ditto, section 5.1", 100.0),
        of(&TCP_25G, "its name", 25.0),
    ]
}

/// One client and one small READ, where a figure is known.
pub(super) fn latencies() -> Vec<Row> {
    let of = |profile: &Profile, cpu, what, source, ns: f64| {
        let clients = Clients { count: 1, operations: only(&[read(8)]) };
        let reached = reached(*profile, cpu, 1, &[clients]);
        let mean_ns = reached.traffic.ns as f64 / reached.operations as f64;
        Row::new(profile, what, source, ns..=ns, mean_ns).used()
    };
    vec![
        of(&CXL, CpuCosts::none(), "a load, ns", "the design of Atoll", 350.0),
        of(&TCP_25G, CpuCosts::measured(), "a round trip, ns", "the design of Atoll", 30_000.0),
    ]
}
