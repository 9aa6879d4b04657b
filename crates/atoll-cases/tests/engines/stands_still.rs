//! A client that stands still keeps what it holds, and delays no other client. What other clients
//! READ because of it is bounded, and they repair what it was repairing.

use atoll_baselines::kvs::{self, Kvs};
use atoll_cache::EnginePool;
use atoll_cache::Pooled;
use atoll_cache::forge::{Forge, ForgeOptions, ForgePool};
use atoll_cache::table::TablePool;
use atoll_cache::{Cache, SetOptions, Value};
use atoll_cases::{Case, Cast, KvsSubject, load};
use atoll_fabric::batch::Operation;
use atoll_fabric::pass_on;
use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, VerbError, run_ready};
use atoll_pool::registry::{Member, Protection};
use atoll_pool::{ChunkState, Pool, chunks};
use atoll_sim::{After, Fault};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// What an endpoint READs: words of the signals, and bytes in all.
#[derive(Debug, Default)]
struct Counts {
    signals: Cell<u64>,
    bytes: Cell<u64>,
}

/// Shared memory, with counts of what is READ.
struct Counting {
    inner: ShmEndpoint,
    counts: Rc<Counts>,
    /// Where the signals are.
    signals: Range<u64>,
}

impl Counting {
    fn new(region: &Arc<ShmRegion>, pool: &Pool) -> (Self, Rc<Counts>) {
        let counts = Rc::<Counts>::default();
        let signals = pool.layout.signal(0).offset()..pool.layout.signal(pool.settings.clients_max).offset();
        (Self { inner: ShmEndpoint::new(region.clone()), counts: counts.clone(), signals }, counts)
    }

    fn note(&self, at: Address, bytes: u64) {
        self.counts.bytes.set(self.counts.bytes.get() + bytes);
        if at.is_home() && self.signals.contains(&at.offset()) {
            self.counts.signals.set(self.counts.signals.get() + 1);
        }
    }
}

impl Endpoint for Counting {
    async fn post(&self, batch: &mut Batch) -> Result<(), VerbError> {
        for verb in batch.verbs() {
            if matches!(verb.operation, Operation::Read { .. } | Operation::ReadWord { .. }) {
                self.note(verb.at, verb.len());
            }
        }
        self.inner.post(batch).await
    }

    async fn read(&self, at: Address, into: Buffer) -> Result<Buffer, VerbError> {
        self.note(at, into.len() as u64);
        self.inner.read(at, into).await
    }

    pass_on!(inner: post_unawaited flush expect pause now_ns unix_ms agent_ms random);
    pass_on!(inner: region_attributes wait boot limits is_near identity origin is_dead);
    pass_on!(inner: shut_out fabric);
}

/// A client protects chunks and stops. The evictor that emptied them must not READ all signals with
/// every update.
#[test]
fn a_stopped_holder_of_a_protection_does_not_make_every_update_read_all_signals() {
    let region = Arc::new(ShmRegion::anonymous(4 << 20).unwrap());
    let endpoint = ShmEndpoint::new(region.clone());
    let pool = run_ready(ForgePool::format(&endpoint, ForgeOptions::default().for_capacity(4 << 20))).unwrap();
    let layout = &pool.pool().layout;
    let stopped = run_ready(Member::join(&endpoint, pool.pool())).unwrap();
    let (counting, counts) = Counting::new(&region, pool.pool());
    let mut cache = Cache::new(run_ready(Forge::join(&pool, counting)).unwrap());
    let set = |cache: &mut Cache<Forge<Counting>>, key: u64| {
        run_ready(cache.set(&key.to_le_bytes(), &[7; 200], &SetOptions::default())).unwrap();
    };
    let queued = || {
        let all = run_ready(chunks::descriptors(&endpoint, layout, atoll_pool::ChunkId(0), layout.chunks())).unwrap();
        let is_queued =
            |descriptor: &chunks::Descriptor| descriptor.chunk.is_some_and(|chunk| chunk.state == ChunkState::Queued);
        all.iter().position(is_queued).map(|chunk| atoll_pool::ChunkId(chunk as u32))
    };
    // Updates of one key need room now and then, and mostly none.
    const UPDATES: u64 = 4_000;
    let looks_of_updates = |cache: &mut Cache<Forge<Counting>>| {
        counts.signals.set(0);
        (0..UPDATES).for_each(|_| set(cache, 1));
        counts.signals.get()
    };
    let mut keys = 0..;
    keys.by_ref().take(50_000).for_each(|key| set(&mut cache, key));
    // Before the first count: from its notice on, every emptied chunk costs a look at its signal.
    let (mut batch, mut protection) = (Batch::new(), Protection::default());
    run_ready(stopped.prepare(&endpoint, &mut protection)).unwrap();
    let looks_alone = looks_of_updates(&mut cache);
    let chunk = queued().expect("the pool is full");
    stopped.protect(&mut batch, &mut protection, chunk);
    run_ready(endpoint.post(&mut batch)).unwrap();
    let is_leaving = || {
        let found = run_ready(chunks::descriptors(&endpoint, layout, chunk, 1)).unwrap()[0].chunk;
        found.is_some_and(|chunk| chunk.state == ChunkState::Leaving)
    };
    while !is_leaving() {
        set(&mut cache, keys.next().unwrap());
    }
    // Now the chunk waits in the evictor's hands.
    let looks = looks_of_updates(&mut cache);
    println!("{looks_alone} looks at the signals in {UPDATES} updates, {looks} with a chunk that waits");
    assert!(is_leaving(), "the protection still counts");
    assert!(
        looks < looks_alone + UPDATES / 50,
        "{looks} looks at the signals in {UPDATES} updates, before {looks_alone}"
    );
    stopped.unprotect(&endpoint, &mut protection);
    for _ in 0..1_100 {
        set(&mut cache, 1);
    }
    assert!(!is_leaving(), "the chunk is of use again soon after the protection has ended");
    run_ready(stopped.leave(&endpoint)).unwrap();
    run_ready(cache.engine().leave()).unwrap();
}

/// A client has blocks in hand and stops. The writer that empties the chunks of those blocks must
/// not go through the chunks with every update.
#[test]
fn a_stopped_client_with_blocks_in_hand_does_not_make_every_update_read_the_chunks_of_those() {
    let bytes_per_update = |with_stopped: bool| {
        let settings = kvs::options().for_growth(4 << 20, 0);
        let region = Arc::new(ShmRegion::anonymous(settings.home_bytes()).unwrap());
        let endpoint = ShmEndpoint::new(region.clone());
        let pool = run_ready(TablePool::format(&endpoint, settings)).unwrap();
        let join = || {
            let (counting, counts) = Counting::new(&region, pool.pool());
            (Cache::new(run_ready(Kvs::join(&pool, counting)).unwrap()), counts)
        };
        let (mut stopped, _) = join();
        let (mut busy, counts) = join();
        let set = |cache: &mut Cache<Kvs<Counting>>, key: u64, bytes: usize| {
            run_ready(cache.set(&key.to_le_bytes(), &vec![7; bytes], &SetOptions::default())).unwrap();
        };
        let sizes = [40, 90, 200, 400, 900, 2_000];
        // What it replaces by objects of other sizes it has in hand.
        for (key, bytes) in (0..).zip(sizes) {
            set(&mut busy, key, bytes);
            set(&mut stopped, key, sizes[(key as usize + 1) % sizes.len()]);
        }
        if !with_stopped {
            run_ready(stopped.engine().leave()).unwrap();
        }
        // The pool is full of one size after another, so that chunks pass from one class to the
        // next.
        let mut keys = 1_000..;
        for bytes in sizes.into_iter().chain(sizes.into_iter().rev()) {
            for _ in 0..2 * (4 << 20) / (bytes + 60) {
                set(&mut busy, keys.next().unwrap(), bytes);
            }
        }
        const UPDATES: u64 = 2_000;
        counts.bytes.set(0);
        for _ in 0..UPDATES {
            set(&mut busy, keys.next().unwrap(), 40);
        }
        let bytes = counts.bytes.get() / UPDATES;
        assert!(run_ready(busy.get(&(keys.start - 1).to_le_bytes(), &mut Value::new())).unwrap());
        std::mem::forget(stopped);
        bytes
    };
    let (alone, beside) = (bytes_per_update(false), bytes_per_update(true));
    let chunk_bytes = u64::from(kvs::options().for_growth(4 << 20, 0).chunk_bytes);
    println!("{alone} bytes READ for an update, {beside} beside a client that stands still; a chunk has {chunk_bytes}");
    assert!(beside < alone + chunk_bytes, "{beside} bytes READ for an update, {alone} without the other client");
}

/// Steps of a repair at which its client stops.
const REPAIR_STEPS: u64 = 400;

/// A client dies with blocks in hand, another one stops at any step of its repair, and a third one
/// repairs: of the dead client's cells at most one, which the stopped one is about to settle,
/// stays.
#[test]
fn a_stopped_repairer_does_not_keep_others_from_settling_the_cells_of_the_dead() {
    let mut stopped_before_the_end = 0;
    for steps in 0..REPAIR_STEPS {
        let case = Case::<KvsSubject> { clients: 3, chunks: 40, verified: false, ..Case::default() };
        let (sim, pool) = case.formatted(steps).unwrap();
        let (cast, history) = (Cast::new(sim.control()), Rc::default());
        let settled = Rc::new(Cell::new((0, 0, false)));
        let cells = {
            let layout = pool.layout().clone();
            move |sim: &atoll_sim::Sim| {
                (0..atoll_cache::table::layout::CELLS as u64)
                    .filter(|cell| sim.peek_word(layout.cell(0, *cell)) != 0)
                    .count()
            }
        };
        let sim = Rc::new(sim);
        let weak = Rc::downgrade(&sim);
        case.play(&sim, &history, |client| {
            let (cast, settled) = (cast.clone(), settled.clone());
            let (cells, weak, number) = (cells.clone(), weak.clone(), client.number as usize);
            async move {
                let me = cast.enter(&client).await?;
                if number == 0 {
                    for (step, bytes) in (0..).zip([20, 60, 100, 150, 60, 100, 150, 20]) {
                        client.set(&[b'a' + step as u8 % 4], load::unique_value(0, step, bytes)).await?;
                    }
                    cast.control.kill(me);
                }
                cast.wait_for_deaths(&client, 1).await;
                if number == 1 {
                    cast.control.fault(me, Fault::Pause { ns: u64::MAX }, After::Steps(steps));
                    client.cache.engine().repair().await?;
                    settled.set((settled.get().0, settled.get().1, true));
                    return Ok(client);
                }
                client.endpoint().pause(10_000_000).await;
                let before = cells(&weak.upgrade().expect("it runs"));
                for _ in 0..4 {
                    client.cache.engine().repair().await?;
                    client.cache.tend().await?;
                }
                let after = cells(&weak.upgrade().expect("it runs"));
                settled.set((before, after, settled.get().2));
                // The stopped one goes on, or does not stop any more.
                cast.control.calm();
                Ok(client)
            }
        })
        .unwrap_or_else(|error| panic!("stopped after {steps} steps: {error}"));
        let (before, after, _) = settled.get();
        assert!(after <= 1, "stopped after {steps} steps: {after} of {before} cells are not settled");
        stopped_before_the_end += u64::from(before > 1);
        case.verify(&sim).unwrap_or_else(|error| panic!("stopped after {steps} steps: {error}"));
    }
    assert!(stopped_before_the_end > 0, "no repair was stopped before its end");
}
