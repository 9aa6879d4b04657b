//! The networks that are known by name.
//!
//! A number that a paper or a public measurement prints is used as it is. Any other number says
//! what it is derived from, or that it is **assumed**, and then within which range. No number is
//! chosen for one experiment: `atoll lab validate` compares all of them with everything that was
//! measured.
//!
//! | profile | the network of | rates from |
//! |---|---|---|
//! | `cx3-56g` | SELCC, section 7: ConnectX-3 FDR | HERD (SIGCOMM 2014), section 3; \[C\] |
//! | `cx4-100g` | DiFache, section 7: ConnectX-4 | `cx5-100g`, by the quotient of the data sheets' message rates |
//! | `cx5-100g` | FORGE, section 6.1: ConnectX-5 | FORGE, Fig. 2 and section 5.2 |
//! | `cx6-100g` | Ditto, section 5.1: ConnectX-6 | Ditto, Fig. 25; \[F\] |
//! | `cxl` | memory behind a CXL switch | loads of 350 ns |
//! | `tcp-25g` | an agent thread on 25 Gbit Ethernet | assumed; 30 us a round trip |
//!
//! Public measurements besides the papers:
//!
//! | | what | where |
//! |---|---|---|
//! | \[C\] | one counter of ConnectX-3 (CloudLab r320), 1 to 8 machines | amandabaran/disco-skip-artifacts, `experiments/rdma-counter/RESULTS.md`; latencies: amandabaran/disco-skip, `disco-skip/docs/clock-measurements.md`, section 6a |
//! | \[F\] | CAS of 128 threads on ConnectX-6, 100 Gbit | "Breaking Barriers in Atomic Scaling" (Fusa), section III-A, Fig. 3 and 4 |
//! | \[M\] | verbs on one word between two ConnectX-6 of one host | a public micro-benchmark's source, in a comment (it includes `stdrdma.h`; its repository's name was not found) |
//! | \[R\] | READs of 12 threads, one at a time, several in flight, in coroutines; the NIC is not named | wxdwfc/rlibv2, `docs/benchs/ro_performance.md` |
//!
//! **Atomics on one word.** A turn is the reciprocal of the rate on one word. On ConnectX-3 that
//! rate is the NIC's: 2.69 million a second on one word, 2.67 on words of their own \[C\]. On
//! ConnectX-6 it is 2.04 for CAS and 2.17 for FAA in host memory, 8.65 and 8.27 in the NIC's own
//! \[M\]. \[F\] has the same by another way: with skew, 42.3 million on words of their own fall
//! by up to 94.5 %, to 2.33. No measurement of ConnectX-4 and ConnectX-5 on one word was found.
//! Theirs is assumed between 370 ns (ConnectX-3) and 550 ns (a PCIe round trip, and 200 ns for the
//! write behind it). It is 550 ns: the shorter it is, the more READs fall beside atomics, and at
//! 520 ns that is 10 % more than FORGE prints.
//!
//! **A client's processor.** A thread that posts single READs and takes each completion does 6.05
//! to 6.38 million a second \[C\], 157 to 165 ns each: a row of the validation foretells it. A
//! thread of \[R\] takes 272 to 400 ns. So the client's times may be twice as long as here.
//!
//! **What an atomic costs the READs beside it.** FORGE prints two figures about that, and no engine
//! that works one after another meets both: READs fall by 4.3 times beside atomics (Fig. 2b; how
//! many of each is not said, equal shares are assumed here), and 2 WRITEs, a READ and a CAS take
//! together 2/107 + 1/88 + 1/20 us (section 5.2). With `h` for how long an atomic holds the engine,
//! the first says `1 + h/11.364 = 4.3`, so 37.5 ns, the second `18.69 + 11.36 + h = 80.06`, so 50
//! ns. 43 ns makes both wrong by the same share, a little under a tenth. Device memory, where READs
//! fall 2.4 to 3 times less, is foretold well by either.

use super::profile::{AtomicTimes, ClientTimes, EngineTimes, Profile, verb_ps};

/// All of them.
pub const ALL: [Profile; 6] = [CX3_56G, CX4_100G, CX5_100G, CX6_100G, CXL, TCP_25G];

const GBIT: u64 = 1_000_000_000;

/// What every RDMA profile has for the client. The sum for a READ posted alone is that of \[C\]
/// above; its parts are assumed: a doorbell is a write-combining store of some 100 ns, a work
/// request some 15 ns of stores, a completion found by polling about 30 ns. NICs move the bytes.
const RDMA_CLIENT: ClientTimes =
    ClientTimes { batch_ps: 100_000, verb_ps: 15_000, completion_ps: 30_000, kib_ps: 0, switch_ps: SWITCH_PS };

/// A switch between coroutines: \[R\] above. A thread does 2.5 million READs a second with several
/// in flight, and 2.25 with 10 coroutines: 1/2.25 - 1/2.5 us.
const SWITCH_PS: u64 = 44_000;

/// An atomic's turn in host memory of ConnectX-6: \[M\] above, of CAS. It is a little longer than
/// that of a FAA.
const TURN_PS: u64 = 490_000;

/// The same of ConnectX-4 and ConnectX-5: assumed, see above.
const OLDER_TURN_PS: u64 = 550_000;

/// The same in the NIC's own memory.
const DEVICE_TURN_PS: u64 = 116_000;

/// ConnectX-5, 100 Gbit InfiniBand: FORGE's testbed.
pub const CX5_100G: Profile = Profile {
    name: "cx5-100g",
    client: RDMA_CLIENT,
    // Assumed: a posted PCIe write and what the NIC does with it.
    doorbell_ps: 150_000,
    // Assumed to be as fast as what it serves. With three compute nodes for one memory node they
    // are no limit; with three memory nodes they may be.
    issue: EngineTimes {
        read_ps: verb_ps(88),
        write_ps: verb_ps(107),
        atomic_host_ps: verb_ps(107),
        atomic_device_ps: verb_ps(107),
    },
    serve: EngineTimes {
        // FORGE, section 5.2 and Fig. 2a: 88 Mops.
        read_ps: verb_ps(88),
        // The same: 107 Mops.
        write_ps: verb_ps(107),
        // Derived from Fig. 2b and section 5.2: see above.
        atomic_host_ps: 43_000,
        // Derived: on the chip an atomic is a message as a WRITE is.
        atomic_device_ps: verb_ps(107),
    },
    serve_batch_ps: 0,
    // FORGE, section 5.2: 20 Mops.
    atomics_host: AtomicTimes { gap_ps: verb_ps(20), turn_ps: OLDER_TURN_PS },
    // FORGE, section 2.2: 4.9 times as many. The turn is that of ConnectX-6.
    atomics_device: AtomicTimes { gap_ps: verb_ps(98), turn_ps: DEVICE_TURN_PS },
    // FORGE, section 6.1.
    link_bits_per_s: 100 * GBIT,
    // InfiniBand: the largest MTU; LRH 8, BTH 12, and checksums of 4 and 2 bytes.
    mtu_bytes: 4096,
    header_bytes: 26,
    // Assumed, so that a small READ takes some 1.7 us; FORGE prints no latency of a verb, and no
    // measurement of this card was found. One READ after the other takes a thread of [R] 2.08 us,
    // on a NIC that is not named.
    wire_ps: 250_000,
    // Data sheet of a 100 Gbit InfiniBand switch: 90 ns.
    switch_ps: 90_000,
    // Assumed: a PCIe 3 round trip with memory behind it.
    host_read_ps: 350_000,
    device_read_ps: 20_000,
    completion_ps: 200_000,
    // FORGE, section 2.2: 256 KB.
    device_bytes_max: 256 << 10,
};

/// ConnectX-4, 100 Gbit: DiFache's testbed.
pub const CX4_100G: Profile = Profile {
    name: "cx4-100g",
    // Derived: the data sheets have 150 and 200 million messages a second, so everything takes 4/3
    // of what it takes there.
    issue: scaled(CX5_100G.issue, 4, 3),
    serve: scaled(CX5_100G.serve, 4, 3),
    atomics_host: AtomicTimes { gap_ps: CX5_100G.atomics_host.gap_ps * 4 / 3, turn_ps: OLDER_TURN_PS },
    atomics_device: AtomicTimes { gap_ps: CX5_100G.atomics_device.gap_ps * 4 / 3, turn_ps: DEVICE_TURN_PS },
    // The usual MTU over Ethernet; preamble and gap 20, Ethernet 18, IP 20, UDP 8, BTH 12 and a
    // checksum of 4 bytes.
    mtu_bytes: 1024,
    header_bytes: 82,
    // Data sheet of a 100 Gbit Ethernet switch: 300 ns.
    switch_ps: 300_000,
    // ConnectX-4 has no memory for users.
    device_bytes_max: 0,
    ..CX5_100G
};

/// ConnectX-6 at 100 Gbit: Ditto's testbed.
///
/// Ditto prints what its GETs reach where the NIC's messages are the limit: 13.2 Mops on YCSB C
/// with its frequency cache, 10 Mops with the smallest (Fig. 25). A GET is 3 READs, a WRITE and,
/// with the cache, a FAA every 11 times. So ten elevenths of a FAA are 1/10 - 1/13.2 us, 24.2 ns,
/// and one is 26.7 ns; the other four verbs are 75.8 - 2.4 = 73.3 ns, 18.3 ns each, no difference
/// between READ and WRITE being printed. YCSB A, B and D are then foretold.
///
/// The same card elsewhere serves more: 42.3 million CAS a second (\[F\] above), and 65.0 million
/// READs and 106.3 million WRITEs of 64 bytes (\[M\] above, without a switch). Ditto's link is
/// Ethernet.
pub const CX6_100G: Profile = Profile {
    name: "cx6-100g",
    issue: EngineTimes { read_ps: 18_330, write_ps: 18_330, atomic_host_ps: 18_330, atomic_device_ps: 18_330 },
    serve: EngineTimes { read_ps: 18_330, write_ps: 18_330, atomic_host_ps: 26_670, atomic_device_ps: 18_330 },
    // [F] above: 42.3 Mops. The engine is slower, so that the unit is no limit.
    atomics_host: AtomicTimes { gap_ps: 23_640, turn_ps: TURN_PS },
    // Assumed: as many as other messages.
    atomics_device: AtomicTimes { gap_ps: 18_330, turn_ps: DEVICE_TURN_PS },
    // Over Ethernet: Ditto, section 5.1. As for `cx4-100g`.
    mtu_bytes: 1024,
    header_bytes: 82,
    switch_ps: 300_000,
    ..CX5_100G
};

/// ConnectX-3 FDR: SELCC's testbed.
pub const CX3_56G: Profile = Profile {
    name: "cx3-56g",
    client: RDMA_CLIENT,
    issue: EngineTimes {
        read_ps: verb_ps(22),
        write_ps: verb_ps(30),
        atomic_host_ps: verb_ps(22),
        atomic_device_ps: verb_ps(22),
    },
    serve: EngineTimes {
        // HERD, section 3: 26 million READs and 35 million WRITEs a second come in.
        read_ps: verb_ps(26),
        write_ps: verb_ps(35),
        // Derived: a FAA takes 1.89 us ([C] above), no longer than a READ.
        atomic_host_ps: 137_000,
        atomic_device_ps: verb_ps(35),
    },
    // [C] above: 2.69 million a second, on one word or on several.
    atomics_host: AtomicTimes { gap_ps: verb_ps(269) * 100, turn_ps: verb_ps(269) * 100 },
    atomics_device: AtomicTimes { gap_ps: verb_ps(269) * 100, turn_ps: verb_ps(269) * 100 },
    // SELCC, section 7: 56 Gbit. FDR sends 14.0625 Gbit on four lanes, 64 of 66 bits of which are
    // data.
    link_bits_per_s: 54_545_454_545,
    mtu_bytes: 4096,
    // Derived: a READ of 8 bytes takes 1.92 us ([C] above).
    wire_ps: 190_000,
    // Data sheet of an FDR switch: 170 ns.
    switch_ps: 170_000,
    host_read_ps: 500_000,
    completion_ps: 300_000,
    device_bytes_max: 0,
    ..CX5_100G
};

/// Memory behind a CXL switch: verbs are loads, stores and atomic instructions of the client's own
/// processor.
pub const CXL: Profile = Profile {
    name: "cxl",
    // A load takes 350 ns, and a processor has about 10 lines of 64 bytes on their way at a time
    // (assumed: line-fill buffers): 1024 bytes beyond the first line take 16 lines * 350 / 10.
    client: ClientTimes { batch_ps: 0, verb_ps: 1000, completion_ps: 0, kib_ps: 560_000, switch_ps: SWITCH_PS },
    doorbell_ps: 0,
    // Assumed: the device takes a line's request every 2 ns.
    issue: EngineTimes { read_ps: 1000, write_ps: 1000, atomic_host_ps: 1000, atomic_device_ps: 1000 },
    serve: EngineTimes { read_ps: 2000, write_ps: 2000, atomic_host_ps: 2000, atomic_device_ps: 2000 },
    serve_batch_ps: 0,
    // Assumed: a line changes hands in the time of a load.
    atomics_host: AtomicTimes { gap_ps: 2000, turn_ps: 350_000 },
    atomics_device: AtomicTimes { gap_ps: 2000, turn_ps: 350_000 },
    // CXL 2.0 on eight lanes of PCIe 5: 32 GB/s each way.
    link_bits_per_s: 256 * GBIT,
    mtu_bytes: 64,
    header_bytes: 4,
    // Derived: 350 ns less the memory and what the servers take of a line.
    wire_ps: 60_000,
    switch_ps: 60_000,
    host_read_ps: 100_000,
    device_read_ps: 100_000,
    completion_ps: 0,
    device_bytes_max: 0,
};

/// An agent thread at the memory node that executes batches, on 25 Gbit Ethernet. All assumed: a
/// round trip of some 30 us with the kernel on both sides, and one core that takes 3 us for
/// receiving and answering and 100 ns for each verb.
pub const TCP_25G: Profile = Profile {
    name: "tcp-25g",
    client: ClientTimes {
        batch_ps: 2_000_000,
        verb_ps: 30_000,
        completion_ps: 2_000_000,
        kib_ps: 100_000,
        switch_ps: SWITCH_PS,
    },
    doorbell_ps: 1_000_000,
    issue: EngineTimes { read_ps: 10_000, write_ps: 10_000, atomic_host_ps: 10_000, atomic_device_ps: 10_000 },
    serve: EngineTimes { read_ps: 100_000, write_ps: 100_000, atomic_host_ps: 100_000, atomic_device_ps: 100_000 },
    serve_batch_ps: 3_000_000,
    atomics_host: AtomicTimes { gap_ps: 20_000, turn_ps: 20_000 },
    atomics_device: AtomicTimes { gap_ps: 20_000, turn_ps: 20_000 },
    link_bits_per_s: 25 * GBIT,
    mtu_bytes: 1448,
    header_bytes: 90,
    wire_ps: 8_000_000,
    switch_ps: 1_000_000,
    host_read_ps: 100_000,
    device_read_ps: 100_000,
    completion_ps: 3_000_000,
    device_bytes_max: 0,
};

const fn scaled(times: EngineTimes, by: u64, of: u64) -> EngineTimes {
    EngineTimes {
        read_ps: times.read_ps * by / of,
        write_ps: times.write_ps * by / of,
        atomic_host_ps: times.atomic_host_ps * by / of,
        atomic_device_ps: times.atomic_device_ps * by / of,
    }
}

impl Profile {
    /// The profile with a name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|profile| profile.name == name)
    }
}
