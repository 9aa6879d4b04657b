//! The loads of the papers' figures: YCSB, traces with objects of one size, loads with their own
//! sizes.

use super::experiment::Options;
use super::footprint::Footprint;
use super::setup::Setup;
use super::sizes::BLOCK_OBJECT_BYTES;
use super::tenants::{FirstPart, OneSize, grouped, populated};
use atoll_lab::LabError;
use atoll_lab::load::{Load, LoadOptions, ycsb};
use std::sync::Arc;

/// A workload of YCSB; of E a twentieth of the requests, since a scan is fifty GETs.
pub fn ycsb(name: &str, keys: u64, requests: u64, options: &Options) -> Result<Arc<dyn Load>, LabError> {
    let requests = if name == "ycsb-e" { requests / 20 } else { requests };
    Ok(LoadOptions { keys, requests: Some(requests), seed: options.seed, ..LoadOptions::named(name) }.open()?.into())
}

/// The same with objects of [`BLOCK_OBJECT_BYTES`].
pub fn ycsb_blocks(name: &str, keys: u64, requests: u64, options: &Options) -> Result<Arc<dyn Load>, LabError> {
    let load = ycsb(name, keys, requests, options)?;
    Ok(Arc::new(OneSize { load, object_bytes: BLOCK_OBJECT_BYTES }))
}

/// YCSB with objects of [`BLOCK_OBJECT_BYTES`] and a cache of a share of its keys.
pub struct YcsbShare {
    /// Keys that are loaded.
    pub keys: u64,
    /// Requests of all threads.
    pub requests: u64,
    /// The cache's share of the keys' bytes.
    pub cache_percent: u64,
}

impl YcsbShare {
    /// A workload by this many threads, on FORGE.
    pub fn point(&self, workload: &str, threads: u16, options: &Options) -> Result<Setup, LabError> {
        let load = ycsb_blocks(workload, self.keys, self.requests, options)?;
        let cache_bytes = self.keys * u64::from(BLOCK_OBJECT_BYTES) * self.cache_percent / 100;
        Ok(Setup::new(load, threads, cache_bytes, BLOCK_OBJECT_BYTES, options.seed))
    }
}

/// A trace, or a load with the statistics of one of Twitter's clusters, with its own sizes.
pub fn real(name: &str, requests: u64, options: &Options) -> Result<Arc<dyn Load>, LabError> {
    let traces = Some(options.traces.clone());
    let load = LoadOptions { traces, requests: Some(requests), seed: options.seed, ..LoadOptions::named(name) };
    Ok(load.open()?.into())
}

/// The same with objects of the size that Ditto's figures have, for this many threads that share a
/// cache of this many percent.
pub fn fixed(
    name: &str,
    requests: u64,
    threads: u16,
    cache_percent: u64,
    options: &Options,
) -> Result<Arc<dyn Load>, LabError> {
    Ok(populated(one_size(name, requests, ycsb::OBJECT_BYTES, options)?, threads, cache_percent))
}

/// The same with objects of [`BLOCK_OBJECT_BYTES`], and as many keys as full groups need.
pub fn fixed_blocks(
    name: &str,
    requests: u64,
    threads: u16,
    cache_percent: u64,
    options: &Options,
) -> Result<Arc<dyn Load>, LabError> {
    let load = one_size(name, requests, BLOCK_OBJECT_BYTES, options)?;
    Ok(options.scaled(grouped as fn(_, _, _) -> _, populated)(load, threads, cache_percent))
}

fn one_size(name: &str, requests: u64, object_bytes: u32, options: &Options) -> Result<Arc<OneSize>, LabError> {
    let load = real(name, options.scaled(requests, 20_000), options)?;
    Ok(Arc::new(OneSize { load, object_bytes }))
}

/// A load with what it asks for altogether, which takes a pass over all its requests.
#[derive(Clone)]
pub struct Known {
    /// The load.
    pub load: Arc<dyn Load>,
    /// What it asks for.
    pub footprint: Footprint,
}

impl Known {
    /// Looks at all requests of a load.
    pub fn of(load: Arc<dyn Load>) -> Self {
        Self { footprint: Footprint::of(&*load), load }
    }

    /// In a full run the first of so many parts of its requests. What it asks for altogether stays
    /// what the whole load does.
    pub fn first_of(mut self, parts: u64, options: &Options) -> Self {
        if !options.quick {
            self.load = Arc::new(FirstPart { load: self.load, parts });
        }
        self
    }

    /// What it is, and how many requests and keys it has.
    pub fn what(&self) -> String {
        let (what, requests, keys) = (self.load.what(), self.load.requests(), self.footprint.objects);
        format!("{what}: {requests} requests for {keys} keys")
    }

    /// The same, and how long objects are.
    pub fn what_with_sizes(&self) -> String {
        format!("{} of {} bytes in the mean", self.what(), self.footprint.object_bytes())
    }

    /// So many percent of its objects.
    pub fn objects(&self, percent: u64) -> u64 {
        self.footprint.objects * percent / 100
    }

    /// So many percent of its bytes.
    pub fn bytes(&self, percent: u64) -> u64 {
        self.footprint.bytes * percent / 100
    }

    /// The load by this many threads on FORGE, with a cache of this many percent of its bytes.
    pub fn point(&self, threads: u16, cache_percent: u64, options: &Options) -> Setup {
        Setup::new(self.load.clone(), threads, self.bytes(cache_percent), self.footprint.object_bytes(), options.seed)
    }
}
