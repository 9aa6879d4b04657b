//! A few compute nodes with clients that read and write few objects, and what must hold of it.

use crate::regular;
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Kind};
use atoll_near::{Counts, Directory, DirectoryOptions, Hole, Near, NearError, NodeOptions, Object, Promise, Protocol, Switch};
use atoll_sim::history::{Call, Evictions, Outcome};
use atoll_sim::sim::region;
use atoll_sim::{Control, Faults, Fencing, History, Random, Sim, SimEndpoint, SimOptions};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub(crate) const DIRECTORY: Address = Address::new(0, 0, 0);
const TABLES: [Address; 2] = [Address::new(0, 0, 2048), Address::new(1, 0, 2048)];
const OBJECTS: u64 = 8192;
const REGION_BYTES: u64 = 1 << 14;
/// Reads of an object that is being written, until the reader gives up.
const TORN_MAX: u32 = 10_000;

/// Compute nodes, objects, and what clients do with them.
#[derive(Clone, Debug)]
pub(crate) struct NearCase {
    pub(crate) seed: u64,
    pub(crate) promise: Promise,
    pub(crate) protocol: Protocol,
    pub(crate) stripes: u32,
    pub(crate) nodes: u32,
    pub(crate) clients_per_node: u32,
    pub(crate) objects: u32,
    /// Words of an object. If there are several, each object has one client that writes it.
    pub(crate) words: u32,
    pub(crate) operations: u32,
    /// Of 100 operations, how many write.
    pub(crate) writes: u64,
    /// Of 100 operations, how many switch a mode.
    pub(crate) switches: u64,
    /// Clients that are killed at most, each of which another compute node follows.
    pub(crate) kills: u32,
    pub(crate) pauses: u32,
    pub(crate) near_bytes: u64,
    pub(crate) segment_bytes: u64,
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
            nodes: 2 + random.below(3) as u32,
            clients_per_node: 1 + random.below(2) as u32,
            objects: 1 + random.below(3) as u32,
            words,
            operations: 40,
            writes: random.pick(&[5, 15, 40]),
            switches: random.pick(&[1, 8]),
            kills: 0,
            pauses: 0,
            near_bytes: 2048,
            segment_bytes: random.pick(&[128, 256]),
            hole: None,
        }
    }

    pub(crate) fn faulty(seed: u64) -> Self {
        let mut random = Random::stream(seed, 8);
        Self { kills: random.below(4) as u32, pauses: random.below(3) as u32, ..Self::drawn(seed) }
    }

    pub(crate) fn node_options(&self) -> NodeOptions {
        NodeOptions { bytes: self.near_bytes, segment_bytes: self.segment_bytes }
    }

    pub(crate) fn object(&self, number: u32) -> Object {
        let node = (number % 2) as u8;
        Object::new(Address::new(node, 0, OBJECTS + 128 * u64::from(number)), 8 * self.words)
    }

    /// Runs the case; what its clients have counted together.
    pub(crate) fn run(&self) -> Result<Counts, String> {
        let regions = vec![vec![region(REGION_BYTES, Kind::Host)]; 2];
        let faults = Faults::host(self.kills, self.pauses, 300);
        let options = SimOptions { faults, fencing: Fencing::Observed, steps_max: 3_000_000, ..SimOptions::with_nodes(self.seed, regions) };
        let sim = Sim::new(options);
        self.play(&sim)
    }

    fn directory_options(&self) -> DirectoryOptions {
        DirectoryOptions { stripes: self.stripes, protocol: self.protocol, promise: self.promise }
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

    fn play(&self, sim: &Sim) -> Result<Counts, String> {
        let history = Rc::new(History::new());
        let directory = self.prepare(sim, &history)?;
        let scene = Rc::new(Scene {
            case: self.clone(),
            directory,
            history: history.clone(),
            control: sim.control(),
            numbers: Cell::new(0),
            counts: RefCell::default(),
            wrong: RefCell::default(),
        });
        (0..self.nodes).for_each(|_| scene.clone().start_node());
        if self.kills > 0 {
            let (control, successors) = (sim.control(), scene.clone());
            sim.spawn_spared("successors", async move {
                while control.next_killed().await.is_some() {
                    successors.clone().start_node();
                }
            });
        }
        sim.run().map_err(|error| error.to_string())?;
        if let Some(wrong) = scene.wrong.borrow_mut().take() {
            return Err(wrong);
        }
        match self.promise {
            Promise::Regular => regular::check(&history.events())?,
            Promise::Linearizable => {
                history.check_with(Evictions::Never).map_err(|violation| violation.to_string())?;
            }
        }
        Ok(*scene.counts.borrow())
    }
}

/// Adds what one client has counted.
fn add_counts(sum: &mut Counts, counts: Counts) {
    sum.hits += counts.hits;
    sum.misses += counts.misses;
    sum.bypasses += counts.bypasses;
    sum.writes_bypassing += counts.writes_bypassing;
    sum.writes_invalidating += counts.writes_invalidating;
    sum.invalidations_sent += counts.invalidations_sent;
    sum.copies += counts.copies;
    sum.segments_evicted += counts.segments_evicted;
    sum.switches_on += counts.switches_on;
    sum.switches_off += counts.switches_off;
    sum.burials += counts.burials;
}

struct Scene {
    case: NearCase,
    directory: Directory,
    history: Rc<History>,
    control: Control,
    numbers: Cell<u32>,
    counts: RefCell<Counts>,
    wrong: RefCell<Option<String>>,
}

/// Is dropped with its client's task, killed or not.
struct Present(Rc<Cell<u32>>);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.update(|present| present - 1);
    }
}

impl Scene {
    fn start_node(self: Rc<Self>) {
        let present = Rc::new(Cell::new(0));
        let control = self.control.clone();
        let number = self.numbers.get();
        self.numbers.set(number + self.case.clients_per_node);
        let endpoint = control.endpoint(&format!("client {number}"));
        control.spawn(&format!("client {number}"), async move {
            // An error ends a client, as a node's death would: its operation stays under way.
            let Ok(mut near) = Near::join(endpoint, self.directory.clone(), self.case.node_options()).await else {
                return;
            };
            near.open_hole(self.case.hole);
            for further in 1..self.case.clients_per_node {
                self.clone().start_further(number + further, near.region(), &present);
            }
            if self.clone().act(&near, number).await.is_err() {
                return;
            }
            while present.get() > 0 {
                near.endpoint().pause(10_000).await;
            }
            add_counts(&mut self.counts.borrow_mut(), near.counts());
            // One in two just ends.
            if number % 2 == 0 {
                let _ = near.leave().await;
            }
        });
    }

    fn start_further(self: Rc<Self>, number: u32, region: Address, present: &Rc<Cell<u32>>) {
        present.update(|present| present + 1);
        let (present, control) = (Present(present.clone()), self.control.clone());
        let endpoint = control.endpoint(&format!("client {number}"));
        control.spawn(&format!("client {number}"), async move {
            let _present = present;
            let Ok(mut near) = Near::attach(endpoint, self.directory.clone(), region).await else { return };
            near.open_hole(self.case.hole);
            if self.clone().act(&near, number).await.is_ok() {
                add_counts(&mut self.counts.borrow_mut(), near.counts());
                let _ = near.detach().await;
            }
        });
    }

    async fn act(self: Rc<Self>, near: &Near<SimEndpoint>, client: u32) -> Result<(), NearError> {
        let case = &self.case;
        let mut random = Random::stream(case.seed, 1000 + u64::from(client));
        for operation in 0..case.operations {
            let number = random.below(case.objects.into()) as u32;
            let chance = random.below(100);
            let may_write = case.words == 1 || number == client % case.objects && client < case.objects;
            if chance < case.writes && may_write {
                let value = u64::from(client + 1) << 32 | u64::from(operation);
                self.write(near, client, number, value).await?;
            } else if chance >= 100 - case.switches {
                let to = random.pick(&[Switch::On, Switch::On, Switch::Off]);
                near.switch(&case.object(number), to).await?;
            } else {
                self.read(near, client, number).await?;
            }
            if random.below(50) == 0 {
                near.look_after_members().await?;
            }
        }
        Ok(())
    }

    async fn write(&self, near: &Near<SimEndpoint>, client: u32, number: u32, value: u64) -> Result<(), NearError> {
        let pending = self.history.begin(client, &number.to_le_bytes(), Call::set(value.to_le_bytes()));
        near.write(&self.case.object(number), self.case.buffer(value)).await?;
        self.history.end(pending, Outcome::stored(true));
        Ok(())
    }

    async fn read(&self, near: &Near<SimEndpoint>, client: u32, number: u32) -> Result<(), NearError> {
        let pending = self.history.begin(client, &number.to_le_bytes(), Call::Get);
        let (mut buffer, object) = (Buffer::new(), self.case.object(number));
        for _ in 0..TORN_MAX {
            buffer = near.read(&object, buffer).await?;
            let words = buffer.words();
            // Words of two writes: an application sees it by its versions, and reads again.
            if words.iter().all(|word| *word == words[0]) {
                self.history.end(pending, Outcome::get(Some(&words[0].to_le_bytes())));
                return Ok(());
            }
            near.endpoint().pause(1000).await;
        }
        let killed = !self.control.killed().is_empty();
        if !killed {
            self.wrong.replace(Some(format!("client {client}: object {number} stays torn")));
        }
        Ok(())
    }
}
