//! A client's endpoint, as long as the client is one.
//!
//! The fabric may fail one operation of a client. The verbs that it posted may still land, so the
//! client is lost: once it is shut out, repairers reclaim what it holds. Its other operations must
//! not continue on shared state. The client must not leave as if it had released everything. The
//! future of the failed operation may have been dropped, so that no caller saw the failure. So the
//! gate shuts: every later post fails as for a client that was shut out.
//!
//! The region of a memory node may be gone (see [`loss`](crate::loss)). A new region of the node
//! will be all zero. So the gate lets the client see zeros there, and passes no verb on:
//!
//! | verb on an absent node | its result |
//! |---|---|
//! | READ | zeros |
//! | WRITE | none |
//! | fetch-and-add | 0 |
//! | compare-and-swap | it fails: it finds 0, or, where 0 was expected, a word that no client writes |
//!
//! Other clients use the new region once those without the node have left or were shut out. So the
//! zeros are right only while the client is not shut out. With a batch of such verbs alone, the
//! gate READs a word of the home, which fails for a client that was shut out.

use atoll_fabric::batch::{Operation, Verb};
use atoll_fabric::pass_on;
use atoll_fabric::{Address, Batch, Buffer, Checked, Either, Endpoint, Identity, RegionAttributes, VerbError};
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
    /// The absent memory nodes, a bit each.
    absent: Cell<u64>,
}

impl<E> Gate<E> {
    /// An open one.
    pub(crate) fn new(endpoint: E) -> Self {
        Self { endpoint, is_shut: Cell::new(false), loss: RefCell::new(None), absent: Cell::new(0) }
    }

    /// The memory nodes whose regions are gone, a bit each.
    #[inline(always)]
    pub fn absent(&self) -> u64 {
        self.absent.get()
    }

    /// Sets the memory nodes whose regions are gone. The client runs no operation.
    pub(crate) fn set_absent(&self, absent: u64) {
        debug_assert!(absent & 1 == 0, "a pool without its home is gone");
        self.absent.set(absent);
    }

    /// Whether a byte is on an absent node.
    #[inline(always)]
    pub(crate) fn is_absent(&self, at: Address) -> bool {
        self.absent.get() != 0 && is_on(self.absent.get(), at)
    }

    #[inline(always)]
    fn has_absent(&self, batch: &Batch) -> bool {
        self.absent.get() != 0 && batch.verbs().iter().any(|verb| is_on(self.absent.get(), verb.at))
    }

    /// Whether it is shut.
    pub(crate) fn is_shut(&self) -> bool {
        self.is_shut.get()
    }

    /// The failure by which it was shut, if it is.
    pub(crate) fn cause(&self) -> Option<VerbError> {
        self.loss.borrow().as_ref().map(|loss| loss.cause.clone())
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
}

/// Whether a byte is on one of these memory nodes.
fn is_on(nodes: u64, at: Address) -> bool {
    at.memory_node().is_some_and(|node| nodes >> node & 1 == 1)
}

/// Gives a verb the result that it has on an absent node.
fn imagine(verb: &mut Verb) {
    match &mut verb.operation {
        Operation::Read { into } => into.words_mut().fill(0),
        Operation::ReadWord { value } => *value = 0,
        Operation::Write { .. } | Operation::WriteWord { .. } => {}
        Operation::CompareAndSwap { expected, found, .. } => *found = if *expected == 0 { u64::MAX } else { 0 },
        Operation::FetchAndAdd { found, .. } => *found = 0,
    }
}

impl<E: Endpoint> Gate<E> {
    /// Shuts it for good after a failure, unless the failed batch took no effect. Its endpoint
    /// ends, so that others need not wait for the client.
    #[cold]
    pub(crate) fn note(&self, error: &VerbError) {
        if error.took_no_effect() {
            return;
        }
        let was_shut = self.is_shut.replace(true);
        {
            let mut loss = self.loss.borrow_mut();
            let loss = loss.get_or_insert_with(|| Loss { cause: error.clone(), told: VerbError::Fenced });
            // A fork must learn that it is one, and must not join again.
            if *error == VerbError::Forked {
                loss.told = VerbError::Forked;
            }
        }
        if !was_shut {
            self.endpoint.end();
        }
    }

    /// The same outcome, which shuts the gate if it is a failure.
    #[inline(always)]
    fn noted<T>(&self, outcome: Result<T, VerbError>) -> Result<T, VerbError> {
        if let Err(error) = &outcome {
            self.note(error);
        }
        outcome
    }

    /// READs the first word of the home.
    ///
    /// # Errors
    /// [`VerbError::Fenced`] if the client was shut out.
    async fn see_home(&self) -> Result<(), VerbError> {
        let mut batch = Batch::new();
        batch.read_word(Address::new(0, 0, 0));
        self.endpoint.post(&mut batch).await
    }

    async fn read_absent(&self, mut into: Buffer) -> Result<Buffer, VerbError> {
        self.see_home().await?;
        into.words_mut().fill(0);
        Ok(into)
    }

    /// Posts a batch with verbs on absent nodes.
    async fn post_apart(&self, batch: &mut Batch) -> Result<(), VerbError> {
        let absent = self.absent.get();
        let (mut present, mask) = batch.take_out(|verb| !is_on(absent, verb.at));
        let posted = if present.is_empty() { self.see_home().await } else { self.endpoint.post(&mut present).await };
        batch.put_back(present, mask);
        batch.verbs_mut().iter_mut().filter(|verb| is_on(absent, verb.at)).for_each(imagine);
        posted
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
        let posted = match self.is_shut.get() {
            true => None,
            false if self.has_absent(batch) => Some(Either::Rare(Box::pin(self.post_apart(batch)))),
            false => Some(Either::Usual(self.endpoint.post(batch))),
        };
        Checked::new(posted, |posted| self.noted(posted.unwrap_or_else(|| Err(self.told()))))
    }

    #[inline(always)]
    fn read(&self, at: Address, into: Buffer) -> impl Future<Output = Result<Buffer, VerbError>> {
        let read = match self.is_shut.get() {
            true => None,
            false if self.is_absent(at) => Some(Either::Rare(Box::pin(self.read_absent(into)))),
            false => Some(Either::Usual(self.endpoint.read(at, into))),
        };
        Checked::new(read, |read| self.noted(read.unwrap_or_else(|| Err(self.told()))))
    }

    async fn read_into(&self, at: Address, into: &mut [u8], spare: &mut Buffer) -> Result<(), VerbError> {
        self.pass()?;
        if self.is_absent(at) {
            into.fill(0);
            return self.noted(self.see_home().await);
        }
        self.noted(self.endpoint.read_into(at, into, spare).await)
    }

    async fn write_from(&self, at: Address, from: &[u8], spare: &mut Buffer) -> Result<(), VerbError> {
        self.pass()?;
        if self.is_absent(at) {
            return Ok(());
        }
        self.noted(self.endpoint.write_from(at, from, spare).await)
    }

    #[inline(always)]
    fn post_unawaited(&self, batch: &mut Batch) {
        if self.pass().is_err() {
            *batch = Batch::new();
        } else if self.has_absent(batch) {
            let absent = self.absent.get();
            let (mut present, _) = batch.take_out(|verb| !is_on(absent, verb.at));
            *batch = Batch::new();
            self.endpoint.post_unawaited(&mut present);
        } else {
            self.endpoint.post_unawaited(batch);
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

    fn reach_export_if(&self, at: Address, word: u64) -> Result<bool, VerbError> {
        self.pass()?;
        self.endpoint.reach_export_if(at, word)
    }

    fn own_word(&self, at: Address) -> Option<u64> {
        if self.is_shut.get() { None } else { self.endpoint.own_word(at) }
    }

    async fn provide(&self, at: Address, bytes: u64) -> Result<bool, VerbError> {
        self.pass()?;
        if self.is_absent(at) {
            // A new region has all its memory.
            return Ok(true);
        }
        self.endpoint.provide(at, bytes).await
    }

    async fn discard(&self, at: Address, bytes: u64) -> Result<u64, VerbError> {
        self.pass()?;
        if self.is_absent(at) {
            return Ok(0);
        }
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

    pass_on!(endpoint: region_state silent has_ended forsake remove_forsaken end is_over place find_place remake);
    pass_on!(endpoint: expect purpose export follow region_attributes region_bytes provided);
    pass_on!(endpoint: note_provided charge wait arrivals pause now_ns unix_ms agent_ms boot random);
    pass_on!(endpoint: traffic limits is_near keeps_order identity origin fabric);
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_fabric::Kind;
    use atoll_sim::sim::region;
    use atoll_sim::{Fencing, Sim, SimOptions};

    #[test]
    fn a_client_that_was_shut_out_sees_no_zeros_on_an_absent_node() {
        let options = SimOptions::with_nodes(1, vec![vec![region(4096, Kind::Host)], vec![region(4096, Kind::Host)]]);
        let sim = Sim::new(SimOptions { fencing: Fencing::Forced, ..options });
        let (gate, other) = (Gate::new(sim.endpoint("client")), sim.endpoint("other"));
        gate.set_absent(1 << 1);
        let at = Address::new(1, 0, 0);
        let outcomes = sim.block_on(async move {
            let mut batch = Batch::new();
            batch.read_word(at);
            let before = gate.post(&mut batch).await;
            let read = gate.read(at, Buffer::sized(8)).await.map(|zeros| zeros.words()[0]);
            let is_out = other.shut_out(gate.identity()).await;
            (before, read, is_out, gate.read(at, Buffer::sized(8)).await.map(drop))
        });
        let told = (Ok(()), Ok(0), Ok(true), Err(VerbError::Fenced));
        assert_eq!(outcomes.unwrap(), told);
    }
}
