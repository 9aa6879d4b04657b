//! A case with faults, and how a seed draws it.

use crate::case::Case;
use crate::load::Load;
use crate::subject::Subject;
use crate::subjects::ForgeSubject;
use atoll_pool::PoolSettings;
use atoll_pool::registry::{Reach, Times};
use atoll_sim::history::Evictions;
use atoll_sim::{Faults, Fencing, Random, Relaxations, SimOptions};

/// A case, its faults, and how soon clients suspect and repair each other.
#[derive(Clone, Debug)]
pub struct FaultyCase<S: Subject = ForgeSubject> {
    /// The pool and its clients.
    pub case: Case<S>,
    /// The faults.
    pub faults: Faults,
    /// Which relaxations of the contract are taken.
    pub relaxations: Relaxations,
    /// Which clients a fence shuts out.
    pub fencing: Fencing,
    /// How soon clients check each other.
    pub times: Times,
    /// How many places a client monitors.
    pub reach: Reach,
    /// Clients that replace killed clients.
    pub successors: u32,
    /// Chunks by which a client makes the pool smaller and then larger again.
    pub resized_chunks: u64,
    /// Clients that only make room ahead. Every other one is of the process of the first client
    /// that joined.
    pub evictors: u32,
    /// Whether the pool is made with a few chunks' memory, and the rest is provided while clients
    /// use it.
    pub sparse: bool,
    /// How often a memory node other than the home ends and comes back empty.
    pub absences: u32,
    /// Whether it does not end, but is silent for a time.
    pub are_silent: bool,
    /// The hole of the pool that is open.
    #[cfg(feature = "holes")]
    pub loss_hole: Option<atoll_pool::loss::Hole>,
}

/// A run of more steps has a client that waits for ever. Runs take a hundredth of it.
const STEPS_MAX: u64 = 5_000_000;
/// A wall clock jumps by up to three years.
const CLOCK_JUMP_MS_MAX: u64 = 3 * 365 * 86_400_000;
/// Chunks for each lane of a pool that evicts nothing. With a lane there is one operation more of
/// every client under way, dead clients included until they are repaired, and there are more keys.
/// The most that a run was seen to hold is ten.
const CHUNKS_PER_LANE: u64 = 25;
/// Slots for each lane of such a pool, so many that no bucket is full: six keys come with a lane.
const SLOTS_PER_LANE: u64 = 64;

impl<S: Subject> FaultyCase<S> {
    /// Everything from the seed.
    pub fn drawn(seed: u64) -> Self {
        let mut random = Random::stream(seed, 8);
        let case = Case::<S>::drawn(seed);
        let roomy = random.below(4) == 0;
        let case = if roomy {
            // Nothing is evicted, so that a miss tells of a mistake, or of an expiry.
            Case { chunks: 400, slots: 1024, objects_max: 0, evictions: Evictions::Never, ..case }
        } else {
            case
        };
        let load = Load { operations: random.pick(&[10, 30, 60]), ..case.load };
        let case = Case { load, steps_max: STEPS_MAX, ..case };
        let fencing = random.pick(&[Fencing::Observed, Fencing::Observed, Fencing::Forced]);
        let steps_between = random.pick(&[100, 400, 2000]);
        let mut faults = Faults::host(random.below(5) as u32, random.below(4) as u32, steps_between);
        faults.ns_max = random.pick(&[10_000, 1_000_000, 100_000_000]);
        if fencing == Fencing::Forced {
            // What only a network does.
            faults.unknowns_max = random.below(3) as u32;
            faults.link_cuts_max = random.below(2) as u32;
            faults.slow_nodes_max = random.below(2) as u32;
        }
        faults.node_losses_max = u32::from(random.below(40) == 0);
        faults.clock_jumps_max = random.below(3) as u32;
        faults.clock_jump_ms_max = CLOCK_JUMP_MS_MAX;
        faults.clock_drift_per_mille_max = random.pick(&[0, 10, 200]);
        let suspect_ns = random.pick(&[5_000, 50_000, 1_000_000]);
        let times = Times { look_ns: suspect_ns / 4, suspect_ns, help_ns: 4 * suspect_ns };
        let resized_chunks = [0, 0, 1, case.chunks / 4][random.below(4) as usize];
        let (relaxations, successors) = (Relaxations::all(), 2 + faults.kills_max);
        let without_address_cache = resized_chunks > 0 && Random::stream(seed, 32).below(2) == 0;
        let case =
            if without_address_cache { Case { subject: case.subject.without_address_cache(), ..case } } else { case };
        // Where clients alone have the pool's memory.
        let sparse = S::SPREADS && Random::stream(seed, 34).below(3) == 0;
        // As in a fleet that is larger than what a client looks at.
        let reach = Random::stream(seed, 41).pick(&[Reach::default(), Reach { watched: 1, walked: 1 }]);
        Self {
            case,
            faults,
            relaxations,
            fencing,
            times,
            reach,
            successors,
            resized_chunks,
            evictors: 0,
            sparse,
            absences: 0,
            are_silent: false,
            #[cfg(feature = "holes")]
            loss_hole: None,
        }
    }

    /// The same with a memory node, other than the home, that ends and comes back so often. Clients
    /// that are lost by that have successors.
    pub fn with_absences(mut self, absences: u32) -> Self {
        self.case.nodes = self.case.nodes.max(2);
        self.case.evictions = Evictions::Anytime;
        self.faults.node_losses_max = 0;
        self.absences = absences;
        self
    }

    /// The same with a memory node that does not answer for a time, so often.
    pub fn with_silences(self, silences: u32) -> Self {
        Self { are_silent: true, ..self.with_absences(silences) }
    }

    /// The same with so many evictors.
    pub fn with_evictors(mut self, evictors: u32) -> Self {
        self.evictors = evictors;
        self
    }

    /// The same with so many operations of each client under way at once. At least one of each, and
    /// at so many keys that the checker can put in order what meets at one. Where nothing may be
    /// evicted, the pool has room for all of it.
    pub fn with_lanes(mut self, lanes: u64) -> Self {
        let Case { load, chunks, slots, evictions, .. } = &mut self.case;
        if lanes > 1 {
            load.operations = load.operations.max(2 * lanes);
            load.keys = load.keys.max(2 * lanes);
        }
        // The lanes bring more than a pool for one operation at a time has room for.
        if lanes > 1 && *evictions == Evictions::Never {
            *chunks = (*chunks).max(CHUNKS_PER_LANE * lanes);
            *slots = (*slots).max(SLOTS_PER_LANE * lanes);
        }
        self.case.steps_max *= lanes;
        self.case.lanes = lanes;
        self
    }

    /// Everything from the seed, and how many operations of each client are under way and are
    /// dropped, and how many evictors there are, too.
    pub fn crowded(seed: u64) -> Self {
        let lanes = Random::stream(seed, 40).pick(&[1, 1, 1, 2, 4, 16, 64]);
        let evictors = Random::stream(seed, 43).pick(&[0, 0, 1, 2]);
        Self::drawn(seed)
            .with_evictors(evictors)
            .with_lanes(lanes)
            .with_dropped(Random::stream(seed, 42).pick(&[0, 0, 5, 40]))
    }

    /// The same with so many percent of the operations' futures dropped on the way; at so many keys
    /// that the checker can put in order what may have happened at any time.
    pub fn with_dropped(mut self, percent: u64) -> Self {
        let load = &mut self.case.load;
        load.dropped = percent;
        load.keys = if percent > 0 { load.keys.max(6) } else { load.keys };
        self
    }

    pub(crate) fn options(&self, seed: u64) -> SimOptions {
        let settings = self.settings();
        SimOptions {
            steps_max: self.case.steps_max,
            strategy: self.case.strategy,
            distance: self.case.distance,
            relaxations: self.relaxations,
            faults: self.faults,
            fencing: self.fencing,
            gives_back: self.case.subject.caches_no_addresses(),
            ..SimOptions::with_nodes(seed, self.case.regions(&settings))
        }
    }

    pub(crate) fn settings(&self) -> PoolSettings {
        let settings = self.case.settings();
        let lost_at_once = if self.absences > 0 { 2 * self.case.clients } else { 0 };
        let places = 2 * self.successors + 2 + lost_at_once + self.evictors;
        let place_bytes = if self.absences > 0 { 2048 } else { 1280 };
        PoolSettings {
            clients_max: settings.clients_max + places,
            capacity_bytes: settings.capacity_bytes + place_bytes * u64::from(places),
            ..settings
        }
    }
}
