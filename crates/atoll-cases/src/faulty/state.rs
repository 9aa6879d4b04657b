//! What the clients of a run with faults share: the history, the errors, and what clients counted.

use crate::endpoint::CaseEndpoint;
use crate::faulty::case::FaultyCase;
use crate::subject::{Shared, Subject};
use atoll_cache::{Cache, CacheError, Engine, EnginePool, Lasting, Pooled};
use atoll_fabric::{Address, Endpoint, Identity, VerbError};
use atoll_pool::PoolError;
use atoll_sim::{ClientId, Control, Fencing, History};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

/// Incarnations of each client that one absence of a memory node may end: when the node ends, while
/// the pool is cleared of it, and when the node comes back.
const LOST_PER_ABSENCE: u32 = 8;

/// What clients counted, dead clients included.
#[derive(Default)]
pub(crate) struct Counts {
    /// Objects evicted.
    evictions: Cell<u64>,
    /// Objects dropped because their bytes were not what was written.
    damaged: Cell<u64>,
    /// Clients that did not leave. The effects of the last batch of each are not counted.
    lost: Cell<u64>,
}

/// A client's cache. On drop, its counts are added to the run's, whether the client left or died.
pub(crate) struct CountedCache<G: Engine> {
    pub(crate) cache: Cache<G>,
    pub(crate) counts: Rc<Counts>,
    pub(crate) has_left: bool,
}

impl<G: Engine> Drop for CountedCache<G> {
    fn drop(&mut self) {
        let (stats, counts) = (self.cache.stats(), &self.counts);
        counts.evictions.set(counts.evictions.get() + stats.evictions);
        counts.damaged.set(counts.damaged.get() + stats.damaged);
        counts.lost.set(counts.lost.get() + u64::from(!self.has_left));
    }
}

impl<G: Engine> CountedCache<G> {
    /// Leaves the pool. A client whose leave fails counts as lost.
    pub(crate) async fn leave<E: Endpoint>(&mut self) -> Result<(), CacheError>
    where
        G: Pooled<E>,
    {
        self.cache.engine().leave().await?;
        self.has_left = true;
        Ok(())
    }
}

/// What the clients of a run and its judge share.
pub(crate) struct RunState<S: Subject> {
    pub(crate) faulty: FaultyCase<S>,
    pub(crate) seed: u64,
    pub(crate) bytes: u64,
    pub(crate) history: Rc<History>,
    pub(crate) errors: RefCell<Vec<String>>,
    pub(crate) next_number: Cell<u32>,
    pub(crate) counts: Rc<Counts>,
    /// Each client's number in the history.
    pub(crate) numbers: Rc<RefCell<BTreeMap<ClientId, u32>>>,
    /// The pool, as the process of the first client that joined has it open.
    first_pool: RefCell<Option<Arc<Shared<S>>>>,
    /// The words of a client's place that change with each of its rounds.
    pub(crate) leases: RefCell<HashMap<Identity, [Address; 2]>>,
}

impl<S: Subject> RunState<S> {
    pub(crate) fn new(faulty: FaultyCase<S>, seed: u64, bytes: u64, history: Rc<History>) -> Rc<Self> {
        let next_number = Cell::new(faulty.case.clients);
        Rc::new(Self {
            faulty,
            seed,
            bytes,
            history,
            errors: RefCell::default(),
            next_number,
            counts: Rc::default(),
            numbers: Rc::default(),
            first_pool: RefCell::default(),
            leases: RefCell::default(),
        })
    }

    /// Joins the pool as a client of its own process.
    pub(crate) async fn join(
        &self,
        control: &Control,
        name: &str,
        hole: bool,
    ) -> Result<CountedCache<Lasting<S::Engine>>, PoolError> {
        let endpoint = CaseEndpoint::new(control.endpoint(name));
        let pool = S::Engine::open(&endpoint, self.bytes).await?;
        self.first_pool.borrow_mut().get_or_insert_with(|| pool.clone());
        self.join_process(pool, endpoint, hole).await
    }

    /// Joins the pool as a client of the process of the first client, if that has joined.
    pub(crate) async fn join_first(
        &self,
        control: &Control,
        name: &str,
    ) -> Result<CountedCache<Lasting<S::Engine>>, PoolError> {
        let first_pool = self.first_pool.borrow().clone();
        match first_pool {
            Some(pool) => self.join_process(pool, CaseEndpoint::new(control.endpoint(name)), true).await,
            None => self.join(control, name, true).await,
        }
    }

    async fn join_process(
        &self,
        pool: Arc<Shared<S>>,
        endpoint: CaseEndpoint,
        hole: bool,
    ) -> Result<CountedCache<Lasting<S::Engine>>, PoolError> {
        #[cfg(feature = "holes")]
        if let Some(hole) = self.faulty.loss_hole {
            pool.pool().open_hole(hole);
        }
        let mut engine = S::Engine::join(&pool, endpoint).await?;
        engine.client().set_times(self.faulty.times);
        engine.client().set_reach(self.faulty.reach);
        self.faulty.case.subject.configure(&mut engine, self.faulty.case.hole.filter(|_| hole));
        let (layout, slot) = (&pool.pool().layout, engine.client().me().slot);
        let words = [layout.signal(slot), layout.lease(slot)];
        self.leases.borrow_mut().insert(engine.client().endpoint.identity(), words);
        Ok(CountedCache { cache: Cache::new(Lasting::new(engine)), counts: self.counts.clone(), has_left: false })
    }

    /// What clients counted must explain what they saw.
    pub(crate) fn judge_counts(&self) -> Result<(), String> {
        let (Counts { evictions, damaged, lost }, faults) = (&*self.counts, &self.faulty.faults);
        // A node that loses its bytes damages what was there.
        if damaged.get() > 0 && faults.node_losses_max + self.faulty.absences == 0 {
            return Err(format!("{} sound objects were dropped as damaged", damaged.get()));
        }
        let is_counted = S::CLIENTS_EVICT && lost.get() == 0 && faults.node_losses_max + self.faulty.absences == 0;
        let gone = if is_counted { self.history.keys_evicted() as u64 } else { 0 };
        match gone > evictions.get() {
            true => Err(format!("{gone} keys went by themselves, and {} evictions were counted", evictions.get())),
            false => Ok(()),
        }
    }

    /// A living client may be shut out only if it made no round for long enough, as far as the
    /// client that did so saw.
    pub(crate) fn judge_fences(&self, control: &Control) -> Result<(), String> {
        let FaultyCase { times, faults, .. } = &self.faulty;
        // By an observer's clock that is too fast.
        let least_ns = times.suspect_ns * 1000 / (1000 + u64::from(faults.clock_drift_per_mille_max));
        for forced in control.forced() {
            let Some(words) = self.leases.borrow().get(&forced.who).copied() else { continue };
            let seen = if self.faulty.case.lanes > 1 { &forced.longest_ns } else { &forced.still_ns };
            let still_ns = words.iter().filter_map(|word| seen.get(word)).min().copied().unwrap_or(0);
            if still_ns + 2 < least_ns {
                let who = control.identified(forced.who).map_or_else(String::new, |client| control.name(client));
                return Err(format!("{who} was shut out {still_ns} ns after it had made a round"));
            }
        }
        Ok(())
    }

    /// Whether a client with this endpoint may end with this error.
    pub(crate) fn explains_error(&self, control: &Control, who: Identity, error: &VerbError) -> bool {
        let FaultyCase { faults, fencing, .. } = &self.faulty;
        match error {
            // Where a hole is open, the harm that it names comes after its victim was shut out.
            VerbError::Fenced if self.faulty.case.hole.is_some() => true,
            VerbError::Fenced if self.faulty.absences + faults.node_losses_max > 0 => true,
            VerbError::Fenced => *fencing == Fencing::Forced && control.is_shut_out(who),
            VerbError::OutcomeUnknown => faults.unknowns_max + faults.link_cuts_max > 0 || self.faulty.are_silent,
            VerbError::PeerDead => faults.node_losses_max + self.faulty.absences > 0,
            VerbError::NodeAbsent(_) => self.faulty.absences + faults.node_losses_max > 0,
            _ => false,
        }
    }
}

impl<S: Subject> RunState<S> {
    /// Whether a joiner may end with this error.
    pub(crate) fn explains_join_error(&self, error: &PoolError) -> bool {
        let faults = &self.faulty.faults;
        match error {
            PoolError::Verb(VerbError::Fenced) => {
                self.faulty.fencing == Fencing::Forced || self.faulty.absences + faults.node_losses_max > 0
            }
            PoolError::Verb(VerbError::OutcomeUnknown) => {
                faults.unknowns_max + faults.link_cuts_max > 0 || self.faulty.are_silent
            }
            PoolError::Verb(VerbError::PeerDead) => faults.node_losses_max + self.faulty.absences > 0,
            PoolError::Verb(VerbError::NodeAbsent(_)) => self.faulty.absences + faults.node_losses_max > 0,
            PoolError::NotAPool => faults.node_losses_max > 0,
            PoolError::Member { .. } => faults.node_losses_max + self.faulty.absences > 0,
            _ => false,
        }
    }

    /// The number of a successor, if there may be one more.
    pub(crate) fn successor(&self) -> Option<u32> {
        let number = self.next_number.get();
        let FaultyCase { case, successors, absences, .. } = &self.faulty;
        let is_left = number - case.clients < successors + LOST_PER_ABSENCE * absences * case.clients;
        self.next_number.set(number + u32::from(is_left));
        is_left.then_some(number)
    }
}
