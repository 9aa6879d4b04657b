//! DiFache, Fig. 15 (appendix B): throughput while compute nodes and the memory node end and come
//! back.

use super::point::PROFILE;
use super::systems::{CLIENTS_PER_NODE, COMPUTE_NODES, OBJECT_BYTES, READ_PERCENT, THETA, skewed, statements};
use crate::bench::measured::run_all;
use crate::bench::point::ran;
use crate::bench::{Findings, Options};
use atoll_deployment::random::Random;
use atoll_fabric::{Address, Buffer, Endpoint, Kind};
use atoll_lab::LabError;
use atoll_lab::load::{Load, Stream};
use atoll_lab::report::places::Places;
use atoll_near::{Directory, DirectoryOptions, Near, NearError, NodeOptions, Object, Protocol};
use atoll_sim::network::{Network, Profile};
use atoll_sim::sim::region;
use atoll_sim::{Control, Sim, SimEndpoint, SimOptions};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// The memory node of the objects. The directory's home is on another one, as the paper's
/// coordinator is.
const NODE: u8 = 1;
const LINES: [(&str, Protocol); 3] =
    [("none", Protocol::None), ("difache-noac", Protocol::DifacheNoAc), ("difache", Protocol::Difache)];
const DIFACHE: usize = 2;

// When what happens, in ticks.
const DEATHS: [u64; 4] = [12, 15, 18, 21];
const LOSS: u64 = 26;
const RETURN: u64 = 30;
const END: u64 = 48;

/// Measures the figure.
pub(crate) fn measure(options: &Options) -> Result<Findings, LabError> {
    let (objects, tick_ns) = options.scaled((20_000, 2_000_000), (500, 200_000));
    let requests = END * tick_ns / 10;
    let load = skewed(objects, THETA, requests, options)?;
    let profile = options.profile(PROFILE);
    let runs: Vec<Run> = LINES
        .iter()
        .map(|(_, protocol)| Run {
            protocol: *protocol,
            load: load.clone(),
            objects,
            tick_ns,
            profile,
            seed: options.seed,
        })
        .collect();
    let (lines, _) = run_all(&runs, options.workers, |_| END, Run::measure)?;
    let ms = |tick: u64| (tick * tick_ns) as f64 / 1e6;
    let mops = |line: usize, tick: u64| lines[line][tick as usize] as f64 * 1e3 / tick_ns as f64;
    let mean = |line: usize, ticks: std::ops::Range<u64>| {
        let count = (ticks.end - ticks.start) as f64;
        ticks.map(|tick| mops(line, tick)).sum::<f64>() / count
    };
    let before = mean(DIFACHE, DEATHS[0] - 4..DEATHS[0]);
    let after = mean(DIFACHE, END - 4..END);
    let dip = (DEATHS[0]..LOSS).map(|tick| mops(DIFACHE, tick) / mops(0, tick).max(1e-9)).fold(f64::MAX, f64::min);
    let refilled = (RETURN..END).find(|tick| mops(DIFACHE, *tick) >= 0.95 * after).unwrap_or(END);
    let places = Places::numbers("time", "ms", (0..END).map(ms));
    let figures = vec![
        statements(
            "What the paper's text says, of difache's throughput",
            &[
                ("after nodes died, least, over none", dip, 1.0),
                ("after all came back, over before", after / before.max(1e-9), 1.0),
            ],
        ),
        places.figure(
            "Throughput",
            ("throughput", "Mops/s"),
            LINES.iter().enumerate().map(|(line, (name, _))| places.line(*name, (0..END).map(|tick| mops(line, tick)))),
        ),
    ];
    let what = format!(
        "{objects} objects of 1 KiB, 95 % reads. One compute node after the other dies at {} ms, the memory node at \
         {}; at {} ms the memory node is there, empty, and the dead compute nodes join again. difache reaches 95 % of \
         its last throughput {} ms later. The directory's words of all stripes are set before. In the paper it takes 8 s, and \
         caching stops for seconds when compute nodes die, since a coordinator finds deaths by timeouts. Here the fabric proves a death at once, and a dead node's \
         burial ends all copies. The central manager is not here: it ends with the memory node.",
        DEATHS.map(|tick| ms(tick).to_string()).join(", "),
        ms(LOSS),
        ms(RETURN),
        ms(refilled - RETURN),
    );
    Ok(Findings { what, figures })
}

/// A line.
struct Run {
    protocol: Protocol,
    load: Arc<dyn Load>,
    objects: u64,
    tick_ns: u64,
    profile: Profile,
    seed: u64,
}

impl Run {
    /// The accesses of each tick.
    fn measure(&self) -> Result<Vec<u64>, LabError> {
        let stripes = (4 * self.objects as u32).next_power_of_two();
        let options = DirectoryOptions { stripes, protocol: self.protocol, ..DirectoryOptions::default() };
        let table = Address::new(NODE, 0, 0);
        let first = table.add(options.table_bytes());
        let objects_bytes = self.objects * u64::from(OBJECT_BYTES);
        let home = region(Directory::HOME_BYTES.next_multiple_of(4096), Kind::Host);
        let rest = region((first.offset() + objects_bytes).next_multiple_of(4096), Kind::Host);
        let network = Network::new(self.profile, COMPUTE_NODES);
        let sim = Sim::new(SimOptions::timed(self.seed, vec![vec![home], vec![rest]], network));
        let maker = sim.endpoint("maker");
        let directory =
            sim.block_on(async move { Directory::create(&maker, Address::new(0, 0, 0), &[table], options).await });
        let stage = Rc::new(Stage {
            control: sim.control(),
            directory: ran(directory)?.map_err(failed)?,
            first,
            node: NodeOptions { bytes: 3 * objects_bytes + (4 << 20), segment_bytes: 1 << 18 },
            tick_ns: self.tick_ns,
            regions: RefCell::new(vec![None; usize::from(COMPUTE_NODES)]),
            is_lost: Cell::new(false),
            is_back: Cell::new(false),
            accesses: RefCell::new(vec![0; END as usize]),
            failed: RefCell::default(),
        });
        let clients = COMPUTE_NODES * CLIENTS_PER_NODE;
        for number in 0..clients {
            let client = Client {
                stage: stage.clone(),
                node: number % COMPUTE_NODES,
                is_first: number < COMPUTE_NODES,
                stream: self.load.stream(number.into(), clients.into()),
                random: Random::new(self.seed ^ u64::from(number) << 32),
            };
            sim.spawn("client", client.live());
        }
        sim.spawn("memory node", stage.clone().end_memory_node());
        ran(sim.run())?;
        match stage.failed.take() {
            Some(error) => Err(failed(error)),
            None => Ok(stage.accesses.take()),
        }
    }
}

fn failed(error: NearError) -> LabError {
    LabError::Failed(error.to_string())
}

/// What all clients share.
struct Stage {
    control: Control,
    directory: Directory,
    first: Address,
    node: NodeOptions,
    tick_ns: u64,
    /// By compute node, its near region.
    regions: RefCell<Vec<Option<Address>>>,
    /// Whether the directory knows that the memory node has ended.
    is_lost: Cell<bool>,
    /// Whether the memory node is in use again.
    is_back: Cell<bool>,
    accesses: RefCell<Vec<u64>>,
    failed: RefCell<Option<NearError>>,
}

impl Stage {
    fn at(&self, ticks: u64) -> u64 {
        ticks * self.tick_ns
    }

    /// Whether a compute node is dead.
    fn is_dead(&self, node: u16, now_ns: u64) -> bool {
        let death = DEATHS.get(usize::from(node));
        death.is_some_and(|death| (self.at(*death)..self.at(RETURN)).contains(&now_ns))
    }

    fn fail(&self, error: NearError) {
        self.failed.borrow_mut().get_or_insert(error);
    }

    async fn end_memory_node(self: Rc<Self>) {
        let last = COMPUTE_NODES - 1;
        let hand = self.control.endpoint_on("hand", last);
        hand.pause(self.at(LOSS) - hand.virtual_ns()).await;
        self.control.lose_node(NODE);
        hand.pause(self.at(RETURN) - hand.virtual_ns()).await;
        let endpoint = self.control.endpoint_on("renewer", last);
        let region = self.regions.borrow()[usize::from(last)].expect("the last compute node does not die");
        let renewed = match Near::attach(endpoint, self.directory.clone(), region).await {
            Ok(near) => near.renew_memory_node(NODE).await,
            Err(error) => Err(error),
        };
        match renewed {
            Ok(()) => self.is_back.set(true),
            Err(error) => self.fail(error),
        }
    }
}

struct Client {
    stage: Rc<Stage>,
    node: u16,
    /// Whether it is the first of its compute node, which exports the near region.
    is_first: bool,
    stream: Stream,
    random: Random,
}

/// Why a client accesses no more objects for now.
enum Halt {
    /// The time is over.
    End,
    /// Its compute node has died.
    Death,
    /// The memory node has ended.
    Loss,
}

impl Client {
    async fn live(mut self) {
        let mut endpoint = self.endpoint();
        // The first client of a compute node is kept while others use its near region.
        let mut kept: Option<Near<SimEndpoint>> = None;
        loop {
            let joined = match kept.as_ref().map(Near::region) {
                None if self.is_first => {
                    let joined = Near::join(endpoint, self.stage.directory.clone(), self.stage.node).await;
                    let region = joined.as_ref().ok().map(Near::region);
                    self.stage.regions.borrow_mut()[usize::from(self.node)] = region;
                    joined
                }
                kept => {
                    let region = match kept {
                        Some(region) => region,
                        None => self.until_exported(&endpoint).await,
                    };
                    Near::attach(endpoint, self.stage.directory.clone(), region).await
                }
            };
            let near = match joined {
                Ok(near) => near,
                Err(error) => return self.stage.fail(error),
            };
            match self.play(&near).await {
                Ok(Halt::End) => return,
                Ok(Halt::Death) => {
                    kept = None;
                    self.stage.regions.borrow_mut()[usize::from(self.node)] = None;
                    drop(near);
                }
                Ok(Halt::Loss) if self.is_first && kept.is_none() => kept = Some(near),
                Ok(Halt::Loss) => drop(near),
                Err(error) => return self.stage.fail(error),
            }
            let waiting = self.endpoint();
            while !self.stage.is_back.get() && self.stage.failed.borrow().is_none() {
                waiting.pause(self.stage.tick_ns / 100).await;
            }
            // One that reaches the new region.
            endpoint = self.endpoint();
        }
    }

    fn endpoint(&self) -> SimEndpoint {
        self.stage.control.endpoint_on("client", self.node)
    }

    async fn until_exported(&self, endpoint: &SimEndpoint) -> Address {
        loop {
            if let Some(region) = self.stage.regions.borrow()[usize::from(self.node)] {
                return region;
            }
            endpoint.pause(self.stage.tick_ns / 1000).await;
        }
    }

    async fn play(&mut self, near: &Near<SimEndpoint>) -> Result<Halt, NearError> {
        let (stage, mut buffer) = (self.stage.clone(), Buffer::sized(OBJECT_BYTES as usize));
        let reaches_old = near.endpoint().virtual_ns() < stage.at(LOSS);
        loop {
            let now_ns = near.endpoint().virtual_ns();
            if now_ns >= stage.at(END) || stage.failed.borrow().is_some() {
                return Ok(Halt::End);
            }
            if stage.is_dead(self.node, now_ns) {
                return Ok(Halt::Death);
            }
            let Some(request) = self.stream.next() else { return Ok(Halt::End) };
            let object = Object::new(stage.first.add(request.key * u64::from(OBJECT_BYTES)), OBJECT_BYTES);
            let is_read = self.random.unit() * 100.0 < READ_PERCENT;
            let done = if is_read {
                near.read(&object, buffer).await
            } else {
                buffer.resize(OBJECT_BYTES as usize);
                near.write(&object, buffer).await
            };
            let now_ns = near.endpoint().virtual_ns();
            buffer = match done {
                Ok(buffer) => buffer,
                // The first client of its compute node has ended.
                Err(_) if now_ns >= stage.at(END) => return Ok(Halt::End),
                Err(_) if stage.is_dead(self.node, now_ns) => return Ok(Halt::Death),
                Err(_) if now_ns >= stage.at(LOSS) && reaches_old => {
                    if !stage.is_lost.replace(true) {
                        near.lose_memory_node(NODE).await?;
                    }
                    return Ok(Halt::Loss);
                }
                Err(error) => return Err(error),
            };
            if let Some(accesses) = stage.accesses.borrow_mut().get_mut((now_ns / stage.tick_ns) as usize) {
                *accesses += 1;
            }
        }
    }
}
