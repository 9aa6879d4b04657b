//! A client's endpoint, as long as the client is one.
//!
//! When the fabric has failed one operation of a client, what that one had posted may still land,
//! so that the client is lost: others repair what it holds once it is shut out. Its other
//! operations, which are in the middle of something, must not go on with what they had in common.
//! So the gate is shut: whatever they post ends as for a client that was shut out.

use atoll_fabric::pass_on;
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Identity, RegionAttributes, VerbError};
use std::cell::Cell;
use std::ops::Deref;

/// An endpoint that can be shut.
#[derive(Debug)]
pub struct Gate<E> {
    endpoint: E,
    is_shut: Cell<bool>,
}

impl<E> Gate<E> {
    /// An open one.
    pub(crate) fn new(endpoint: E) -> Self {
        Self { endpoint, is_shut: Cell::new(false) }
    }

    /// Shuts it for good.
    pub(crate) fn shut(&self) {
        self.is_shut.set(true);
    }

    /// # Errors
    /// [`VerbError::Fenced`] if it is shut.
    #[inline(always)]
    fn pass(&self) -> Result<(), VerbError> {
        if self.is_shut.get() { Err(VerbError::Fenced) } else { Ok(()) }
    }
}

/// What only this fabric's endpoints have.
impl<E> Deref for Gate<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.endpoint
    }
}

impl<E: Endpoint> Endpoint for Gate<E> {
    #[inline(always)]
    async fn post(&self, batch: &mut Batch) -> Result<(), VerbError> {
        self.pass()?;
        self.endpoint.post(batch).await
    }

    #[inline(always)]
    async fn read(&self, at: Address, into: Buffer) -> Result<Buffer, VerbError> {
        self.pass()?;
        self.endpoint.read(at, into).await
    }

    #[inline(always)]
    fn post_unawaited(&self, batch: &mut Batch) {
        if self.pass().is_ok() {
            self.endpoint.post_unawaited(batch);
        } else {
            *batch = Batch::new();
        }
    }

    async fn flush(&self) -> Result<(), VerbError> {
        self.pass()?;
        self.endpoint.flush().await
    }

    async fn reach(&self, node: u8) -> Result<(), VerbError> {
        self.pass()?;
        self.endpoint.reach(node).await
    }

    fn reach_export(&self, at: Address) -> Result<RegionAttributes, VerbError> {
        self.pass()?;
        self.endpoint.reach_export(at)
    }

    async fn provide(&self, at: Address, bytes: u64) -> Result<bool, VerbError> {
        self.pass()?;
        self.endpoint.provide(at, bytes).await
    }

    async fn discard(&self, at: Address, bytes: u64) -> Result<u64, VerbError> {
        self.pass()?;
        self.endpoint.discard(at, bytes).await
    }

    async fn is_dead(&self, who: Identity) -> Result<bool, VerbError> {
        self.pass()?;
        self.endpoint.is_dead(who).await
    }

    async fn shut_out(&self, who: Identity) -> Result<bool, VerbError> {
        self.pass()?;
        self.endpoint.shut_out(who).await
    }

    pass_on!(endpoint: expect purpose export region_attributes region_bytes provided);
    pass_on!(endpoint: note_provided charge wait pause now_ns unix_ms agent_ms boot random);
    pass_on!(endpoint: limits is_near identity origin fabric);
}
