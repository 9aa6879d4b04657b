//! Clients in a closed loop that only post verbs, as in the papers' own microbenchmarks.

use atoll_fabric::{Address, Batch, Buffer, Endpoint, Kind};
use atoll_lab::latency::Latencies;
use atoll_sim::network::traffic::VerbKind;
use atoll_sim::network::{CpuCosts, Network, Profile, Traffic};
use atoll_sim::sim::region;
use atoll_sim::{Sim, SimEndpoint, SimOptions};
use std::cell::RefCell;
use std::rc::Rc;

const HOST_BYTES: u64 = 1 << 26;
const DEVICE_BYTES: u64 = 1 << 17;
/// Longer than any queue of these loads.
const WARM_UP_NS: u64 = 500_000;
const MEASURED_NS: u64 = 2_000_000;

/// A verb to a random place of the memory node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RandomVerb {
    pub(crate) kind: VerbKind,
    /// Of a READ or WRITE.
    pub(crate) bytes: u64,
    pub(crate) memory: Kind,
}

pub(crate) const fn read(bytes: u64) -> RandomVerb {
    RandomVerb { kind: VerbKind::Read, bytes, memory: Kind::Host }
}

pub(crate) const fn write(bytes: u64) -> RandomVerb {
    RandomVerb { kind: VerbKind::Write, bytes, memory: Kind::Host }
}

pub(crate) const fn swap(memory: Kind) -> RandomVerb {
    RandomVerb { kind: VerbKind::CompareAndSwap, bytes: 8, memory }
}

pub(crate) const ADD: RandomVerb = RandomVerb { kind: VerbKind::FetchAndAdd, bytes: 8, memory: Kind::Host };

/// Verbs that a client posts together.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) verbs: Vec<RandomVerb>,
    pub(crate) awaited: bool,
    /// The step is done in one of this many operations.
    pub(crate) every: u64,
}

pub(crate) fn awaited(verbs: &[RandomVerb]) -> Step {
    Step { verbs: verbs.to_vec(), awaited: true, every: 1 }
}

pub(crate) fn unawaited(verbs: &[RandomVerb], every: u64) -> Step {
    Step { verbs: verbs.to_vec(), awaited: false, every }
}

/// A kind of operation: its steps in order, and how many of a hundred operations are of it.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) percent: u64,
    pub(crate) steps: Vec<Step>,
}

/// Operations of a single step, and of nothing else.
pub(crate) fn only(verbs: &[RandomVerb]) -> Vec<Operation> {
    vec![Operation { percent: 100, steps: vec![awaited(verbs)] }]
}

/// Clients of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    pub(crate) count: u16,
    pub(crate) operations: Vec<Operation>,
}

/// What a load reached.
pub(crate) struct Reached {
    /// Operations that ended.
    pub(crate) operations: u64,
    pub(crate) latencies: Latencies,
    /// What passed the network while they were counted.
    pub(crate) traffic: Traffic,
    memory_node: usize,
}

impl Reached {
    /// Operations in a microsecond.
    pub(crate) fn mops(&self) -> f64 {
        self.operations as f64 * 1e3 / self.traffic.ns as f64
    }

    /// Verbs of a kind that the memory node served in a microsecond.
    pub(crate) fn verb_mops(&self, kind: VerbKind) -> f64 {
        self.traffic.nics[self.memory_node].verbs[kind as usize] as f64 * 1e3 / self.traffic.ns as f64
    }

    /// What left the memory node, in bits a nanosecond.
    pub(crate) fn out_gbit_per_s(&self) -> f64 {
        self.traffic.nics[self.memory_node].bytes_out as f64 * 8.0 / self.traffic.ns as f64
    }
}

/// Runs all clients, spread over the compute nodes, against one memory node: a warm-up, then what
/// counts.
pub(crate) fn reached(profile: Profile, cpu: CpuCosts, compute_nodes: u16, clients: &[Clients]) -> Reached {
    let mut regions = vec![region(HOST_BYTES, Kind::Host)];
    if profile.device_bytes_max > 0 {
        regions.push(region(DEVICE_BYTES, Kind::Device));
    }
    let network = Network { cpu, ..Network::new(profile, compute_nodes) };
    let sim = Sim::new(SimOptions::timed(1, vec![regions], network));
    let counted = Rc::new(RefCell::new((0, Latencies::default())));
    let mut number = 0;
    for clients in clients {
        for _ in 0..clients.count {
            let endpoint = sim.endpoint_on("client", number % compute_nodes);
            sim.spawn("client", client(endpoint, clients.operations.clone(), counted.clone()));
            number += 1;
        }
    }
    sim.run_until(WARM_UP_NS).expect("clients never wait for each other");
    let before = sim.traffic().expect("the run is timed");
    *counted.borrow_mut() = (0, Latencies::default());
    sim.run_until(WARM_UP_NS + MEASURED_NS).expect("clients never wait for each other");
    let traffic = sim.traffic().expect("the run is timed").since(&before);
    let (operations, latencies) = counted.replace((0, Latencies::default()));
    Reached { operations, latencies, traffic, memory_node: usize::from(compute_nodes) }
}

async fn client(endpoint: SimEndpoint, operations: Vec<Operation>, counted: Rc<RefCell<(u64, Latencies)>>) {
    let mut buffers = Vec::new();
    let mut batch = Batch::new();
    for number in endpoint.random() % 1000.. {
        let drawn = endpoint.random() % 100;
        let mut below = 0;
        let operation = operations.iter().find(|operation| {
            below += operation.percent;
            drawn < below
        });
        let begin_ns = endpoint.virtual_ns();
        for step in operation.map_or(&[][..], |operation| &operation.steps[..]) {
            if number % step.every != 0 {
                continue;
            }
            fill(&mut batch, &step.verbs, &endpoint, &mut buffers);
            if step.awaited {
                endpoint.post(&mut batch).await.expect("nothing fails in a timed run");
                take(&mut batch, &step.verbs, &mut buffers);
            } else {
                endpoint.post_unawaited(&mut batch);
            }
        }
        let mut counted = counted.borrow_mut();
        counted.0 += 1;
        counted.1.record(endpoint.virtual_ns() - begin_ns);
    }
}

fn fill(batch: &mut Batch, verbs: &[RandomVerb], endpoint: &SimEndpoint, buffers: &mut Vec<Buffer>) {
    batch.clear();
    for verb in verbs {
        let (region, bytes) = if verb.memory == Kind::Host { (0, HOST_BYTES) } else { (1, DEVICE_BYTES) };
        let places = (bytes - verb.bytes) / 8 + 1;
        let at = Address::new(0, region, endpoint.random() % places * 8);
        let mut buffer = || {
            let mut buffer = buffers.pop().unwrap_or_default();
            buffer.resize(verb.bytes as usize);
            buffer
        };
        match verb.kind {
            VerbKind::Read => batch.read(at, buffer()),
            VerbKind::Write => batch.write(at, buffer()),
            VerbKind::CompareAndSwap => batch.compare_and_swap(at, 0, 0),
            VerbKind::FetchAndAdd => batch.fetch_and_add(at, 1),
        };
    }
}

fn take(batch: &mut Batch, verbs: &[RandomVerb], buffers: &mut Vec<Buffer>) {
    for (index, verb) in verbs.iter().enumerate() {
        if matches!(verb.kind, VerbKind::Read | VerbKind::Write) {
            buffers.push(batch.take_nth(index));
        }
    }
}
