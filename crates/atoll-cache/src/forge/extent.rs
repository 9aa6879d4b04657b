//! Large objects of this engine, by way of [`crate::extent`].

use super::Forge;
use super::slot::KeyHash;
use crate::CacheError;
use crate::extent::ExtentIndex;
pub(super) use crate::extent::{Extents, body_bytes_max, chunks_needed};
use crate::record::LargeBody;
use atoll_fabric::Endpoint;

impl<E: Endpoint> Forge<E> {
    /// Writes key and value into chunks from the stock, which has enough.
    pub(super) async fn write_extents(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        value: &[u8],
    ) -> Result<(Extents, LargeBody), CacheError> {
        let (bodies, lists) = chunks_needed(key.len() + value.len(), self.client.pool.layout.chunk_bytes);
        let open = self.stock.split_off(self.stock.len() - bodies - lists);
        let outgoing = std::mem::take(&mut self.outgoing);
        let (extents, body, outgoing) = self.extent_io().write_extents(open, hash.bucket, key, value, outgoing).await?;
        self.outgoing = outgoing;
        Ok((extents, body))
    }

    pub(super) fn bind_extents(&mut self, extents: &Extents) {
        self.lately_bound.note(extents);
        self.extent_io().bind_extents(extents);
    }
}
