//! Every interleaving of small cases: two or three compute nodes, one or two objects, all modes and
//! their switches, with and without the death of a node.
//!
//! `cargo test -p atoll-cases --test near explored:: -- --nocapture` prints how many runs there
//! are.

use crate::case::{NearCase, is_of_absent_node};
use crate::regular;
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Kind};
use atoll_near::{Directory, Hole, Near, NearError, Promise, Switch};
use atoll_sim::history::{Call, Evictions, Outcome};
use atoll_sim::sim::region;
use atoll_sim::{
    Control, ExploreOptions, Explored, ExploredFault, History, Relaxations, Sim, SimEndpoint, SimOptions, explore,
};
use std::cell::RefCell;
use std::rc::Rc;

/// What a client does.
#[derive(Clone, Copy, Debug)]
enum Step {
    Read,
    Write,
    /// The second object, of the same stripe.
    WriteOther,
    Switch(Switch),
}
use Step::{Read, Write, WriteOther};

const ON: Step = Step::Switch(Switch::On);
const OFF: Step = Step::Switch(Switch::Off);

#[derive(Clone, Copy, Debug)]
struct SmallCase {
    promise: Promise,
    /// The mode at first, and whether every node has a copy then.
    is_on: bool,
    /// By compute node, what its client does.
    clients: &'static [&'static [Step]],
    /// What a compute node does that joins meanwhile; nothing if none joins.
    newcomer: &'static [Step],
    /// The memory node of the objects ends meanwhile, and comes back. What a further client of the
    /// last compute node does then, which has brought it back.
    absence: Option<&'static [Step]>,
    /// What a further client of the last compute node does, a process of its own; nothing if there
    /// is none.
    attached: &'static [Step],
    fault: ExploredFault,
    /// Compute nodes from which owners are tracked.
    owners_from: u8,
    hole: Option<Hole>,
    tear: bool,
    preemptions_max: Option<u32>,
}

impl SmallCase {
    const fn new(promise: Promise, is_on: bool, clients: &'static [&'static [Step]]) -> Self {
        Self {
            promise,
            is_on,
            clients,
            newcomer: &[],
            absence: None,
            attached: &[],
            fault: ExploredFault::None,
            owners_from: 33,
            hole: None,
            tear: false,
            preemptions_max: None,
        }
    }

    fn case(&self) -> NearCase {
        NearCase {
            promise: self.promise,
            absences: u32::from(self.absence.is_some()),
            stripes: 1,
            cached_at_first: false,
            owners_from: self.owners_from,
            nodes: self.clients.len() as u32,
            clients_per_node: 1,
            in_flight: 1,
            objects: 2,
            words: 1,
            segment_bytes: 128,
            near_bytes: 1024,
            ..NearCase::drawn(0)
        }
    }

    fn explore(&self, runs_max: u64) -> Explored {
        let mut options = ExploreOptions {
            fault: self.fault,
            runs_max,
            preemptions_max: self.preemptions_max,
            ..ExploreOptions::new(1 << 14)
        };
        options.sim = SimOptions { nodes: vec![vec![region(1 << 14, Kind::Host)]; 2], ..options.sim };
        options.sim.relaxations = Relaxations { reorder: self.tear, tear: self.tear, ..Relaxations::none() };
        explore(&options, |sim| self.run(sim))
    }

    fn run(&self, sim: &Sim) -> Result<(), String> {
        let (case, history) = (self.case(), Rc::new(History::new()));
        let directory = case.prepare(sim, &history)?;
        let mut nodes = Vec::new();
        for number in 0..case.nodes {
            let (endpoint, directory, case) = (sim.endpoint("node"), directory.clone(), case.clone());
            let is_on = self.is_on;
            let joined = sim.block_on(async move {
                let near = Near::join(endpoint, directory, case.node_options()).await.unwrap();
                if is_on {
                    near.switch(&case.object(0), Switch::On).await.unwrap();
                }
                (number, near)
            });
            nodes.push(joined.map_err(|error| error.to_string())?);
        }
        for (_, near) in &mut nodes {
            near.open_hole(self.hole);
        }
        let (before, is_on) = (case.clone(), self.is_on);
        let prepared = sim.block_on(async move {
            // Each node learns the mode, and makes a copy.
            for (_, near) in &nodes {
                for _ in 0..if is_on { 2 } else { 1 } {
                    near.read(&before.object(0), Buffer::new()).await.unwrap();
                }
            }
            nodes
        });
        let nodes = prepared.map_err(|error| error.to_string())?;
        let last_region = nodes.last().map(|(_, near)| near.region()).expect("some compute node");
        let attached = match self.attached {
            [] => None,
            _ => Some(self.attach(sim, &directory, last_region)?),
        };
        let done = Rc::new(RefCell::new(Vec::new()));
        if let Some(near) = attached {
            let (control, case, steps) = (sim.control(), case.clone(), self.attached);
            let (history, done) = (history.clone(), done.clone());
            sim.spawn_spared("attached", async move {
                if let Some(near) = be_attached(&case, control, near, &history, steps).await {
                    done.borrow_mut().push(near);
                }
            });
        }
        for ((number, near), steps) in nodes.into_iter().zip(self.clients) {
            let (control, done, case, history) = (sim.control(), done.clone(), case.clone(), history.clone());
            let node = async move {
                for (at, step) in steps.iter().enumerate() {
                    control.turn().await;
                    let played = play(&case, &near, &history, number, at as u64, *step).await;
                    if !goes_on(&case, &played) {
                        return;
                    }
                }
                near.endpoint().pause(1_000_000).await;
                done.borrow_mut().push(near);
            };
            // Where processes share a region, the one dies that has exported it.
            let (name, is_last) = (format!("node {number}"), number + 1 == self.clients.len() as u32);
            let _ = if !self.attached.is_empty() && !is_last {
                sim.spawn_spared(&name, node)
            } else {
                sim.spawn(&name, node)
            };
        }
        if let Some(steps) = self.absence {
            let (control, directory, case) = (sim.control(), directory.clone(), case.clone());
            let (history, hole, done) = (history.clone(), self.hole, done.clone());
            sim.spawn_spared("memory node", async move {
                control.turn().await;
                let restored = history.begin(8, &0_u32.to_le_bytes(), Call::set(RESTORED.to_le_bytes()));
                control.lose_node(1);
                control.touch();
                let endpoint = control.endpoint("renewer");
                let mut batch = Batch::new();
                batch.write(case.object(0).at(), case.buffer(RESTORED));
                endpoint.post(&mut batch).await.unwrap();
                let mut near = Near::attach(endpoint, directory, last_region).await.unwrap();
                near.open_hole(hole);
                near.renew_memory_node(1).await.unwrap();
                history.end(restored, Outcome::stored(true));
                for (at, step) in steps.iter().enumerate() {
                    play(&case, &near, &history, 8, at as u64, *step).await.unwrap();
                }
                done.borrow_mut().push(near);
            });
        }
        if !self.newcomer.is_empty() {
            let (endpoint, case, done) = (sim.endpoint("newcomer"), case.clone(), done.clone());
            let directory = directory.clone();
            let (history, hole, steps) = (history.clone(), self.hole, self.newcomer);
            sim.spawn_spared("newcomer", async move {
                let near = Near::join_with_hole(endpoint, directory, case.node_options(), hole).await.unwrap();
                for (at, step) in steps.iter().enumerate() {
                    play(&case, &near, &history, 9, at as u64, *step).await.unwrap();
                }
                done.borrow_mut().push(near);
            });
        }
        sim.run().map_err(|error| error.to_string())?;
        self.judge(sim, &case, &directory, &history, &done)
    }

    /// A further client of the last compute node.
    fn attach(&self, sim: &Sim, directory: &Directory, region: Address) -> Result<Near<SimEndpoint>, String> {
        let (endpoint, directory) = (sim.endpoint("attached"), directory.clone());
        let attached = sim.block_on(async move { Near::attach(endpoint, directory, region).await.unwrap() });
        let mut near = attached.map_err(|error| error.to_string())?;
        near.open_hole(self.hole);
        Ok(near)
    }

    /// The histories keep the promise. Afterwards every living node reads what the memory node has.
    fn judge(
        &self,
        sim: &Sim,
        case: &NearCase,
        directory: &Directory,
        history: &Rc<History>,
        done: &Rc<RefCell<Vec<Near<SimEndpoint>>>>,
    ) -> Result<(), String> {
        let (done, object, case, directory) = (done.take(), case.object(0), case.clone(), directory.clone());
        let control = sim.control();
        let read = sim.block_on(async move {
            let mut read = Vec::new();
            let mut left = Vec::new();
            for near in done {
                match near.look_after_members().await {
                    Err(NearError::Ended) => near.detach().await?,
                    looked => {
                        looked?;
                        left.push(near);
                    }
                }
            }
            // Endpoints that reached the old region hit copies at most.
            for near in &left {
                match near.read(&object, Buffer::new()).await {
                    Err(error) if case.absences > 0 && is_of_absent_node(&error) => {
                        let endpoint = control.endpoint("judge");
                        let successor = Near::attach(endpoint, directory.clone(), near.region()).await?;
                        read.push(successor.read(&object, Buffer::new()).await?.words()[0]);
                    }
                    buffer => read.push(buffer?.words()[0]),
                }
            }
            Ok::<_, NearError>(read)
        });
        let read = read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let present = sim.peek_word(object.at());
        if let Some(old) = read.iter().find(|word| **word != present) {
            return Err(format!("a node reads the old {old:#x} in the end, where {present:#x} is written"));
        }
        match self.promise {
            Promise::Regular => regular::check(&history.events()),
            Promise::Linearizable => {
                history.check_with(Evictions::Never).map(drop).map_err(|violation| violation.to_string())
            }
        }
    }
}

/// What the application has of the object elsewhere.
const RESTORED: u64 = 99 << 32;

/// Whether a client goes on after an operation: a memory node that has ended ends no client.
fn goes_on(case: &NearCase, played: &Result<(), NearError>) -> bool {
    played.as_ref().err().is_none_or(|error| case.absences > 0 && is_of_absent_node(error))
}

/// What a further client does until its node's region has ended; the client if it has not.
async fn be_attached(
    case: &NearCase,
    control: Control,
    near: Near<SimEndpoint>,
    history: &History,
    steps: &[Step],
) -> Option<Near<SimEndpoint>> {
    for (at, step) in steps.iter().enumerate() {
        control.turn().await;
        match play(case, &near, history, 7, at as u64, *step).await {
            Err(NearError::Ended) => {
                near.detach().await.unwrap();
                return None;
            }
            played => played.unwrap(),
        }
    }
    near.endpoint().pause(1_000_000).await;
    match near.read(&case.object(0), Buffer::new()).await {
        Err(NearError::Ended) => {
            near.detach().await.unwrap();
            None
        }
        read => read.map(|_| near).ok(),
    }
}

async fn play(
    case: &NearCase,
    near: &Near<SimEndpoint>,
    history: &History,
    client: u32,
    at: u64,
    step: Step,
) -> Result<(), NearError> {
    let number: u32 = if matches!(step, WriteOther) { 1 } else { 0 };
    let object = case.object(2 * number);
    match step {
        Read => {
            let pending = history.begin(client, &number.to_le_bytes(), Call::Get);
            let buffer = near.read(&object, Buffer::new()).await?;
            history.end(pending, Outcome::get(Some(&buffer.words()[0].to_le_bytes())));
        }
        Write | WriteOther => {
            let value = u64::from(client + 1) << 32 | at;
            let pending = history.begin(client, &number.to_le_bytes(), Call::set(value.to_le_bytes()));
            near.write(&object, case.buffer(value)).await?;
            history.end(pending, Outcome::stored(true));
        }
        Step::Switch(to) => {
            near.switch(&case.object(0), to).await?;
        }
    }
    Ok(())
}

/// Most runs of a case that is to be exhausted.
const ALL: u64 = 200_000;

fn exhaust(name: &str, case: SmallCase) {
    let explored = case.explore(ALL);
    println!("{name}, {:?}: {explored}", case.promise);
    assert!(explored.failure.is_none(), "{name}: {explored}");
    assert!(explored.exhausted, "{name}: {explored}");
}

const PROMISES: [Promise; 2] = [Promise::Regular, Promise::Linearizable];

#[test]
fn writes_and_reads_of_cached_objects() {
    for promise in PROMISES {
        exhaust("write | read", SmallCase::new(promise, true, &[&[Write], &[Read]]));
        exhaust("write | read read", SmallCase::new(promise, true, &[&[Write], &[Read, Read]]));
        exhaust("other | read", SmallCase::new(promise, true, &[&[WriteOther], &[Read]]));
    }
}

#[test]
fn writes_and_reads_where_owners_are_tracked() {
    let tracked = |clients| SmallCase { owners_from: 1, ..SmallCase::new(Promise::Regular, true, clients) };
    exhaust("write | read read, owners", tracked(&[&[Write], &[Read, Read]]));
    exhaust("write | read | write, owners", tracked(&[&[Write], &[Read], &[Write]]));
    exhaust("other | read read, owners", tracked(&[&[WriteOther], &[Read, Read]]));
    let dying = SmallCase { fault: ExploredFault::Kill, ..tracked(&[&[Write], &[Read]]) };
    exhaust("write | read, owners, a death", dying);
}

#[test]
fn writes_and_reads_of_objects_that_are_off() {
    for promise in PROMISES {
        exhaust("write | read read", SmallCase::new(promise, false, &[&[Write], &[Read, Read]]));
    }
}

#[test]
fn mode_switches() {
    for promise in PROMISES {
        exhaust("write | on", SmallCase::new(promise, false, &[&[Write], &[ON]]));
        exhaust("write | off", SmallCase::new(promise, true, &[&[Write], &[OFF]]));
        exhaust("off | read", SmallCase::new(promise, true, &[&[OFF], &[Read]]));
        exhaust("on | off", SmallCase::new(promise, true, &[&[ON], &[OFF]]));
    }
}

#[test]
fn deaths() {
    for promise in PROMISES {
        let dying =
            |is_on, clients| SmallCase { fault: ExploredFault::Kill, ..SmallCase::new(promise, is_on, clients) };
        exhaust("write | read, a death", dying(true, &[&[Write], &[Read]]));
        exhaust("on | , a death", dying(false, &[&[ON], &[]]));
        exhaust("off | , a death", dying(true, &[&[OFF], &[]]));
    }
}

/// A writer dies anywhere; the other node has a copy. With the hole some death leaves it old.
pub(crate) fn a_dead_writer_leaves_no_old_copy(hole: Hole) {
    let case = SmallCase { fault: ExploredFault::Kill, ..SmallCase::new(Promise::Regular, true, &[&[Write], &[]]) };
    exhaust("write | , a death", case);
    let explored = SmallCase { hole: Some(hole), ..case }.explore(ALL);
    let failure = explored.failure.expect("some death leaves an old copy");
    assert!(failure.what.contains("reads the old"), "{}", failure.what);
}

/// The client that exported a near region dies at any point, while a process that shares the region
/// reads, writes or switches.
#[test]
fn exporters_die_while_others_share_their_region() {
    for promise in PROMISES {
        let case = |is_on, clients, attached| shared(attached, SmallCase::new(promise, is_on, clients));
        exhaust("read read | attached write, a death", case(true, &[&[Read, Read], &[]], &[Write]));
        exhaust("write | attached read read, a death", case(true, &[&[Write], &[]], &[Read, Read]));
        exhaust("read | attached on read, a death", case(false, &[&[Read], &[]], &[ON, Read]));
    }
}

const fn shared(attached: &'static [Step], case: SmallCase) -> SmallCase {
    SmallCase { attached, fault: ExploredFault::Kill, preemptions_max: Some(0), ..case }
}

/// A node writes what it believes to be off, while another one switches it on and reads. With the
/// hole some order leaves an old copy, or shows the new value and then the old one.
pub(crate) fn a_write_meets_a_switch(hole: Hole, promise: Promise) {
    let case = SmallCase::new(promise, false, &[&[Write], &[ON, Read, Read, Read], &[Read]]);
    exhaust("write | on read read read | read", case);
    let explored = SmallCase { hole: Some(hole), ..case }.explore(ALL);
    println!("{hole:?}: {explored}");
    assert!(explored.failure.is_some(), "some order shows it");
}

const fn joined_by(newcomer: &'static [Step], case: SmallCase) -> SmallCase {
    SmallCase { newcomer, preemptions_max: Some(2), ..case }
}

/// A node that joins while another one writes or switches, in every order.
#[test]
fn newcomers() {
    for promise in PROMISES {
        let case = SmallCase::new(promise, true, &[&[Write]]);
        exhaust("write | , a newcomer: on read read read", joined_by(&[ON, Read, Read, Read], case));
        let case = SmallCase::new(promise, true, &[&[OFF, Write, Read]]);
        exhaust("off write read | , a newcomer: read read write", joined_by(&[Read, Read, Write], case));
        let case = SmallCase::new(promise, false, &[&[ON, Read]]);
        let dying = SmallCase { fault: ExploredFault::Kill, preemptions_max: Some(0), ..joined_by(&[Write], case) };
        exhaust("on read | , a death, a newcomer: write", dying);
    }
}

/// A node joins and writes an object of which it knows nothing, while another one switches it on
/// and reads, or has a copy from before. With the hole some order leaves an old copy.
pub(crate) fn a_newcomer_writes(hole: Hole) {
    let mut shown = 0;
    for promise in PROMISES {
        for case in [
            SmallCase::new(promise, false, &[&[ON, Read, Read, Read]]),
            SmallCase::new(promise, true, &[&[Read, Read]]),
        ] {
            let case = joined_by(&[Write], case);
            exhaust("a newcomer: write", case);
            let explored = SmallCase { hole: Some(hole), ..case }.explore(ALL);
            println!("{hole:?}: {explored}");
            shown += usize::from(explored.failure.is_some());
        }
    }
    assert!(shown >= PROMISES.len(), "some order shows it with either promise");
}

/// The memory node ends, is made anew and is used again, while a node that has a copy reads or
/// writes. A further client of that node reads afterwards, and has the present value.
#[test]
fn absences() {
    let cases: [(bool, &[&[Step]]); 4] = [
        (true, &[&[Read, Read], &[]]),
        (true, &[&[Write], &[]]),
        (false, &[&[Write], &[]]),
        (false, &[&[ON, Read], &[]]),
    ];
    for promise in PROMISES {
        for (is_on, clients) in cases {
            for steps in [&[Read, Write] as &[Step], &[ON, Read, Write]] {
                let case = SmallCase::new(promise, is_on, clients);
                let case = SmallCase { absence: Some(steps), preemptions_max: Some(1), ..case };
                exhaust(&format!("{clients:?}, a memory node ends, {steps:?}"), case);
            }
        }
    }
}
