//! One thread's access to the regions of agents.
//!
//! An endpoint has one connection with each agent that it uses: a [`Link`]. The first verb that
//! needs an agent connects, which blocks the thread for at most
//! [`TcpOptions::connect_timeout`](super::TcpOptions::connect_timeout). All else is as the contract
//! says: a poll does not block, and only polls make progress.
//!
//! | a poll of | sends and receives |
//! |---|---|
//! | a batch that was not posted yet | nothing: the batch is queued, so that others join it in one write |
//! | what is in flight | all that is queued, all that has arrived; once a round, if much is in flight |
//!
//! Invariants:
//! - The session with the home's agent is the endpoint's identity. Once it has ended, no verb is
//!   sent to any agent.
//! - A verb is sent to a further agent only after the home's agent knows that session, and only if
//!   the home's agent has answered within [`HOME_LEASE`].

use super::HOME_LEASE;
use super::arrivals::Readiness;
use super::call::{Answer, Call};
use super::control::close;
use super::counting::Counting;
use super::fabric::{TcpReach, TcpRegion};
use super::flight::{Flights, SlotId};
use super::follow::Followed;
use super::link::{Blocking, Link, SLEEP_MAX};
use super::post::{Calling, Posting, Reading};
use super::silence::host_ms;
use super::wire::VERB_BYTES_MAX;
use crate::batch::BATCH_VERBS_MAX;
use crate::random::Random;
use crate::shm::process::{self, ForkGuard};
use crate::{
    Address, Arrivals, Batch, Buffer, BusyPolling, Clock, Endpoint, Fabric, FabricError, Identity, Limits, Origin,
    Region, RegionAttributes, RegionState, Traffic, VerbError,
};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Batches in flight at most; a further post waits.
pub(super) const BATCHES_MAX: usize = 512;
/// A link with so many bytes to send takes no more.
const QUEUED_BYTES_MAX: usize = 4 << 20;
/// Polls that do nothing after one that looked at the links, at most.
pub(super) const IDLE_POLLS_MAX: usize = 64;
/// The host has slept if its time is ahead by so much more: clocks drift apart a little.
const SLEPT_MAX_MS: u64 = 500;

/// One thread's access.
pub struct TcpEndpoint {
    pub(super) reach: TcpReach,
    pub(super) core: RefCell<Core>,
    clock: Clock,
    random: Random,
    traffic: Counting,
    guard: ForkGuard,
    pub(super) process: u64,
    identity: OnceCell<Identity>,
    /// The agent's clock, as it was last told.
    agent_ms: Cell<u64>,
    /// When the first of those wakes that pause.
    wakes_ns: Cell<u64>,
    /// Bytes of each node that are known to have memory, where they are not those that the region
    /// had when it was opened.
    there: RefCell<HashMap<u8, u64>>,
    /// The home's agent, and the session with it, from the first connection on.
    home_session: Cell<Option<(u64, u64)>>,
    pub(super) followed: Followed,
    /// Milliseconds that the host has slept, when the home's agent was last asked for that reason.
    slept_ms: Cell<u64>,
}

/// Its links, and what is in flight.
pub(super) struct Core {
    /// The home's agent.
    home: usize,
    /// Whether no session is begun any more.
    is_over: bool,
    pub(super) links: Vec<Option<Link>>,
    pub(super) flights: Flights,
    /// Exported regions that it reaches.
    pub(super) exports: HashMap<(u16, u8), RegionAttributes>,
    /// Polls that need not look at the links.
    pub(super) idle_polls: usize,
    pub(super) deadline_ns: u64,
    pub(super) readiness: Readiness,
    /// Of the thread, where it waits for all links.
    polling: BusyPolling,
}

impl Core {
    /// Sends what is queued, and receives what has arrived. Returns whether anything has.
    fn drive(&mut self, now_ns: impl Fn() -> u64) -> bool {
        let mut has_received = false;
        for link in self.links.iter_mut().flatten().filter(|link| link.is_busy()) {
            link.flush(&mut self.flights);
            if link.receive(&mut self.flights, Blocking::No) {
                has_received = true;
            } else {
                link.check_deadline(&mut self.flights, now_ns(), self.deadline_ns);
            }
        }
        self.end_with_home();
        if has_received {
            self.flights.wake_others();
        }
        let in_flight = self.flights.len();
        self.idle_polls = if has_received { in_flight } else { in_flight.saturating_sub(1) }.min(IDLE_POLLS_MAX);
        has_received
    }

    /// Ends the sessions with all agents once that with the home's agent has ended: they may reuse
    /// the memory of a pool that is gone.
    #[inline]
    pub(super) fn end_with_home(&mut self) {
        if self.links[self.home].as_ref().is_some_and(|link| link.broken().is_some()) {
            self.end();
        }
    }

    /// Ends all sessions, for good.
    #[cold]
    fn end(&mut self) {
        self.is_over = true;
        for link in self.links.iter_mut().flatten().filter(|link| link.broken().is_none()) {
            link.fail(&mut self.flights, VerbError::OutcomeUnknown);
        }
    }

    /// Whether a batch for this agent may be queued.
    pub(super) fn has_room(&self, agent: usize) -> bool {
        let is_short = |link: &Link| link.queued_bytes() < QUEUED_BYTES_MAX;
        self.flights.len() < BATCHES_MAX && self.links[agent].as_ref().is_none_or(is_short)
    }
}

impl TcpEndpoint {
    pub(super) fn new(reach: TcpReach) -> Self {
        let (guard, process) = ForkGuard::new();
        let deadline = reach.fabric().options().deadline;
        let core = Core {
            home: reach.home_region().agent(),
            is_over: false,
            links: (0..Fabric::agents(reach.fabric())).map(|_| None).collect(),
            flights: Flights::default(),
            exports: HashMap::new(),
            idle_polls: 0,
            readiness: Readiness::default(),
            polling: BusyPolling::default(),
            deadline_ns: deadline.as_nanos() as u64,
        };
        Self {
            reach,
            core: RefCell::new(core),
            clock: Clock::host(),
            random: Random::new(process::random_word()),
            traffic: Counting::default(),
            guard,
            process,
            identity: OnceCell::new(),
            agent_ms: Cell::new(0),
            wakes_ns: Cell::new(u64::MAX),
            there: RefCell::default(),
            home_session: Cell::new(None),
            followed: Followed::default(),
            slept_ms: Cell::new(slept_ms(&Clock::host())),
        }
    }

    pub(super) fn home_session(&self) -> Option<(u64, u64)> {
        self.home_session.get()
    }

    #[inline]
    pub(super) fn is_fork(&self) -> bool {
        self.guard.number() != self.process
    }

    fn home_agent(&self) -> usize {
        self.reach.home_region().agent()
    }

    /// The agent of an address whose bytes are all in a region that is reached.
    pub(super) fn agent_of(&self, core: &Core, at: Address, bytes: u64) -> Result<usize, VerbError> {
        let end = at.offset().checked_add(bytes.next_multiple_of(8)).filter(|_| at.offset().is_multiple_of(8));
        let found = match at.compute_node() {
            Some(node) => core.exports.get(&(node, at.region())).map(|region| (self.home_agent(), region.bytes)),
            None if at.region() > 0 => None,
            None => self.reach.node(at.node()).map(|region| (region.agent(), region.attributes().bytes)),
        };
        match (found, end) {
            (Some((agent, most)), Some(end)) if end <= most => {
                assert!(bytes <= VERB_BYTES_MAX, "a verb of {bytes} bytes: see Endpoint::limits");
                Ok(agent)
            }
            _ => Err(VerbError::unreachable(at, bytes)),
        }
    }

    /// Makes sure that verbs to a memory node can be queued. It connects if need be.
    pub(super) fn prepare(&self, core: &mut Core, at: Address) -> Result<(), VerbError> {
        if self.is_fork() {
            return Err(VerbError::Forked);
        }
        let home = self.home_agent();
        if let Some(error) = core.links[home].as_ref().and_then(Link::broken) {
            return Err(error.clone());
        }
        if core.is_over {
            return Err(VerbError::Fenced);
        }
        let node = at.memory_node().unwrap_or(0);
        if node != 0 {
            self.renew_home(core)?;
        }
        let region = self.reach.node(node).ok_or_else(|| VerbError::unreachable(at, 8))?;
        let (agent, id) = (region.agent(), region.id());
        if core.links[home].is_none() {
            let (link, session) = self.connect(home)?;
            self.home_session.set(Some(session));
            core.readiness.add(&link);
            core.links[home] = Some(link);
            self.attach(core, home, 0, self.reach.home_region().id());
        }
        if core.links[agent].is_none() {
            let (link, (at_agent, session)) = self.connect(agent)?;
            let address = self.reach.fabric().agent(agent).as_bytes().to_vec();
            let named = Call::Elsewhere { agent: at_agent, session, address };
            // The home's agent is to end this session before it says that the client is dead.
            let slot = core.flights.begin(false);
            self.queue_call(core, home, slot, &named);
            match self.block_on_slot(core, slot)? {
                // The end of the home's session may have come with the answer.
                Answer::Number { .. } if !core.is_over => {
                    core.readiness.add(&link);
                    core.links[agent] = Some(link);
                }
                _ => return Err(VerbError::Fenced),
            }
        }
        let link = core.links[agent].as_ref().expect("it was connected above");
        if let Some(error) = link.broken() {
            return Err(error.clone());
        }
        if link.attached().attachment(node).is_none() {
            self.attach(core, agent, node, id);
        }
        Ok(())
    }

    /// Makes sure that the home's agent has answered lately: a verb to a further agent may be
    /// posted then. A client that makes its rounds never waits here.
    fn renew_home(&self, core: &mut Core) -> Result<(), VerbError> {
        let home = self.home_agent();
        let Some(link) = &core.links[home] else { return Ok(()) };
        let now_ns = self.clock.now_ns();
        let slept_ms = slept_ms(&self.clock);
        let has_slept = slept_ms.saturating_sub(self.slept_ms.get()) > SLEPT_MAX_MS;
        let age_ns = now_ns.saturating_sub(link.answered_ns());
        if age_ns < HOME_LEASE.as_nanos() as u64 && !has_slept {
            return Ok(());
        }
        let slot = core.flights.begin(false);
        self.queue_call(core, home, slot, &Call::Identity {});
        self.block_on_slot(core, slot)?;
        self.slept_ms.set(slept_ms);
        Ok(())
    }

    /// Connects with an agent. Gives the link, and the agent and the session there.
    fn connect(&self, agent: usize) -> Result<(Link, (u64, u64)), VerbError> {
        let fabric = self.reach.fabric();
        let failed = |error: FabricError| VerbError::node_absent(agent as u8, error.to_string());
        let asked_ns = self.clock.now_ns();
        let control = fabric.connect(agent).map_err(failed)?;
        let session = (control.agent, control.session);
        let clock_ms = control.clock_ms;
        let (stream, tunnel, next) = control.into_stream();
        let link = Link::new(stream, tunnel, next, (clock_ms, asked_ns))
            .map_err(|error| VerbError::node_absent(agent as u8, error.to_string()))?;
        Ok((link, session))
    }

    /// Queues the attachment of a node. Verbs may follow at once: if it fails, so do they.
    fn attach(&self, core: &mut Core, agent: usize, node: u8, region: u64) {
        let slot = core.flights.begin(false);
        let link = core.links[agent].as_mut().expect("it is connected");
        let attachment = link.attach(node);
        core.flights.add_frame(slot);
        link.queue_call(slot, &Call::Attach { attachment: attachment.into(), region }, self.clock.now_ns());
        core.flights.abandon(slot);
    }

    fn queue_call(&self, core: &mut Core, agent: usize, slot: SlotId, call: &Call) {
        core.flights.add_frame(slot);
        match core.links[agent].as_mut() {
            Some(link) if link.broken().is_none() => link.queue_call(slot, call, self.clock.now_ns()),
            Some(link) => {
                let error = link.broken().cloned().unwrap_or(VerbError::PeerDead);
                core.flights.failed(slot, error);
            }
            None => core.flights.failed(slot, VerbError::PeerDead),
        }
    }

    /// Posts a call to the agent of an address.
    pub(super) fn begin_call(&self, at: Address, call: &Call) -> Result<SlotId, VerbError> {
        let mut core = self.core.borrow_mut();
        let core = &mut *core;
        self.prepare(core, at)?;
        let agent = match at.memory_node() {
            Some(node) => self.reach.node(node).map_or(self.home_agent(), |region| region.agent()),
            None => self.home_agent(),
        };
        let slot = core.flights.begin(false);
        self.queue_call(core, agent, slot, call);
        self.count(0, true);
        Ok(slot)
    }

    /// Blocks the thread until a call is answered.
    fn block_on_slot(&self, core: &mut Core, slot: SlotId) -> Result<Answer, VerbError> {
        while !core.flights.is_done(slot) {
            core.drive(|| self.clock.now_ns());
            if !core.flights.is_done(slot) {
                sleep_for_links(core, SLEEP_MAX);
            }
        }
        core.flights.finish_call(slot)
    }

    /// Calls the home's agent, and blocks until it has answered.
    pub(super) fn ask_home(&self, call: &Call) -> Result<Answer, VerbError> {
        loop {
            let slot = self.begin_call(Address::new(0, 0, 0), call)?;
            match self.block_on_slot(&mut self.core.borrow_mut(), slot)? {
                // Another process excludes it for a moment.
                Answer::Busy {} => std::thread::sleep(Duration::from_millis(1)),
                answer => return Ok(answer),
            }
        }
    }

    /// Sleeps until something has arrived, for at most `longest`. Returns whether it has.
    fn sleep(&self, core: &mut Core, longest: Duration) -> bool {
        let mut busy = core.links.iter_mut().flatten().filter(|link| link.is_busy());
        let Some(link) = busy.next() else { return false };
        if busy.next().is_some() || longest < SLEEP_MAX || link.is_encrypted() {
            let has_come = core.drive(|| self.clock.now_ns());
            // A link that broke has ended what was in flight on it.
            if has_come || !core.links.iter().flatten().any(Link::is_busy) {
                return has_come;
            }
            core.idle_polls = 0;
            return sleep_for_links(core, longest);
        }
        link.flush(&mut core.flights);
        if link.queued_bytes() > 0 {
            return sleep_for_links(core, longest);
        }
        // One call sleeps and receives.
        let has_come = link.receive(&mut core.flights, Blocking::Yes);
        if !has_come {
            link.check_deadline(&mut core.flights, self.clock.now_ns(), core.deadline_ns);
        }
        core.end_with_home();
        core.idle_polls = core.flights.len().min(IDLE_POLLS_MAX);
        has_come
    }

    /// Sends and receives for everything in flight, unless a poll has just done so.
    #[inline]
    pub(super) fn progress(&self) {
        let mut core = self.core.borrow_mut();
        match core.idle_polls.checked_sub(1) {
            Some(left) => core.idle_polls = left,
            None => _ = core.drive(|| self.clock.now_ns()),
        }
    }

    /// The address by which the agent of a region that is prepared knows a byte of it.
    pub(super) fn wire_address(&self, at: Address) -> Address {
        let core = self.core.borrow();
        let agent = at.memory_node().and_then(|node| self.reach.node(node)).map_or(self.home_agent(), TcpRegion::agent);
        core.links[agent].as_ref().and_then(|link| link.attached().wire_address(at)).unwrap_or(at)
    }

    /// Counts a batch of so many verbs that is sent, or a call, which has none.
    #[inline]
    pub(super) fn count(&self, verbs: usize, is_awaited: bool) {
        self.traffic.count(verbs, is_awaited);
    }

    #[inline]
    pub(super) fn clock_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// A future that is polled until `wakes_ns` wakes the thread for it.
    pub(super) fn wake_at(&self, ns: u64) {
        self.wakes_ns.set(self.wakes_ns.get().min(ns));
    }
}

/// By how much the host's time is ahead of the clock, which stands still while the host sleeps.
fn slept_ms(clock: &Clock) -> u64 {
    host_ms().saturating_sub(clock.now_ns() / 1_000_000)
}

/// Sleeps until something has arrived on a link, or can be sent, for at most this long. Returns
/// whether it has, or can be.
fn sleep_for_links(core: &Core, longest: Duration) -> bool {
    let busy = core.links.iter().flatten().filter(|link| link.is_busy());
    let mut polled: arrayvec::ArrayVec<libc::pollfd, 64> = busy
        .map(|link| {
            let sends = if link.queued_bytes() > 0 { libc::POLLOUT } else { 0 };
            libc::pollfd { fd: link.descriptor(), events: libc::POLLIN | sends, revents: 0 }
        })
        .collect();
    let time = libc::timespec { tv_sec: 0, tv_nsec: longest.as_nanos().min(999_999_999) as libc::c_long };
    // SAFETY: the span of descriptors, which are open, is this function's own; the time is a valid
    // one, and no mask of signals is given.
    unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, &raw const time, std::ptr::null()) > 0 }
}

impl Drop for TcpEndpoint {
    /// Its drop is its death: what was posted is sent, and the agents have ended its sessions,
    /// unless they ended before. A fork leaves them alone.
    fn drop(&mut self) {
        if self.is_fork() {
            return self.followed.forget();
        }
        // Before the number is given back.
        self.followed.end();
        let core = self.core.get_mut();
        let deadline_ns = self.clock.now_ns() + core.deadline_ns.min(500_000_000);
        let is_sending = |core: &Core| core.links.iter().flatten().any(|link| link.queued_bytes() > 0);
        while is_sending(core) && self.clock.now_ns() < deadline_ns {
            core.drive(|| self.clock.now_ns());
            if is_sending(core) {
                sleep_for_links(core, SLEEP_MAX);
            }
        }
        let home = self.reach.home_region().agent();
        // The home's comes last: it is the endpoint's identity.
        let further = (0..core.links.len()).filter(|agent| *agent != home);
        for agent in further.chain(std::iter::once(home)) {
            if let Some(link) = core.links[agent].take().filter(|link| link.broken().is_none()) {
                close(link.stream());
            }
        }
    }
}

impl Endpoint for TcpEndpoint {
    fn post(&self, batch: &mut Batch) -> impl Future<Output = Result<(), VerbError>> {
        Posting::new(self, batch)
    }

    fn read(&self, at: Address, into: Buffer) -> impl Future<Output = Result<Buffer, VerbError>> {
        Reading::new(self, at, into)
    }

    fn post_unawaited(&self, batch: &mut Batch) {
        self.post_without_waiting(batch);
        batch.clear();
    }

    fn flush(&self) -> impl Future<Output = Result<(), VerbError>> {
        poll_fn(|context| {
            let flushed = |endpoint: &Self| endpoint.core.borrow_mut().flights.flushed();
            let outcome = flushed(self).or_else(|| {
                self.progress();
                flushed(self)
            });
            if outcome.is_none() {
                self.core.borrow_mut().flights.note(context.waker());
            }
            outcome.map_or(Poll::Pending, Poll::Ready)
        })
    }

    async fn reach(&self, node: u8) -> Result<(), VerbError> {
        self.reach.open(node)
    }

    async fn region_state(&self, node: u8) -> RegionState {
        self.reach.fabric().region_state(node, self.reach.node(node))
    }

    fn silent(&self) -> u64 {
        self.reach.silent()
    }

    async fn has_ended(&self, who: Identity) -> Result<bool, VerbError> {
        let answer = Calling::new(self, Address::new(0, 0, 0), |_| Call::HasEnded { who: who.bits().into() }).await?;
        Ok(matches!(answer, Answer::Number { number: 1 }))
    }

    fn end(&self) {
        if !self.is_fork() {
            // As when it is dropped.
            self.followed.end();
            self.core.borrow_mut().end();
        }
    }

    fn is_over(&self) -> bool {
        self.core.borrow().is_over
    }

    async fn forsake(&self, node: u8) -> Result<(), VerbError> {
        let address = self.reach.fabric().agent(self.reach.agent_of(node)).as_bytes().to_vec();
        Calling::new(self, Address::new(0, 0, 0), |_| Call::Forsake { address: address.clone() }).await.map(drop)
    }

    async fn remove_forsaken(&self, node: u8, is_it: &dyn Fn(&[u64]) -> bool) -> bool {
        self.reach.remove_forsaken(node, is_it).unwrap_or(false)
    }

    fn place(&self, node: u8) -> Option<String> {
        Some(self.reach.place(node))
    }

    fn find_place(&self, node: u8, is_it: &dyn Fn(&str) -> bool) -> bool {
        self.reach.find_place(node, is_it)
    }

    async fn remake(&self, node: u8, bytes: u64) -> Result<(), VerbError> {
        self.reach.remake(node, bytes)
    }

    fn export(&self, wanted: RegionAttributes) -> Result<Address, FabricError> {
        self.export_region(wanted)
    }

    fn reach_export(&self, at: Address) -> Result<RegionAttributes, VerbError> {
        self.reach_exported(at)
    }

    fn reach_export_if(&self, at: Address, word: u64) -> Result<bool, VerbError> {
        self.reach_exported_if(at, word)
    }

    fn follow(&self, at: Address) -> Result<(), FabricError> {
        self.follow_export(at)
    }

    #[inline]
    fn own_word(&self, at: Address) -> Option<u64> {
        self.followed_word(at)
    }

    async fn provide(&self, at: Address, bytes: u64) -> Result<bool, VerbError> {
        self.agent_of(&self.core.borrow(), at, 0)?;
        let answer = Calling::new(self, at, |at| Call::Provide { at: at.to_bits(), size: bytes }).await?;
        Ok(matches!(answer, Answer::Number { number: 1 }))
    }

    async fn discard(&self, at: Address, bytes: u64) -> Result<u64, VerbError> {
        self.agent_of(&self.core.borrow(), at, 0)?;
        let answer = Calling::new(self, at, |at| Call::Discard { at: at.to_bits(), size: bytes }).await?;
        Ok(if let Answer::Number { number } = answer { number } else { 0 })
    }

    fn region_attributes(&self, node: u8) -> Option<RegionAttributes> {
        self.reach.node(node).map(Region::attributes)
    }

    fn provided(&self, node: u8) -> u64 {
        let known = self.there.borrow().get(&node).copied().unwrap_or(0);
        self.reach.node(node).map_or(0, |region| region.there().max(known))
    }

    fn note_provided(&self, node: u8, bytes: u64) {
        let mut there = self.there.borrow_mut();
        let known = there.entry(node).or_default();
        *known = bytes.max(*known);
    }

    fn wait(&self) {
        let now_ns = self.clock.now_ns();
        let nap_ns = self.wakes_ns.replace(u64::MAX).saturating_sub(now_ns);
        let longest = SLEEP_MAX.min(Duration::from_nanos(nap_ns));
        let mut core = self.core.borrow_mut();
        let core = &mut *core;
        core.idle_polls = 0;
        if !core.links.iter().flatten().any(Link::is_busy) {
            // Nothing is in flight: a future pauses, or has just come so far.
            match nap_ns {
                u64::MAX => std::thread::yield_now(),
                _ => std::thread::sleep(longest),
            }
            return core.flights.wake_others();
        }
        let (mut polling, since) = (core.polling, Instant::now());
        if !polling.find(longest, || core.drive(|| self.clock.now_ns())) {
            let is_pausing = longest < SLEEP_MAX;
            let left = if is_pausing { longest.saturating_sub(since.elapsed()) } else { longest };
            let has_come = self.sleep(core, left);
            // A thread that woke because a pause was over has learned nothing.
            if has_come || !is_pausing {
                polling.waited(since.elapsed(), has_come);
            }
        }
        core.polling = polling;
        // Also those that pause: an executor polls only futures that were woken.
        core.flights.wake_others();
    }

    fn arrivals(&self) -> Option<&dyn Arrivals> {
        Some(self)
    }

    fn pause(&self, ns: u64) -> impl Future<Output = ()> {
        let mut end_ns = None;
        poll_fn(move |context| {
            let now_ns = self.clock.now_ns();
            let end_ns = *end_ns.get_or_insert_with(|| now_ns.saturating_add(ns));
            if now_ns >= end_ns {
                return Poll::Ready(());
            }
            self.progress();
            self.wake_at(end_ns);
            self.core.borrow_mut().flights.note(context.waker());
            Poll::Pending
        })
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn unix_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    /// Each answer of the home's agent tells its clock. Between two answers this host's clock
    /// counts on, and never too far: the answer's way took time.
    fn agent_ms(&self) -> Option<u64> {
        let mut core = self.core.borrow_mut();
        let core = &mut *core;
        self.prepare(core, Address::new(0, 0, 0)).ok()?;
        let ms = core.links[self.home_agent()].as_ref()?.agent_ms()?;
        // An answer that was long on its way says less than the one before it.
        self.agent_ms.set(ms.max(self.agent_ms.get()));
        Some(self.agent_ms.get())
    }

    fn boot(&self) -> Option<u64> {
        self.reach.home_region().boot()
    }

    fn random(&self) -> u64 {
        self.random.next()
    }

    fn traffic(&self) -> Traffic {
        self.traffic.traffic()
    }

    fn limits(&self) -> Limits {
        Limits { batch_verbs_max: BATCH_VERBS_MAX, batches_max: BATCHES_MAX, verb_bytes_max: VERB_BYTES_MAX }
    }

    /// An agent's frames arrive by one connection, and it executes them one after another.
    fn keeps_order(&self) -> bool {
        true
    }

    fn identity(&self) -> Identity {
        if self.is_fork() {
            return Identity::NOBODY;
        }
        if let Some(identity) = self.identity.get() {
            return *identity;
        }
        match self.ask_home(&Call::Identity {}) {
            Ok(Answer::Number { number }) => *self.identity.get_or_init(|| Identity::from_bits(number as u32)),
            _ => Identity::NOBODY,
        }
    }

    fn origin(&self) -> Origin {
        process::origin()
    }

    async fn is_dead(&self, who: Identity) -> Result<bool, VerbError> {
        let answer = Calling::new(self, Address::new(0, 0, 0), |_| Call::IsDead { who: who.bits().into() }).await?;
        Ok(matches!(answer, Answer::Number { number: 1 }))
    }

    async fn shut_out(&self, who: Identity) -> Result<bool, VerbError> {
        let answer = Calling::new(self, Address::new(0, 0, 0), |_| Call::ShutOut { who: who.bits().into() }).await?;
        Ok(matches!(answer, Answer::Number { number: 1 }))
    }

    fn fabric(&self) -> &'static str {
        "tcp"
    }
}
