//! The unit of a NIC that executes atomics.
//!
//! ```text
//!   engine -> | gap | gap | gap | ...   an atomic begins a gap after the last one, on any address
//!                \      \
//!                 turn   turn           on one address it begins when the last one has ended
//! ```
//!
//! In host memory a turn is a round trip over PCIe: the NIC locks the word, reads it and writes it
//! back. In the NIC's own memory it is an access on the chip. As in hardware, a hash of the address
//! selects the lock. Two addresses with one lock wait for each other, here one pair in [`LOCKS`].

use super::profile::AtomicTimes;
use super::server::Server;
use atoll_fabric::Address;

/// Locks of a NIC. More than are ever held at a time, by two orders of magnitude, so that a false
/// conflict is rare.
const LOCKS: usize = 4096;

pub(crate) struct Atomics {
    unit: Server,
    /// By lock, from when on it is free.
    free_at: Vec<u64>,
}

impl Atomics {
    pub(crate) fn new() -> Self {
        Self { unit: Server::default(), free_at: vec![0; LOCKS] }
    }

    /// Executes an atomic that leaves the engine `at`; gives when its result is there.
    #[inline]
    pub(crate) fn execute(&mut self, at: u64, word: Address, times: AtomicTimes) -> u64 {
        let begins = self.unit.serve(at, times.gap_ps).max(at + times.gap_ps) - times.gap_ps;
        let words = u64::from(word.region()) << 49 ^ word.offset() >> 3;
        let lock = (words.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize;
        let ends = begins.max(self.free_at[lock]) + times.turn_ps;
        self.free_at[lock] = ends;
        ends
    }

    pub(crate) fn busy_ps(&self) -> u64 {
        self.unit.busy_ps()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: AtomicTimes = AtomicTimes { gap_ps: 50, turn_ps: 400 };

    #[test]
    fn different_addresses_follow_at_the_gap_and_one_address_at_the_turn() {
        let mut atomics = Atomics::new();
        let word = |number: u64| Address::new(0, 0, 8 * number);
        assert_eq!([0, 1, 2].map(|number| atomics.execute(1000, word(number), TIMES)), [1400, 1450, 1500]);
        assert_eq!(atomics.execute(1000, word(0), TIMES), 1800, "the fourth begins at 1150 and waits for the first");
    }
}
