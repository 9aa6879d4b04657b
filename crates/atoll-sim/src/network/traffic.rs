//! What has passed the network in a timed run, and which of its limits was reached.

use atoll_fabric::Purpose;
use atoll_fabric::batch::Operation;
use serde::Serialize;

/// A verb, as NICs tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum VerbKind {
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// Compare-and-swap.
    CompareAndSwap,
    /// Fetch-and-add.
    FetchAndAdd,
}

impl VerbKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::CompareAndSwap, Self::FetchAndAdd];

    #[inline]
    pub(crate) fn of(operation: &Operation) -> Self {
        match operation {
            Operation::Read { .. } | Operation::ReadWord { .. } => Self::Read,
            Operation::Write { .. } | Operation::WriteWord { .. } => Self::Write,
            Operation::CompareAndSwap { .. } => Self::CompareAndSwap,
            Operation::FetchAndAdd { .. } => Self::FetchAndAdd,
        }
    }
}

/// What a NIC has served and moved. Busy times are the time that a server was promised to what had
/// come; divided by the time that passed they say how near to its limit it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NicTraffic {
    /// Verbs served, by [`VerbKind`].
    pub verbs: [u64; VerbKind::ALL.len()],
    /// Bytes that came, with all headers.
    pub bytes_in: u64,
    /// Bytes that left, with all headers.
    pub bytes_out: u64,
    /// The engine for what it sends off.
    pub issue_busy_ps: u64,
    /// The engine for incoming verbs.
    pub serve_busy_ps: u64,
    /// The atomics unit.
    pub atomics_busy_ps: u64,
    /// The link inwards.
    pub link_in_busy_ps: u64,
    /// The link outwards.
    pub link_out_busy_ps: u64,
}

/// A limit of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Limit {
    /// The engine for what it sends off.
    Issue,
    /// The engine for incoming verbs.
    Serve,
    /// The atomics unit.
    Atomics,
    /// The link inwards.
    LinkIn,
    /// The link outwards.
    LinkOut,
}

impl NicTraffic {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            verbs: std::array::from_fn(|verb| self.verbs[verb] - earlier.verbs[verb]),
            bytes_in: self.bytes_in - earlier.bytes_in,
            bytes_out: self.bytes_out - earlier.bytes_out,
            issue_busy_ps: self.issue_busy_ps - earlier.issue_busy_ps,
            serve_busy_ps: self.serve_busy_ps - earlier.serve_busy_ps,
            atomics_busy_ps: self.atomics_busy_ps - earlier.atomics_busy_ps,
            link_in_busy_ps: self.link_in_busy_ps - earlier.link_in_busy_ps,
            link_out_busy_ps: self.link_out_busy_ps - earlier.link_out_busy_ps,
        }
    }

    /// Every limit, and for how long its server was busy.
    pub fn busy_ps(&self) -> [(Limit, u64); 5] {
        [
            (Limit::Issue, self.issue_busy_ps),
            (Limit::Serve, self.serve_busy_ps),
            (Limit::Atomics, self.atomics_busy_ps),
            (Limit::LinkIn, self.link_in_busy_ps),
            (Limit::LinkOut, self.link_out_busy_ps),
        ]
    }
}

/// What was posted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Posted {
    /// Waits for the network: one for each batch that was waited for, and one more for each time
    /// that a fence held verbs of it back.
    pub round_trips: u64,
    /// Batches, awaited or not.
    pub batches: u64,
    /// Verbs.
    pub verbs: u64,
    /// Messages.
    pub messages: u64,
    /// Bytes that verbs and messages moved, without headers.
    pub bytes: u64,
}

impl Posted {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            round_trips: self.round_trips - earlier.round_trips,
            batches: self.batches - earlier.batches,
            verbs: self.verbs - earlier.verbs,
            messages: self.messages - earlier.messages,
            bytes: self.bytes - earlier.bytes,
        }
    }

    /// Adds what another posted.
    pub fn add(&mut self, other: &Self) {
        self.round_trips += other.round_trips;
        self.batches += other.batches;
        self.verbs += other.verbs;
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

/// What an endpoint has posted, by [`Purpose`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EndpointTraffic {
    /// By the purpose's number.
    pub purposes: [Posted; Purpose::ALL.len()],
}

impl EndpointTraffic {
    /// What was posted for a purpose.
    pub fn of(&self, purpose: Purpose) -> Posted {
        self.purposes[purpose as usize]
    }

    /// What was posted for all of them.
    pub fn total(&self) -> Posted {
        let mut total = Posted::default();
        self.purposes.iter().for_each(|posted| total.add(posted));
        total
    }
}

/// What a memory node's processor has done; see [`Service`](super::Service).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessorTraffic {
    /// Its cores.
    pub cores: u32,
    /// Messages that it has taken on.
    pub messages: u64,
    /// The time of all cores together that it was promised to what had come.
    pub busy_ps: u64,
}

impl ProcessorTraffic {
    fn since(&self, earlier: &Self) -> Self {
        let (messages, busy_ps) = (self.messages - earlier.messages, self.busy_ps - earlier.busy_ps);
        Self { cores: self.cores, messages, busy_ps }
    }
}

/// What has passed the network until now; see [`Sim::traffic`](crate::Sim::traffic).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// How much virtual time it took, in nanoseconds.
    pub ns: u64,
    /// By NIC: those of the compute nodes, then those of the memory nodes that have their own.
    pub nics: Vec<NicTraffic>,
    /// By endpoint, in the order in which they were made.
    pub endpoints: Vec<EndpointTraffic>,
    /// The processors of memory nodes, in the order of their endpoints.
    pub processors: Vec<ProcessorTraffic>,
}

impl Traffic {
    /// What has passed since `earlier`: without a warm-up, for example.
    pub fn since(&self, earlier: &Self) -> Self {
        let nics = self.nics.iter().zip(&earlier.nics).map(|(now, then)| now.since(then)).collect();
        let endpoint = |(number, now): (usize, &EndpointTraffic)| match earlier.endpoints.get(number) {
            None => *now,
            Some(then) => EndpointTraffic {
                purposes: std::array::from_fn(|purpose| now.purposes[purpose].since(&then.purposes[purpose])),
            },
        };
        let endpoints = self.endpoints.iter().enumerate().map(endpoint).collect();
        let processor = |(number, now): (usize, &ProcessorTraffic)| {
            earlier.processors.get(number).map_or(*now, |then| now.since(then))
        };
        let processors = self.processors.iter().enumerate().map(processor).collect();
        Self { ns: self.ns - earlier.ns, nics, endpoints, processors }
    }

    /// What all endpoints posted for a purpose.
    pub fn of(&self, purpose: Purpose) -> Posted {
        let mut total = Posted::default();
        self.endpoints.iter().for_each(|endpoint| total.add(&endpoint.of(purpose)));
        total
    }

    /// The server that was busiest: its NIC, its limit, and its share of the time, per mille. At
    /// 1000 the network gives no more.
    pub fn busiest(&self) -> Option<(usize, Limit, u64)> {
        let busy = |(nic, traffic): (usize, &NicTraffic)| traffic.busy_ps().map(|(limit, ps)| (nic, limit, ps));
        let busiest = self.nics.iter().enumerate().flat_map(busy).max_by_key(|(.., ps)| *ps)?;
        Some((busiest.0, busiest.1, busiest.2 / self.ns.max(1)))
    }

    /// The share of their cores' time that the processors of memory nodes were busy, per mille;
    /// `None` if there are none.
    pub fn processors_busy_per_mille(&self) -> Option<u64> {
        let cores: u64 = self.processors.iter().map(|processor| u64::from(processor.cores)).sum();
        let busy_ps: u64 = self.processors.iter().map(|processor| processor.busy_ps).sum();
        (cores > 0).then(|| busy_ps / (self.ns * cores).max(1))
    }
}
