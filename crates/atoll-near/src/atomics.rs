//! Atomics of the application on words of objects.
//!
//! They take place at the memory node. An object with such words is not cached any more: its stripe
//! is off for good. An application that has locks in objects declares them as an uncached sub-range
//! ([`Object::without`](crate::Object::without)); then the rest of the object stays cached.

use crate::error::NearError;
use crate::hole::Hole;
use crate::near::{Near, Switch};
use crate::object::Object;
use crate::stripe::{Belief, CHANGE};
use crate::verbs::{add, swap};
use atoll_fabric::{Address, Endpoint, Messenger};

impl<E: Endpoint + Messenger> Near<E> {
    /// Swaps the word `offset` bytes into the object, if it is `expected`; otherwise the word that
    /// is there.
    ///
    /// # Errors
    /// A verb's error.
    ///
    /// # Panics
    /// If there is no such word in the object.
    pub async fn compare_and_swap(
        &self,
        object: &Object,
        offset: u32,
        expected: u64,
        desired: u64,
    ) -> Result<Result<(), u64>, NearError> {
        self.or_ended(self.swap_now(object, offset, expected, desired).await).await
    }

    async fn swap_now(
        &self,
        object: &Object,
        offset: u32,
        expected: u64,
        desired: u64,
    ) -> Result<Result<(), u64>, NearError> {
        if self.is_by_manager(object, offset) {
            let found = self.swap_by_manager(object, offset, [expected, desired]).await?;
            return Ok(if found == expected { Ok(()) } else { Err(found) });
        }
        let at = self.exclude(object, offset).await?;
        let swapped = swap(&self.endpoint, at, expected, desired).await?;
        self.after_atomic(object, offset).await?;
        Ok(swapped)
    }

    /// Adds to the word `offset` bytes into the object, wrapping; the word before.
    ///
    /// # Errors
    /// A verb's error.
    ///
    /// # Panics
    /// If there is no such word in the object.
    pub async fn fetch_and_add(&self, object: &Object, offset: u32, addend: u64) -> Result<u64, NearError> {
        self.or_ended(self.add_now(object, offset, addend).await).await
    }

    async fn add_now(&self, object: &Object, offset: u32, addend: u64) -> Result<u64, NearError> {
        if self.is_by_manager(object, offset) {
            return self.add_by_manager(object, offset, addend).await;
        }
        let at = self.exclude(object, offset).await?;
        let found = add(&self.endpoint, at, addend).await?;
        self.after_atomic(object, offset).await?;
        Ok(found)
    }

    /// Whether the manager does an atomic: the word may be in copies.
    ///
    /// # Panics
    /// If there is no such word in the object.
    fn is_by_manager(&self, object: &Object, offset: u32) -> bool {
        object.check(&(offset..offset + 8));
        self.has_manager() && self.stripe(object).is_some() && !object.is_uncached(&(offset..offset + 8))
    }

    /// Makes sure that no copy of the word exists, or will; where the word is.
    async fn exclude(&self, object: &Object, offset: u32) -> Result<Address, NearError> {
        object.check(&(offset..offset + 8));
        let at = object.at().add(offset.into());
        let is_adaptive = self.directory.options().protocol.is_adaptive();
        let stripe = self.stripe_in_use(object).await?;
        let stripe = stripe.filter(|_| is_adaptive && !object.is_uncached(&(offset..offset + 8)));
        if let Some((stripe, _)) = stripe.filter(|_| !self.open.lacks(Hole::PinnedAtomics)) {
            let (line, ..) = self.read_line(stripe).await?;
            if line.belief != Belief::Pinned {
                let mode = self.switch_stripe(stripe, Switch::Pin).await?;
                self.believe(stripe, &line, mode).await?;
            }
        }
        Ok(at)
    }

    /// Where everything is cached, an atomic is a write.
    async fn after_atomic(&self, object: &Object, offset: u32) -> Result<(), NearError> {
        let is_adaptive = self.directory.options().protocol.is_adaptive();
        let is_cached = !is_adaptive && !object.is_uncached(&(offset..offset + 8));
        match self.stripe(object).filter(|_| is_cached) {
            Some((stripe, _)) => self.invalidate(stripe, CHANGE).await,
            None => Ok(()),
        }
    }
}
