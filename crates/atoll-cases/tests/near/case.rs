//! A few compute nodes with clients that read and write few objects, and what must hold of it.

use crate::regular;
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Kind, VerbError};
use atoll_near::{
    Counts, Directory, DirectoryOptions, Hole, Manager, Near, NearError, NodeOptions, Object, Promise, Protocol, Switch,
};
use atoll_sim::history::{Call, Evictions, Outcome, Pending};
use atoll_sim::sim::region;
use atoll_sim::{Control, Faults, Fencing, History, Random, Sim, SimEndpoint, SimOptions};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::Poll;

pub(crate) const DIRECTORY: Address = Address::new(0, 0, 0);
const TABLES: [Address; 2] = [Address::new(0, 0, 6400), Address::new(1, 0, 6400)];
const OBJECTS: u64 = 8192;
const REGION_BYTES: u64 = 1 << 14;
/// Reads of an object that is being written, until the reader gives up. A writer may stand still
/// for seconds, and the pauses of a reader grow to them.
const TORN_MAX: u32 = 200;

/// Compute nodes, objects, and what clients do with them.
#[derive(Clone, Debug)]
pub(crate) struct NearCase {
    pub(crate) seed: u64,
    pub(crate) promise: Promise,
    pub(crate) protocol: Protocol,
    pub(crate) stripes: u32,
    pub(crate) cached_at_first: bool,
    pub(crate) owners_from: u8,
    pub(crate) nodes: u32,
    pub(crate) clients_per_node: u32,
    /// Whether each client of a node is a process of its own, which dies and stops alone.
    pub(crate) processes: bool,
    /// Operations that a client has in flight.
    pub(crate) in_flight: u32,
    pub(crate) objects: u32,
    /// Words of an object. If there are several, each object has one client that writes it.
    pub(crate) words: u32,
    /// Of a client, by all that it has in flight together.
    pub(crate) operations: u32,
    /// Of 100 operations, how many write.
    pub(crate) writes: u64,
    /// Of 100 operations, how many switch a mode.
    pub(crate) switches: u64,
    /// Clients that are killed at most, each of which another compute node follows.
    pub(crate) kills: u32,
    pub(crate) pauses: u32,
    /// Posts whose outcome stays unknown, links that are cut, times that a node is slow: at most so
    /// many of each.
    pub(crate) network: u32,
    pub(crate) near_bytes: u64,
    pub(crate) segment_bytes: u64,
    /// How often the second memory node ends and comes back with other values. The first object is
    /// there then.
    pub(crate) absences: u32,
    /// Whether clients change objects by atomics, too.
    pub(crate) atomics: bool,
    pub(crate) hole: Option<Hole>,
}

impl NearCase {
    pub(crate) fn drawn(seed: u64) -> Self {
        let mut random = Random::stream(seed, 7);
        let words = random.pick(&[1, 1, 3]);
        Self {
            seed,
            promise: random.pick(&[Promise::Regular, Promise::Linearizable]),
            protocol: Protocol::Difache,
            stripes: random.pick(&[1, 2, 8]),
            cached_at_first: seed.is_multiple_of(2),
            owners_from: [1, 2, 3, 33][(seed / 2 % 4) as usize],
            nodes: 2 + random.below(3) as u32,
            clients_per_node: 1 + random.below(2) as u32,
            processes: false,
            in_flight: random.pick(&[1, 1, 2]),
            objects: 1 + random.below(3) as u32,
            words,
            operations: 40,
            writes: random.pick(&[5, 15, 40]),
            switches: random.pick(&[1, 8]),
            kills: 0,
            pauses: 0,
            network: 0,
            near_bytes: 2048,
            segment_bytes: random.pick(&[128, 256]),
            absences: 0,
            atomics: false,
            hole: None,
        }
    }

    pub(crate) fn faulty(seed: u64) -> Self {
        let mut random = Random::stream(seed, 8);
        Self { kills: random.below(4) as u32, pauses: random.below(3) as u32, ..Self::drawn(seed) }
    }

    /// The network loses and delays what is sent, too.
    pub(crate) fn remote(seed: u64) -> Self {
        Self { network: 1 + (seed % 3) as u32, ..Self::faulty(seed) }
    }

    /// The processes of a node die and stop by themselves.
    pub(crate) fn of_processes(seed: u64) -> Self {
        Self {
            processes: true,
            nodes: 2 + (seed % 2) as u32,
            clients_per_node: 2 + (seed / 2 % 2) as u32,
            kills: 1 + (seed % 4) as u32,
            ..Self::faulty(seed)
        }
    }

    /// A memory node ends and comes back, and compute nodes die meanwhile.
    pub(crate) fn absent(seed: u64) -> Self {
        let absences = 1 + (seed % 2) as u32;
        Self { absences, operations: 24, ..Self::faulty(seed) }
    }

    pub(crate) fn node_options(&self) -> NodeOptions {
        NodeOptions { bytes: self.near_bytes, segment_bytes: self.segment_bytes }
    }

    pub(crate) fn object(&self, number: u32) -> Object {
        let node = (number + self.absences.min(1)) as u8 % 2;
        Object::new(Address::new(node, 0, OBJECTS + 128 * u64::from(number)), 8 * self.words)
    }

    /// Runs the case; what its clients have counted together.
    pub(crate) fn run(&self) -> Result<Counts, String> {
        self.run_checked(self.promise)
    }

    /// The same, where reads must keep another promise than the one that is asked for.
    pub(crate) fn run_checked(&self, promise: Promise) -> Result<Counts, String> {
        let regions = vec![vec![region(REGION_BYTES, Kind::Host)]; 2];
        let mut faults = Faults::host(self.kills, self.pauses, 300);
        (faults.unknowns_max, faults.link_cuts_max, faults.slow_nodes_max) = (self.network, self.network, self.network);
        if self.network > 0 {
            faults.ns_max = 1_000_000;
        }
        let options = SimOptions {
            faults,
            fencing: Fencing::Observed,
            steps_max: 3_000_000,
            ..SimOptions::with_nodes(self.seed, regions)
        };
        let sim = Sim::new(options);
        self.play(&sim, promise)
    }

    fn directory_options(&self) -> DirectoryOptions {
        let Self { stripes, protocol, promise, cached_at_first, owners_from, .. } = *self;
        DirectoryOptions { stripes, protocol, promise, cached_at_first, owners_from }
    }

    /// Writes the first values, and creates the directory.
    pub(crate) fn prepare(&self, sim: &Sim, history: &Rc<History>) -> Result<Directory, String> {
        let (maker, case, history) = (sim.endpoint("maker"), self.clone(), history.clone());
        let prepared = sim.block_on(async move {
            for number in 0..case.objects {
                let value = u64::from(number);
                let pending = history.begin(u32::MAX, &number.to_le_bytes(), Call::set(value.to_le_bytes()));
                let mut batch = Batch::new();
                batch.write(case.object(number).at(), case.buffer(value));
                maker.post(&mut batch).await.unwrap();
                history.end(pending, Outcome::stored(true));
            }
            Directory::create(&maker, DIRECTORY, &TABLES, case.directory_options()).await.unwrap()
        });
        prepared.map_err(|error| error.to_string())
    }

    pub(crate) fn buffer(&self, value: u64) -> Buffer {
        let mut buffer = Buffer::sized(8 * self.words as usize);
        buffer.words_mut().fill(value);
        buffer
    }

    /// The manager outlives all nodes.
    fn start_manager(&self, sim: &Sim, scene: &Rc<Scene>, present: Weak<()>) -> Result<(), String> {
        let (endpoint, directory) = (sim.endpoint("manager"), scene.directory.clone());
        let started = sim.block_on(Manager::start(endpoint, directory)).map_err(|error| error.to_string())?;
        let mut manager = started.map_err(|error| error.to_string())?;
        manager.open_hole(self.hole);
        let scene = scene.clone();
        sim.spawn_spared("manager", async move {
            if let Err(error) = manager.serve(|| present.strong_count() > 0).await {
                scene.wrong.replace(Some(format!("the manager: {error}")));
            }
            add_counts(&mut scene.counts.borrow_mut(), manager.counts());
        });
        Ok(())
    }

    fn play(&self, sim: &Sim, promise: Promise) -> Result<Counts, String> {
        let history = Rc::new(History::new());
        let directory = self.prepare(sim, &history)?;
        let scene = Rc::new(Scene {
            case: self.clone(),
            directory,
            history: history.clone(),
            control: sim.control(),
            numbers: Cell::new(0),
            counts: RefCell::default(),
            absences: Cell::new(0),
            has_failed: Cell::new(false),
            wrong: RefCell::default(),
        });
        // There while nodes are.
        let present = Rc::new(());
        if self.protocol == Protocol::CmCache {
            self.start_manager(sim, &scene, Rc::downgrade(&present))?;
        }
        (0..self.nodes).for_each(|_| scene.clone().start_node());
        if self.absences > 0 {
            sim.spawn_spared("memory nodes", scene.clone().end_memory_nodes());
        }
        let (control, successors) = (sim.control(), scene.clone());
        sim.spawn_spared("successors", async move {
            while control.next_killed().await.is_some() {
                successors.clone().start_node();
            }
            drop(present);
        });
        sim.run().map_err(|error| error.to_string())?;
        if let Some(wrong) = scene.wrong.borrow_mut().take() {
            return Err(wrong);
        }
        match promise {
            Promise::Regular => regular::check(&history.events())?,
            Promise::Linearizable => match history.check_with(Evictions::Never) {
                // The checker gave up: nothing is known of this run.
                Err(violation) if violation.what.contains("no answer") => {}
                checked => drop(checked.map_err(|violation| violation.to_string())?),
            },
        }
        Ok(*scene.counts.borrow())
    }
}

/// Adds what one client has counted.
fn add_counts(sum: &mut Counts, counts: Counts) {
    *sum = sum.plus(&counts);
}

/// How a client's operations ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ended {
    /// All succeeded.
    Well,
    /// Some failed because a memory node has ended.
    WithoutNode,
    /// Some failed because the node's near region has ended.
    WithoutRegion,
    /// One failed by another error.
    ByError,
}

/// Whether an operation failed because a memory node has ended.
pub(crate) fn is_of_absent_node(error: &NearError) -> bool {
    let is_absent = |error: &VerbError| matches!(error, VerbError::PeerDead | VerbError::NodeAbsent(_));
    matches!(error, NearError::NodeAway { .. }) || matches!(error, NearError::Verb(verb) if is_absent(verb))
}

struct Scene {
    case: NearCase,
    directory: Directory,
    history: Rc<History>,
    control: Control,
    numbers: Cell<u32>,
    counts: RefCell<Counts>,
    /// How often a memory node has ended, and is used again.
    absences: Cell<u32>,
    /// Whether a compute node ended by an error.
    has_failed: Cell<bool>,
    wrong: RefCell<Option<String>>,
}

/// Runs all to their end, as threads of one process, which ends when one ends by an error.
async fn together(mut threads: Vec<Pin<Box<dyn Future<Output = Ended> + '_>>>) -> Ended {
    let mut ended = Ended::Well;
    std::future::poll_fn(|context| {
        threads.retain_mut(|thread| match thread.as_mut().poll(context) {
            Poll::Ready(outcome) => {
                ended = ended.max(outcome);
                false
            }
            Poll::Pending => true,
        });
        if threads.is_empty() || ended == Ended::ByError { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    ended
}

impl Scene {
    /// A compute node is one client of the simulation: its threads die together.
    fn start_node(self: Rc<Self>) {
        let control = self.control.clone();
        let number = self.numbers.get();
        self.numbers.set(number + self.case.clients_per_node);
        let endpoint = |further: u32| control.endpoint(&format!("client {}", number + further));
        let mut endpoints: Vec<SimEndpoint> = (0..self.case.clients_per_node).map(endpoint).collect();
        control.spawn(&format!("node of client {number}"), async move {
            // An error ends a node as its death would: what its clients do stays under way.
            let first = endpoints.remove(0);
            let (options, hole) = (self.case.node_options(), self.case.hole);
            let Ok(near) = Near::join_with_hole(first, self.directory.clone(), options, hole).await else {
                return;
            };
            let region = near.region();
            let near = Rc::new(near);
            let mut threads: Vec<Pin<Box<dyn Future<Output = Ended>>>> = Vec::new();
            for (further, endpoint) in (1..).zip(endpoints) {
                let thread = self.clone().be_further(number + further, endpoint, region);
                if self.case.processes {
                    self.control.spawn(&format!("client {}", number + further), self.clone().alone(thread));
                } else {
                    threads.push(Box::pin(thread));
                }
            }
            let (scene, first) = (self.clone(), near.clone());
            threads.push(Box::pin(async move {
                let ended = scene.act_at_once(&first, number, 0).await;
                add_counts(&mut scene.counts.borrow_mut(), first.counts());
                if ended == Ended::WithoutNode { scene.be_successor(number, region).await } else { ended }
            }));
            let ended = together(threads).await;
            self.has_failed.set(self.has_failed.get() || ended == Ended::ByError);
            // One in two just ends.
            if number.is_multiple_of(2) && ended != Ended::ByError {
                let near = Rc::into_inner(near).expect("its thread has ended");
                let _ = near.leave().await;
            }
        });
    }

    /// A client that is a process of its own.
    async fn alone(self: Rc<Self>, client: impl Future<Output = Ended>) {
        let ended = client.await;
        // What it was writing may stay torn.
        self.has_failed.set(self.has_failed.get() || ended >= Ended::WithoutRegion);
    }

    async fn be_further(self: Rc<Self>, number: u32, endpoint: SimEndpoint, region: Address) -> Ended {
        match self.live(number, endpoint, region, 0).await {
            Ended::WithoutNode => self.be_successor(number, region).await,
            ended => ended,
        }
    }

    /// After a client whose memory node has ended, another one with a new endpoint goes on.
    async fn be_successor(&self, number: u32, region: Address) -> Ended {
        let mut ended = Ended::WithoutNode;
        for life in 1..=self.case.absences {
            if ended == Ended::WithoutNode {
                let endpoint = self.control.endpoint(&format!("client {number}, life {life}"));
                ended = self.live(number, endpoint, region, life).await;
            }
        }
        ended
    }

    async fn live(&self, number: u32, endpoint: SimEndpoint, region: Address, life: u32) -> Ended {
        let Ok(mut near) = Near::attach(endpoint, self.directory.clone(), region).await else {
            return Ended::ByError;
        };
        near.open_hole(self.case.hole);
        let ended = self.act_at_once(&near, number, life).await;
        if ended != Ended::ByError {
            add_counts(&mut self.counts.borrow_mut(), near.counts());
            let _ = near.detach().await;
        }
        ended
    }

    /// Several operations of a client at a time.
    async fn act_at_once(&self, near: &Near<SimEndpoint>, client: u32, life: u32) -> Ended {
        let mut lanes: Vec<Pin<Box<dyn Future<Output = Ended> + '_>>> = Vec::new();
        for lane in 0..self.case.in_flight {
            lanes.push(Box::pin(async move {
                self.act(near, client, lane, life).await.unwrap_or_else(|error| match error {
                    NearError::Ended => Ended::WithoutRegion,
                    _ => Ended::ByError,
                })
            }));
        }
        together(lanes).await
    }

    /// The second memory node ends, and comes back with other values.
    async fn end_memory_nodes(self: Rc<Self>) {
        const NODE: u8 = 1;
        let (case, control) = (&self.case, &self.control);
        let (mut random, clock) = (Random::stream(case.seed, 9), control.endpoint("clock"));
        for round in 0..case.absences {
            clock.pause(random.below(40_000)).await;
            let restorer = 1 << 20 | round;
            let value = |number: u32| u64::from(restorer) << 32 | u64::from(number);
            // What is read until the node is in use again may be older.
            let numbers = (0..case.objects).filter(|number| case.object(*number).at().memory_node() == Some(NODE));
            let begin = |number: u32| {
                let call = Call::set(value(number).to_le_bytes());
                (number, self.history.begin(restorer, &number.to_le_bytes(), call))
            };
            let pending: Vec<_> = numbers.map(begin).collect();
            if random.below(2) == 0 {
                control.lose_node(NODE);
            } else {
                control.take_node_away(NODE);
                clock.pause(random.below(40_000)).await;
                control.return_node(NODE);
            }
            // Two clients bring it back, of which one may die.
            let mortal = self.numbers.replace(self.numbers.get() + 1);
            let endpoints = [(); 2].map(|()| control.endpoint("restorer"));
            let mut batch = Batch::new();
            for (number, _) in &pending {
                batch.write(case.object(*number).at(), case.buffer(value(*number)));
            }
            if endpoints[0].post(&mut batch).await.is_err() {
                return;
            }
            let [first, second] = endpoints;
            let scene = self.clone();
            control.spawn(&format!("client {mortal}"), async move {
                let joined =
                    Near::join_with_hole(first, scene.directory.clone(), scene.case.node_options(), scene.case.hole);
                if let Ok(near) = joined.await
                    && near.renew_memory_node(NODE).await.is_ok()
                {
                    scene.act_at_once(&near, mortal, 0).await;
                    add_counts(&mut scene.counts.borrow_mut(), near.counts());
                }
            });
            let directory = self.directory.clone();
            let joined = Near::join_with_hole(second, directory, case.node_options(), case.hole).await;
            let renewed = match joined {
                Ok(near) => near.renew_memory_node(NODE).await.map(|()| near),
                Err(error) => Err(error),
            };
            match renewed {
                Ok(near) => drop(near.leave().await),
                Err(error) => {
                    self.wrong.replace(Some(format!("the memory node is not used again: {error}")));
                    return;
                }
            }
            self.absences.set(self.absences.get() + 1);
            pending.into_iter().for_each(|(_, pending)| self.history.end(pending, Outcome::stored(true)));
        }
    }

    async fn act(&self, near: &Near<SimEndpoint>, client: u32, lane: u32, life: u32) -> Result<Ended, NearError> {
        let mut ended = Ended::Well;
        let case = &self.case;
        let stream = u64::from(client) + (u64::from(lane) << 32) + (u64::from(life) << 40);
        let mut random = Random::stream(case.seed, 1000 + stream);
        // One lane writes what only one client may write.
        let is_first = lane == 0;
        let operations = case.operations / case.in_flight;
        for operation in lane * operations..(lane + 1) * operations {
            let number = random.below(case.objects.into()) as u32;
            let chance = random.below(100);
            let may_write = case.words == 1 || is_first && number == client % case.objects && client < case.objects;
            let value = u64::from(client + 1) << 32 | u64::from(life) << 16 | u64::from(operation);
            let acted = if chance < case.writes && may_write {
                self.write(near, client, number, value).await
            } else if case.atomics && chance < case.writes + 5 {
                self.swap(near, client, number, value).await
            } else if chance >= 100 - case.switches {
                let to = random.pick(&[Switch::On, Switch::On, Switch::Off]);
                near.switch(&case.object(number), to).await.map(drop)
            } else {
                self.read(near, client, number).await
            };
            match acted {
                Err(error) if case.absences > 0 && is_of_absent_node(&error) => {
                    ended = Ended::WithoutNode;
                    if random.below(2) == 0 {
                        near.lose_memory_node(1).await?;
                    }
                    near.endpoint().pause(random.below(4000)).await;
                }
                outcome => outcome?,
            }
            if random.below(50) == 0 {
                near.look_after_members().await?;
            }
        }
        Ok(ended)
    }

    async fn write(&self, near: &Near<SimEndpoint>, client: u32, number: u32, value: u64) -> Result<(), NearError> {
        let pending = self.history.begin(client, &number.to_le_bytes(), Call::set(value.to_le_bytes()));
        match near.write(&self.case.object(number), self.case.buffer(value)).await {
            Ok(_) => self.history.end(pending, Outcome::stored(true)),
            Err(error) => return self.fail(pending, error),
        }
        Ok(())
    }

    /// What a memory node that has ended refuses takes no effect later.
    fn fail(&self, pending: Pending, error: NearError) -> Result<(), NearError> {
        if is_of_absent_node(&error) {
            self.history.over(pending);
        }
        Err(error)
    }

    async fn swap(&self, near: &Near<SimEndpoint>, client: u32, number: u32, value: u64) -> Result<(), NearError> {
        let object = self.case.object(number);
        let seen = near.read(&object, Buffer::new()).await?.words()[0];
        // One that fails writes nothing, and stays as a write that never returned.
        let pending = self.history.begin(client, &number.to_le_bytes(), Call::set(value.to_le_bytes()));
        match near.compare_and_swap(&object, 0, seen, value).await {
            Ok(Ok(())) => self.history.end(pending, Outcome::stored(true)),
            Ok(Err(_)) => {}
            Err(error) => return self.fail(pending, error),
        }
        Ok(())
    }

    async fn read(&self, near: &Near<SimEndpoint>, client: u32, number: u32) -> Result<(), NearError> {
        let pending = self.history.begin(client, &number.to_le_bytes(), Call::Get);
        let (mut buffer, object) = (Buffer::new(), self.case.object(number));
        for round in 0..TORN_MAX {
            buffer = match near.read(&object, buffer).await {
                Ok(buffer) => buffer,
                Err(error) => return self.fail(pending, error),
            };
            let words = buffer.words();
            // Words of two writes: an application sees it by its versions, and reads again.
            if words.iter().all(|word| *word == words[0]) {
                self.history.end(pending, Outcome::get(Some(&words[0].to_le_bytes())));
                return Ok(());
            }
            near.endpoint().pause(1000 << (round / 4).min(16)).await;
        }
        // A writer that ended may have written some of the words.
        if self.control.killed().is_empty() && !self.has_failed.get() {
            self.wrong.replace(Some(format!("client {client}: object {number} stays torn")));
        }
        Ok(())
    }
}
