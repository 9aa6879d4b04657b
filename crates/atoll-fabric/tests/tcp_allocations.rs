//! In steady state neither a client nor an agent allocates memory for a verb. The test counts the
//! allocations of its own process, which has nothing else to do.

use atoll_fabric::tcp::{Agent, AgentOptions, TcpFabric};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Fabric, Reach, block_on};
use std::alloc::{GlobalAlloc, Layout, System};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(at, layout, bytes) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const BYTES: u64 = 1 << 20;
const ROUNDS: u64 = 10_000;

/// A READ, a batch of every verb, and both in flight at once.
fn round<E: Endpoint>(endpoint: &E, batch: &mut Batch, spares: &mut [Buffer; 3]) {
    let [read, one, written] = spares;
    read.resize(256);
    *read = block_on(endpoint, endpoint.read(Address::new(0, 0, 0), std::mem::take(read))).unwrap();
    batch.clear();
    one.resize(256);
    written.resize(256);
    let found = batch.read(Address::new(0, 0, 4096), std::mem::take(one));
    let sent = batch.write(Address::new(0, 0, 8192), std::mem::take(written));
    batch.compare_and_swap(Address::new(0, 0, 64), 0, 0);
    batch.fetch_and_add(Address::new(0, 0, 72), 1);
    {
        let mut first = pin!(endpoint.post(batch));
        let mut second = pin!(endpoint.read(Address::new(0, 0, 512), std::mem::take(read)));
        let (mut posted, mut answered) = (None, None);
        let both = poll_fn(|context| {
            if posted.is_none() {
                posted = Some(first.as_mut().poll(context)).filter(Poll::is_ready);
            }
            if answered.is_none()
                && let Poll::Ready(buffer) = second.as_mut().poll(context)
            {
                answered = Some(buffer);
            }
            if posted.is_some() && answered.is_some() { Poll::Ready(()) } else { Poll::Pending }
        });
        block_on(endpoint, both);
        *read = answered.expect("both have ended").unwrap();
    }
    *one = batch.take(found);
    *written = batch.take(sent);
}

#[test]
fn verbs_allocate_nothing_in_steady_state() {
    let agent = Agent::bind("127.0.0.1:0", AgentOptions::default()).unwrap().start().unwrap();
    let fabric = TcpFabric::named(&format!("tcp:{}", agent.address())).unwrap();
    let reach = fabric.reach(fabric.create(0, BYTES, BYTES).unwrap());
    let endpoint = reach.endpoint();
    let (mut batch, mut spares) = (Batch::new(), std::array::from_fn(|_| Buffer::new()));
    (0..100).for_each(|_| round(&endpoint, &mut batch, &mut spares));
    let before = ALLOCATIONS.load(Relaxed);
    (0..ROUNDS).for_each(|_| round(&endpoint, &mut batch, &mut spares));
    let allocated = ALLOCATIONS.load(Relaxed) - before;
    assert!(allocated < 10, "{allocated} allocations in {} verbs", 6 * ROUNDS);
}
