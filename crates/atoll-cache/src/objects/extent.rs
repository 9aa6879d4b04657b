//! Large objects of this engine, by way of [`crate::extent`].

use super::Core;
use super::slot::KeyHash;
use crate::CacheError;
use crate::extent::ExtentIo;
pub(super) use crate::extent::{Extents, body_bytes_max, chunks_needed};
use crate::record::{Header, LargeBody};
use atoll_fabric::{Buffer, Endpoint};

impl<E: Endpoint> Core<E> {
    pub(super) fn extent_io(&self) -> ExtentIo<'_, E> {
        ExtentIo { endpoint: &self.endpoint, pool: &self.shared.pool, hasher: &self.shared.hasher }
    }

    pub(super) async fn extents(&self, header: &Header, body: &LargeBody) -> Result<Option<Extents>, CacheError> {
        self.extent_io().extents(header, body).await
    }

    pub(super) async fn read_body(
        &self,
        header: &Header,
        body: &LargeBody,
        buffer: Buffer,
    ) -> Result<Option<Buffer>, CacheError> {
        self.extent_io().read_body(header, body, buffer).await
    }

    pub(super) async fn read_extents(
        &self,
        extents: &Extents,
        bytes: usize,
        buffer: Buffer,
    ) -> Result<Buffer, CacheError> {
        self.extent_io().read_extents(extents, bytes, buffer).await
    }

    /// Writes key and value into this client's fresh chunks, of which there are enough.
    pub(super) async fn write_extents(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        value: &[u8],
    ) -> Result<(Extents, LargeBody), CacheError> {
        let (bodies, lists) = chunks_needed(key.len() + value.len(), self.shared.pool.layout.chunk_bytes);
        let open = self.chunks.split_off(self.chunks.len() - bodies - lists);
        let open = open.into_iter().map(|fresh| (fresh.chunk, fresh.generation)).collect();
        let (me, outgoing) = (self.me(), std::mem::take(&mut self.outgoing));
        let (extents, body, outgoing) =
            self.extent_io().write_extents(me, open, hash.bucket, key, value, outgoing).await?;
        self.outgoing = outgoing;
        Ok((extents, body))
    }

    pub(super) fn bind_extents(&mut self, extents: &Extents) {
        self.lately_bound.note(extents);
        self.extent_io().bind_extents(self.me(), extents);
    }

    pub(super) async fn free_extents(&self, extents: &Extents) -> Result<(), CacheError> {
        self.extent_io().free_extents(extents).await
    }

    pub(super) async fn free_extent(&self, extent: crate::extent::Extent) -> Result<bool, CacheError> {
        self.extent_io().free_extent(extent).await
    }
}
