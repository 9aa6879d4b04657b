//! Sessions of ended clients with other agents.
//!
//! A client whose session with its home has ended is dead only once its sessions with the agents of
//! further memory nodes have ended, too. The home's agent asks those agents. Until all of them have
//! answered, the client's identity stays lent, so that no client takes it for dead.
//!
//! | the other agent | its session |
//! |---|---|
//! | answers that it has ended it, or never had it | has ended |
//! | is another agent than the one that the client named | has ended: that agent's process is gone |
//! | refuses the connection | has ended: no agent listens there, so its process is gone |
//! | does not answer | may go on: it is asked again |
//! | does not answer, and clients have forsaken its memory nodes since | counts as ended once the client's session here has been over for [`FORSAKEN_AFTER`]: see [`tcp`](crate::tcp) |

use crate::shm::{ShmEndpoint, ShmRegion};
use crate::tcp::call::{Answer, Call};
use crate::tcp::control::Control;
use crate::tcp::{Authority, FORSAKEN_AFTER, Secret, TcpOptions};
use crate::{Endpoint, FabricError, Identity};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const ASK_AGAIN: Duration = Duration::from_millis(200);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// A session with another agent.
#[derive(Clone, Debug)]
pub(super) struct Elsewhere {
    pub(super) address: String,
    pub(super) agent: u64,
    pub(super) session: u64,
}

/// The endpoint of an ended session, which keeps its identity, and what has not ended yet.
struct Ended {
    number: u64,
    endpoint: ShmEndpoint,
    elsewhere: Vec<Elsewhere>,
    at: Instant,
}

#[derive(Default)]
struct Waiting {
    ended: Vec<Ended>,
    /// How many there have been.
    count: u64,
    /// When clients last said of an agent that its memory nodes are forsaken, by its address.
    forsaken: HashMap<String, Instant>,
    is_asking: bool,
}

/// Those that have not ended everywhere.
#[derive(Clone, Default)]
pub(super) struct Ending {
    waiting: Arc<Mutex<Waiting>>,
    secret: Option<Secret>,
    authority: Option<Authority>,
}

impl Ending {
    pub(super) fn new(secret: Option<Secret>, authority: Option<Authority>) -> Self {
        Self { waiting: Arc::default(), secret, authority }
    }

    /// The client of this endpoint has ended.
    pub(super) fn add(&self, endpoint: ShmEndpoint, elsewhere: Vec<Elsewhere>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.count += 1;
        let number = waiting.count;
        waiting.ended.push(Ended { number, endpoint, elsewhere, at: Instant::now() });
        if !std::mem::replace(&mut waiting.is_asking, true) {
            let own = self.clone();
            // Without a thread they count as alive, and what they hold stays unused.
            let spawned = std::thread::Builder::new().name("atoll-ending".to_owned()).spawn(move || own.ask());
            waiting.is_asking = spawned.is_ok();
        }
    }

    /// Whether this endpoint of a region is one whose sessions elsewhere may not have ended.
    pub(super) fn has(&self, region: &Arc<ShmRegion>, who: Identity) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it =
            |ended: &Ended| ended.endpoint.identity() == who && Arc::ptr_eq(&ended.endpoint.home_region(), region);
        waiting.ended.iter().any(is_it)
    }

    /// Clients have forsaken the memory nodes of an agent.
    pub(super) fn forsake(&self, address: String) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // A mark is of use to those alone that ended before it.
        if waiting.is_asking {
            waiting.forsaken.insert(address, Instant::now());
        }
    }

    /// Asks until none is left.
    fn ask(self) {
        let options = TcpOptions {
            secret: self.secret.clone(),
            authority: self.authority.clone(),
            connect_timeout: CONNECT_TIMEOUT,
            ..TcpOptions::default()
        };
        loop {
            let asked: Vec<(u64, Instant, Vec<Elsewhere>)>;
            let forsaken;
            {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                if waiting.ended.is_empty() {
                    waiting.is_asking = false;
                    waiting.forsaken.clear();
                    return;
                }
                asked = waiting.ended.iter().map(|ended| (ended.number, ended.at, ended.elsewhere.clone())).collect();
                forsaken = waiting.forsaken.clone();
            }
            let mut silent: Vec<String> = Vec::new();
            let mut left: HashMap<u64, Vec<Elsewhere>> = HashMap::new();
            for (number, at, mut elsewhere) in asked {
                let is_forsaken = |session: &Elsewhere| {
                    let is_told = forsaken.get(&session.address).is_some_and(|told| *told > at);
                    is_told && at.elapsed() >= FORSAKEN_AFTER
                };
                elsewhere.retain(|session| {
                    // One question a round to an agent that does not answer.
                    let answer = if silent.contains(&session.address) { None } else { has_ended(session, &options) };
                    if answer.is_none() && !silent.contains(&session.address) {
                        silent.push(session.address.clone());
                    }
                    !answer.unwrap_or_else(|| is_forsaken(session))
                });
                left.insert(number, elsewhere);
            }
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            for ended in &mut waiting.ended {
                if let Some(left) = left.remove(&ended.number) {
                    ended.elsewhere = left;
                }
            }
            waiting.ended.retain(|ended| !ended.elsewhere.is_empty());
            let is_done = waiting.ended.is_empty();
            drop(waiting);
            if !is_done {
                std::thread::sleep(ASK_AGAIN);
            }
        }
    }
}

/// Whether a session has ended. `None` if its agent does not answer.
fn has_ended(session: &Elsewhere, options: &TcpOptions) -> Option<bool> {
    let mut agent = match Control::connect(&session.address, options) {
        Ok(agent) => agent,
        Err(FabricError::System { source, .. }) if source.kind() == std::io::ErrorKind::ConnectionRefused => {
            return Some(true);
        }
        Err(_) => return None,
    };
    let end = Call::EndSession { agent: session.agent, session: session.session };
    agent.ask(&end).ok().map(|answer| matches!(answer, Answer::Number { number: 1 }))
}

impl std::fmt::Debug for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ended").field("who", &self.endpoint.identity()).finish_non_exhaustive()
    }
}
