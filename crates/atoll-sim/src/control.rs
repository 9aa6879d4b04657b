//! What a task may do to the simulation: spawn clients, kill and pause them, cut links, lose nodes.

use crate::SimEndpoint;
use crate::client::{ClientId, ClientState};
use crate::fault::{After, Direction, Fault};
use crate::network::Traffic;
use crate::shared::Shared;
use crate::watch::Forced;
use atoll_fabric::{Address, Endpoint, Identity, Mailbox};
use std::future::Future;
use std::rc::Rc;
use std::task::Poll;

/// A handle on a simulation, for tasks inside it and for the test that runs it; cheap to clone. See
/// [`Sim::control`](crate::Sim::control). A timed run has no faults but lost memory nodes: to ask
/// for another one panics.
///
/// **Owner of an endpoint**: the client that polled a post on it last. A scenario may join a pool
/// from one task and use it from another. What a killed task owns is dropped with it.
#[derive(Clone)]
pub struct Control {
    pub(crate) shared: Rc<Shared>,
}

impl Control {
    /// As [`Sim::endpoint`](crate::Sim::endpoint).
    pub fn endpoint(&self, name: &str) -> SimEndpoint {
        self.endpoint_on(name, 0)
    }

    /// As [`Sim::endpoint_on`](crate::Sim::endpoint_on).
    pub fn endpoint_on(&self, name: &str, compute_node: u16) -> SimEndpoint {
        SimEndpoint::new(self.shared.clone(), name, compute_node)
    }

    /// As [`Sim::traffic`](crate::Sim::traffic): for a task that ends a warm-up.
    pub fn traffic(&self) -> Option<Traffic> {
        self.shared.world.borrow().timed.as_ref().map(|timed| timed.traffic())
    }

    /// As [`Sim::spawn`](crate::Sim::spawn).
    pub fn spawn(&self, name: &str, future: impl Future<Output = ()> + 'static) -> ClientId {
        self.shared.spawn(name, true, future)
    }

    /// As [`Sim::spawn_spared`](crate::Sim::spawn_spared).
    pub fn spawn_spared(&self, name: &str, future: impl Future<Output = ()> + 'static) -> ClientId {
        self.shared.spawn(name, false, future)
    }

    /// Lets a fault hit a client later. A client that has ended by then is not hit.
    pub fn fault(&self, client: ClientId, fault: Fault, when: After) {
        let mut world = self.shared.world.borrow_mut();
        world.assert_untimed();
        match when {
            After::Steps(steps) => world.fault_after_steps(client.0, fault, steps),
            After::Ns(ns) => world.fault_after_ns(client.0, fault, ns),
        }
    }

    /// Kills a client. Its task is dropped before anything else happens. Posts of its destructors
    /// end in [`VerbError::Fenced`](atoll_fabric::VerbError::Fenced) at once. A task that kills
    /// itself runs to its next await, which is its last.
    pub fn kill(&self, client: ClientId) {
        let mut world = self.shared.world.borrow_mut();
        world.assert_untimed();
        world.strike(client.0, Fault::Kill);
    }

    /// Pauses a client until [`Control::resume`].
    pub fn pause(&self, client: ClientId) {
        let mut world = self.shared.world.borrow_mut();
        world.assert_untimed();
        world.strike(client.0, Fault::Pause { ns: u64::MAX });
    }

    /// Resumes a paused client.
    pub fn resume(&self, client: ClientId) {
        self.shared.world.borrow_mut().resume(client.0);
    }

    /// Whether a client has neither ended nor been killed.
    pub fn is_alive(&self, client: ClientId) -> bool {
        matches!(self.state(client), ClientState::Running | ClientState::Paused)
    }

    /// The state of a client.
    pub fn state(&self, client: ClientId) -> ClientState {
        let mut world = self.shared.world.borrow_mut();
        world.touch();
        world.state(client.0)
    }

    /// The owner of an endpoint: see [`Control`].
    pub fn owner(&self, endpoint: &SimEndpoint) -> Option<ClientId> {
        self.shared.world.borrow().owner(endpoint.identity()).map(ClientId)
    }

    /// The client that owns, or owned, an endpoint with this identity: for names in a registry.
    pub fn identified(&self, who: Identity) -> Option<ClientId> {
        self.shared.world.borrow().owner(who).map(ClientId)
    }

    /// Whether an endpoint was shut out: its posts end in "fenced".
    pub fn is_shut_out(&self, who: Identity) -> bool {
        self.shared.world.borrow().is_shut_out(who)
    }

    /// Calls `tell` for every client that was shut out or found dead, once none of its verbs can
    /// take effect any more. `tell` must not use the simulation.
    pub fn on_shut_out(&self, tell: impl Fn(ClientId) + 'static) {
        self.shared.world.borrow_mut().on_shut_out = Some(Box::new(move |lane| tell(ClientId(lane))));
    }

    /// Watches a word from now on: see [`Control::forced`].
    ///
    /// # Panics
    /// If no region has it.
    pub fn watch_word(&self, at: Address) {
        let world = &mut *self.shared.world.borrow_mut();
        let word = world.memory.words(at, 8).expect("a word of a region")[0];
        world.watch.add(at, word, world.now_ns);
    }

    /// The living clients that were shut out while words were watched. It also returns for how long
    /// the watched words had stood still for the client that shut them out.
    pub fn forced(&self) -> Vec<Forced> {
        self.shared.world.borrow().watch.forced.clone()
    }

    /// A client's name.
    pub fn name(&self, client: ClientId) -> String {
        self.shared.world.borrow().lanes[client.0 as usize].name.clone()
    }

    /// All clients killed so far, in order.
    pub fn killed(&self) -> Vec<ClientId> {
        let mut world = self.shared.world.borrow_mut();
        world.touch();
        world.deaths.killed.iter().map(|lane| ClientId(*lane)).collect()
    }

    /// Waits for the next killed client that no call has returned yet. `None` once every client
    /// that is not spared has ended. It is for a spared task that spawns successors.
    pub fn next_killed(&self) -> impl Future<Output = Option<ClientId>> + use<> {
        let shared = self.shared.clone();
        std::future::poll_fn(move |context| {
            let mut world = shared.world.borrow_mut();
            match world.next_killed() {
                Poll::Ready(lane) => Poll::Ready(lane.map(ClientId)),
                Poll::Pending => {
                    world.deaths.watchers.push(context.waker().clone());
                    Poll::Pending
                }
            }
        })
    }

    /// Lets other clients take steps. A client of an explored case calls it between two operations,
    /// so that the second may begin late.
    pub fn turn(&self) -> impl Future<Output = ()> + use<> {
        let (shared, mut yielded) = (self.shared.clone(), false);
        std::future::poll_fn(move |_| {
            let mut world = shared.world.borrow_mut();
            if std::mem::replace(&mut yielded, true) || world.deaths.dropping {
                return Poll::Ready(());
            }
            let lane = world.polled.expect("a spawned task takes turns: see Sim::spawn");
            world.wake(lane);
            Poll::Pending
        })
    }

    /// In an explored run, reports that the present poll does something that other clients can see
    /// outside the fabric, the histories and this handle.
    pub fn touch(&self) {
        self.shared.world.borrow_mut().touch();
    }

    /// A memory node loses its bytes: they are zero from now on. Batches of endpoints made before
    /// now that touch the node end in [`VerbError::PeerDead`](atoll_fabric::VerbError::PeerDead).
    /// That holds for batches in flight, too, of which no further verb takes effect.
    pub fn lose_node(&self, node: u8) {
        self.shared.world.borrow_mut().lose_node(node);
    }

    /// As [`Control::lose_node`], and the node is away: verbs of later endpoints to it end in
    /// [`VerbError::NodeAbsent`](atoll_fabric::VerbError::NodeAbsent) until it
    /// [returns](Control::return_node).
    pub fn take_node_away(&self, node: u8) {
        self.lose_node(node);
        self.shared.world.borrow_mut().away |= 1 << node;
    }

    /// A memory node that is away is there again, with zero bytes. Only later endpoints reach it.
    pub fn return_node(&self, node: u8) {
        let mut world = self.shared.world.borrow_mut();
        world.lose_node(node);
        world.away &= !(1 << node);
    }

    /// A memory node does not answer: what was posted to it ends in
    /// [`VerbError::OutcomeUnknown`](atoll_fabric::VerbError::OutcomeUnknown), later batches in
    /// [`VerbError::NodeAbsent`](atoll_fabric::VerbError::NodeAbsent). It keeps its bytes.
    pub fn silence_node(&self, node: u8) {
        let mut world = self.shared.world.borrow_mut();
        world.assert_untimed();
        world.silence_node(node);
    }

    /// A memory node answers again, with its bytes, unless its region is gone.
    pub fn hear_node(&self, node: u8) {
        self.shared.world.borrow_mut().silent &= !(1 << node);
    }

    /// Cuts the link between a client and a node for this long. Batches posted then end in
    /// [`VerbError::OutcomeUnknown`](atoll_fabric::VerbError::OutcomeUnknown) at their deadline
    /// ([`SimOptions::deadline_ns`](crate::SimOptions)).
    pub fn cut_link(&self, client: ClientId, node: u8, direction: Direction, ns: u64) {
        let mut world = self.shared.world.borrow_mut();
        world.assert_untimed();
        world.cut_link(client.0, node, direction, ns);
    }

    /// Messages from one mailbox to another that are sent in the next `ns` are lost. Messages in
    /// the other direction are not.
    pub fn cut_messages(&self, from: Mailbox, to: Mailbox, ns: u64) {
        self.shared.world.borrow_mut().cut_messages(from, to, ns);
    }

    /// Makes every batch to a node take up to `factor` microseconds longer, for `ns`.
    pub fn slow_node(&self, node: u8, factor: u64, ns: u64) {
        let mut world = self.shared.world.borrow_mut();
        world.assert_untimed();
        world.slow_node(node, factor, ns);
    }

    /// Ends the faults: the seed draws no more, future faults do not happen, paused clients resume,
    /// links are whole and nodes fast again. It is for a scenario that checks that all clients then
    /// make progress.
    pub fn calm(&self) {
        self.shared.world.borrow_mut().calm();
    }

    /// Restarts the region's agent, as when a host boots: its clock begins at zero.
    pub fn restart_agent(&self) {
        let mut world = self.shared.world.borrow_mut();
        world.agent_ahead_ms = -((world.now_ns / 1_000_000) as i64);
        world.touch();
    }

    /// What the clock of the region's agent shows.
    pub fn agent_ms(&self) -> u64 {
        self.shared.world.borrow().agent_clock_ms()
    }

    /// Virtual nanoseconds since the simulation was made.
    pub fn now_ns(&self) -> u64 {
        self.shared.world.borrow().now_ns
    }

    /// The word at `at`, read past the fabric: for tests that check what clients do.
    ///
    /// # Panics
    /// If no region has it.
    pub fn peek_word(&self, at: Address) -> u64 {
        self.shared.world.borrow().memory.words(at, 8).expect("a word of a region")[0]
    }

    /// Sets the wall clock of a client ahead, or back.
    pub fn jump_clock(&self, client: ClientId, ms: i64) {
        self.shared.world.borrow_mut().jump_clock(client.0, ms);
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("seed", &self.shared.seed).finish()
    }
}
