//! The processor of a node that serves messages: the few slow cores of a memory node, or those of a
//! server that has a machine to itself.
//!
//! One-sided verbs bypass it. Messages to a memory node (an allocation by RPC, CliqueMap's SETs) do
//! not.
//!
//! The cost of a message covers all work of a core for it: receiving, handling, answering. So the
//! task behind such an endpoint is charged nothing more. What it sends or posts leaves at once. Its
//! verbs to its own node are loads and stores, which pass no NIC.

use super::traffic::ProcessorTraffic;
use std::fmt;
use std::rc::Rc;

/// How long a core takes for a message, in nanoseconds, by its bytes.
type MessageNs = dyn Fn(&[u8]) -> u64;

/// Cores that share one queue, first come first served; the core that is free first takes the next
/// message.
#[derive(Clone)]
pub struct Service {
    /// From when on each core is free, in picoseconds.
    free_at: Vec<u64>,
    /// How long a core takes for a message, in nanoseconds.
    message_ns: Rc<MessageNs>,
    busy_ps: u64,
    messages: u64,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("cores", &self.free_at.len()).field("messages", &self.messages).finish()
    }
}

impl Service {
    /// A processor of `cores`, each of which takes `message_ns` for a message.
    ///
    /// # Panics
    /// If there is no core.
    pub fn new(cores: usize, message_ns: u64) -> Self {
        Self::by_message(cores, move |_| message_ns)
    }

    /// A processor of `cores`, each of which takes for a message as many nanoseconds as that says
    /// of its bytes.
    ///
    /// # Panics
    /// If there is no core.
    pub fn by_message(cores: usize, message_ns: impl Fn(&[u8]) -> u64 + 'static) -> Self {
        assert!(cores > 0, "a processor has a core");
        Self { free_at: vec![0; cores], message_ns: Rc::new(message_ns), busy_ps: 0, messages: 0 }
    }

    /// Serves a message that comes `at_ps`, and gives when it has been handled, in picoseconds.
    /// Messages are brought in the order of their times.
    pub fn charge(&mut self, at_ps: u64, message: &[u8]) -> u64 {
        let message_ps = 1000 * (self.message_ns)(message);
        let free = self.free_at.iter_mut().min().expect("there is a core");
        *free = (*free).max(at_ps) + message_ps;
        (self.busy_ps, self.messages) = (self.busy_ps + message_ps, self.messages + 1);
        *free
    }

    /// The share of the cores' time until `until_ps` that messages took, per mille.
    pub fn busy_per_mille(&self, until_ps: u64) -> u64 {
        self.busy_ps * 1000 / (until_ps * self.free_at.len() as u64).max(1)
    }

    /// What it has done so far.
    pub fn traffic(&self) -> ProcessorTraffic {
        ProcessorTraffic { cores: self.free_at.len() as u32, messages: self.messages, busy_ps: self.busy_ps }
    }

    /// Messages so far.
    pub fn messages(&self) -> u64 {
        self.messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cores_serve_two_at_once_and_the_third_waits_for_the_first_that_is_free() {
        let mut service = Service::new(2, 1000);
        assert_eq!([service.charge(0, b""), service.charge(200_000, b"")], [1_000_000, 1_200_000]);
        assert_eq!(service.charge(300_000, b""), 2_000_000);
        assert_eq!(service.charge(5_000_000, b""), 6_000_000);
        assert_eq!((service.messages(), service.busy_per_mille(4_000_000)), (4, 500));
    }

    #[test]
    fn a_message_takes_what_its_bytes_say() {
        let mut service = Service::by_message(1, |message| 10 * message.len() as u64);
        assert_eq!([service.charge(0, b"four"), service.charge(0, b"")], [40_000, 40_000]);
    }
}
