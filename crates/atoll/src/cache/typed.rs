//! Keys and values of a program's own types.

use super::load::LoadError;
use super::{Cache, Error};
use crate::fabric::{AddressedFabric, PoolFabric};
use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// Turns values into bytes, and bytes into values. Another program, or another version of this one,
/// may have written the bytes: bytes that are no value must be an error.
pub trait Codec<T> {
    /// Why a value cannot be written or read.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Appends a value's bytes. Keys that are equal must have equal bytes.
    fn encode(&self, value: &T, into: &mut Vec<u8>) -> Result<(), Self::Error>;

    /// The value that the bytes are.
    fn decode(&self, bytes: &[u8]) -> Result<T, Self::Error>;
}

/// Bytes and text, unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Codec<Vec<u8>> for Plain {
    type Error = Infallible;

    fn encode(&self, value: &Vec<u8>, into: &mut Vec<u8>) -> Result<(), Infallible> {
        into.extend_from_slice(value);
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<Vec<u8>, Infallible> {
        Ok(bytes.to_vec())
    }
}

impl Codec<String> for Plain {
    type Error = std::str::Utf8Error;

    fn encode(&self, value: &String, into: &mut Vec<u8>) -> Result<(), Self::Error> {
        into.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<String, Self::Error> {
        Ok(std::str::from_utf8(bytes)?.to_owned())
    }
}

/// Any type of `serde`, in the format of `postcard`: compact, and the same on every machine.
#[cfg(feature = "serde")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Serde;

#[cfg(feature = "serde")]
impl<T: serde::Serialize + serde::de::DeserializeOwned> Codec<T> for Serde {
    type Error = postcard::Error;

    fn encode(&self, value: &T, into: &mut Vec<u8>) -> Result<(), Self::Error> {
        *into = postcard::to_extend(value, std::mem::take(into))?;
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<T, Self::Error> {
        match postcard::take_from_bytes(bytes)? {
            (value, []) => Ok(value),
            // Bytes follow the value: another program wrote it.
            _ => Err(postcard::Error::DeserializeBadEncoding),
        }
    }
}

/// Why an operation with types failed.
#[derive(Debug, thiserror::Error)]
pub enum TypedError {
    /// The operation on the cache failed.
    #[error(transparent)]
    Cache(#[from] Error),
    /// The key or the value cannot be written as bytes.
    #[error("this cannot be written as bytes: {0}")]
    Encode(Box<dyn std::error::Error + Send + Sync>),
    /// The stored bytes are no value of this type: another program, or another version of this one,
    /// wrote them. They are unchanged.
    #[error("what the key has is no value of this type ({0}): delete it, or read it with what wrote it")]
    Decode(Box<dyn std::error::Error + Send + Sync>),
}

/// A cache with keys of type `K` and values of type `V`, written by the codec `C`. Cheap to clone.
pub struct TypedCache<K, V, C, F: PoolFabric = AddressedFabric> {
    cache: Cache<F>,
    codec: C,
    types: PhantomData<fn(K) -> V>,
}

impl<K, V, C: Clone, F: PoolFabric> Clone for TypedCache<K, V, C, F> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), codec: self.codec.clone(), types: PhantomData }
    }
}

impl<F: PoolFabric> Cache<F> {
    /// The same cache with typed keys and values.
    pub fn typed<K, V, C: Codec<K> + Codec<V>>(&self, codec: C) -> TypedCache<K, V, C, F> {
        TypedCache { cache: self.clone(), codec, types: PhantomData }
    }
}

impl<K, V, C: Codec<K> + Codec<V>, F: PoolFabric> TypedCache<K, V, C, F> {
    /// The cache underneath.
    pub fn bytes(&self) -> &Cache<F> {
        &self.cache
    }

    fn encode<T>(&self, value: &T) -> Result<Vec<u8>, TypedError>
    where
        C: Codec<T>,
    {
        let mut bytes = Vec::new();
        self.codec.encode(value, &mut bytes).map_err(|error| TypedError::Encode(error.into()))?;
        Ok(bytes)
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, TypedError> {
        self.codec.decode(bytes).map_err(|error| TypedError::Decode(Box::new(error)))
    }

    /// The value of `key`, if it is there.
    pub fn get(&self, key: &K) -> Result<Option<V>, TypedError> {
        let found = self.cache.get(&self.encode(key)?)?;
        found.map(|bytes| self.decode(&bytes)).transpose()
    }

    /// Sets `key` to `value`, as [`Cache::set`].
    pub fn set(&self, key: &K, value: &V) -> Result<(), TypedError> {
        Ok(self.cache.set(&self.encode(key)?, &self.encode(value)?)?)
    }

    /// Sets `key` to `value` for this long.
    pub fn set_for(&self, key: &K, value: &V, time: Duration) -> Result<(), TypedError> {
        Ok(self.cache.set_for(&self.encode(key)?, &self.encode(value)?, time)?)
    }

    /// Sets `key` to `value` if it is absent; returns whether it was set.
    pub fn set_if_absent(&self, key: &K, value: &V) -> Result<bool, TypedError> {
        Ok(self.cache.set_if_absent(&self.encode(key)?, &self.encode(value)?)?)
    }

    /// Removes `key`; returns whether it was present.
    pub fn delete(&self, key: &K) -> Result<bool, TypedError> {
        Ok(self.cache.delete(&self.encode(key)?)?)
    }

    /// Removes `key` and returns its value.
    pub fn take(&self, key: &K) -> Result<Option<V>, TypedError> {
        let taken = self.cache.take(&self.encode(key)?)?;
        taken.map(|bytes| self.decode(&bytes)).transpose()
    }

    /// The value of `key`, or the value that `load` makes: see [`Cache::get_with`].
    pub fn get_with(&self, key: &K, load: impl FnOnce() -> V) -> Result<V, Arc<TypedError>> {
        let load = || self.encode(&load());
        match self.cache.try_get_with(&self.encode(key)?, load) {
            Ok(bytes) => Ok(self.decode(&bytes)?),
            Err(LoadError::Cache(error)) => Err(TypedError::Cache(error).into()),
            Err(LoadError::Loader(error)) => Err(error),
        }
    }

    /// All keys, as [`Cache::keys`]. A key that is not of this type is an error; further keys may
    /// follow it.
    pub fn keys(&self) -> impl Iterator<Item = Result<K, TypedError>> {
        self.cache.keys().map(|key| self.codec.decode(&key?).map_err(|error| TypedError::Decode(Box::new(error))))
    }
}
