//! Batches on the extents of a large object, in rounds.
//!
//! A round is one batch on neighbouring extents. Two rounds are in flight at once. While the client
//! copies the bytes of one, the network transfers those of the other.
//!
//! Each of two lanes posts every other round. A round touches extents of its own, so the order of
//! the rounds does not matter.

use super::{Extent, ExtentIo, Extents};
use crate::CacheError;
use atoll_fabric::{Batch, Buffer, Endpoint};
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Bytes that a round READs or WRITEs. They take much longer than a round trip, and stay in the
/// processor's cache from one copy to the next.
const ROUND_BYTES: usize = 256 << 10;
/// Rounds in flight.
const LANES: usize = 2;

/// The rounds of one lane: each has `each` of these neighbours. Yields where a round begins, too.
pub(super) fn rounds<T>(all: &[T], each: usize, lane: usize) -> impl Iterator<Item = (usize, &[T])> {
    all.chunks(each).enumerate().map(move |(number, round)| (number * each, round)).skip(lane).step_by(LANES)
}

/// Runs the lanes at once, each to its end. If one fails, what the other has posted may still take
/// effect, and the caller may free the extents.
pub(super) async fn in_lanes<F: Future<Output = Result<(), CacheError>>>(
    lane: impl Fn(usize) -> F,
) -> Result<(), CacheError> {
    // Boxed, as all rare paths are: their state would make every operation's larger.
    let mut lanes: [Pin<Box<F>>; LANES] = std::array::from_fn(|number| Box::pin(lane(number)));
    let mut outcomes = [const { None }; LANES];
    poll_fn(|context| {
        for (lane, outcome) in lanes.iter_mut().zip(&mut outcomes).filter(|(_, outcome)| outcome.is_none()) {
            if let Poll::Ready(ended) = lane.as_mut().poll(context) {
                *outcome = Some(ended);
            }
        }
        if outcomes.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outcomes.into_iter().flatten().collect()
}

impl<E: Endpoint> ExtentIo<'_, E> {
    fn chunk_bytes(&self) -> usize {
        self.client.pool.layout.chunk_bytes as usize
    }

    /// Extents that a round READs or WRITEs.
    fn round_extents(&self) -> usize {
        (ROUND_BYTES / self.chunk_bytes()).clamp(1, self.client.batch_verbs_max())
    }

    /// READs the first `bytes` of key and value, and gives the bytes of each extent to `place`,
    /// with where they begin, in any order.
    pub(super) async fn read_rounds(
        &self,
        extents: &Extents,
        bytes: usize,
        place: impl FnMut(usize, &[u8]),
    ) -> Result<(), CacheError> {
        let extents = &extents.body[..bytes.div_ceil(self.chunk_bytes())];
        let place = RefCell::new(place);
        in_lanes(|lane| self.read_lane(extents, bytes, &place, lane)).await
    }

    async fn read_lane(
        &self,
        extents: &[Extent],
        bytes: usize,
        place: &RefCell<impl FnMut(usize, &[u8])>,
        lane: usize,
    ) -> Result<(), CacheError> {
        let chunk_bytes = self.chunk_bytes();
        let mut spares = Vec::new();
        for (first, round) in rounds(extents, self.round_extents(), lane) {
            let (mut batch, mut tickets) = (Batch::new(), Vec::with_capacity(round.len()));
            for (index, extent) in (first..).zip(round) {
                let length = (bytes - index * chunk_bytes).min(chunk_bytes);
                let mut buffer: Buffer = spares.pop().unwrap_or_default();
                buffer.resize(length.next_multiple_of(8));
                tickets.push((length, batch.read(self.client.pool.layout.chunk(extent.chunk), buffer)));
            }
            self.client.endpoint.post(&mut batch).await?;
            let place = &mut *place.borrow_mut();
            for (index, (length, ticket)) in (first..).zip(tickets) {
                let buffer = batch.take(ticket);
                place(index * chunk_bytes, &buffer.bytes()[..length]);
                spares.push(buffer);
            }
        }
        Ok(())
    }

    /// WRITEs key and value into their extents. The last word is padded with zero bytes.
    pub(super) async fn write_rounds(&self, extents: &Extents, key: &[u8], value: &[u8]) -> Result<(), CacheError> {
        in_lanes(|lane| self.write_lane(&extents.body, key, value, lane)).await
    }

    async fn write_lane(&self, extents: &[Extent], key: &[u8], value: &[u8], lane: usize) -> Result<(), CacheError> {
        let (chunk_bytes, bytes) = (self.chunk_bytes(), key.len() + value.len());
        let mut spares = Vec::new();
        for (first, round) in rounds(extents, self.round_extents(), lane) {
            let (mut batch, mut tickets) = (Batch::new(), Vec::with_capacity(round.len()));
            for (index, extent) in (first..).zip(round) {
                let start = index * chunk_bytes;
                let end = bytes.min(start + chunk_bytes);
                let mut buffer: Buffer = spares.pop().unwrap_or_default();
                buffer.resize((end - start).next_multiple_of(8));
                let (of_key, rest) = buffer.bytes_mut().split_at_mut(key.len().clamp(start, end) - start);
                let (of_value, padding) = rest.split_at_mut(end - start - of_key.len());
                of_key.copy_from_slice(&key[start.min(key.len())..][..of_key.len()]);
                of_value.copy_from_slice(&value[start.saturating_sub(key.len())..][..of_value.len()]);
                padding.fill(0);
                tickets.push(batch.write(self.client.pool.layout.chunk(extent.chunk), buffer));
            }
            self.client.endpoint.post(&mut batch).await?;
            spares.extend(tickets.into_iter().map(|ticket| batch.take(ticket)));
        }
        Ok(())
    }
}
