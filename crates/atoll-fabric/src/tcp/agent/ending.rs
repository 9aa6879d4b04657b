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

use crate::FabricError;
use crate::shm::ShmEndpoint;
use crate::tcp::call::{Answer, Call};
use crate::tcp::control::Control;
use crate::tcp::{Authority, Secret, TcpOptions};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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
    endpoint: ShmEndpoint,
    elsewhere: Vec<Elsewhere>,
}

#[derive(Default)]
struct Waiting {
    ended: Vec<Ended>,
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
        waiting.ended.push(Ended { endpoint, elsewhere });
        if !std::mem::replace(&mut waiting.is_asking, true) {
            let own = self.clone();
            // Without a thread they count as alive, and what they hold stays unused.
            let spawned = std::thread::Builder::new().name("atoll-ending".to_owned()).spawn(move || own.ask());
            waiting.is_asking = spawned.is_ok();
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
            let mut ended = {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                if waiting.ended.is_empty() {
                    waiting.is_asking = false;
                    return;
                }
                std::mem::take(&mut waiting.ended)
            };
            for client in &mut ended {
                client.elsewhere.retain(|session| !has_ended(session, &options));
            }
            ended.retain(|client| !client.elsewhere.is_empty());
            let is_done = ended.is_empty();
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.ended.append(&mut ended);
            drop(waiting);
            if !is_done {
                std::thread::sleep(ASK_AGAIN);
            }
        }
    }
}

fn has_ended(session: &Elsewhere, options: &TcpOptions) -> bool {
    let mut agent = match Control::connect(&session.address, options) {
        Ok(agent) => agent,
        Err(FabricError::System { source, .. }) => return source.kind() == std::io::ErrorKind::ConnectionRefused,
        Err(_) => return false,
    };
    let end = Call::EndSession { agent: session.agent, session: session.session };
    matches!(agent.ask(&end), Ok(Answer::Number { number: 1 }))
}

impl std::fmt::Debug for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ended").field("who", &crate::Endpoint::identity(&self.endpoint)).finish_non_exhaustive()
    }
}
