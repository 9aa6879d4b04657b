//! The caches that are measured, by one GET and one SET, with keys of 16 bytes and values of 256.
//!
//! A GET that hits ends with the value's bytes in a buffer of the caller, for every cache. One
//! thread uses a handle. The handles of one [`Source`] share their cache.

use crate::LabError;
use atoll_cache::{Cache, SetOptions, Value};
use atoll_deployment::Deployment;
use atoll_deployment::random::mix;
use atoll_fabric::run_ready;
use std::hint::black_box;
use std::sync::Arc;

/// Length of the values.
pub(super) const VALUE_BYTES: usize = 256;
/// A key.
pub(super) type Key = [u8; 16];

/// The key of that number; neighbours in number are not neighbours in the key.
#[inline]
pub(super) fn key_of(number: u64) -> Key {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix(number).to_le_bytes());
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

/// One thread's handle to a cache.
pub(super) trait Subject {
    /// Looks `key` up and copies its value out; says whether it was there.
    fn get(&mut self, key: &Key) -> Result<bool, LabError>;

    /// Sets `key` to a value of [`VALUE_BYTES`].
    fn set(&mut self, key: &Key) -> Result<(), LabError>;
}

/// Where threads get their handles to one cache.
pub(super) trait Source: Sync {
    /// A handle.
    type Subject: Subject;

    /// Another handle.
    fn subject(&self) -> Result<Self::Subject, LabError>;
}

/// A client of an engine of ours.
pub(super) struct Client {
    cache: Cache<atoll_deployment::Client>,
    into: Value,
    value: [u8; VALUE_BYTES],
}

impl Client {
    pub(super) fn new(deployment: &dyn Deployment) -> Result<Self, LabError> {
        Ok(Self { cache: deployment.client()?, into: Value::new(), value: [b'v'; VALUE_BYTES] })
    }
}

impl Subject for Client {
    #[inline]
    fn get(&mut self, key: &Key) -> Result<bool, LabError> {
        let hit = run_ready(self.cache.get(key, &mut self.into))?;
        if hit {
            black_box(self.into.bytes());
        }
        Ok(hit)
    }

    #[inline]
    fn set(&mut self, key: &Key) -> Result<(), LabError> {
        run_ready(self.cache.set(key, &self.value, &SetOptions::default()))?;
        Ok(())
    }
}

/// A plain copy of 256 bytes in memory of this process: what the processors can do at most.
#[derive(Clone)]
pub(super) struct Copying {
    memory: Vec<u8>,
    into: [u8; VALUE_BYTES],
}

impl Copying {
    pub(super) fn new(objects: u64) -> Self {
        Self { memory: vec![b'v'; objects as usize * VALUE_BYTES], into: [0; VALUE_BYTES] }
    }
}

impl Subject for Copying {
    #[inline]
    fn get(&mut self, key: &Key) -> Result<bool, LabError> {
        let objects = (self.memory.len() / VALUE_BYTES) as u64;
        // The scattered half of the key picks the place. Hot keys lie apart, as in a cache.
        let number = u64::from_le_bytes(std::array::from_fn(|index| key[index]));
        let place = ((u128::from(number) * u128::from(objects)) >> 64) as usize * VALUE_BYTES;
        self.into.copy_from_slice(&self.memory[place..place + VALUE_BYTES]);
        black_box(&self.into);
        Ok(true)
    }

    fn set(&mut self, _key: &Key) -> Result<(), LabError> {
        Ok(())
    }
}

impl Source for Copying {
    type Subject = Self;

    fn subject(&self) -> Result<Self, LabError> {
        Ok(self.clone())
    }
}

/// A handle to a cache inside this process, whose values are shared slices.
pub(super) struct InProcess<C> {
    cache: Arc<C>,
    into: [u8; VALUE_BYTES],
    value: [u8; VALUE_BYTES],
}

/// A cache inside this process.
pub(super) trait Library: Send + Sync {
    /// One for at most `objects_max` objects.
    fn with_capacity(objects_max: u64) -> Self;
    /// The value of `key`.
    fn find(&self, key: &Key) -> Option<Arc<[u8]>>;
    /// Sets the value of `key`.
    fn put(&self, key: Key, value: Arc<[u8]>);
}

/// Makes caches inside this process libraries: each has `new`, `get` and `insert`.
macro_rules! libraries {
    ($($Cache:ty, $Capacity:ty;)*) => {$(
        impl Library for $Cache {
            fn with_capacity(objects_max: u64) -> Self {
                Self::new(objects_max as $Capacity)
            }

            #[inline]
            fn find(&self, key: &Key) -> Option<Arc<[u8]>> {
                self.get(key)
            }

            #[inline]
            fn put(&self, key: Key, value: Arc<[u8]>) {
                self.insert(key, value);
            }
        }
    )*};
}

libraries! {
    moka::sync::Cache<Key, Arc<[u8]>>, u64;
    quick_cache::sync::Cache<Key, Arc<[u8]>>, usize;
}

impl<C: Library> Subject for InProcess<C> {
    #[inline]
    fn get(&mut self, key: &Key) -> Result<bool, LabError> {
        let found = self.cache.find(key);
        if let Some(value) = &found {
            self.into.copy_from_slice(value);
            black_box(&self.into);
        }
        Ok(found.is_some())
    }

    #[inline]
    fn set(&mut self, key: &Key) -> Result<(), LabError> {
        self.cache.put(*key, Arc::from(&self.value[..]));
        Ok(())
    }
}

/// Handles to one cache inside this process.
pub(super) struct LibrarySource<C>(Arc<C>);

impl<C: Library> LibrarySource<C> {
    pub(super) fn new(objects_max: u64) -> Self {
        Self(Arc::new(C::with_capacity(objects_max)))
    }
}

impl<C: Library> Source for LibrarySource<C> {
    type Subject = InProcess<C>;

    fn subject(&self) -> Result<InProcess<C>, LabError> {
        Ok(InProcess { cache: self.0.clone(), into: [0; VALUE_BYTES], value: [b'v'; VALUE_BYTES] })
    }
}
