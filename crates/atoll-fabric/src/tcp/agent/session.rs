//! A session: one client's endpoint with this agent, and how it ends.
//!
//! A session is an endpoint of this host's memory ([`ShmEndpoint`]) that executes what arrives on
//! one connection. So its identity is lent by the kernel as those of processes of this host are,
//! and it is dead exactly when the endpoint is dropped.
//!
//! | a session ends | when |
//! |---|---|
//! | its connection is closed | by the client, by the kernel if the client's host does not answer, or by the agent |
//! | it is shut out | another client asks for it, and nothing was heard of it for the lease |
//!
//! A client that uses further agents has a session with each. It names those sessions to the agent
//! of its home before it posts any verb there. Its identity stays lent until those sessions have
//! ended, too: see [`ending`](super::ending).
//!
//! A session whose process follows regions of it ends for other clients once the watches are over:
//! until then its endpoint is kept, and with it the regions. See [`watch`](super::watch).
//!
//! Invariant: verbs are executed under the lock of [`Part`], so none is after the end.

use super::Shared;
use super::Waiter;
use super::ending::Elsewhere;
use super::regions::refused;
use super::watch::{Departed, Gate, Watch};
use crate::shm::lock::RegionLock;
use crate::shm::{ShmEndpoint, ShmNodes, ShmRegion};
use crate::tcp::call::{Answer, Call};
use crate::tcp::wire::{Status, VERB_BYTES_MAX, WireVerbs};
use crate::{
    Address, Clock, Domain, Endpoint, Identity, Kind, Lifetime, Mailbox, Messenger, Region, RegionAttributes, Sender,
    Sharing, VerbError, run_ready,
};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most sessions that a client can have elsewhere: one for each memory node.
const ELSEWHERE_MAX: usize = 64;
/// Most bytes that a session exports.
const EXPORT_BYTES_MAX: u64 = 64 << 20;

/// A session.
pub(super) struct Session {
    /// No other session of any agent has it.
    pub(super) id: u64,
    part: Mutex<Part>,
    /// When something was last heard of it, in milliseconds of the agent's time.
    pub(super) heard_ms: AtomicU64,
}

#[derive(Default)]
struct Part {
    /// From the first attachment on, until the end.
    endpoint: Option<ShmEndpoint>,
    nodes: Option<Arc<ShmNodes>>,
    /// The region of the first attachment.
    home: u64,
    identity: Option<Identity>,
    elsewhere: Vec<Elsewhere>,
    exported_bytes: u64,
    /// Of the regions that it exports.
    watches: Vec<Arc<Watch>>,
    is_ended: bool,
}

impl Session {
    pub(super) fn new(id: u64, now_ms: u64) -> Self {
        Self { id, part: Mutex::default(), heard_ms: AtomicU64::new(now_ms) }
    }

    fn part(&self) -> MutexGuard<'_, Part> {
        self.part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes a batch and appends what it found, and the gates that its answer waits for.
    pub(super) fn execute(&self, verbs: &WireVerbs<'_>, found: &mut Vec<u64>, gates: &mut Vec<Gate>) -> Status {
        let part = self.part();
        let Some(endpoint) = &part.endpoint else {
            return if part.is_ended { Status::Fenced } else { Status::Detached };
        };
        match endpoint.execute_wire(verbs, found, gates) {
            Ok(()) => Status::Good,
            Err(VerbError::NoMemory(_)) => Status::NoMemory,
            Err(VerbError::PeerDead) => Status::Detached,
            // An attachment that failed has no region.
            Err(_) if verbs.iter().any(|verb| !endpoint.is_reached(first_of(verb.at))) => Status::Detached,
            Err(_) => Status::Unreachable,
        }
    }

    /// Whether its first attachment is this region.
    pub(super) fn is_of(&self, region: u64) -> bool {
        let part = self.part();
        part.endpoint.is_some() && part.home == region
    }

    /// Ends it: no verb of it takes effect from now on. Its identity is free, and its exports are
    /// gone, once its watches are over and its sessions elsewhere have ended.
    pub(super) fn end(&self, shared: &Shared) {
        let mut part = self.part();
        part.is_ended = true;
        let endpoint = part.endpoint.take();
        let (elsewhere, exported) = (std::mem::take(&mut part.elsewhere), part.exported_bytes);
        let watches = std::mem::take(&mut part.watches);
        part.exported_bytes = 0;
        shared.forget_session(self.id, part.identity.map(|who| (part.home, who)));
        drop(part);
        shared.exported_bytes.fetch_sub(exported, Relaxed);
        let departed = Departed { endpoint, elsewhere, ending: shared.ending.clone() };
        let departed = Arc::new(Mutex::new(departed));
        watches.iter().for_each(|watch| watch.close(&departed));
    }

    /// Begins the watch of a region that it exports.
    ///
    /// # Errors
    /// What the follower is answered that cannot watch it.
    pub(super) fn watch(
        &self,
        at: Address,
        lease: Duration,
        follower: Waiter,
    ) -> Result<(Arc<Watch>, Arc<ShmRegion>), Answer> {
        let mut part = self.part();
        let absent = |why: &str| Answer::Absent { why: why.as_bytes().to_vec() };
        let Some(endpoint) = &part.endpoint else { return Err(absent("the session has ended")) };
        if endpoint.home_region().name().is_some() {
            // Processes of this host change such a region without the agent.
            return Err(Answer::NoExport { why: Vec::new() });
        }
        let region = endpoint.own_export(at).ok_or_else(|| absent("the session exports no such region"))?;
        let watch = region.begin_watch(|words| Watch::new(words, lease, follower)).ok_or(Answer::Exists {})?;
        part.watches.push(watch.clone());
        Ok((watch, region))
    }

    /// Answers a call on the session.
    pub(super) fn call(self: &Arc<Self>, shared: &Shared, call: Call) -> Answer {
        match call {
            Call::Attach { attachment, region } => self.attach(shared, attachment, region),
            Call::Identity {} => self.identity(shared),
            Call::IsDead { who } => self.is_dead(Identity::from_bits(who as u32)),
            Call::HasEnded { who } => self.has_ended(shared, Identity::from_bits(who as u32)),
            Call::ShutOut { who } => self.shut_out(shared, Identity::from_bits(who as u32)),
            Call::Elsewhere { agent, session, address } => {
                let mut part = self.part();
                let address = String::from_utf8(address).unwrap_or_default();
                if part.is_ended || part.elsewhere.len() >= ELSEWHERE_MAX {
                    return Answer::Refused { why: b"the session has ended, or has too many others".to_vec() };
                }
                part.elsewhere.push(Elsewhere { address, agent, session });
                Answer::Number { number: 1 }
            }
            Call::Forsake { address } => {
                shared.ending.forsake(String::from_utf8(address).unwrap_or_default());
                Answer::Number { number: 1 }
            }
            Call::EndSession { agent, session } => Answer::Number { number: shared.end_session(agent, session).into() },
            call => {
                let mut part = self.part();
                match part.endpoint.take() {
                    Some(endpoint) => {
                        let answer = part.call(&endpoint, shared, call);
                        part.endpoint = Some(endpoint);
                        answer
                    }
                    None => Answer::Absent { why: b"the session has no region, or has ended".to_vec() },
                }
            }
        }
    }

    fn attach(&self, shared: &Shared, attachment: u64, region: u64) -> Answer {
        let Some((found, answer)) = shared.regions().region(region) else { return Answer::Absent { why: Vec::new() } };
        let mut part = self.part();
        let refused = Answer::Refused { why: b"the attachment is taken, or the session has ended".to_vec() };
        if part.is_ended || attachment >= crate::shm::NODES_MAX as u64 {
            return refused;
        }
        match (&part.endpoint, &part.nodes) {
            (None, _) if attachment == 0 => {
                let nodes = Arc::new(ShmNodes::none());
                let endpoint = ShmEndpoint::with_regions(vec![found], Clock::host()).with_nodes(nodes.clone());
                (part.endpoint, part.nodes, part.home) = (Some(endpoint), Some(nodes), region);
            }
            (Some(_), Some(nodes)) if attachment > 0 => {
                if nodes.insert(attachment as u8, found).is_err() {
                    return refused;
                }
            }
            _ => return refused,
        }
        answer
    }

    fn identity(self: &Arc<Self>, shared: &Shared) -> Answer {
        let mut part = self.part();
        let who = part.endpoint.as_ref().map_or(Identity::NOBODY, Endpoint::identity);
        if who != Identity::NOBODY && part.identity.is_none() {
            part.identity = Some(who);
            shared.know_identity((part.home, who), self);
        }
        Answer::Number { number: who.bits().into() }
    }

    /// The region whose endpoints this session can ask about.
    fn home(&self) -> Option<(u64, Arc<crate::shm::ShmRegion>)> {
        let part = self.part();
        part.endpoint.as_ref().map(|endpoint| (part.home, endpoint.home_region()))
    }

    fn is_dead(&self, who: Identity) -> Answer {
        match self.home() {
            Some((_, region)) => Answer::Number { number: region.is_endpoint_dead(who).into() },
            None => Answer::Absent { why: Vec::new() },
        }
    }

    fn has_ended(&self, shared: &Shared, who: Identity) -> Answer {
        match self.home() {
            Some((_, region)) => {
                let has_ended = region.is_endpoint_dead(who) || shared.ending.has(&region, who);
                Answer::Number { number: has_ended.into() }
            }
            None => Answer::Absent { why: Vec::new() },
        }
    }

    fn shut_out(&self, shared: &Shared, who: Identity) -> Answer {
        let Some((home, region)) = self.home() else { return Answer::Absent { why: Vec::new() } };
        if !region.is_endpoint_dead(who)
            && let Some(session) = shared.session_of((home, who))
        {
            let silent_ms = shared.now_ms().saturating_sub(session.heard_ms.load(Relaxed));
            if silent_ms >= shared.options.lease.as_millis() as u64 {
                tracing::warn!("a client that was silent for {silent_ms} ms is shut out");
                session.end(shared);
            }
        }
        Answer::Number { number: region.is_endpoint_dead(who).into() }
    }
}

/// The first byte of the region of an address.
fn first_of(at: Address) -> Address {
    match at.compute_node() {
        Some(node) => Address::on_compute(node, at.region(), 0),
        None => Address::new(at.memory_node().unwrap_or(0), at.region(), 0),
    }
}

/// The answer about an exported region, which is reached unless it is another one.
fn reached(found: Result<Option<RegionAttributes>, VerbError>) -> Answer {
    match found {
        Ok(Some(found)) => {
            let [size, kind, domain, lifetime] = numbers_of(&found);
            Answer::Attributes { size, kind, domain, lifetime }
        }
        Ok(None) => Answer::Number { number: 0 },
        Err(VerbError::ExportAbsent(absent)) => Answer::Absent { why: absent.why.into_bytes() },
        // It may be there.
        Err(error) => Answer::NoExport { why: error.to_string().into_bytes() },
    }
}

impl Part {
    fn call(&mut self, endpoint: &ShmEndpoint, shared: &Shared, call: Call) -> Answer {
        let number = |number: u64| Answer::Number { number };
        match call {
            Call::Provide { at, size } => {
                number(run_ready(endpoint.provide(Address::from_bits(at), size)).unwrap_or(false).into())
            }
            // A process may follow it: its words change by verbs alone.
            Call::Discard { at, .. } if Address::from_bits(at).compute_node().is_some() => number(0),
            Call::Discard { at, size } => {
                number(run_ready(endpoint.discard(Address::from_bits(at), size)).unwrap_or(0))
            }
            Call::Export { size, kind, domain, lifetime } => match attributes([size, kind, domain, lifetime]) {
                Some(wanted) => self.export(endpoint, shared, wanted),
                None => Answer::NoExport { why: Vec::new() },
            },
            Call::ReachExport { at } => reached(endpoint.reach_export(Address::from_bits(at)).map(Some)),
            Call::ReachExportIf { at, word } => reached(endpoint.export_if(Address::from_bits(at), word)),
            Call::Mailbox {} => number(endpoint.mailbox().0),
            Call::Sign { slot, epoch } => {
                endpoint.sign(Sender { slot: slot as u32, epoch: epoch as u32 });
                number(1)
            }
            Call::Send { to, bytes } => {
                let _ = endpoint.send(Mailbox(to), &bytes);
                number(1)
            }
            Call::Receive {} => match endpoint.take_message() {
                Some(message) => Answer::Message {
                    from: message.from.0,
                    slot: message.sender.slot.into(),
                    epoch: message.sender.epoch.into(),
                    text: message.bytes,
                },
                None => Answer::Absent { why: Vec::new() },
            },
            _ => Answer::Refused { why: b"the call is not for a session".to_vec() },
        }
    }

    fn export(&mut self, endpoint: &ShmEndpoint, shared: &Shared, wanted: RegionAttributes) -> Answer {
        if wanted.bytes > EXPORT_BYTES_MAX - self.exported_bytes.min(EXPORT_BYTES_MAX) {
            return Answer::NoExport { why: b"the agent keeps at most 64 MiB of exports for a client".to_vec() };
        }
        // No client of this agent can begin to remove the pool meanwhile: an export would wait for
        // it, and the agent with it.
        let name = endpoint.home_region();
        let _hold = match name.name().map(|name| RegionLock::try_take(name, Sharing::Shared)) {
            Some(Ok(None)) => return Answer::Busy {},
            Some(Err(error)) => return refused(error),
            Some(Ok(hold)) => hold,
            None => None,
        };
        match endpoint.export(wanted) {
            Ok(at) => {
                self.exported_bytes += wanted.bytes;
                shared.exported_bytes.fetch_add(wanted.bytes, Relaxed);
                Answer::Number { number: at.to_bits() }
            }
            Err(error) => refused(error),
        }
    }
}

/// The attributes that a call names.
pub(in crate::tcp) fn attributes([bytes, kind, domain, lifetime]: [u64; 4]) -> Option<RegionAttributes> {
    let kind = *[Kind::Host, Kind::Device].get(usize::try_from(kind).ok()?)?;
    let domain = *[Domain::Cpu, Domain::Nic, Domain::Agent].get(usize::try_from(domain).ok()?)?;
    let lifetime = *[Lifetime::Process, Lifetime::Host].get(usize::try_from(lifetime).ok()?)?;
    Some(RegionAttributes { bytes, kind, domain, lifetime })
}

/// The same as numbers.
pub(in crate::tcp) fn numbers_of(attributes: &RegionAttributes) -> [u64; 4] {
    [attributes.bytes, attributes.kind as u64, attributes.domain as u64, attributes.lifetime as u64]
}

const _: () = assert!(VERB_BYTES_MAX < EXPORT_BYTES_MAX);
