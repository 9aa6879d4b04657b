//! Exact eviction policies in ordinary memory: what the engines are compared with, and what the tests hold the lab against.
//!
//! | module | policy |
//! |---|---|
//! | [`fifo`] | first in, first out |
//! | [`lru`] | least recently used |
//! | [`s3_fifo`] | S3-FIFO (Yang et al., SOSP 2023), as the oracle has it |
//! | [`engine`] | an engine of one process that evicts by such a policy |

pub mod engine;
pub mod fifo;
pub mod lru;
mod order;
pub mod s3_fifo;

/// Which of at most so many objects, all of the same size, stay.
///
/// The caller calls `insert` only for a key that is not resident, and removes from its memory what `insert` gives back.
pub trait Policy<K> {
    /// Whether `key` is resident; counts as no access.
    fn contains(&self, key: &K) -> bool;

    /// Notes an access to `key`, which is resident.
    fn touch(&mut self, key: &K);

    /// Makes `key` resident, and gives back the key that had to leave for it.
    fn insert(&mut self, key: K) -> Option<K>;

    /// Makes `key` leave, if it is resident.
    fn remove(&mut self, key: &K);

    /// How many keys are resident.
    fn resident(&self) -> usize;
}

/// The policies, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyName {
    /// [`fifo`].
    Fifo,
    /// [`lru`].
    Lru,
    /// [`s3_fifo`].
    S3Fifo,
}

impl PolicyName {
    /// The policy for `objects_max` objects.
    pub fn make<K: std::hash::Hash + Eq + Clone + 'static>(self, objects_max: usize) -> Box<dyn Policy<K>> {
        match self {
            Self::Fifo => Box::new(fifo::Fifo::new(objects_max)),
            Self::Lru => Box::new(lru::Lru::new(objects_max)),
            Self::S3Fifo => Box::new(s3_fifo::S3Fifo::new(objects_max)),
        }
    }
}

#[cfg(test)]
mod tests;
