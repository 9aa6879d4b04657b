//! A client's endpoint, as long as the client is one.
//!
//! When the fabric has failed one operation of a client, what that one had posted may still land,
//! so that the client is lost: others repair what it holds once it is shut out. Its other
//! operations, which are in the middle of something, must not go on with what they had in common.
//! So the gate is shut: whatever they post ends as for a client that was shut out.

use atoll_fabric::{
    Address, Batch, Buffer, Endpoint, FabricError, Identity, Intent, Limits, Origin, Purpose, RegionAttributes,
    VerbError,
};
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

    #[inline(always)]
    fn expect(&self, at: Address, bytes: u64, intent: Intent) -> bool {
        self.endpoint.expect(at, bytes, intent)
    }

    #[inline(always)]
    fn purpose(&self, purpose: Purpose) -> Purpose {
        self.endpoint.purpose(purpose)
    }

    async fn reach(&self, node: u8) -> Result<(), VerbError> {
        self.pass()?;
        self.endpoint.reach(node).await
    }

    fn export(&self, wanted: RegionAttributes) -> Result<Address, FabricError> {
        self.endpoint.export(wanted)
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

    fn region_attributes(&self, node: u8) -> Option<RegionAttributes> {
        self.endpoint.region_attributes(node)
    }

    fn region_bytes(&self, node: u8) -> Option<u64> {
        self.endpoint.region_bytes(node)
    }

    fn provided(&self, node: u8) -> u64 {
        self.endpoint.provided(node)
    }

    fn note_provided(&self, node: u8, bytes: u64) {
        self.endpoint.note_provided(node, bytes);
    }

    #[inline(always)]
    fn charge(&self, ns: u64) {
        self.endpoint.charge(ns);
    }

    fn wait(&self) {
        self.endpoint.wait();
    }

    fn pause(&self, ns: u64) -> impl Future<Output = ()> {
        self.endpoint.pause(ns)
    }

    #[inline(always)]
    fn now_ns(&self) -> u64 {
        self.endpoint.now_ns()
    }

    fn unix_ms(&self) -> u64 {
        self.endpoint.unix_ms()
    }

    fn agent_ms(&self) -> Option<u64> {
        self.endpoint.agent_ms()
    }

    fn boot(&self) -> Option<u64> {
        self.endpoint.boot()
    }

    #[inline(always)]
    fn random(&self) -> u64 {
        self.endpoint.random()
    }

    #[inline(always)]
    fn limits(&self) -> Limits {
        self.endpoint.limits()
    }

    #[inline(always)]
    fn is_near(&self) -> bool {
        self.endpoint.is_near()
    }

    fn identity(&self) -> Identity {
        self.endpoint.identity()
    }

    fn origin(&self) -> Origin {
        self.endpoint.origin()
    }

    async fn is_dead(&self, who: Identity) -> Result<bool, VerbError> {
        self.pass()?;
        self.endpoint.is_dead(who).await
    }

    async fn shut_out(&self, who: Identity) -> Result<bool, VerbError> {
        self.pass()?;
        self.endpoint.shut_out(who).await
    }

    fn fabric(&self) -> &'static str {
        self.endpoint.fabric()
    }
}
