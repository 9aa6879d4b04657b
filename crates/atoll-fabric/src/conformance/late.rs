//! A fabric whose futures wait, over one whose futures do not: for tests of what drives futures.
//!
//! A verb takes effect when it is first polled, and its result comes late: after the thread has
//! called [`Endpoint::wait`] a few times. So a caller that polls once and expects the result fails
//! here, and one that waits without polling never ends.

use crate::fabric::BEGINNING_WORDS;
use crate::pass_on;
use crate::{Address, Batch, Buffer, CostClass, Endpoint, Fabric, FabricError, Identity, Reach, Sharing, VerbError};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Poll;

/// Waits that a result takes.
const WAITS: u64 = 3;

thread_local! {
    /// How often this thread has waited: a future that owns its endpoint is waited for by another.
    static WAITED: Cell<u64> = const { Cell::new(0) };
    /// While this is set, each poll of this thread is a wait.
    static POLLS_COUNT: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// From now on each poll of this thread's futures counts as a wait, too, while `is_on` is set. It
/// is for a caller that polls until the end and never blocks. While it is not set, no result comes.
pub fn count_polls(is_on: Arc<AtomicBool>) {
    POLLS_COUNT.set(Some(is_on));
}

fn waited() -> u64 {
    WAITED.get()
}

/// As [`Endpoint::wait`] of every late endpoint of this thread: for a future that owns its
/// endpoint.
pub fn count_wait() {
    WAITED.set(WAITED.get() + 1);
}

/// Ends once the thread has waited often enough since the first poll.
fn lag() -> impl Future<Output = ()> {
    let mut due = None;
    poll_fn(move |context| {
        if POLLS_COUNT.with_borrow(|is_on| is_on.as_ref().is_some_and(|is_on| is_on.load(Relaxed))) {
            count_wait();
        }
        match waited() >= *due.get_or_insert(waited() + WAITS) {
            true => Poll::Ready(()),
            false => {
                // No event wakes it: it is polled at each turn.
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    })
}

/// A fabric, an endpoint or what a process reaches, with results that come late.
#[derive(Clone, Debug)]
pub struct Late<T>(pub T);

impl<F: Fabric> Fabric for Late<F> {
    type Region = F::Region;
    type Reach = Late<F::Reach>;
    type Hold = F::Hold;

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn cost_class(&self) -> CostClass {
        CostClass::Network
    }

    fn address(&self) -> Option<&str> {
        self.0.address()
    }

    fn region_address(&self, node: u8) -> Option<String> {
        self.0.region_address(node)
    }

    fn check_room(&self, bytes: u64) -> Result<(), FabricError> {
        self.0.check_room(bytes)
    }

    fn no_room(&self, bytes: u64) -> FabricError {
        self.0.no_room(bytes)
    }

    fn create(&self, node: u8, bytes: u64, there: u64) -> Result<F::Region, FabricError> {
        self.0.create(node, bytes, there)
    }

    fn open(&self, node: u8) -> Result<F::Region, FabricError> {
        self.0.open(node)
    }

    fn open_alone(&self, node: u8) -> Result<Option<F::Region>, FabricError> {
        self.0.open_alone(node)
    }

    fn hold(&self, node: u8, sharing: Sharing) -> Result<F::Hold, FabricError> {
        self.0.hold(node, sharing)
    }

    fn beginning(&self, node: u8) -> Result<([u64; BEGINNING_WORDS], u64), FabricError> {
        self.0.beginning(node)
    }

    fn remove(&self, node: u8) -> Result<(), FabricError> {
        self.0.remove(node)
    }

    fn reach(&self, home: F::Region) -> Self::Reach {
        Late(self.0.reach(home))
    }
}

impl<R: Reach> Reach for Late<R> {
    type Endpoint = Late<R::Endpoint>;
    type Region = R::Region;

    fn endpoint(&self) -> Self::Endpoint {
        Late(self.0.endpoint())
    }

    fn wait(&self) {
        count_wait();
    }

    fn home(&self) -> &R::Region {
        self.0.home()
    }

    fn apart(&self) -> Self {
        Self(self.0.apart())
    }

    fn let_go(&self) {
        self.0.let_go();
    }

    fn admit(&self, node: u8, region: R::Region) -> bool {
        self.0.admit(node, region)
    }

    fn region(&self, node: u8) -> Option<R::Region> {
        self.0.region(node)
    }

    fn memory_nodes(&self) -> Vec<u8> {
        self.0.memory_nodes()
    }

    fn compute_nodes(&self) -> Vec<u16> {
        self.0.compute_nodes()
    }
}

/// Runs what the endpoint behind it does, and ends late.
async fn late<T>(future: impl Future<Output = T>) -> T {
    let output = future.await;
    lag().await;
    output
}

impl<E: Endpoint> Endpoint for Late<E> {
    fn post(&self, batch: &mut Batch) -> impl Future<Output = Result<(), VerbError>> {
        late(self.0.post(batch))
    }

    fn read(&self, at: Address, into: Buffer) -> impl Future<Output = Result<Buffer, VerbError>> {
        late(self.0.read(at, into))
    }

    fn flush(&self) -> impl Future<Output = Result<(), VerbError>> {
        late(self.0.flush())
    }

    fn reach(&self, node: u8) -> impl Future<Output = Result<(), VerbError>> {
        late(self.0.reach(node))
    }

    fn provide(&self, at: Address, bytes: u64) -> impl Future<Output = Result<bool, VerbError>> {
        late(self.0.provide(at, bytes))
    }

    fn discard(&self, at: Address, bytes: u64) -> impl Future<Output = Result<u64, VerbError>> {
        late(self.0.discard(at, bytes))
    }

    fn wait(&self) {
        count_wait();
    }

    fn pause(&self, ns: u64) -> impl Future<Output = ()> {
        late(self.0.pause(ns))
    }

    fn is_dead(&self, who: Identity) -> impl Future<Output = Result<bool, VerbError>> {
        late(self.0.is_dead(who))
    }

    fn shut_out(&self, who: Identity) -> impl Future<Output = Result<bool, VerbError>> {
        late(self.0.shut_out(who))
    }

    pass_on!(0: post_unawaited expect export reach_export reach_export_if follow own_word region_attributes provided);
    pass_on!(0: note_provided now_ns unix_ms agent_ms boot random limits identity);
    pass_on!(0: origin fabric end is_over);
}
