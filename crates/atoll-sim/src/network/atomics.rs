//! The unit of a NIC that executes atomics.
//!
//! ```text
//!   engine -> | gap | gap | gap | ...   an atomic begins a gap after the last one, on any address
//!                \      \
//!                 turn   turn           on one address it begins when the last one has ended
//! ```
//!
//! In host memory a turn is a round trip over PCIe: the NIC locks the word, reads it and writes it
//! back. In the NIC's own memory it is an access on the chip.
//!
//! The low bits of the word's address select the lock. So words that are a multiple of 4096 bytes
//! apart wait for each other. That is how NICs of Mellanox do it: 512 locks ("Breaking Barriers in
//! Atomic Scaling", sections II-B and III-A).

use super::profile::AtomicTimes;
use super::server::Server;
use atoll_fabric::Address;

/// Locks of a NIC.
const LOCKS: usize = 512;

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
        // Regions begin at multiples of a page.
        let lock = (word.offset() >> 3) as usize % LOCKS;
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
        let page = |number: u64| Address::new(0, 0, 4096 * number);
        assert_eq!(atomics.execute(5000, page(1), TIMES), 5400);
        assert_eq!(atomics.execute(5000, page(2), TIMES), 5800, "the same lock");
    }
}
