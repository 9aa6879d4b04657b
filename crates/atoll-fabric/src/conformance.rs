//! The suite that every fabric passes.
//!
//! A [`Case`] is some clients that run at the same time over one fresh region, and a check of the
//! region afterwards. Clients share only the region. So they may be tasks of a simulation, threads
//! or processes: a [`Fixture`] decides. A violation is a panic.
//!
//! | module | cases |
//! |---|---|
//! | `transfers` | one client: the effects of verbs, and the errors of bad ones |
//! | `litmus` | several clients: atomicity, the order of messages, flushes |
//! | `store_buffering` | two clients: a mark is visible to verbs that are in order after it |
//! | `fenced_verbs` | two clients: a fenced verb follows all earlier verbs of its batch |
//! | `race` | no case: rounds of two clients that race, for the two above |
//! | `nodes` | several memory nodes: each keeps its own order |
//! | `fences` | a client that was shut out changes nothing |
//! | `exports` | for fabrics whose compute nodes export regions: found, reached, removed with their owner |
//! | `messages` | for fabrics with messages: whole, with the right sender, after the verbs that completed before them |
//! | [`control`] | of the control plane: regions are created, found, protected from other processes and removed |
//! | [`late`] | no case: a fabric whose results come late, for tests of executors |
//! | `proxy` | no case: a peer between client and agent that delays, cuts and repeats, with the feature `tcp` |
//! | `unknown` | for fabrics whose posts end at a deadline: each verb at most once, none after the fence |

pub mod control;
mod exports;
mod fenced_verbs;
mod fences;
pub mod late;
mod litmus;
mod messages;
mod nodes;
#[cfg(feature = "tcp")]
pub mod proxy;
mod race;
mod store_buffering;
mod transfers;
mod unknown;

use crate::{Address, Batch, Endpoint, Messenger};
use std::future::Future;
use std::pin::Pin;

/// The size of the region that a case runs on.
pub const REGION_BYTES: u64 = 1 << 20;

/// What one client does, to its end.
pub type Play = Pin<Box<dyn Future<Output = ()>>>;

/// Some clients and what they leave behind.
pub struct Case<E> {
    /// Names the promise.
    pub name: &'static str,
    /// How many clients run at the same time.
    pub clients: usize,
    /// How many memory nodes they reach.
    pub nodes: u8,
    /// What the client with this number does, in this many rounds.
    pub play: fn(E, usize, u64) -> Play,
    /// Looks at the region once all clients have ended.
    pub verify: fn(E, u64) -> Play,
}

impl<E: 'static> Case<E> {
    /// Clients of one memory node, with nothing to look at afterwards.
    fn new(name: &'static str, clients: usize, play: fn(E, usize, u64) -> Play) -> Self {
        Self { name, clients, nodes: 1, play, verify: |_, _| Box::pin(async {}) }
    }

    /// The same over so many memory nodes.
    fn over(self, nodes: u8) -> Self {
        Self { nodes, ..self }
    }

    /// The same with a look at the region afterwards.
    fn verified(self, verify: fn(E, u64) -> Play) -> Self {
        Self { verify, ..self }
    }
}

/// A fabric as the suite needs it.
pub trait Fixture {
    /// One client's access.
    type Endpoint: Endpoint + 'static;

    /// Plays all clients of `case` at the same time, each with an endpoint of its own, then
    /// verifies with another one. They all reach the nodes below [`Case::nodes`], each with its
    /// region 0, [`REGION_BYTES`] zero bytes in the beginning, and nothing else. The number of
    /// rounds is the fixture's choice: a simulation plays few rounds under many seeds, threads need
    /// many to meet. Panics if a client does.
    fn run(&self, case: &Case<Self::Endpoint>);
}

/// Runs every case.
pub fn run<F: Fixture>(fixture: &F) {
    for case in cases() {
        fixture.run(&case);
    }
}

/// Runs the cases of messages, which not every fabric has.
pub fn run_messages<F: Fixture<Endpoint: Messenger>>(fixture: &F) {
    for case in messages::cases() {
        fixture.run(&case);
    }
}

/// Runs the cases of regions that compute nodes export, which not every fabric has.
pub fn run_exports<F: Fixture>(fixture: &F) {
    for case in exports::cases() {
        fixture.run(&case);
    }
}

/// Runs the cases of exported regions that their process [follows](crate::Endpoint::follow).
pub fn run_followed<F: Fixture>(fixture: &F) {
    for case in exports::followed() {
        fixture.run(&case);
    }
}

/// Runs the cases of unknown outcomes, on a fabric that lets posts end in
/// [`VerbError::OutcomeUnknown`](crate::VerbError::OutcomeUnknown) now and then.
pub fn run_unknown<F: Fixture>(fixture: &F) {
    for case in unknown::cases() {
        fixture.run(&case);
    }
}

/// All cases but those of messages and of unknown outcomes.
pub fn cases<E: Endpoint + 'static>() -> Vec<Case<E>> {
    let mut cases = transfers::cases();
    cases.extend(litmus::cases());
    cases.extend(store_buffering::cases());
    cases.extend(fenced_verbs::cases());
    cases.extend(nodes::cases());
    cases.extend(fences::cases());
    cases
}

/// The case of a name, but those of messages: for a client in another process.
pub fn case<E: Endpoint + 'static>(name: &str) -> Option<Case<E>> {
    cases()
        .into_iter()
        .chain(exports::cases())
        .chain(exports::followed())
        .chain(unknown::cases())
        .find(|case| case.name == name)
}

/// The case of messages of a name: for a client in another process.
pub fn message_case<E: Endpoint + Messenger + 'static>(name: &str) -> Option<Case<E>> {
    messages::cases().into_iter().find(|case| case.name == name)
}

/// The address of a word of the region.
fn word(index: u64) -> Address {
    Address::new(0, 0, 8 * index)
}

async fn read<E: Endpoint>(endpoint: &E, at: Address) -> u64 {
    let mut batch = Batch::new();
    let ticket = batch.read_word(at);
    endpoint.post(&mut batch).await.expect("the word is there");
    batch.word(ticket)
}

async fn write<E: Endpoint>(endpoint: &E, at: Address, value: u64) {
    let mut batch = Batch::new();
    batch.write_word(at, value);
    endpoint.post(&mut batch).await.expect("the word is there");
}

async fn fetch_and_add<E: Endpoint>(endpoint: &E, at: Address, addend: u64) -> u64 {
    let mut batch = Batch::new();
    let ticket = batch.fetch_and_add(at, addend);
    endpoint.post(&mut batch).await.expect("the word is there");
    batch.word(ticket)
}

/// Waits until the word at `at` is at least `least`; gives it.
async fn wait_for<E: Endpoint>(endpoint: &E, at: Address, least: u64) -> u64 {
    loop {
        let found = read(endpoint, at).await;
        if found >= least {
            return found;
        }
        endpoint.pause(100).await;
    }
}
