//! The control plane: regions by the agents that have them.
//!
//! | of a region | is |
//! |---|---|
//! | open | a connection to its agent, until the last clone is dropped |
//! | held | a connection of its own |
//! | its name | that of its agent, and `+n` for memory node `n` |

use super::call::{Answer, Call};
use super::control::{Control, close};
use super::silence::{Silence, is_refusal, is_silence};
use super::{Authority, SECRET_FILE, Secret, TcpEndpoint, TcpOptions};
use crate::fabric::{BEGINNING_WORDS, START_BYTES};
use crate::shm::NODES_MAX;
use crate::{
    CostClass, Domain, Fabric, FabricError, Hold, Identity, Kind, Lifetime, PeerState, Peers, Reach, Region,
    RegionAttributes, RegionState, Sharing, VerbError,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// How long an agent may take to answer whether it is there: a client waits that long.
const PROBE_TIMEOUT: Duration = Duration::from_millis(50);
/// What stands before the file of the authority in an address.
const AUTHORITY: &str = "?ca=";

/// The agents of one pool.
#[derive(Clone, Debug)]
pub struct TcpFabric(Arc<Agents>);

#[derive(Debug)]
struct Agents {
    /// As the user wrote it.
    address: String,
    /// `HOST:PORT`; never empty.
    agents: Vec<String>,
    /// Of each agent.
    silences: Vec<Arc<Silence>>,
    /// By memory node the agent that has it, as far as this process has asked.
    holders: Mutex<BTreeMap<u8, usize>>,
    options: TcpOptions,
}

impl TcpFabric {
    /// The pool with this address. The secret is that in the file that [`SECRET_FILE`] names, if it
    /// is set. Behind `?ca=` the address names the file with the certificate of the agents'
    /// authority; then all connections are TLS. No agent need be there.
    ///
    /// # Errors
    /// [`FabricError::BadName`] if it is no such address; [`FabricError::System`] if the secret
    /// cannot be read.
    pub fn named(address: &str) -> Result<Self, FabricError> {
        let secret = std::env::var_os(SECRET_FILE).map(|path| Secret::of_file(Path::new(&path))).transpose()?;
        let authority = address.split_once(AUTHORITY).map(|(_, path)| Authority::of_file(Path::new(path)));
        Self::with_options(address, TcpOptions { secret, authority: authority.transpose()?, ..TcpOptions::default() })
    }

    /// The same with options.
    pub fn with_options(address: &str, options: TcpOptions) -> Result<Self, FabricError> {
        let bad = || FabricError::BadAddress(address.to_owned());
        let agents = address.strip_prefix("tcp:").ok_or_else(bad)?;
        let agents = agents.split_once(AUTHORITY).map_or(agents, |(agents, _)| agents);
        let agents: Vec<String> = agents.split(',').map(str::to_owned).collect();
        let is_agent = |agent: &String| {
            let parts = agent.rsplit_once(':');
            let is_host = |host: &str| !host.is_empty() && !host.starts_with('/');
            parts.is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok_and(|port| port > 0))
        };
        if !agents.iter().all(is_agent) || agents.len() > NODES_MAX {
            return Err(bad());
        }
        let silences = agents.iter().map(|_| Arc::default()).collect();
        let holders = Mutex::default();
        Ok(Self(Arc::new(Agents { address: address.to_owned(), agents, silences, holders, options })))
    }

    pub(super) fn options(&self) -> &TcpOptions {
        &self.0.options
    }

    /// The agent with this number in the list.
    pub(super) fn agent(&self, agent: usize) -> &str {
        &self.0.agents[agent]
    }

    /// Connects with an agent, unless it is known not to answer.
    pub(super) fn connect(&self, agent: usize) -> Result<Control, FabricError> {
        if self.0.silences[agent].lasts().is_some() && !self.0.silences[agent].refuses() {
            return Err(FabricError::System {
                name: format!("tcp:{}", self.agent(agent)),
                what: "reach the memory node (atoll node)",
                source: std::io::Error::new(std::io::ErrorKind::TimedOut, "it does not answer"),
            });
        }
        Control::connect(self.agent(agent), self.options()).inspect_err(|error| {
            if is_silence(error) || is_refusal(error) {
                let silence = &self.0.silences[agent];
                Silence::begin(silence, is_refusal(error), self.agent(agent), self.options());
            }
        })
    }

    /// Whether an agent has been silent for so long that its nodes may be forsaken.
    pub(super) fn is_silent(&self, agent: usize) -> bool {
        self.0.silences[agent].lasts().is_some_and(|silent| silent >= self.options().forsake_after)
    }

    /// The agent on which a node is made.
    fn maker(&self, node: u8) -> usize {
        usize::from(node) % self.0.agents.len()
    }

    fn holders(&self) -> MutexGuard<'_, BTreeMap<u8, usize>> {
        self.0.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The agent that has a node, as far as this process knows.
    fn holder(&self, node: u8) -> usize {
        self.holders().get(&node).copied().unwrap_or_else(|| self.maker(node))
    }

    /// Creates a node on an agent.
    fn create_at(&self, agent: usize, node: u8, bytes: u64, there: u64) -> Result<TcpRegion, FabricError> {
        let mut control = self.connect(agent)?;
        let answer = control.ask(&Call::Create { node: node.into(), size: bytes, there })?;
        if let Answer::Opened { .. } = answer {
            self.holders().insert(node, agent);
        }
        self.opened(node, (control, agent, answer))
    }

    fn name_of(&self, node: u8) -> String {
        let agent = format!("tcp:{}", self.agent(self.holder(node)));
        if node == 0 { agent } else { format!("{agent}+{node}") }
    }

    /// Asks for a node: the agent on which it is made first, then all others. Gives the first
    /// connection whose answer is not that the node is absent.
    fn ask_about(&self, node: u8, call: &Call) -> Result<(Control, usize, Answer), FabricError> {
        let maker = self.maker(node);
        let mut unreached = None;
        // The home is where the address says: another agent's node 0 is another pool's.
        let others = (0..self.0.agents.len()).filter(|agent| *agent != maker && node != 0);
        for agent in std::iter::once(maker).chain(others) {
            // An agent that is gone has no node.
            let asked = self.connect(agent).and_then(|mut control| {
                let answer = if let Call::OpenAlone { .. } = call { control.ask_once(call) } else { control.ask(call) };
                answer.map(|answer| (control, answer))
            });
            match asked {
                Ok((_, Answer::Absent { .. })) => {}
                Ok((control, answer)) => {
                    self.holders().insert(node, agent);
                    return Ok((control, agent, answer));
                }
                Err(error) => unreached = unreached.or(Some(error)),
            }
        }
        Err(unreached.unwrap_or_else(|| FabricError::Absent(self.name_of(node))))
    }

    /// What is proven of a memory node's region, of which this process has `known` open. A region
    /// in the memory of an agent's process ends with that process. An agent that has another
    /// region than the known one proves nothing: other clients may use that one.
    pub(super) fn region_state(&self, node: u8, known: Option<&TcpRegion>) -> RegionState {
        let options = TcpOptions { connect_timeout: PROBE_TIMEOUT, ..self.options().clone() };
        let agent = known.map_or_else(|| self.holder(node), TcpRegion::agent);
        let unproven = || if self.is_silent(agent) { RegionState::Silent } else { RegionState::Unknown };
        let silence = &self.0.silences[agent];
        if silence.lasts().is_some() && !silence.refuses() {
            return unproven();
        }
        match Control::connect(self.agent(agent), &options) {
            Ok(mut control) => match control.ask_once(&Call::Open { node: node.into() }) {
                Ok(Answer::Absent { .. }) => RegionState::Gone,
                _ => RegionState::Unknown,
            },
            Err(error) if is_refusal(&error) => {
                let is_of_process = |region: &TcpRegion| region.attributes().lifetime == Lifetime::Process;
                if known.is_some_and(is_of_process) { RegionState::Away } else { unproven() }
            }
            Err(_) => RegionState::Unknown,
        }
    }

    fn failed<T>(&self, node: u8, answer: Answer) -> Result<T, FabricError> {
        let name = self.name_of(node);
        let text = |why: Vec<u8>| String::from_utf8_lossy(&why).into_owned();
        Err(match answer {
            Answer::Absent { .. } => FabricError::Absent(name),
            Answer::Exists {} => FabricError::Exists(name),
            Answer::NoRoom { size, why } => FabricError::NoRoom { name, bytes: size, why: text(why) },
            Answer::Refused { why } => refusal(name, text(why)),
            answer => refusal(name, format!("it answers {answer:?}")),
        })
    }

    fn opened(&self, node: u8, asked: (Control, usize, Answer)) -> Result<TcpRegion, FabricError> {
        let (control, agent, answer) = asked;
        let Answer::Opened { region, size, lifetime, there, is_volatile } = answer else {
            return self.failed(node, answer);
        };
        let attributes = RegionAttributes {
            bytes: size,
            kind: Kind::Host,
            domain: Domain::Cpu,
            lifetime: if lifetime == 0 { Lifetime::Process } else { Lifetime::Host },
        };
        Ok(TcpRegion(Arc::new(Opened {
            name: self.name_of(node),
            id: region,
            agent,
            attributes,
            there,
            boot: control.boot,
            is_volatile: is_volatile != 0,
            control: Mutex::new(Some(control)),
        })))
    }
}

fn refusal(name: String, why: String) -> FabricError {
    FabricError::System { name, what: "do as asked", source: std::io::Error::other(why) }
}

impl Fabric for TcpFabric {
    type Region = TcpRegion;
    type Reach = TcpReach;
    type Hold = TcpHold;

    fn name(&self) -> &'static str {
        "tcp"
    }

    fn cost_class(&self) -> CostClass {
        CostClass::Network
    }

    fn address(&self) -> Option<&str> {
        Some(&self.0.address)
    }

    fn region_address(&self, node: u8) -> Option<String> {
        Some(self.name_of(node))
    }

    fn agents(&self) -> u32 {
        self.0.agents.len() as u32
    }

    fn is_unanswered(&self) -> bool {
        self.0.silences.iter().any(|silence| silence.lasts().is_some())
    }

    fn room_bytes(&self) -> Result<Option<u64>, FabricError> {
        let mut left_bytes = 0;
        let mut asked: Vec<u64> = Vec::new();
        for agent in 0..self.0.agents.len() {
            let mut control = self.connect(agent)?;
            if asked.contains(&control.agent) {
                let why = format!("{} is a memory node that the address names twice", self.agent(agent));
                return Err(refusal(self.0.address.clone(), why));
            }
            asked.push(control.agent);
            if let Answer::Room { left, .. } = control.ask(&Call::Room {})? {
                left_bytes += left;
            }
        }
        Ok(Some(left_bytes))
    }

    fn check_room(&self, bytes: u64) -> Result<(), FabricError> {
        let left_bytes = self.room_bytes()?.unwrap_or(u64::MAX);
        if left_bytes < bytes {
            let why = format!("the memory nodes have {left_bytes} bytes left (atoll node --capacity)");
            return Err(FabricError::NoRoom { name: self.0.address.clone(), bytes, why });
        }
        Ok(())
    }

    fn no_room(&self, bytes: u64) -> FabricError {
        let why = "the host of a memory node has no memory left".to_owned();
        FabricError::NoRoom { name: self.0.address.clone(), bytes, why }
    }

    fn create(&self, node: u8, bytes: u64, there: u64) -> Result<TcpRegion, FabricError> {
        self.create_at(self.maker(node), node, bytes, there)
    }

    fn open(&self, node: u8) -> Result<TcpRegion, FabricError> {
        self.opened(node, self.ask_about(node, &Call::Open { node: node.into() })?)
    }

    fn open_alone(&self, node: u8) -> Result<Option<TcpRegion>, FabricError> {
        match self.ask_about(node, &Call::OpenAlone { node: node.into() })? {
            (_, _, Answer::Busy {}) => Ok(None),
            asked => self.opened(node, asked).map(Some),
        }
    }

    fn hold(&self, node: u8, sharing: Sharing) -> Result<TcpHold, FabricError> {
        let alone = (sharing == Sharing::Alone).into();
        match self.ask_about(node, &Call::Hold { node: node.into(), alone })? {
            (control, _, Answer::Number { .. }) => Ok(TcpHold { control: Mutex::new(Some(control)) }),
            (_, _, answer) => self.failed(node, answer),
        }
    }

    fn beginning(&self, node: u8) -> Result<([u64; BEGINNING_WORDS], u64), FabricError> {
        match self.ask_about(node, &Call::Beginning { node: node.into() })? {
            (_, _, Answer::Beginning { size, words }) => {
                let mut found = [0; BEGINNING_WORDS];
                for (word, bytes) in found.iter_mut().zip(words.as_chunks::<8>().0) {
                    *word = u64::from_ne_bytes(*bytes);
                }
                Ok((found, size))
            }
            (_, _, answer) => self.failed(node, answer),
        }
    }

    fn remove(&self, node: u8) -> Result<(), FabricError> {
        match self.ask_about(node, &Call::Remove { node: node.into() })? {
            (_, _, Answer::Number { .. }) => Ok(()),
            (_, _, answer) => self.failed(node, answer),
        }
    }

    fn reach(&self, home: TcpRegion) -> TcpReach {
        let nodes = Arc::new([const { OnceLock::new() }; NODES_MAX]);
        TcpReach { fabric: self.clone(), home, nodes, is_apart: false }
    }
}

struct Opened {
    name: String,
    id: u64,
    agent: usize,
    attributes: RegionAttributes,
    there: u64,
    boot: u64,
    is_volatile: bool,
    /// It has the region open. `None` once it has failed.
    control: Mutex<Option<Control>>,
}

/// A region that this process has open at an agent. A clone is the same.
#[derive(Clone)]
pub struct TcpRegion(Arc<Opened>);

impl TcpRegion {
    pub(super) fn id(&self) -> u64 {
        self.0.id
    }

    /// The number of its agent in the list.
    pub(super) fn agent(&self) -> usize {
        self.0.agent
    }

    /// Bytes from the start that had memory when it was opened.
    pub(super) fn there(&self) -> u64 {
        self.0.there
    }

    pub(super) fn boot(&self) -> Option<u64> {
        Some(self.0.boot).filter(|boot| *boot != 0)
    }

    fn ask(&self, call: &Call) -> Option<Answer> {
        ask(&self.0.control, call).ok()
    }
}

/// Asks on a connection that is forgotten once it has failed.
fn ask(control: &Mutex<Option<Control>>, call: &Call) -> Result<Answer, FabricError> {
    let mut control = control.lock().unwrap_or_else(PoisonError::into_inner);
    let gone = || FabricError::Absent("the memory node".to_owned());
    let answer = control.as_mut().ok_or_else(gone)?.ask(call);
    if answer.is_err() {
        *control = None;
    }
    answer
}

/// Whose connections have the region open that this one has open or holds. The processes of other
/// hosts have no numbers here.
fn peers(control: &Mutex<Option<Control>>) -> Peers {
    let mut peers = Peers::default();
    if let Ok(Answer::Users { addresses }) = ask(control, &Call::Users {}) {
        let addresses = String::from_utf8_lossy(&addresses);
        addresses.split_whitespace().for_each(|address| peers.add_connection(address.to_owned()));
    }
    peers
}

/// Closes a connection that has not failed.
fn end(control: &Mutex<Option<Control>>) {
    let control = control.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(control) = control {
        close(&control.into_stream().0);
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        end(&self.control);
    }
}

impl Region for TcpRegion {
    fn attributes(&self) -> RegionAttributes {
        self.0.attributes
    }

    fn name(&self) -> Option<&str> {
        Some(&self.0.name)
    }

    fn is_volatile(&self) -> bool {
        self.0.is_volatile
    }

    /// An agent keeps no region on a disk.
    fn sync(&self) -> Result<(), FabricError> {
        Ok(())
    }

    fn share(&self) -> Result<(), FabricError> {
        ask(&self.0.control, &Call::Share {}).map(drop)
    }

    fn peers(&self) -> Peers {
        peers(&self.0.control)
    }

    fn peer_state(&self, who: Identity, _: &Peers) -> PeerState {
        let states = [PeerState::Running, PeerState::Stopped, PeerState::Dead, PeerState::NotVisible];
        match self.ask(&Call::PeerState { who: who.bits().into() }) {
            Some(Answer::Number { number }) => {
                states.into_iter().find(|state| *state as u64 == number).unwrap_or(PeerState::NotVisible)
            }
            _ => PeerState::NotVisible,
        }
    }

    /// No process of another host can be.
    fn kill(&self, _: Identity, _: &Peers) -> bool {
        false
    }
}

impl std::fmt::Debug for TcpRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TcpRegion").field("name", &self.0.name).field("bytes", &self.0.attributes.bytes).finish()
    }
}

/// A hold at an agent.
pub struct TcpHold {
    control: Mutex<Option<Control>>,
}

impl Hold for TcpHold {
    fn is_in_use(&self) -> Result<bool, FabricError> {
        match ask(&self.control, &Call::InUse {})? {
            Answer::Number { number } => Ok(number != 0),
            _ => Ok(false),
        }
    }

    fn peers(&self) -> Peers {
        peers(&self.control)
    }
}

impl Drop for TcpHold {
    fn drop(&mut self) {
        end(&self.control);
    }
}

/// What this process has open at the agents.
#[derive(Clone)]
pub struct TcpReach {
    fabric: TcpFabric,
    home: TcpRegion,
    nodes: Arc<[OnceLock<TcpRegion>; NODES_MAX]>,
    /// Whether it reaches those nodes alone that it is given.
    is_apart: bool,
}

impl TcpReach {
    pub(super) fn fabric(&self) -> &TcpFabric {
        &self.fabric
    }

    #[inline]
    pub(super) fn home_region(&self) -> &TcpRegion {
        &self.home
    }

    /// The region of a memory node, if it is reached.
    #[inline]
    pub(super) fn node(&self, node: u8) -> Option<&TcpRegion> {
        if node == 0 { Some(&self.home) } else { self.nodes.get(usize::from(node))?.get() }
    }

    /// The agent of a node, as the user wrote it.
    pub(super) fn place(&self, node: u8) -> String {
        self.fabric.agent(self.agent_of(node)).to_ascii_lowercase()
    }

    /// The agent that has the region of a node, or else the one on which it would be made.
    pub(super) fn agent_of(&self, node: u8) -> usize {
        self.node(node).map_or_else(|| self.fabric.holder(node), TcpRegion::agent)
    }

    /// Notes which agent has a node that is not reached.
    ///
    /// See [`Endpoint::find_place`](crate::Endpoint::find_place).
    pub(super) fn find_place(&self, node: u8, is_it: &dyn Fn(&str) -> bool) -> bool {
        let named = |agent: &usize| is_it(&self.fabric.agent(*agent).to_ascii_lowercase());
        let found = (0..self.fabric.0.agents.len()).find(named).filter(|_| self.node(node).is_none());
        found.is_some_and(|agent| {
            self.fabric.holders().insert(node, agent);
            true
        })
    }

    /// The memory nodes beside the home whose agents are silent, a bit each.
    pub(super) fn silent(&self) -> u64 {
        let silent = |node: &u8| self.fabric.is_silent(self.agent_of(*node));
        (1..NODES_MAX as u8).filter(|node| self.node(*node).is_some()).filter(silent).map(|node| 1 << node).sum()
    }

    /// Removes the region of a node, if its first words show that it is the right one.
    pub(super) fn remove_forsaken(&self, node: u8, is_it: &dyn Fn(&[u64]) -> bool) -> Result<bool, FabricError> {
        let mut control = self.fabric.connect(self.agent_of(node))?;
        let Answer::Opened { region, .. } = control.ask(&Call::Open { node: node.into() })? else { return Ok(false) };
        let Answer::Beginning { words, .. } = control.ask(&Call::Beginning { node: node.into() })? else {
            return Ok(false);
        };
        let found: Vec<u64> = words.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        if !is_it(&found) {
            return Ok(false);
        }
        // By its number: another client may have replaced it meanwhile.
        let removed = control.ask(&Call::RemoveRegion { node: node.into(), region })?;
        Ok(matches!(removed, Answer::Number { number: 1 }))
    }

    /// Opens the region of a node that another client has announced.
    pub(super) fn open(&self, node: u8) -> Result<(), VerbError> {
        if self.node(node).is_some() {
            return Ok(());
        }
        let absent = |why: String| VerbError::node_absent(node, why);
        let place = self.nodes.get(usize::from(node)).filter(|_| !self.is_apart);
        let place = place.ok_or_else(|| absent("there is no such node".to_owned()))?;
        let agents = self.fabric.0.agents.len();
        let region = self.fabric.open(node).map_err(|error| match error {
            FabricError::Absent(_) if usize::from(node) >= agents => absent(format!(
                "the address names {agents}, and none of them has it: name the addresses of all memory nodes, as the \
                 pool was created with them; if it is gone for good, `atoll pool repair --give-up {node}`"
            )),
            FabricError::Absent(name) => absent(format!(
                "{name} has no region of this pool: start the memory node that has it; if it is gone for good, \
                 `atoll pool repair --give-up {node}`"
            )),
            error => {
                absent(format!("{error}: start it again; if it is gone for good, `atoll pool repair --give-up {node}`"))
            }
        })?;
        // Another thread may have been faster.
        place.get_or_init(|| region);
        Ok(())
    }
}

impl TcpReach {
    /// Creates the region of a node anew, or opens the one that another client has created. A reach
    /// that had the node's last region open reaches no other.
    pub(super) fn remake(&self, node: u8, bytes: u64) -> Result<(), VerbError> {
        let absent = |why: String| VerbError::node_absent(node, why);
        if let Some(region) = self.node(node) {
            // Another thread of this process may have created it through this reach.
            let opened = self.fabric.open(node).map_err(|error| absent(error.to_string()))?;
            return match opened.id() == region.id() {
                true => Ok(()),
                false => Err(absent("this process had its last region open: open the pool again".to_owned())),
            };
        }
        let place = self.nodes.get(usize::from(node)).filter(|_| !self.is_apart);
        let place = place.ok_or_else(|| absent("there is no such node".to_owned()))?;
        let agent = self.fabric.holder(node);
        match self.fabric.create_at(agent, node, bytes, START_BYTES.min(bytes)) {
            Ok(region) => {
                // Clients wait until the node is there; its pages take longer.
                region.ask(&Call::ProvideAll {});
                place.get_or_init(|| region);
                Ok(())
            }
            Err(FabricError::Exists(_)) => self.open(node),
            Err(error) => Err(absent(error.to_string())),
        }
    }
}

impl Reach for TcpReach {
    type Endpoint = TcpEndpoint;
    type Region = TcpRegion;

    fn endpoint(&self) -> TcpEndpoint {
        TcpEndpoint::new(self.clone())
    }

    fn home(&self) -> &TcpRegion {
        &self.home
    }

    fn apart(&self) -> Self {
        let nodes = Arc::new([const { OnceLock::new() }; NODES_MAX]);
        Self { nodes, is_apart: true, ..self.clone() }
    }

    fn admit(&self, node: u8, region: TcpRegion) -> bool {
        node != 0 && self.nodes.get(usize::from(node)).is_some_and(|place| place.set(region).is_ok())
    }

    fn region(&self, node: u8) -> Option<TcpRegion> {
        self.node(node).cloned()
    }

    fn memory_nodes(&self) -> Vec<u8> {
        (0..NODES_MAX as u8).filter(|node| self.node(*node).is_some()).collect()
    }

    fn let_go(&self) {
        self.memory_nodes().into_iter().filter_map(|node| self.node(node)).for_each(|region| end(&region.0.control));
    }

    fn compute_nodes(&self) -> Vec<u16> {
        let mut found: Vec<u16> = Vec::new();
        let mut first = 0;
        while let Some(Answer::Numbers { next, numbers }) = self.home.ask(&Call::ComputeNodes { first }) {
            found.extend(numbers.as_chunks::<2>().0.iter().map(|number| u16::from_ne_bytes(*number)));
            if next <= first {
                break;
            }
            first = next;
        }
        found
    }
}
