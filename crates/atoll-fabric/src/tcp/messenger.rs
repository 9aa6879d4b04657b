//! Messages and exported regions: the home's agent keeps both.

use super::TcpEndpoint;
use super::agent::session::{attributes, numbers_of};
use super::call::{Answer, Call};
use super::post::Calling;
use crate::{
    Address, COMPUTE_NODES_MAX, Endpoint, FabricError, MESSAGE_BYTES_MAX, Mailbox, Message, MessageError, Messenger,
    RegionAttributes, Sender, VerbError,
};

/// How long a receiver waits before it asks again, at least and at most.
const ASK_AGAIN_NS: std::ops::RangeInclusive<u64> = 20_000..=1_000_000;

impl TcpEndpoint {
    /// See [`Endpoint::export`].
    pub(super) fn export_region(&self, wanted: RegionAttributes) -> Result<Address, FabricError> {
        let refused = |why| FabricError::NoExport { wanted, why };
        let [size, kind, domain, lifetime] = numbers_of(&wanted);
        match self.ask_home(&Call::Export { size, kind, domain, lifetime }) {
            Ok(Answer::Number { number }) => {
                let at = Address::from_bits(number);
                let place = (at.compute_node().unwrap_or(0), at.region());
                self.core.borrow_mut().exports.insert(place, wanted);
                self.followed.note_export(place);
                Ok(at)
            }
            Ok(Answer::NoExport { .. }) => Err(refused("the agent of the home makes no such region for this client")),
            Ok(Answer::NoRoom { size, why }) => Err(FabricError::NoRoom {
                name: "the home".to_owned(),
                bytes: size,
                why: String::from_utf8_lossy(&why).into_owned(),
            }),
            Ok(_) => Err(refused("the agent of the home cannot make it")),
            Err(_) => Err(refused("the agent of the home is gone")),
        }
    }

    /// See [`Endpoint::reach_export`].
    pub(super) fn reach_exported(&self, at: Address) -> Result<RegionAttributes, VerbError> {
        let reached = self.ask_for_export(at, &Call::ReachExport { at: at.to_bits() })?;
        reached.ok_or_else(|| absent_export(at, "the agent of the home refuses it"))
    }

    /// See [`Endpoint::reach_export_if`].
    pub(super) fn reach_exported_if(&self, at: Address, word: u64) -> Result<bool, VerbError> {
        let reached = self.ask_for_export(at, &Call::ReachExportIf { at: at.to_bits(), word })?;
        Ok(reached.is_some())
    }

    /// Has the home's agent reach an exported region; `None` if it is another one.
    fn ask_for_export(&self, at: Address, call: &Call) -> Result<Option<RegionAttributes>, VerbError> {
        let Some(node) = at.compute_node() else {
            return Err(absent_export(at, "it is the address of a memory node"));
        };
        let (place, text) = ((node, at.region()), |why: Vec<u8>| String::from_utf8_lossy(&why).into_owned());
        match self.ask_home(call)? {
            Answer::Attributes { size, kind, domain, lifetime } => {
                let found = attributes([size, kind, domain, lifetime]);
                let found = found.ok_or_else(|| absent_export(at, "its attributes are of another version"))?;
                self.core.borrow_mut().exports.insert(place, found);
                Ok(Some(found))
            }
            Answer::Number { .. } => Ok(None),
            Answer::Absent { why } => {
                self.core.borrow_mut().exports.remove(&place);
                Err(absent_export(at, text(why)))
            }
            Answer::NoExport { why } => Err(VerbError::export_unopened(node, at.region(), text(why))),
            // It may be there.
            _ => Err(VerbError::export_unopened(node, at.region(), "the agent of the home refuses it")),
        }
    }

    /// The oldest message that has arrived.
    async fn ask_for_message(&self) -> Option<Message> {
        match Calling::new(self, Address::new(0, 0, 0), |_| Call::Receive {}).await {
            Ok(Answer::Message { from, slot, epoch, text }) => Some(Message {
                from: Mailbox(from),
                sender: Sender { slot: slot as u32, epoch: epoch as u32 },
                bytes: text,
            }),
            _ => None,
        }
    }
}

impl Messenger for TcpEndpoint {
    fn mailbox(&self) -> Mailbox {
        // The mailbox names its receiver's identity, and an endpoint is known by that.
        let _ = self.identity();
        match self.ask_home(&Call::Mailbox {}) {
            Ok(Answer::Number { number }) => Mailbox(number),
            _ => Mailbox::NOBODY,
        }
    }

    fn sign(&self, sender: Sender) {
        let _ = self.ask_home(&Call::Sign { slot: sender.slot.into(), epoch: sender.epoch.into() });
    }

    fn send(&self, to: Mailbox, bytes: &[u8]) -> Result<(), MessageError> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLong { bytes: bytes.len() });
        }
        let _ = self.identity();
        match self.begin_call(Address::new(0, 0, 0), &Call::Send { to: to.0, bytes: bytes.to_vec() }) {
            Ok(slot) => {
                self.core.borrow_mut().flights.abandon(slot);
                Ok(())
            }
            Err(VerbError::Fenced) => Err(MessageError::Fenced),
            Err(VerbError::Forked) => Err(MessageError::Forked),
            // A message may be lost.
            Err(_) => Ok(()),
        }
    }

    async fn receive(&self) -> Message {
        loop {
            if let Some(message) = self.receive_within(u64::MAX).await {
                return message;
            }
        }
    }

    async fn receive_within(&self, ns: u64) -> Option<Message> {
        let end_ns = self.now_ns().saturating_add(ns);
        let mut pause_ns = *ASK_AGAIN_NS.start();
        loop {
            if let Some(message) = self.ask_for_message().await {
                return Some(message);
            }
            let left_ns = end_ns.saturating_sub(self.now_ns());
            if left_ns == 0 {
                return None;
            }
            self.pause(pause_ns.min(left_ns)).await;
            pause_ns = (2 * pause_ns).min(*ASK_AGAIN_NS.end());
        }
    }
}

fn absent_export(at: Address, why: impl Into<String>) -> VerbError {
    VerbError::export_absent(at.compute_node().unwrap_or(COMPUTE_NODES_MAX), at.region(), why)
}
