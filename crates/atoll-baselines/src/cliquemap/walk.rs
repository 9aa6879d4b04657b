//! Walks through the index by one-sided READs: SCAN, a random key, and the walk over a quiet pool.

use super::Session;
use super::entry::{BUCKET_BYTES, BUCKET_ENTRIES, Entry};
use super::lookup::ATTEMPTS_MAX;
use super::record::Record;
use atoll_cache::CacheError;
use atoll_cache::audit::Audit;
use atoll_fabric::{Buffer, Endpoint, Messenger};
use std::collections::HashSet;

/// The entries of a bucket that have objects, with their numbers.
type Entries = arrayvec::ArrayVec<(u32, Entry), BUCKET_ENTRIES>;

impl<E: Endpoint + Messenger> Session<E> {
    async fn entries(&mut self, bucket: u32) -> Result<Entries, CacheError> {
        let mut buffer = std::mem::take(&mut self.bucket);
        buffer.resize(BUCKET_BYTES as usize);
        self.bucket = self.client.endpoint.read(self.shared.layout.bucket(bucket), buffer).await?;
        let numbered = (bucket * BUCKET_ENTRIES as u32..).zip(Entry::of_bucket(self.bucket.words()));
        Ok(numbered.filter(|(_, entry)| entry.version != 0).collect())
    }

    /// The record of an entry, if it is the entry's.
    async fn record<'b>(&self, entry: Entry, buffer: &'b mut Buffer) -> Result<Option<Record<'b>>, CacheError> {
        let layout = self.shared.layout;
        let Some(span) = entry.span(layout.heap_bytes) else { return Ok(None) };
        buffer.resize(span.bytes as usize);
        *buffer = self.client.endpoint.read(layout.record(span), std::mem::take(buffer)).await?;
        let record = Record::decode(buffer, &self.shared.hasher);
        Ok(record.filter(|record| record.header.version == entry.version))
    }

    /// The keys of a bucket's objects that have not expired.
    async fn keys(&mut self, bucket: u32) -> Result<Vec<Vec<u8>>, CacheError> {
        let now_ms = self.pool_ms().await?;
        let mut buffer = Buffer::new();
        'again: for _ in 0..ATTEMPTS_MAX {
            let mut keys = Vec::new();
            for (_, entry) in self.entries(bucket).await? {
                match self.record(entry, &mut buffer).await? {
                    Some(record) if record.header.is_expired(now_ms) => {}
                    Some(record) => keys.push(record.key.to_vec()),
                    // It was removed or replaced since the bucket was READ.
                    None => continue 'again,
                }
            }
            return Ok(keys);
        }
        Err(CacheError::Damaged { what: "an object that stays unsound" })
    }

    pub(super) async fn walk_keys<F: FnMut(&[u8])>(
        &mut self,
        cursor: u64,
        count: usize,
        mut each: F,
    ) -> Result<u64, CacheError> {
        let (mut bucket, mut shown) = (cursor, 0);
        while bucket < self.shared.layout.buckets().into() && shown < count.max(1) {
            let keys = self.keys(bucket as u32).await?;
            keys.iter().for_each(|key| each(key));
            (bucket, shown) = (bucket + 1, shown + keys.len());
        }
        Ok(if bucket < self.shared.layout.buckets().into() { bucket } else { 0 })
    }

    pub(super) async fn some_key(&mut self) -> Result<Option<Vec<u8>>, CacheError> {
        let buckets = u64::from(self.shared.layout.buckets());
        let first = self.client.endpoint.random() % buckets;
        for behind in 0..buckets {
            let mut keys = self.keys(((first + behind) % buckets) as u32).await?;
            if !keys.is_empty() {
                let chosen = self.client.endpoint.random() as usize % keys.len();
                return Ok(Some(keys.swap_remove(chosen)));
            }
        }
        Ok(None)
    }

    /// Walks a quiet pool. Every entry has its own record, no two share a byte or a key, and the
    /// count is right.
    pub(super) async fn audit(&mut self) -> Result<Audit, CacheError> {
        let (mut audit, mut keys, mut spans) = (Audit::default(), HashSet::new(), Vec::new());
        let (layout, mut buffer) = (self.shared.layout, Buffer::new());
        for bucket in 0..layout.buckets() {
            for (number, entry) in self.entries(bucket).await? {
                let Some(record) = self.record(entry, &mut buffer).await? else {
                    audit.faults.push(format!("entry {number} has no record of its version {}", entry.version));
                    continue;
                };
                let hash = self.shared.hasher.hash(record.key);
                if hash != entry.hash || layout.bucket_of(hash) != bucket {
                    audit.faults.push(format!("entry {number} has the record of another key"));
                }
                if !keys.insert(record.key.to_vec()) {
                    audit.faults.push(format!("entry {number} has a key that another one has, too"));
                }
                audit.objects += 1;
                audit.body_bytes += (record.key.len() + record.value.len()) as u64;
                spans.extend(entry.span(layout.heap_bytes));
            }
        }
        spans.sort_by_key(|span| span.offset);
        let overlap = spans.windows(2).find(|pair| pair[0].offset + pair[0].bytes > pair[1].offset);
        audit.faults.extend(overlap.map(|pair| format!("two records share bytes: {pair:?}")));
        let counted = atoll_pool::read_word(&self.client.endpoint, layout.objects()).await?;
        if counted != audit.objects {
            audit.faults.push(format!("{} objects, of which {counted} are counted", audit.objects));
        }
        Ok(audit)
    }
}
