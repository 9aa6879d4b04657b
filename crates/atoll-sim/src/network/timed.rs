//! What a timed run has beside a world: the network's events, in the order of virtual time.

use super::events::{Event, Events};
use super::nic::{Nic, Wire};
use super::traffic::{EndpointTraffic, Traffic, VerbKind};
use super::{CpuCosts, Home, Network, Profile, Service};
use crate::SimOptions;
use crate::flight::{Fate, Flight};
use crate::memory::Memory;
use crate::{Relaxations, Strategy};
use atoll_fabric::batch::Verb;
use atoll_fabric::{Address, BATCH_VERBS_MAX, Kind, Purpose};
use std::collections::VecDeque;

/// What a timed run has besides the world of every run.
pub(crate) struct Timed {
    profile: Profile,
    link_kib_ps: u64,
    pub(crate) cpu: CpuCosts,
    nics: Vec<Nic>,
    compute_nodes: u16,
    /// By node of the simulation, its NIC.
    nic_of: Vec<u16>,
    /// By node and region, what memory it is.
    kinds: Vec<Vec<Kind>>,
    pub(crate) events: Events,
    /// Lanes that are to be polled now.
    pub(crate) ready: VecDeque<u32>,
    /// The time of the last event, in picoseconds.
    pub(crate) now_ps: u64,
    /// By lane, until when its processor is busy.
    pub(crate) busy_until: Vec<u64>,
    /// By batch.
    journeys: Vec<Journey>,
    /// By batch, and number of the verb in it.
    legs: Vec<Leg>,
    /// By endpoint.
    ports: Vec<PortTraffic>,
    /// No event after this time happens.
    pub(crate) end_ps: u64,
}

/// Where the verbs of a batch are.
#[derive(Clone, Copy, Debug, Default)]
struct Journey {
    /// The compute node's NIC.
    nic: u16,
    /// A bit for each verb that has not left, and for each whose response has not come.
    unsent: u32,
    unanswered: u32,
    /// When the last response had come.
    answered_at: u64,
    /// What its results cost the client.
    results_ps: u64,
}

/// What a verb is to the network. Found once, when it is posted: each of its events would find it
/// anew, and wait for where the verb is.
#[derive(Clone, Copy, Debug)]
struct Leg {
    at: Address,
    request: Wire,
    response: Wire,
    /// Its node's NIC.
    nic: u16,
    kind: VerbKind,
    memory: Kind,
    /// Whether it is the first of its batch to its node.
    begins_batch: bool,
}

impl Leg {
    /// Of no verb: for places that have not been used yet.
    const NONE: Self = Self {
        at: Address::new(0, 0, 0),
        request: Wire { bytes: 0, ps: 0 },
        response: Wire { bytes: 0, ps: 0 },
        nic: 0,
        kind: VerbKind::Read,
        memory: Kind::Host,
        begins_batch: false,
    };
}

#[derive(Clone, Debug, Default)]
struct PortTraffic {
    nic: u16,
    /// The processor that takes its messages, if it is not its client's own.
    service: Option<Service>,
    purpose: Purpose,
    traffic: EndpointTraffic,
}

impl Timed {
    /// # Panics
    /// If the options ask for chance, or for what the profile does not have.
    pub(crate) fn new(options: &SimOptions, network: &Network) -> Self {
        let SimOptions { relaxations, faults, strategy, nodes, .. } = options;
        assert!(*relaxations == Relaxations::none(), "a timed run takes no relaxations: see SimOptions::timed");
        assert!(!faults.any(), "a timed run has no faults: leave SimOptions::faults as it is, or SimOptions::network");
        assert!(*strategy == Strategy::FromSeed, "time decides whose step is next in a timed run, not a strategy");
        assert!(network.compute_nodes > 0, "clients sit on compute nodes: a network has at least one");
        let device_bytes_max = network.profile.device_bytes_max;
        for regions in nodes {
            let bytes: u64 =
                regions.iter().filter(|region| region.kind == Kind::Device).map(|region| region.bytes).sum();
            assert!(
                bytes <= device_bytes_max,
                "{bytes} bytes of device memory on a node: a NIC of {} has {device_bytes_max}",
                network.profile.name
            );
        }
        let mut nics = usize::from(network.compute_nodes);
        let mut home = |node| match network.homes.get(node) {
            None | Some(Home::Own) => {
                nics += 1;
                nics as u16 - 1
            }
            Some(Home::ComputeNode(number)) => {
                assert!(*number < network.compute_nodes, "compute node {number} of {}", network.compute_nodes);
                *number
            }
        };
        let nic_of = (0..nodes.len()).map(&mut home).collect();
        Self {
            profile: network.profile,
            link_kib_ps: network.profile.link_kib_ps(),
            cpu: network.cpu,
            nics: (0..nics).map(|_| Nic::new()).collect(),
            compute_nodes: network.compute_nodes,
            nic_of,
            kinds: nodes.iter().map(|regions| regions.iter().map(|region| region.kind).collect()).collect(),
            events: Events::new(),
            ready: VecDeque::new(),
            now_ps: 0,
            busy_until: Vec::new(),
            journeys: Vec::new(),
            legs: Vec::new(),
            ports: Vec::new(),
            end_ps: u64::MAX,
        }
    }

    pub(crate) fn add_lane(&mut self) {
        self.busy_until.push(self.now_ps);
    }

    /// # Panics
    /// If there is no such compute node.
    pub(crate) fn add_port(&mut self, compute_node: u16) {
        assert!(compute_node < self.compute_nodes, "compute node {compute_node} of {}", self.compute_nodes);
        self.ports.push(PortTraffic { nic: compute_node, ..PortTraffic::default() });
    }

    /// # Panics
    /// If there is no such memory node.
    pub(crate) fn move_port(&mut self, port: u32, node: u8, service: Service) {
        let nic = *self.nic_of.get(usize::from(node)).expect("the simulation has the node");
        (self.ports[port as usize].nic, self.ports[port as usize].service) = (nic, Some(service));
    }

    /// How busy the processor behind an endpoint has been until now, per mille.
    pub(crate) fn service_busy_per_mille(&self, port: u32) -> Option<u64> {
        Some(self.ports[port as usize].service.as_ref()?.busy_per_mille(self.now_ps))
    }

    pub(crate) fn swap_purpose(&mut self, port: u32, purpose: Purpose) -> Purpose {
        std::mem::replace(&mut self.ports[port as usize].purpose, purpose)
    }

    pub(crate) fn cpu(&self) -> CpuCosts {
        self.cpu
    }

    pub(crate) fn traffic(&self) -> Traffic {
        Traffic {
            ns: self.now_ps / 1000,
            nics: self.nics.iter().map(Nic::traffic).collect(),
            endpoints: self.ports.iter().map(|port| port.traffic).collect(),
            processors: self.ports.iter().filter_map(|port| port.service.as_ref()).map(Service::traffic).collect(),
        }
    }

    /// A lane's task is to be polled `at`, or once its processor is free.
    #[inline]
    pub(crate) fn poll_at(&mut self, lane: u32, at: u64) {
        let at = at.max(self.busy_until[lane as usize]);
        if at <= self.now_ps {
            self.ready.push_back(lane);
        } else {
            self.events.add(at, Event::Poll(lane));
        }
    }

    /// A ring is to come for the alarms of a lane.
    pub(crate) fn ring_at(&mut self, lane: u32, at_ns: u64) {
        self.events.add(at_ns.saturating_mul(1000), Event::Ring(lane));
    }

    #[inline]
    fn wire(&self, bytes: u64) -> Wire {
        Wire { bytes, ps: bytes * self.link_kib_ps / 1024 }
    }

    #[inline]
    fn kind(&self, at: Address) -> Kind {
        match at.memory_node() {
            Some(node) => self.kinds[usize::from(node)][usize::from(at.region())],
            // What compute nodes export is ordinary memory.
            None => Kind::Host,
        }
    }

    /// The NIC in front of a byte. A compute node's number is that of the endpoint that exports.
    #[inline]
    fn nic_of(&self, at: Address) -> u16 {
        match at.compute_node() {
            None => self.nic_of[usize::from(at.node())],
            Some(exporter) => self.ports[usize::from(exporter)].nic,
        }
    }

    /// One way between two NICs; a NIC reaches itself without the switch.
    #[inline]
    fn way_ps(&self, from: u16, to: u16) -> u64 {
        if from == to { 0 } else { self.profile.wire_ps + self.profile.switch_ps }
    }

    /// A client, or a memory node's processor, sends a message of `bytes`: its processor is
    /// charged, unless it is a memory node's, and the rest is events.
    pub(crate) fn post_mail(&mut self, lane: u32, port: u32, id: u32, bytes: u64) {
        let port = &mut self.ports[port as usize];
        let charged_ps = if port.service.is_some() { 0 } else { self.cpu.batch_ps + self.profile.client.batch_ps };
        let posted = &mut port.traffic.purposes[port.purpose as usize];
        posted.messages += 1;
        posted.bytes += bytes;
        let rung = &mut self.busy_until[lane as usize];
        *rung += charged_ps;
        self.events.add(*rung + self.profile.doorbell_ps, Event::MailOut(id));
    }

    fn mail_wire(&self, bytes: u64) -> Wire {
        self.wire(self.profile.request_bytes(VerbKind::Write, bytes))
    }

    /// A message leaves: it takes what a WRITE takes.
    pub(crate) fn mail_out(&mut self, id: u32, (from, to): (u32, u32), bytes: u64) {
        let (wire, from) = (self.mail_wire(bytes), self.ports[from as usize].nic);
        let way_ps = self.way_ps(from, self.ports[to as usize].nic);
        let nic = &mut self.nics[from as usize];
        let sent = nic.send_request(self.now_ps, VerbKind::Write, Kind::Host, wire, &self.profile);
        self.events.add(sent + way_ps, Event::MailIn(id));
    }

    /// A message has come to its receiver's NIC, and takes its turn there and at the receiver's
    /// processor, if that serves messages.
    pub(crate) fn mail_in(&mut self, id: u32, to: u32, message: &[u8]) {
        let (wire, port) = (self.mail_wire(message.len() as u64), &mut self.ports[to as usize]);
        let taken = self.nics[port.nic as usize].take_message(self.now_ps, wire, &self.profile);
        let seen = taken + self.profile.completion_ps;
        let served = port.service.as_mut().map_or(seen, |service| service.charge(seen, message));
        self.events.add(served, Event::Mail(id));
    }

    /// A client rings the doorbell for a batch: its processor is charged, the rest is events.
    pub(crate) fn post(&mut self, lane: u32, port: u32, id: u32, flight: &Flight) {
        let verbs = flight.verbs().len();
        if self.journeys.len() <= id as usize {
            self.add_journeys(id);
        }
        let (mut nodes, mut is_fenced) = (0_u128, false);
        let (mut bytes, mut read, mut written) = (0, 0, 0);
        let first = id as usize * BATCH_VERBS_MAX;
        for (index, verb) in flight.verbs().enumerate() {
            let leg = self.leg(verb, nodes);
            self.legs[first + index] = leg;
            nodes |= node_bit(verb.at);
            is_fenced |= verb.fenced;
            bytes += verb.len();
            read += if leg.kind == VerbKind::Read { verb.len() } else { 0 };
            written += if leg.kind == VerbKind::Write { verb.len() } else { 0 };
        }
        let (cpu, client, count) = (&self.cpu, &self.profile.client, verbs as u64);
        let posted_ps =
            cpu.batch_ps + client.batch_ps + count * (cpu.verb_ps + client.verb_ps) + written * client.kib_ps / 1024;
        let results_ps = client.completion_ps + count * cpu.completion_ps + read * client.kib_ps / 1024;
        let port = &mut self.ports[port as usize];
        // The work of a processor that serves messages is in the time of the message.
        let (posted_ps, results_ps) = if port.service.is_some() { (0, 0) } else { (posted_ps, results_ps) };
        let all = u32::MAX >> (32 - verbs);
        self.journeys[id as usize] =
            Journey { nic: port.nic, unsent: all, unanswered: all, answered_at: 0, results_ps };
        let posted = &mut port.traffic.purposes[port.purpose as usize];
        posted.batches += 1;
        posted.verbs += count;
        posted.bytes += bytes;
        if matches!(flight.fate, Fate::Awaited(_)) {
            posted.round_trips += 1 + if is_fenced { fences_that_wait(flight) } else { 0 };
        }
        let rung = &mut self.busy_until[lane as usize];
        *rung += posted_ps;
        self.events.add(*rung + self.profile.doorbell_ps, Event::Doorbell(id));
    }

    /// Whether all verbs of a batch are to memory of the host that posts them, which its processor
    /// reaches without the NIC. A client's own memory is what its compute node exports.
    #[inline]
    pub(crate) fn is_at_home(&self, port: u32, flight: &Flight) -> bool {
        let port = &self.ports[port as usize];
        let is_own = |at: Address| port.service.is_some() || at.compute_node().is_some();
        flight.verbs().all(|verb| is_own(verb.at) && self.nic_of(verb.at) == port.nic)
    }

    /// Such a batch is done now. A memory node's processor is not charged: its time is in that of
    /// the message that the batch is done for.
    pub(crate) fn do_at_home(&mut self, lane: u32, port: u32, id: u32, flight: &Flight) {
        if self.journeys.len() <= id as usize {
            self.add_journeys(id);
        }
        let mut journey = Journey::default();
        if self.ports[port as usize].service.is_none() {
            let (cpu, verbs) = (&self.cpu, flight.verbs().len() as u64);
            let bytes: u64 = flight.verbs().map(Verb::len).sum();
            journey.results_ps = verbs * cpu.completion_ps;
            self.busy_until[lane as usize] += cpu.batch_ps + verbs * cpu.verb_ps + bytes * cpu.copy_kib_ps / 1024;
        }
        self.journeys[id as usize] = journey;
        self.events.add(self.now_ps, Event::Completion(id));
    }

    #[cold]
    fn add_journeys(&mut self, id: u32) {
        self.journeys.resize(id as usize + 1, Journey::default());
        self.legs.resize(self.journeys.len() * BATCH_VERBS_MAX, Leg::NONE);
    }

    /// What a verb is to the network; `nodes` has the bits of the nodes that those before it in its
    /// batch are to.
    #[inline]
    fn leg(&self, verb: &Verb, nodes: u128) -> Leg {
        let (kind, bytes) = (VerbKind::of(&verb.operation), verb.len());
        Leg {
            at: verb.at,
            request: self.wire(self.profile.request_bytes(kind, bytes)),
            response: self.wire(self.profile.response_bytes(kind, bytes)),
            nic: self.nic_of(verb.at),
            kind,
            memory: self.kind(verb.at),
            begins_batch: nodes & node_bit(verb.at) == 0,
        }
    }

    #[inline]
    fn leg_of(&self, id: u32, index: u8) -> Leg {
        self.legs[id as usize * BATCH_VERBS_MAX + usize::from(index)]
    }

    /// A client takes the results of a batch. `switches` says whether it has other operations in
    /// flight, and so switches to the one that the batch belongs to.
    pub(crate) fn take_results(&mut self, lane: u32, id: u32, switches: bool) {
        let switch_ps = if switches { self.profile.client.switch_ps } else { 0 };
        self.busy_until[lane as usize] += self.journeys[id as usize].results_ps + switch_ps;
    }

    /// Sends what may leave of a batch.
    pub(crate) fn send(&mut self, id: u32, flight: &Flight, memory: &Memory) {
        let Journey { nic, unsent, unanswered, .. } = self.journeys[id as usize];
        // The bit of each node a verb to which is held back, so that those behind it are, too.
        let mut held = 0_u128;
        let mut left = unsent;
        let mut still = unsent;
        while left != 0 {
            let index = left.trailing_zeros();
            left &= left - 1;
            let verb = flight.verb(index as usize);
            let node = node_bit(verb.at);
            if held & node == 0 && verb.fenced {
                let earlier = unanswered & ((1 << index) - 1);
                held |= if flight.touches(earlier, verb.at) { node } else { 0 };
            }
            if held & node != 0 {
                continue;
            }
            still &= !(1 << index);
            memory.expect(verb.at, verb.len());
            let leg = self.leg_of(id, index as u8);
            let nic_out = &mut self.nics[nic as usize];
            let sent = nic_out.send_request(self.now_ps, leg.kind, leg.memory, leg.request, &self.profile);
            self.events.add(sent + self.way_ps(nic, leg.nic), Event::Request(id, index as u8));
        }
        self.journeys[id as usize].unsent = still;
    }

    /// A verb has reached its node.
    pub(crate) fn request(&mut self, id: u32, index: u8) {
        let Leg { at, request, nic, kind, memory, begins_batch, .. } = self.leg_of(id, index);
        let (profile, nic) = (&self.profile, &mut self.nics[nic as usize]);
        let served = nic.serve_request(self.now_ps, kind, memory, begins_batch, request, profile);
        let access_ps = match kind {
            VerbKind::Read if memory == Kind::Device => profile.device_read_ps,
            VerbKind::Read => profile.host_read_ps,
            VerbKind::Write => 0,
            _ => nic.execute_atomic(served, at, memory, profile) - served,
        };
        self.events.add(served + access_ps, Event::Ready(id, index));
    }

    /// The memory has answered a verb: its response leaves.
    pub(crate) fn ready(&mut self, id: u32, index: u8) {
        let (leg, to) = (self.leg_of(id, index), self.journeys[id as usize].nic);
        let sent = self.nics[leg.nic as usize].send(self.now_ps, leg.response);
        self.events.add(sent + self.way_ps(leg.nic, to), Event::Response(id, index));
    }

    /// A response has come back; whether that lets more of the batch leave.
    pub(crate) fn response(&mut self, id: u32, index: u8) -> bool {
        let (leg, journey) = (self.leg_of(id, index), &mut self.journeys[id as usize]);
        let come = self.nics[journey.nic as usize].receive(self.now_ps, leg.response);
        journey.unanswered &= !(1 << index);
        journey.answered_at = journey.answered_at.max(come);
        if journey.unanswered == 0 {
            self.events.add(journey.answered_at + self.profile.completion_ps, Event::Completion(id));
        }
        journey.unanswered != 0 && journey.unsent != 0
    }
}

/// A bit for each memory node. Compute nodes share the other bits: where two share one, the second
/// is held back with the first.
#[inline]
fn node_bit(at: Address) -> u128 {
    1 << match at.compute_node() {
        None => u32::from(at.node()),
        Some(exporter) => 64 + u32::from(exporter % 64),
    }
}

/// How many times one after another a fence holds verbs of the batch back: of the node at which it
/// is most often.
fn fences_that_wait(flight: &Flight) -> u64 {
    let to_node_of = |at: Address| flight.verbs().filter(move |verb| verb.at.is_on_node_of(at));
    let waits = |verb: &Verb| to_node_of(verb.at).skip(1).filter(|verb| verb.fenced).count() as u64;
    flight.verbs().map(waits).max().unwrap_or(0)
}
