//! Large objects of this engine, by way of [`crate::extent`].

use super::Forge;
use super::operation::Operation;
use super::slot::KeyHash;
use super::technique::Technique;
use crate::CacheError;
use crate::extent::ExtentIndex;
pub(super) use crate::extent::{Extents, body_bytes_max, chunks_needed};
use crate::record::LargeBody;
use atoll_fabric::Endpoint;

impl<E: Endpoint, T: Technique<E>> Forge<E, T> {
    /// Writes key and value into chunks that the operation has drawn from the stock.
    pub(super) async fn write_extents(
        &self,
        op: &mut Operation,
        hash: KeyHash,
        key: &[u8],
        value: &[u8],
    ) -> Result<(Extents, LargeBody), CacheError> {
        let (bodies, lists) = chunks_needed(key.len() + value.len(), self.client.pool.layout.chunk_bytes);
        let left = op.notes.chunks.len() - bodies - lists;
        let open = op.notes.chunks.split_off(left);
        let outgoing = std::mem::take(&mut op.outgoing);
        let (extents, body, outgoing) = self.extent_io().write_extents(open, hash.bucket, key, value, outgoing).await?;
        op.outgoing = outgoing;
        Ok((extents, body))
    }

    pub(super) fn bind_extents(&self, extents: &Extents) {
        self.lately_bound.borrow_mut().note(extents);
        self.extent_io().bind_extents(extents);
    }
    /// Frees extents that no record will list.
    pub(super) async fn give_up_extents(&self, extents: Option<&Extents>) -> Result<(), CacheError> {
        match extents {
            Some(extents) => Box::pin(self.extent_io().free_extents(extents)).await,
            None => Ok(()),
        }
    }
}
