//! A generated load of phases. Each is friendly to LRU or to LFU.
//!
//! | pattern | requests | effect |
//! |---|---|---|
//! | recent | each for one of the newest keys, with equal chances; after every second request a new key comes and the oldest leaves | a key has about two requests and then none: LFU keeps it for its count, LRU evicts it |
//! | frequent | one half for one of the popular keys, with equal chances; the other half each for a new key | LRU evicts popular keys for keys that never come back, LFU keeps them |
//!
//! There are as many newest keys as popular ones. Phases have the same number of requests. The
//! popular keys are the same in all of them, and no key is newest twice.
//!
//! Request n depends on the seed and n alone, and belongs to client n mod clients, as in a trace.
//! What all clients ask together does not depend on their number. The cache is empty at first.

use super::{KEY_BYTES, Kind, Load, Request, Stream, share};
use crate::trace::Operation;
use atoll_deployment::random::{Random, mix};

/// Requests from one new key to the next.
const TURN_REQUESTS: u64 = 2;
/// Which of the kinds of keys a number belongs to.
const KIND_SHIFT: u32 = 60;

/// What the requests of a phase have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Friendly to LRU.
    Recent,
    /// Friendly to LFU.
    Frequent,
}

/// The load.
#[derive(Clone, Debug)]
pub struct Patterned {
    /// The pattern of every phase.
    pub phases: Vec<Pattern>,
    /// Newest keys at a time, and popular ones.
    pub keys: u64,
    /// Bytes of a key and its value.
    pub object_bytes: u32,
    /// Requests of all clients together.
    pub requests: u64,
    /// What all choices depend on.
    pub seed: u64,
}

impl Patterned {
    fn request(&self, number: u64) -> Request {
        let mut random = Random::new(mix(mix(self.seed) ^ number));
        let phase = u128::from(number) * self.phases.len() as u128 / u128::from(self.requests);
        let (kind, key) = match self.phases[phase as usize] {
            Pattern::Recent => (1, number / TURN_REQUESTS + random.below(self.keys)),
            Pattern::Frequent if random.below(2) == 0 => (2, random.below(self.keys)),
            Pattern::Frequent => (3, number),
        };
        Request {
            key: kind << KIND_SHIFT | key,
            time_ns: 0,
            key_bytes: KEY_BYTES,
            value_bytes: self.object_bytes.saturating_sub(KEY_BYTES),
            ttl_s: 0,
            keys: 1,
            kind: Kind::Plain(Operation::Get),
        }
    }
}

impl Load for Patterned {
    fn what(&self) -> String {
        format!("{} phases of requests for {} newest or as many popular keys", self.phases.len(), self.keys)
    }

    fn requests(&self) -> u64 {
        self.requests
    }

    fn preload(&self, _client: u64, _clients: u64) -> Stream {
        Box::new(std::iter::empty())
    }

    fn stream(&self, client: u64, clients: u64) -> Stream {
        let load = self.clone();
        let count = share(self.requests, client, clients);
        Box::new((0..count).map(move |step| load.request(client + step * clients)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_cache::experts::Settings;
    use atoll_deployment::reference::Policy;
    use atoll_deployment::reference::sampled::Sampled;

    fn load(phases: &[Pattern]) -> Patterned {
        Patterned { phases: phases.to_vec(), keys: 500, object_bytes: 256, requests: 100_000, seed: 7 }
    }

    /// Hits of a policy, from samples as Ditto takes them, with room for as many keys as are
    /// popular.
    fn hits(policy: &str, pattern: Pattern) -> u64 {
        let (load, mut hits) = (load(&[pattern]), 0);
        let mut policy = Sampled::new(policy.parse().unwrap(), Settings::paper(), load.keys as usize);
        for request in load.stream(0, 1) {
            if policy.contains(&request.key) {
                hits += 1;
                policy.touch(&request.key);
            } else {
                policy.insert(request.key, 1);
            }
        }
        hits
    }

    #[test]
    fn lru_hits_more_in_one_kind_of_phase_and_lfu_in_the_other() {
        for (pattern, better, worse) in [(Pattern::Recent, "lru", "lfu"), (Pattern::Frequent, "lfu", "lru")] {
            let (more, less) = (hits(better, pattern), hits(worse, pattern));
            assert!(more as f64 > 1.1 * less as f64, "{pattern:?}: {better} {more}, {worse} {less}");
        }
    }

    #[test]
    fn what_is_asked_does_not_depend_on_the_number_of_clients() {
        let (load, clients) = (load(&[Pattern::Recent, Pattern::Frequent]), 3);
        let mut streams: Vec<Stream> = (0..clients).map(|client| load.stream(client, clients)).collect();
        for (number, request) in load.stream(0, 1).enumerate() {
            assert_eq!(streams[number % clients as usize].next(), Some(request));
        }
        assert!(streams.iter_mut().all(|stream| stream.next().is_none()));
    }
}
