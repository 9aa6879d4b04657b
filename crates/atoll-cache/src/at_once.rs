//! Lookups of many keys: one batch READs their buckets, and another batch READs a record of each.

use crate::{Meta, Value};
use arrayvec::ArrayVec;
use atoll_fabric::{Address, BATCH_VERBS_MAX, Batch, Buffer, Endpoint, VerbError};
use std::cell::RefCell;

/// Keys that are looked up in one round of batches.
pub(crate) const KEYS_AT_ONCE: usize = BATCH_VERBS_MAX;

/// One thing for each key of a round.
pub(crate) type OfEach<T> = ArrayVec<T, KEYS_AT_ONCE>;

/// Memory that a client keeps from one lookup of many keys to the next.
#[derive(Debug, Default)]
pub(crate) struct AtOnce {
    buckets: RefCell<Vec<Buffer>>,
    values: RefCell<Vec<Value>>,
}

impl AtOnce {
    /// A value for each key of a round, to be [kept](Self::keep_values) at the end.
    pub(crate) fn take_values(&self) -> Vec<Value> {
        let mut values = self.values.take();
        values.resize_with(KEYS_AT_ONCE, Value::new);
        values
    }

    /// Keeps the values of a lookup that has ended. It releases the memory of large values.
    pub(crate) fn keep_values(&self, mut values: Vec<Value>) {
        for value in &mut values {
            value.shrink_beyond(1 << 16);
        }
        self.values.replace(values);
    }

    /// READs `bytes` at each address, in one batch. The caller [keeps](Self::keep_buckets) the
    /// buckets at the end.
    pub(crate) async fn read_buckets<E: Endpoint>(
        &self,
        endpoint: &E,
        addresses: impl ExactSizeIterator<Item = Address>,
        bytes: usize,
    ) -> Result<Vec<Buffer>, VerbError> {
        let mut buckets = self.buckets.take();
        buckets.resize_with(addresses.len(), Buffer::new);
        let mut batch = Batch::new();
        for (address, bucket) in addresses.zip(&mut buckets) {
            let mut buffer = std::mem::take(bucket);
            buffer.resize(bytes);
            batch.read(address, buffer);
        }
        endpoint.post(&mut batch).await?;
        for (index, bucket) in buckets.iter_mut().enumerate() {
            *bucket = batch.take_nth(index);
        }
        Ok(buckets)
    }

    /// Keeps the memory of buckets for the next lookup.
    pub(crate) fn keep_buckets(&self, buckets: Vec<Buffer>) {
        self.buckets.replace(buckets);
    }
}

/// READs the span of each value, in one batch. A value without a span is empty afterwards.
pub(crate) async fn read_records<E: Endpoint>(
    endpoint: &E,
    spans: OfEach<Option<(Address, usize)>>,
    values: &mut [Value],
) -> Result<(), VerbError> {
    let mut batch = Batch::new();
    let mut read: OfEach<_> = ArrayVec::new();
    for (value, span) in values.iter_mut().zip(spans) {
        (value.start, value.meta) = (0, Meta::default());
        match span {
            Some((address, bytes)) => {
                let mut buffer = std::mem::take(&mut value.buffer);
                buffer.resize(bytes);
                read.push(Some(batch.read(address, buffer)));
            }
            None => {
                value.buffer.resize(0);
                read.push(None);
            }
        }
    }
    if !batch.is_empty() {
        endpoint.post(&mut batch).await?;
    }
    for (value, read) in values.iter_mut().zip(read) {
        if let Some(read) = read {
            value.buffer = batch.take(read);
        }
    }
    Ok(())
}
