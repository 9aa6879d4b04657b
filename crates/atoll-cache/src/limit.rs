//! The limit of resident objects, where a pool has one.
//!
//! One word of the pool counts the objects that are resident or about to be inserted. An operation
//! reserves a place for its object before it inserts the object.
//!
//! | moment | verb |
//! |---|---|
//! | reserve | FAA +1; if that is too many, FAA -1 |
//! | insert | none: the object keeps the place |
//! | the operation ends without an insertion, or waits | FAA -1, unawaited |
//! | an object is removed or evicted | FAA -1, unawaited |

use crate::operation::Operation;
use atoll_fabric::{Batch, Endpoint, VerbError};
use atoll_pool::{Client, read_word};
use std::cell::Cell;

/// A client's reservation below the limit.
#[derive(Debug, Default)]
pub(crate) struct Limit {
    /// Objects that operations under way have counted and not yet inserted.
    reserved: Cell<u64>,
    /// Whether this client has recounted everything, and has not compared with the limit since.
    is_recounted: Cell<bool>,
}

impl Limit {
    /// Objects that operations under way have counted and not yet inserted.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.get()
    }

    /// Notes that this client has recounted everything.
    pub(crate) fn note_recounted(&self) {
        self.is_recounted.set(true);
    }

    /// Whether this client has recounted everything, and has not compared with the limit since.
    pub(crate) fn is_recounted(&self) -> bool {
        self.is_recounted.get()
    }

    /// Whether this client has recounted; resets that, for the caller to compare now.
    pub(crate) fn take_recounted(&self) -> bool {
        self.is_recounted.take()
    }

    /// Counts the object that an operation is to insert; returns whether there was room for it.
    pub(crate) async fn reserve<E: Endpoint, W, N>(
        &self,
        client: &Client<E>,
        op: &mut Operation<W, N>,
    ) -> Result<bool, VerbError> {
        debug_assert!(!op.has_reserved(), "an operation inserts one object");
        let at = client.pool.layout.resident_objects();
        let mut batch = Batch::new();
        let resident = batch.fetch_and_add(at, 1);
        client.endpoint.post(&mut batch).await?;
        if batch.word(resident) < client.pool.settings.objects_max {
            op.set_reserved(&self.reserved, true);
            return Ok(true);
        }
        let mut batch = Batch::new();
        batch.fetch_and_add(at, u64::MAX);
        client.endpoint.post(&mut batch).await?;
        Ok(false)
    }

    /// Releases a reservation that the operation did not use.
    #[inline]
    pub(crate) fn release<E: Endpoint, W, N>(&self, client: &Client<E>, op: &mut Operation<W, N>) {
        if op.has_reserved() {
            op.set_reserved(&self.reserved, false);
            subtract(client, 1);
        }
    }

    /// Notes that the operation has inserted its object, which keeps the reserved place.
    #[inline]
    pub(crate) fn note_inserted<W, N>(&self, op: &mut Operation<W, N>) {
        op.set_reserved(&self.reserved, false);
    }

    /// Subtracts objects that are no longer resident, where there is a limit.
    pub(crate) fn note_removed<E: Endpoint>(client: &Client<E>, objects: u64) {
        if client.pool.settings.objects_max > 0 {
            subtract(client, objects);
        }
    }

    /// Whether more objects are resident than the limit. A client that died had not counted all of
    /// its own.
    pub(crate) async fn is_exceeded<E: Endpoint>(client: &Client<E>) -> Result<bool, VerbError> {
        let resident = read_word(&client.endpoint, client.pool.layout.resident_objects()).await?;
        let max = client.pool.settings.objects_max;
        Ok(max > 0 && resident > max)
    }
}

fn subtract<E: Endpoint>(client: &Client<E>, objects: u64) {
    let mut batch = Batch::new();
    batch.fetch_and_add(client.pool.layout.resident_objects(), objects.wrapping_neg());
    client.endpoint.post_unawaited(&mut batch);
}

#[cfg(test)]
mod tests {
    use crate::ditto::{Ditto, DittoOptions};
    use crate::forge::{Forge, ForgeOptions};
    use crate::index::{Index, Unlink};
    use crate::{CacheError, Pooled};
    use atoll_fabric::{Batch, Endpoint};
    use atoll_pool::repair::Estate;
    use atoll_pool::{PoolSettings, read_word, repair};
    use atoll_sim::{Sim, SimEndpoint, SimOptions};

    /// Recounts everything while an operation has a reservation, and a client has died.
    fn recount_with_reservation<S>(settings: PoolSettings)
    where
        S: Pooled<SimEndpoint> + Unlink + 'static,
        S::Index: Index<Endpoint = SimEndpoint> + Estate<Endpoint = SimEndpoint, Error = CacheError>,
    {
        let sim = Sim::new(SimOptions::new(1, settings.capacity_bytes));
        let endpoint = sim.endpoint("operator");
        let done = sim.block_on(async move {
            let shared = S::format(&endpoint, settings).await.unwrap();
            let cache = S::join(&shared, endpoint).await.unwrap();
            let (index, client) = (cache.index(), cache.index().member());
            let layout = client.pool.layout.clone();
            let mut op = index.idle().take(client);
            client.begin(&mut op.entry).await.unwrap();
            assert!(index.limit().reserve(client, &mut op).await.unwrap());
            let mut batch = Batch::new();
            batch.fetch_and_add(layout.deaths(), 1);
            client.endpoint.post(&mut batch).await.unwrap();
            assert!(repair::recount(index).await.unwrap());
            assert_eq!(read_word(&client.endpoint, layout.resident_objects()).await.unwrap(), 1);
            index.limit().release(client, &mut op);
            drop(op);
            cache.leave().await.unwrap();
        });
        done.unwrap();
    }

    /// An operation has counted the object that it is to insert, and waits for memory. When it
    /// recounts everything, the object stays counted.
    #[test]
    fn counting_anew_keeps_what_the_operation_under_way_has_counted() {
        let base = PoolSettings { chunk_bytes: 1024, objects_max: 10, ..PoolSettings::for_capacity(200 << 10) };
        recount_with_reservation::<Forge<SimEndpoint>>(ForgeOptions::default().settings(base.clone(), 64));
        recount_with_reservation::<Ditto<SimEndpoint>>(DittoOptions::default().objects().settings(base, 64));
    }
}
