//! All keys of a cache.

use super::{Cache, Error};
use crate::fabric::PoolFabric;

/// Keys of one step.
const STEP: usize = 1000;

/// All keys, one after the other. A key that is present from the beginning to the end is returned
/// at least once, and may be returned twice. A key that is set or removed meanwhile may be missing.
pub struct Keys<F: PoolFabric> {
    cache: Cache<F>,
    /// Where the next step begins; `None` after the last step.
    cursor: Option<u64>,
    /// Keys of this step that are not returned yet, the next one last.
    found: Vec<Vec<u8>>,
}

impl<F: PoolFabric> Keys<F> {
    pub(super) fn new(cache: Cache<F>) -> Self {
        Self { cache, cursor: Some(0), found: Vec::new() }
    }
}

impl<F: PoolFabric> Iterator for Keys<F> {
    type Item = Result<Vec<u8>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.found.is_empty() {
            let cursor = self.cursor?;
            let mut found = Vec::new();
            let scanned = self.cache.with(
                |client| {
                    found.clear();
                    client.scan(cursor, STEP, |key| found.push(key.to_vec()))
                },
                true,
            );
            match scanned {
                Ok(next) => self.cursor = (next != 0).then_some(next),
                Err(error) => {
                    self.cursor = None;
                    return Some(Err(error));
                }
            }
            found.reverse();
            self.found = found;
        }
        self.found.pop().map(Ok)
    }
}
