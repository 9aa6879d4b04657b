//! What a network costs: the numbers that tell one generation of NICs from another.
//!
//! All times are whole picoseconds, so that a run gives the same digits on every machine. A rate of
//! `n` million verbs a second is a time of `1_000_000 / n` ps ([`verb_ps`]).

use super::traffic::VerbKind;
use atoll_fabric::Kind;
use serde::{Deserialize, Serialize};

/// The time between two verbs of a server that does so many million in a second, in picoseconds;
/// rounded to the nearest.
pub const fn verb_ps(million_per_s: u64) -> u64 {
    (1_000_000 + million_per_s / 2) / million_per_s
}

/// For how long a verb holds a NIC's processing engine, by verb, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineTimes {
    /// A READ.
    pub read_ps: u64,
    /// A WRITE; a message, too.
    pub write_ps: u64,
    /// A compare-and-swap or fetch-and-add on host memory.
    pub atomic_host_ps: u64,
    /// The same on the NIC's own memory.
    pub atomic_device_ps: u64,
}

/// How the atomics unit of a NIC works through one kind of memory; see `atomics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtomicTimes {
    /// Between the beginnings of two atomics, whatever they touch: the reciprocal of the NIC's
    /// rate.
    pub gap_ps: u64,
    /// From the beginning of one to its end, when the next on its address can begin; not below the
    /// gap.
    pub turn_ps: u64,
}

/// What the network asks of the client's processor, besides the steps of
/// [`CpuCosts`](super::CpuCosts).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientTimes {
    /// Ringing the doorbell of a batch.
    pub batch_ps: u64,
    /// Preparing the work request of one verb.
    pub verb_ps: u64,
    /// Finding and taking one completion.
    pub completion_ps: u64,
    /// Bringing 1024 bytes of a READ, or taking 1024 bytes of a WRITE, where the processor itself
    /// moves them.
    pub kib_ps: u64,
    /// Switching to another operation, of a client that has several in flight. It is charged with
    /// the results of a batch while another awaited batch of the endpoint is under way.
    pub switch_ps: u64,
}

/// What a network costs. See [`profiles`](super::profiles) for those that are known by name, with
/// the source of every number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// As users write it.
    #[serde(skip)]
    pub name: &'static str,
    /// The client's processor.
    pub client: ClientTimes,
    /// From the doorbell until the NIC has the work request.
    pub doorbell_ps: u64,
    /// A NIC's engine for what it sends off.
    pub issue: EngineTimes,
    /// A NIC's engine for incoming verbs.
    pub serve: EngineTimes,
    /// The additional cost of the first verb of a batch at its node, where a thread has to be woken
    /// for it.
    pub serve_batch_ps: u64,
    /// Atomics on host memory.
    pub atomics_host: AtomicTimes,
    /// Atomics on the NIC's own memory.
    pub atomics_device: AtomicTimes,
    /// Each direction of each NIC's link.
    pub link_bits_per_s: u64,
    /// The most bytes of a payload that go in one packet.
    pub mtu_bytes: u64,
    /// What a packet has besides its payload.
    pub header_bytes: u64,
    /// One way through the NICs' pipelines and the cables, apart from every server.
    pub wire_ps: u64,
    /// One way through the switch.
    pub switch_ps: u64,
    /// From a NIC to its host's memory and back.
    pub host_read_ps: u64,
    /// The same to the NIC's own memory.
    pub device_read_ps: u64,
    /// From the response at the NIC until the client can see its completion.
    pub completion_ps: u64,
    /// How much memory a NIC has of its own that regions may use; 0 for none.
    pub device_bytes_max: u64,
}

/// InfiniBand's extended headers, in bytes: once a message, besides the header of every packet.
const EXTENDED_BYTES: u64 = 16;
const ATOMIC_EXTENDED_BYTES: u64 = 28;
const ACKNOWLEDGE_BYTES: u64 = 4;
const ATOMIC_ACKNOWLEDGE_BYTES: u64 = 12;

impl EngineTimes {
    #[inline]
    pub(crate) fn of(&self, verb: VerbKind, memory: Kind) -> u64 {
        match (verb, memory) {
            (VerbKind::Read, _) => self.read_ps,
            (VerbKind::Write, _) => self.write_ps,
            (_, Kind::Host) => self.atomic_host_ps,
            (_, Kind::Device) => self.atomic_device_ps,
        }
    }
}

impl Profile {
    /// Bytes on the wire for a payload of this many.
    #[inline]
    fn wire_bytes(&self, payload_bytes: u64) -> u64 {
        let packets = if payload_bytes <= self.mtu_bytes { 1 } else { payload_bytes.div_ceil(self.mtu_bytes) };
        payload_bytes + packets * self.header_bytes
    }

    /// Bytes of a verb's request on the wire, with all headers.
    #[inline]
    pub fn request_bytes(&self, verb: VerbKind, bytes: u64) -> u64 {
        match verb {
            VerbKind::Read => EXTENDED_BYTES + self.wire_bytes(0),
            VerbKind::Write => EXTENDED_BYTES + self.wire_bytes(bytes),
            _ => ATOMIC_EXTENDED_BYTES + self.wire_bytes(0),
        }
    }

    /// Bytes of the response, with all headers.
    #[inline]
    pub fn response_bytes(&self, verb: VerbKind, bytes: u64) -> u64 {
        match verb {
            VerbKind::Read => ACKNOWLEDGE_BYTES + self.wire_bytes(bytes),
            VerbKind::Write => ACKNOWLEDGE_BYTES + self.wire_bytes(0),
            _ => ATOMIC_ACKNOWLEDGE_BYTES + self.wire_bytes(0),
        }
    }

    pub(crate) fn atomics(&self, memory: Kind) -> AtomicTimes {
        if memory == Kind::Host { self.atomics_host } else { self.atomics_device }
    }

    /// How long 1024 bytes take on the link.
    pub(crate) fn link_kib_ps(&self) -> u64 {
        1024 * 8 * 1_000_000_000_000 / self.link_bits_per_s
    }
}
