//! A point: clients of compute nodes read and write objects of a memory node through near caches.

use super::manager::Central;
use crate::bench::measured::{WARM_UP_ONE_IN, run_all, tell_speed};
use crate::bench::point::ran;
use crate::bench::tally::{Counted, Tally};
use atoll_deployment::random::Random;
use atoll_fabric::{Address, Buffer, Kind};
use atoll_lab::LabError;
use atoll_lab::latency::Latencies;
use atoll_lab::load::{self, Load, Stream};
use atoll_lab::trace::Operation;
use atoll_near::{Counts, Directory, DirectoryOptions, Near, NearError, NodeOptions, Object, Promise, Protocol};
use atoll_sim::network::{Network, Profile, Traffic, profiles};
use atoll_sim::sim::region;
use atoll_sim::{Sim, SimEndpoint, SimOptions};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// The paper's testbed.
pub(super) const PROFILE: Profile = profiles::CX4_100G;
/// What a record takes besides its object, with slots, generously.
const RECORD_BYTES: u64 = 128;
const SEGMENT_BYTES: u64 = 1 << 18;
/// Objects are at most this long: a record fits into a segment.
const OBJECT_BYTES_MAX: u32 = 1 << 17;

/// A point.
#[derive(Clone)]
pub(super) struct Point {
    pub(super) protocol: Protocol,
    pub(super) cached_at_first: bool,
    /// Compute nodes from which owners are tracked.
    pub(super) owners_from: u8,
    pub(super) compute_nodes: u16,
    pub(super) clients: u16,
    /// Whether each client is a node of the directory by itself, behind its compute node's NIC.
    pub(super) is_client_a_node: bool,
    /// The keys that clients access, and their sizes.
    pub(super) load: Arc<dyn Load>,
    /// All objects have this length; those of the load otherwise.
    pub(super) object_bytes: Option<u32>,
    /// Percent of the accesses that read; what the load says otherwise.
    pub(super) read_percent: Option<f64>,
    /// Bytes of each near cache; room for all objects otherwise.
    pub(super) near_bytes: Option<u64>,
    /// The network.
    pub(super) profile: Profile,
    pub(super) seed: u64,
}

/// Kinds of accesses whose latencies are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Hit,
    Miss,
    ReadBypassing,
    WriteInvalidating,
    WriteBypassing,
}

impl Access {
    pub(super) const ALL: [Self; 5] =
        [Self::Hit, Self::Miss, Self::ReadBypassing, Self::WriteInvalidating, Self::WriteBypassing];
}

/// What came of a point.
pub(super) struct Measured {
    pub(super) requests: u64,
    pub(super) ns: u64,
    pub(super) counts: Counts,
    pub(super) traffic: Traffic,
    pub(super) latencies: Latencies,
    by_access: [Latencies; 5],
    /// Of writes and of reads.
    by_kind: [Latencies; 2],
    verbs_simulated: u64,
}

impl Measured {
    /// Millions of accesses a second.
    pub(super) fn mops(&self) -> f64 {
        self.requests as f64 * 1e3 / self.ns.max(1) as f64
    }

    /// Percent of the reads that hit.
    pub(super) fn hit_percent(&self) -> f64 {
        let Counts { hits, misses, bypasses, .. } = self.counts;
        100.0 * hits as f64 / (hits + misses + bypasses).max(1) as f64
    }

    pub(super) fn median_us(&self, access: Access) -> f64 {
        self.quantile_us(access, 0.5)
    }

    /// The latency that this share of the accesses of a kind did not pass.
    pub(super) fn quantile_us(&self, access: Access, quantile: f64) -> f64 {
        self.by_access[access as usize].quantile(quantile) as f64 / 1e3
    }

    /// The median latency of reads, or of writes.
    pub(super) fn median_of(&self, reads: bool) -> f64 {
        self.by_kind[usize::from(reads)].quantile(0.5) as f64 / 1e3
    }

    /// The median latency of what asks a central manager, and how many accesses that are.
    pub(super) fn asking(&self) -> (f64, u64) {
        let mut latencies = self.by_access[Access::Miss as usize].clone();
        latencies.add(&self.by_access[Access::WriteInvalidating as usize]);
        (latencies.quantile(0.5) as f64 / 1e3, self.counts.misses + self.counts.writes_invalidating)
    }

    /// Fetch-and-adds to other nodes, for each write that invalidated.
    pub(super) fn told_per_write(&self) -> f64 {
        self.counts.invalidations_sent as f64 / self.counts.writes_invalidating.max(1) as f64
    }
}

/// Measures all points, `workers` at a time.
pub(super) fn measure_all(points: &[Point], workers: usize) -> Result<Vec<Measured>, LabError> {
    let (measured, seconds) = run_all(points, workers, |point| point.load.requests(), measure)?;
    tell_speed(points.len(), measured.iter().map(|measured| measured.verbs_simulated).sum(), seconds);
    Ok(measured)
}

/// Where every object is.
struct Objects {
    by_key: HashMap<u64, Object>,
    bytes: u64,
}

impl Objects {
    fn of(point: &Point, first: Address) -> Self {
        let (mut by_key, mut bytes) = (HashMap::new(), 0);
        for client in 0..u64::from(point.clients) {
            for request in point.load.stream(client, point.clients.into()) {
                by_key.entry(request.key).or_insert_with(|| {
                    let length = point.object_bytes.unwrap_or(request.value_bytes);
                    let length = length.clamp(8, OBJECT_BYTES_MAX).next_multiple_of(8);
                    let object = Object::new(first.add(bytes), length);
                    bytes += u64::from(length);
                    object
                });
            }
        }
        Self { by_key, bytes }
    }
}

/// What clients share while they are at work.
struct Shared {
    objects: Objects,
    tally: RefCell<Tally>,
    by_access: RefCell<[Latencies; 5]>,
    by_kind: RefCell<[Latencies; 2]>,
    read_percent: Option<f64>,
}

/// A client between phases.
type Place = Rc<RefCell<Option<Client>>>;

struct Client {
    near: Near<SimEndpoint>,
    stream: Stream,
    random: Random,
    buffer: Buffer,
}

fn measure(point: &Point) -> Result<Measured, LabError> {
    let table = Address::new(0, 0, Directory::HOME_BYTES.next_multiple_of(4096));
    // Enough that objects are seldom invalidated for others, whose number is known once they lie.
    let sized = Objects::of(point, Address::new(0, 0, 0));
    let stripes = (4 * sized.by_key.len() as u32).next_power_of_two();
    let options = DirectoryOptions {
        stripes,
        protocol: point.protocol,
        promise: Promise::Regular,
        cached_at_first: point.cached_at_first,
        owners_from: point.owners_from,
    };
    let first = table.add(options.table_bytes());
    let objects = Objects::of(point, first);
    let near_bytes = point
        .near_bytes
        .unwrap_or(2 * (objects.bytes + RECORD_BYTES * objects.by_key.len() as u64) + 8 * SEGMENT_BYTES);
    let node_options = NodeOptions { bytes: near_bytes, segment_bytes: SEGMENT_BYTES };
    let region_bytes = (first.offset() + objects.bytes).next_multiple_of(4096);
    let network = Network::new(point.profile, point.compute_nodes);
    let mut nodes = vec![vec![region(region_bytes, Kind::Host)]];
    if point.protocol == Protocol::CmCache {
        // The manager's machine.
        nodes.push(vec![region(4096, Kind::Host)]);
    }
    let sim = Sim::new(SimOptions::timed(point.seed, nodes, network));
    let shared = Rc::new(Shared {
        objects,
        tally: RefCell::default(),
        by_access: RefCell::default(),
        by_kind: RefCell::default(),
        read_percent: point.read_percent,
    });
    let (places, central) = join(point, &sim, (table, options, node_options))?;
    let counts = || counts(&places).plus(&central.counts());
    let share = point.load.requests() / u64::from(point.clients);
    let warm_up = share / WARM_UP_ONE_IN;
    phase(&sim, &shared, &places, &central, warm_up)?;
    let (before, counts_before, begun_ns) = (sim.traffic().expect("the run is timed"), counts(), sim.now_ns());
    *shared.tally.borrow_mut() = Tally::default();
    *shared.by_access.borrow_mut() = Default::default();
    *shared.by_kind.borrow_mut() = Default::default();
    let verbs_simulated = phase(&sim, &shared, &places, &central, share - warm_up)?;
    let (Counted { requests, .. }, latencies, ended_ns) = shared.tally.take().into_counted();
    let traffic = sim.traffic().expect("the run is timed").since(&before);
    Ok(Measured {
        requests,
        ns: ended_ns.unwrap_or(begun_ns) - begun_ns,
        counts: counts().since(&counts_before),
        traffic,
        latencies,
        by_access: shared.by_access.take(),
        by_kind: shared.by_kind.take(),
        verbs_simulated,
    })
}

/// Lets all clients join, the first of each compute node as the node, beside a manager if there is
/// one.
fn join(
    point: &Point,
    sim: &Sim,
    (table, options, node_options): (Address, DirectoryOptions, NodeOptions),
) -> Result<(Vec<Place>, Central), LabError> {
    let (home, maker) = (Address::new(0, 0, 0), sim.endpoint("maker"));
    let directory = sim.block_on(async move { Directory::create(&maker, home, &[table], options).await });
    let directory = near(ran(directory)?)?;
    let central = Central::start(point, sim, &directory)?;
    let (mut regions, mut places) = (vec![None; usize::from(point.compute_nodes)], Vec::new());
    for number in 0..point.clients {
        let node = number % point.compute_nodes;
        let (endpoint, directory) = (sim.endpoint_on("client", node), directory.clone());
        let region: Option<Address> = regions[usize::from(node)].filter(|_| !point.is_client_a_node);
        let joined = sim.block_on(async move {
            match region {
                None => Near::join(endpoint, directory, node_options).await,
                Some(region) => Near::attach(endpoint, directory, region).await,
            }
        });
        let near = near(ran(joined)?)?;
        regions[usize::from(node)] = Some(near.region());
        let stream = point.load.stream(number.into(), point.clients.into());
        let random = Random::new(point.seed ^ u64::from(number) << 32);
        places.push(Rc::new(RefCell::new(Some(Client { near, stream, random, buffer: Buffer::new() }))));
    }
    Ok((places, central))
}

/// All clients are at work, until the first has no request left. Gives the verbs of the run.
fn phase(sim: &Sim, shared: &Rc<Shared>, places: &[Place], central: &Central, requests: u64) -> Result<u64, LabError> {
    let present = Rc::new(());
    central.spawn(sim, Rc::downgrade(&present));
    for place in places {
        let (place, shared, present) = (place.clone(), shared.clone(), present.clone());
        let mut client = place.take().expect("between phases every client is at its place");
        sim.spawn("client", async move {
            if let Err(error) = client.play(&shared, requests).await {
                shared.tally.borrow_mut().fail(LabError::Failed(error.to_string()));
            }
            shared.tally.borrow_mut().end(client.near.endpoint().virtual_ns());
            *place.borrow_mut() = Some(client);
            drop(present);
        });
    }
    drop(present);
    let report = ran(sim.run())?;
    match shared.tally.borrow_mut().take_failure() {
        Some(error) => Err(error),
        None => Ok(report.verbs),
    }
}

impl Client {
    async fn play(&mut self, shared: &Shared, requests: u64) -> Result<(), NearError> {
        let hash_ps = self.near.endpoint().cpu_costs().map_or(0, |costs| costs.hash_ps);
        for _ in 0..requests {
            let Some(request) = self.stream.next().filter(|_| !shared.tally.borrow().has_ended()) else { break };
            let is_read = match shared.read_percent {
                Some(percent) => self.random.unit() * 100.0 < percent,
                None => matches!(request.kind, load::Kind::Plain(Operation::Get | Operation::Gets)),
            };
            let object = shared.objects.by_key[&request.key];
            let mut buffer = std::mem::take(&mut self.buffer);
            let (begun_ns, before) = (self.near.endpoint().virtual_ns(), self.near.counts());
            self.near.endpoint().charge_ps(hash_ps);
            buffer = if is_read {
                self.near.read(&object, buffer).await?
            } else {
                buffer.resize(object.bytes() as usize);
                self.near.write(&object, buffer).await?
            };
            self.buffer = buffer;
            let ns = self.near.endpoint().virtual_ns() - begun_ns;
            let mut tally = shared.tally.borrow_mut();
            if !tally.has_ended() {
                tally.count_request(ns);
                shared.by_kind.borrow_mut()[usize::from(is_read)].record(ns);
                if let Some(access) = access(before, self.near.counts()) {
                    shared.by_access.borrow_mut()[access as usize].record(ns);
                }
            }
        }
        Ok(())
    }
}

/// What one access was, by what it has counted. `None` without a near cache.
fn access(before: Counts, after: Counts) -> Option<Access> {
    let grown = |of: fn(&Counts) -> u64| of(&after) > of(&before);
    if grown(|counts| counts.hits) {
        Some(Access::Hit)
    } else if grown(|counts| counts.misses) {
        Some(Access::Miss)
    } else if grown(|counts| counts.bypasses) {
        Some(Access::ReadBypassing)
    } else if grown(|counts| counts.writes_invalidating) {
        Some(Access::WriteInvalidating)
    } else if grown(|counts| counts.writes_bypassing) {
        Some(Access::WriteBypassing)
    } else {
        None
    }
}

fn counts(places: &[Place]) -> Counts {
    places.iter().fold(Counts::default(), |sum, place| {
        let one = place.borrow().as_ref().map_or(Counts::default(), |client| client.near.counts());
        sum.plus(&one)
    })
}

fn near<T>(outcome: Result<T, NearError>) -> Result<T, LabError> {
    outcome.map_err(|error| LabError::Failed(error.to_string()))
}
