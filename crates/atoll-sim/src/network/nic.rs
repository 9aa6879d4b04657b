//! A NIC: its engines, its link, its atomics unit, and what has passed them.

use super::atomics::Atomics;
use super::profile::Profile;
use super::server::Server;
use super::traffic::{NicTraffic, VerbKind};
use atoll_fabric::{Address, Kind};

/// A NIC. Times are picoseconds of virtual time; requests must pass a server in the order of
/// time.
pub(crate) struct Nic {
    issue: Server,
    serve: Server,
    link_out: Server,
    link_in: Server,
    atomics: Atomics,
    verbs: [u64; VerbKind::ALL.len()],
    bytes_in: u64,
    bytes_out: u64,
}

impl Nic {
    pub(crate) fn new() -> Self {
        Self {
            issue: Server::default(),
            serve: Server::default(),
            link_out: Server::default(),
            link_in: Server::default(),
            atomics: Atomics::new(),
            verbs: [0; VerbKind::ALL.len()],
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    /// A request leaves: gives when its last byte has.
    #[inline]
    pub(crate) fn send_request(&mut self, at: u64, verb: VerbKind, memory: Kind, wire: Wire, profile: &Profile) -> u64 {
        let issued = self.issue.serve(at, profile.issue.of(verb, memory));
        self.send(issued, wire)
    }

    /// A request has come: gives when the engine is done with it.
    #[inline]
    pub(crate) fn serve_request(
        &mut self,
        at: u64,
        verb: VerbKind,
        memory: Kind,
        begins_batch: bool,
        wire: Wire,
        profile: &Profile,
    ) -> u64 {
        let come = self.receive(at, wire);
        self.verbs[verb as usize] += 1;
        let batch_ps = if begins_batch { profile.serve_batch_ps } else { 0 };
        self.serve.serve(come, batch_ps + profile.serve.of(verb, memory))
    }

    /// A message has come: gives when the engine is done with it.
    pub(crate) fn take_message(&mut self, at: u64, wire: Wire, profile: &Profile) -> u64 {
        let come = self.receive(at, wire);
        self.serve.serve(come, profile.serve.write_ps)
    }

    /// An atomic leaves the engine `at`: gives when its result is there.
    #[inline]
    pub(crate) fn execute_atomic(&mut self, at: u64, word: Address, memory: Kind, profile: &Profile) -> u64 {
        self.atomics.execute(at, word, profile.atomics(memory))
    }

    /// Bytes leave: gives when the last one has.
    #[inline]
    pub(crate) fn send(&mut self, at: u64, wire: Wire) -> u64 {
        self.bytes_out += wire.bytes;
        self.link_out.serve(at, wire.ps)
    }

    /// Bytes come: gives when the last one has.
    #[inline]
    pub(crate) fn receive(&mut self, at: u64, wire: Wire) -> u64 {
        self.bytes_in += wire.bytes;
        self.link_in.serve(at, wire.ps)
    }

    pub(crate) fn traffic(&self) -> NicTraffic {
        NicTraffic {
            verbs: self.verbs,
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            issue_busy_ps: self.issue.busy_ps(),
            serve_busy_ps: self.serve.busy_ps(),
            atomics_busy_ps: self.atomics.busy_ps(),
            link_in_busy_ps: self.link_in.busy_ps(),
            link_out_busy_ps: self.link_out.busy_ps(),
        }
    }
}

/// What something is on a link: its bytes with all headers, and the time that they take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    pub(crate) bytes: u64,
    pub(crate) ps: u64,
}
