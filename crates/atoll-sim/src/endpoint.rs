//! One client's access to the simulated fabric.

use crate::flight::Fate;
use crate::network::CpuCosts;
use crate::shared::Shared;
use crate::world::World;
use atoll_fabric::batch::{Operation, Verb};
use atoll_fabric::{
    Address, Batch, Buffer, COMPUTE_NODES_MAX, Domain, Endpoint, FabricError, Identity, Kind, Lifetime, Limits, Origin,
    Purpose, RegionAttributes, RegionState, VerbError,
};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The boot of every memory node: none of them is started again during a run.
const BOOT: u64 = 0xb007;

/// One client's access to the simulated fabric. Its verbs are posted from inside a task of the
/// simulation.
pub struct SimEndpoint {
    shared: Rc<Shared>,
    number: u32,
    /// The exported regions that it follows.
    followed: RefCell<Vec<Address>>,
}

impl SimEndpoint {
    pub(crate) fn new(shared: Rc<Shared>, name: &str, compute_node: u16) -> Self {
        let number = shared.world.borrow_mut().add_port(name, shared.seed, compute_node);
        Self { shared, number, followed: RefCell::default() }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The attributes of a region, if it is there.
    pub fn attributes(&self, node: u8, region: u8) -> Option<RegionAttributes> {
        self.shared.world.borrow().memory.attributes(node, region)
    }

    /// How many steps the simulation has taken: the time that histories are written in.
    pub fn steps(&self) -> u64 {
        self.shared.world.borrow().steps
    }

    /// Virtual nanoseconds since the simulation was made; in a timed run, as far as this client's
    /// processor has come.
    pub fn virtual_ns(&self) -> u64 {
        self.shared.world.borrow().now_ns
    }

    /// In a timed run, charges the client's processor: for work that does not pass the fabric, such
    /// as hashing a key. See [`CpuCosts`].
    pub fn charge_ps(&self, ps: u64) {
        self.shared.world.borrow_mut().charge_ps(ps);
    }

    /// In a timed run, what the steps of a protocol cost.
    pub fn cpu_costs(&self) -> Option<CpuCosts> {
        self.shared.world.borrow().timed.as_ref().map(|timed| timed.cpu())
    }

    #[inline]
    fn check(&self, world: &World, verbs: &[Verb]) -> Result<(), VerbError> {
        world.standing(self.number)?;
        let limits = world.limits;
        assert!(verbs.len() <= limits.batch_verbs_max, "a batch of {} verbs: see Endpoint::limits", verbs.len());
        for verb in verbs {
            assert!(verb.len() <= limits.verb_bytes_max, "a verb of {} bytes: see Endpoint::limits", verb.len());
        }
        world.memory.check(verbs)?;
        world.check_exporters(verbs)?;
        world.check_losses(self.number, verbs)
    }
}

impl SimEndpoint {
    /// Whether an endpoint is dead, or, where fences are forced, is shut out now. If so, nothing of
    /// what it had in flight takes effect behind this.
    async fn settle_death(&self, who: Identity, by_force: bool) -> Result<bool, VerbError> {
        let (guided, is_nobody) = {
            let world = self.shared.world.borrow();
            world.standing(self.number)?;
            (world.is_guided(), world.identified(who).is_none())
        };
        if guided {
            // In an explored run time passes only where no client can take a step, so this takes
            // none.
            let mut world = self.shared.world.borrow_mut();
            let begun = world.begin_fence(self.number, who, by_force)?;
            return Ok(is_nobody || begun.inspect(|(port, _)| world.end_fence(*port)).is_some());
        }
        // A client that is being killed is dead by then.
        self.pause(1).await;
        let begun = self.shared.world.borrow_mut().begin_fence(self.number, who, by_force)?;
        // An endpoint that was never made is as dead as can be.
        let Some((port, ns)) = begun else { return Ok(is_nobody) };
        // Until the fence stands, what is in flight may still take effect.
        self.pause(ns).await;
        let mut world = self.shared.world.borrow_mut();
        world.standing(self.number)?;
        world.end_fence(port);
        Ok(true)
    }

    /// What the control plane does, unless this client was killed or shut out.
    async fn at_once<T>(&self, does: impl FnOnce(&mut World) -> T) -> Result<T, VerbError> {
        if self.shared.world.borrow().ghost {
            std::future::pending::<()>().await;
        }
        let mut world = self.shared.world.borrow_mut();
        world.standing(self.number)?;
        Ok(does(&mut world))
    }
}

impl std::fmt::Debug for SimEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let world = self.shared.world.borrow();
        f.debug_struct("SimEndpoint").field("name", &world.ports[self.number as usize].name()).finish()
    }
}

impl Endpoint for SimEndpoint {
    #[inline]
    fn post(&self, batch: &mut Batch) -> impl Future<Output = Result<(), VerbError>> {
        Post { endpoint: self, verbs: batch.verbs_mut(), flight: None }
    }

    /// Without the room that a batch has for many.
    async fn read(&self, at: Address, into: Buffer) -> Result<Buffer, VerbError> {
        let mut verbs = [Verb { at, fenced: false, operation: Operation::Read { into } }];
        Post { endpoint: self, verbs: &mut verbs, flight: None }.await?;
        let [Verb { operation: Operation::Read { into }, .. }] = verbs else { unreachable!("a verb stays what it is") };
        Ok(into)
    }

    fn post_unawaited(&self, batch: &mut Batch) {
        let mut world = self.shared.world.borrow_mut();
        let checked = self.check(&world, batch.verbs());
        match checked {
            _ if world.ghost => {}
            Ok(()) if batch.is_empty() => {}
            Ok(()) => {
                world.launch(self.number, batch.verbs_mut(), Fate::Unawaited);
            }
            Err(error) => {
                world.ports[self.number as usize].posts.error.get_or_insert(error);
            }
        }
        drop(world);
        batch.clear();
    }

    fn flush(&self) -> impl Future<Output = Result<(), VerbError>> {
        std::future::poll_fn(|context| {
            let mut world = self.shared.world.borrow_mut();
            if world.ghost {
                return Poll::Pending;
            }
            world.standing(self.number)?;
            let posts = &mut world.ports[self.number as usize].posts;
            if posts.unawaited == 0 {
                return Poll::Ready(posts.error.take().map_or(Ok(()), Err));
            }
            posts.waiters.push(context.waker().clone());
            Poll::Pending
        })
    }

    fn reach(&self, node: u8) -> impl Future<Output = Result<(), VerbError>> {
        let is_there = self.attributes(node, 0).is_some();
        let why = || "the simulation has no such node".to_owned();
        std::future::ready(if is_there { Ok(()) } else { Err(VerbError::node_absent(node, why())) })
    }

    fn export(&self, wanted: RegionAttributes) -> Result<Address, FabricError> {
        let refused = |why| FabricError::NoExport { wanted, why };
        let mut world = self.shared.world.borrow_mut();
        let node = u16::try_from(self.number).ok().filter(|node| *node < COMPUTE_NODES_MAX);
        let node = node.ok_or(refused("all numbers of compute nodes are taken"))?;
        if wanted.kind != Kind::Host || wanted.domain != Domain::Nic || wanted.lifetime != Lifetime::Process {
            return Err(refused("a simulated node has ordinary memory, whose atomics are the NIC's"));
        }
        let region = world.memory.export(node, wanted).ok_or(refused("an endpoint exports 64 regions at most"))?;
        Ok(Address::on_compute(node, region, 0))
    }

    fn reach_export(&self, at: Address) -> Result<RegionAttributes, VerbError> {
        let world = self.shared.world.borrow();
        let attributes = world.memory.exported(at).filter(|_| !world.is_exporter_gone(at));
        attributes.ok_or_else(|| {
            let node = at.compute_node().unwrap_or(COMPUTE_NODES_MAX);
            VerbError::export_absent(node, at.region(), "no simulated client that lives exports it")
        })
    }

    fn reach_export_if(&self, at: Address, word: u64) -> Result<bool, VerbError> {
        self.reach_export(at)?;
        let world = self.shared.world.borrow();
        let found = world.memory.words(at, 8).and_then(|words| words.first().copied());
        found.map(|found| found == word).ok_or_else(|| {
            let node = at.compute_node().unwrap_or(COMPUTE_NODES_MAX);
            VerbError::export_absent(node, at.region(), "it has no such word")
        })
    }

    fn follow(&self, at: Address) -> Result<(), FabricError> {
        let wanted = RegionAttributes { bytes: 0, kind: Kind::Host, domain: Domain::Nic, lifetime: Lifetime::Process };
        let refused = |_| FabricError::NoExport { wanted, why: "no simulated client that lives exports it" };
        self.reach_export(at).map_err(refused)?;
        self.followed.borrow_mut().push(at);
        Ok(())
    }

    fn own_word(&self, at: Address) -> Option<u64> {
        let world = self.shared.world.borrow();
        let is_followed = self.followed.borrow().iter().any(|followed| followed.is_in_region_of(at));
        if !is_followed || world.is_exporter_gone(at) { None } else { world.memory.words(at, 8)?.first().copied() }
    }

    fn provide(&self, at: Address, bytes: u64) -> impl Future<Output = Result<bool, VerbError>> {
        let number = self.number;
        self.at_once(move |world| {
            if !world.reached_before_loss(number, at) {
                world.memory.provide(at, bytes);
            }
            true
        })
    }

    fn discard(&self, at: Address, bytes: u64) -> impl Future<Output = Result<u64, VerbError>> {
        let number = self.number;
        self.at_once(move |world| {
            let is_given_back = world.gives_back && !world.reached_before_loss(number, at);
            if is_given_back { world.memory.discard(at, bytes) } else { 0 }
        })
    }

    async fn region_state(&self, node: u8) -> RegionState {
        self.shared.world.borrow().region_state(node)
    }

    fn silent(&self) -> u64 {
        self.shared.world.borrow().silent
    }

    fn remove_forsaken(&self, node: u8, is_it: &dyn Fn(&[u64]) -> bool) -> impl Future<Output = bool> {
        let removed = self.shared.world.borrow_mut().remove_forsaken(node, is_it);
        std::future::ready(removed)
    }

    fn end(&self) {
        self.shared.world.borrow_mut().ports[self.number as usize].end.dropped = true;
    }

    fn is_over(&self) -> bool {
        self.shared.world.borrow().ports[self.number as usize].end.dropped
    }

    async fn remake(&self, node: u8, _: u64) -> Result<(), VerbError> {
        let number = self.number;
        self.at_once(move |world| world.reaches_anew(number, node)).await?
    }

    fn region_attributes(&self, node: u8) -> Option<RegionAttributes> {
        self.attributes(node, 0)
    }

    /// A simulation drives its clients itself: see [`Sim::run`](crate::Sim::run).
    fn wait(&self) {
        panic!("a simulated client is a task: give its future to Sim::block_on or Sim::spawn");
    }

    fn provided(&self, node: u8) -> u64 {
        self.shared.world.borrow().memory.provided(node, 0)
    }

    fn purpose(&self, purpose: Purpose) -> Purpose {
        match &mut self.shared.world.borrow_mut().timed {
            None => purpose,
            Some(timed) => timed.swap_purpose(self.number, purpose),
        }
    }

    fn charge(&self, ns: u64) {
        self.charge_ps(ns.saturating_mul(1000));
    }

    fn pause(&self, ns: u64) -> impl Future<Output = ()> {
        Pause { endpoint: self, ns: ns.max(1), alarm: None }
    }

    fn now_ns(&self) -> u64 {
        self.shared.world.borrow().monotone_ns(self.number)
    }

    fn unix_ms(&self) -> u64 {
        self.shared.world.borrow_mut().unix_ms(self.number, self.shared.epoch_ms)
    }

    fn agent_ms(&self) -> Option<u64> {
        self.shared.world.borrow().agent_ms(self.number)
    }

    fn boot(&self) -> Option<u64> {
        Some(BOOT)
    }

    fn random(&self) -> u64 {
        self.shared.world.borrow_mut().ports[self.number as usize].host.random.word()
    }

    fn limits(&self) -> Limits {
        self.shared.world.borrow().limits
    }

    fn is_near(&self) -> bool {
        self.shared.world.borrow().ports[self.number as usize].host.is_near
    }

    fn identity(&self) -> Identity {
        Identity::from_bits(self.number + 1)
    }

    /// Every client is the first process of a container of its own, so that a protocol that
    /// concludes anything from this comes to harm.
    fn origin(&self) -> Origin {
        Origin { pid: 1, namespace: 0 }
    }

    fn is_dead(&self, who: Identity) -> impl Future<Output = Result<bool, VerbError>> {
        self.settle_death(who, false)
    }

    fn shut_out(&self, who: Identity) -> impl Future<Output = Result<bool, VerbError>> {
        self.settle_death(who, true)
    }

    fn fabric(&self) -> &'static str {
        "sim"
    }
}

impl Drop for SimEndpoint {
    /// No task can post by it any more, which counts as an observed death.
    fn drop(&mut self) {
        self.end();
    }
}

/// A time that is waited for, from the first poll on. Dropping it takes its alarm with it.
struct Pause<'e> {
    endpoint: &'e SimEndpoint,
    ns: u64,
    /// Set from the first poll to the end.
    alarm: Option<Alarm>,
}

struct Alarm {
    lane: u32,
    number: u64,
    at_ns: u64,
}

impl Future for Pause<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let endpoint = self.endpoint;
        let mut world = endpoint.shared.world.borrow_mut();
        let at_ns = match &self.alarm {
            Some(alarm) => alarm.at_ns,
            None => world.now_ns.saturating_add(world.true_ns(endpoint.number, self.ns)),
        };
        if at_ns <= world.now_ns || world.deaths.dropping {
            drop(world);
            self.unset();
            return Poll::Ready(());
        }
        if self.alarm.is_none() {
            let lane = world.polled.expect("a pause is made by a spawned task: see Sim::spawn");
            self.alarm = Some(Alarm { lane, number: world.set_alarm(lane, at_ns), at_ns });
        }
        if let Some(Alarm { lane, number, .. }) = self.alarm {
            let waker = endpoint.shared.foreign_waker(Some(lane), context);
            world.lanes[lane as usize].alarms.wakes(number, waker);
        }
        Poll::Pending
    }
}

impl Pause<'_> {
    fn unset(&mut self) {
        if let Some(Alarm { lane, number, .. }) = self.alarm.take() {
            self.endpoint.shared.world.borrow_mut().lanes[lane as usize].alarms.unset(number);
        }
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.unset();
    }
}

/// A post that is waited for. Dropping it leaves the batch in flight, with its buffers.
struct Post<'e, 'b> {
    endpoint: &'e SimEndpoint,
    verbs: &'b mut [Verb],
    /// Set from the first poll, if there was room, to the end.
    flight: Option<u32>,
}

impl Future for Post<'_, '_> {
    type Output = Result<(), VerbError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let SimEndpoint { shared, number, .. } = this.endpoint;
        let mut world = shared.world.borrow_mut();
        if world.ghost {
            return Poll::Pending;
        }
        let Some(id) = this.flight else {
            this.endpoint.check(&world, this.verbs)?;
            if this.verbs.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let limit = world.limits.batches_max;
            let posts = &mut world.ports[*number as usize].posts;
            if posts.in_flight >= limit {
                posts.waiters.push(context.waker().clone());
                return Poll::Pending;
            }
            let fate = Fate::Awaited(shared.foreign_waker(world.polled, context));
            this.flight = Some(world.launch(*number, this.verbs, fate));
            return Poll::Pending;
        };
        let flight = world.flight_mut(id);
        match &flight.fate {
            Fate::Landed | Fate::Failed(_) => {
                flight.disembark(this.verbs);
                let fate = std::mem::replace(&mut flight.fate, Fate::Landed);
                world.charge_results(id);
                world.release(id);
                this.flight = None;
                return Poll::Ready(if let Fate::Failed(error) = fate { Err(error.into()) } else { Ok(()) });
            }
            Fate::Unknown => {
                flight.strand(this.verbs);
                flight.fate = Fate::Abandoned;
                this.flight = None;
                return Poll::Ready(Err(VerbError::OutcomeUnknown));
            }
            _ => {}
        }
        let lane = flight.lane;
        flight.fate = Fate::Awaited(shared.foreign_waker(Some(lane), context));
        Poll::Pending
    }
}

impl Drop for Post<'_, '_> {
    fn drop(&mut self) {
        let Some(id) = self.flight else { return };
        let mut world = self.endpoint.shared.world.borrow_mut();
        let flight = world.flight_mut(id);
        match flight.fate {
            Fate::Landed | Fate::Failed(_) => world.release(id),
            _ => flight.fate = Fate::Abandoned,
        }
    }
}
