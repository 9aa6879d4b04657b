//! A client's endpoint, as long as the client is one.
//!
//! The fabric may fail one operation of a client. The verbs that it posted may still land, so the
//! client is lost: once it is shut out, repairers reclaim what it holds. Its other operations must
//! not continue on shared state. The client must not leave as if it had released everything. The
//! future of the failed operation may have been dropped, so that no caller saw the failure. So the
//! gate shuts: every later post fails as for a client that was shut out.

use atoll_fabric::pass_on;
use atoll_fabric::{Address, Batch, Buffer, Checked, Endpoint, Identity, RegionAttributes, VerbError};
use std::cell::{Cell, RefCell};
use std::ops::Deref;

/// Why a client is lost.
#[derive(Debug)]
struct Loss {
    /// The failure, for the operation that met it.
    cause: VerbError,
    /// The error that all other operations get.
    told: VerbError,
}

/// An endpoint with a gate that can be shut.
#[derive(Debug)]
pub struct Gate<E> {
    endpoint: E,
    is_shut: Cell<bool>,
    loss: RefCell<Option<Loss>>,
}

impl<E> Gate<E> {
    /// An open one.
    pub(crate) fn new(endpoint: E) -> Self {
        Self { endpoint, is_shut: Cell::new(false), loss: RefCell::new(None) }
    }

    /// Whether it is shut.
    pub(crate) fn is_shut(&self) -> bool {
        self.is_shut.get()
    }

    /// The failure by which it was shut, if it is.
    pub(crate) fn cause(&self) -> Option<VerbError> {
        self.loss.borrow().as_ref().map(|loss| loss.cause.clone())
    }

    /// Shuts it for good after a failure, unless the failed batch took no effect.
    #[cold]
    pub(crate) fn note(&self, error: &VerbError) {
        if error.took_no_effect() {
            return;
        }
        self.is_shut.set(true);
        let mut loss = self.loss.borrow_mut();
        let loss = loss.get_or_insert_with(|| Loss { cause: error.clone(), told: VerbError::Fenced });
        // A fork must learn that it is one, and must not join again.
        if *error == VerbError::Forked {
            loss.told = VerbError::Forked;
        }
    }

    /// # Errors
    /// Why not, if it is shut.
    #[inline(always)]
    pub(crate) fn pass(&self) -> Result<(), VerbError> {
        if self.is_shut.get() { Err(self.told()) } else { Ok(()) }
    }

    #[cold]
    fn told(&self) -> VerbError {
        self.loss.borrow().as_ref().map_or(VerbError::Fenced, |loss| loss.told.clone())
    }

    /// The same outcome, which shuts the gate if it is a failure.
    #[inline(always)]
    fn noted<T>(&self, outcome: Result<T, VerbError>) -> Result<T, VerbError> {
        if let Err(error) = &outcome {
            self.note(error);
        }
        outcome
    }
}

/// What only this fabric's endpoints offer.
impl<E> Deref for Gate<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.endpoint
    }
}

impl<E: Endpoint> Endpoint for Gate<E> {
    #[inline(always)]
    fn post(&self, batch: &mut Batch) -> impl Future<Output = Result<(), VerbError>> {
        let posted = if self.is_shut.get() { None } else { Some(self.endpoint.post(batch)) };
        Checked::new(posted, |posted| self.noted(posted.unwrap_or_else(|| Err(self.told()))))
    }

    #[inline(always)]
    fn read(&self, at: Address, into: Buffer) -> impl Future<Output = Result<Buffer, VerbError>> {
        let read = if self.is_shut.get() { None } else { Some(self.endpoint.read(at, into)) };
        Checked::new(read, |read| self.noted(read.unwrap_or_else(|| Err(self.told()))))
    }

    #[inline(always)]
    fn post_unawaited(&self, batch: &mut Batch) {
        if self.pass().is_ok() {
            self.endpoint.post_unawaited(batch);
        } else {
            *batch = Batch::new();
        }
    }

    #[inline(always)]
    fn flush(&self) -> impl Future<Output = Result<(), VerbError>> {
        let flushed = if self.is_shut.get() { None } else { Some(self.endpoint.flush()) };
        Checked::new(flushed, |flushed| self.noted(flushed.unwrap_or_else(|| Err(self.told()))))
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
    pass_on!(endpoint: note_provided charge wait arrivals pause now_ns unix_ms agent_ms boot random);
    pass_on!(endpoint: traffic limits is_near identity origin fabric);
}
