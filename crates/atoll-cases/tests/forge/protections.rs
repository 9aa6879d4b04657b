//! Every order of an operation that protects a chunk and a client that wants to reuse it: the table
//! in `atoll_pool::registry::protection`, and each wrong order that it names.

use atoll_fabric::{Batch, Endpoint, Kind};
use atoll_pool::registry::protection::Hole;
use atoll_pool::registry::{Protection, protected_among};
use atoll_pool::{ChunkId, EngineArea, Member, Pool, PoolSettings};
use atoll_sim::sim::region;
use atoll_sim::{Distance, ExploreOptions, Explored, Relaxations, Sim, SimOptions, explore};
use std::cell::Cell;
use std::rc::Rc;

const CAPACITY_BYTES: u64 = 1 << 20;
/// The chunk that is to be reused, and one that the operation's client protects, too.
const CHUNK: ChunkId = ChunkId(1);
const OTHER: ChunkId = ChunkId(2);
/// What the pointing word holds until it is unlinked.
const POINTS: u64 = 1;

/// An order of steps.
#[derive(Clone, Copy, Debug, Default)]
struct Order {
    /// The operation protects another chunk first.
    is_further: bool,
    /// The reuser looks before it unlinks.
    looks_early: bool,
    /// A wrong order of the pool.
    hole: Option<Hole>,
}

/// Plays both clients. An error if the operation relies on a chunk that was reused.
fn play(sim: &Sim, order: Order) -> Result<(), String> {
    let settings = PoolSettings { clients_max: 2, ..PoolSettings::for_capacity(CAPACITY_BYTES) };
    let area = EngineArea { home_bytes: 64, share_bytes: 0 };
    let makers = [sim.endpoint("operation"), sim.endpoint("reuser")];
    let (pool, [member, me]) = sim
        .block_on(async move {
            let pool = Pool::format(&makers[0], settings, area).await.unwrap();
            let members = [Member::join(&makers[0], &pool).await, Member::join(&makers[1], &pool).await];
            let mut batch = Batch::new();
            batch.write_word(pool.layout.engine(), POINTS);
            makers[0].post(&mut batch).await.unwrap();
            (pool, members.map(Result::unwrap))
        })
        .map_err(|error| error.to_string())?;
    order.hole.into_iter().for_each(|hole| [&member, &me].into_iter().for_each(|client| client.open_hole(hole)));
    let (relies, reused) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    {
        let (endpoint, pool, relies) = (sim.endpoint("operation's"), pool.clone(), relies.clone());
        sim.spawn("operation", async move {
            // A far client has two first ones.
            let mut protections: [Protection; 3] = Default::default();
            let chunks = [OTHER, OTHER, CHUNK];
            let skipped = if order.is_further { 0 } else { protections.len() - 1 };
            for (protection, chunk) in protections.iter_mut().zip(chunks).skip(skipped) {
                member.prepare(&endpoint, protection).await.unwrap();
                let mut batch = Batch::new();
                member.protect(&mut batch, protection, chunk);
                let pointing = batch.read_word(pool.layout.engine());
                endpoint.post(&mut batch).await.unwrap();
                relies.set(chunk == CHUNK && batch.word(pointing) == POINTS);
            }
        });
    }
    {
        let (endpoint, reused) = (sim.endpoint("reuser's"), reused.clone());
        sim.spawn("reuser", async move {
            let is_free = async || protected_among(&endpoint, &pool, (&me, 2), &[CHUNK]).await.unwrap().0.is_empty();
            let was_free = order.looks_early && is_free().await;
            let mut batch = Batch::new();
            batch.compare_and_swap(pool.layout.engine(), POINTS, 0);
            endpoint.post(&mut batch).await.unwrap();
            reused.set(if order.looks_early { was_free } else { is_free().await });
        });
    }
    sim.run().map_err(|error| error.to_string())?;
    if relies.get() && reused.get() { Err("a chunk was reused that an operation relies on".to_owned()) } else { Ok(()) }
}

fn explored(distance: Distance, order: Order) -> Explored {
    let nodes = vec![vec![region(CAPACITY_BYTES, Kind::Host)]];
    let relaxations = Relaxations { reorder: true, ..Relaxations::none() };
    let options = ExploreOptions::new(CAPACITY_BYTES);
    let sim = SimOptions { distance, relaxations, nodes, ..options.sim.clone() };
    let explored = explore(&ExploreOptions { sim, ..options }, |sim| play(sim, order));
    println!("{distance:?}, {order:?}: {explored}");
    explored
}

#[test]
fn no_order_of_verbs_lets_a_chunk_be_reused_that_an_operation_relies_on() {
    for distance in [Distance::Near, Distance::Far] {
        for is_further in [false, true] {
            let explored = explored(distance, Order { is_further, ..Order::default() });
            assert!(explored.failure.is_none() && explored.exhausted, "{explored}");
        }
    }
}

#[test]
fn each_wrong_order_lets_a_chunk_be_reused_that_an_operation_relies_on() {
    let far = Order { is_further: true, ..Order::default() };
    let wrong = [
        (Distance::Near, Order { hole: Some(Hole::FirstsAlone), ..Order::default() }),
        (Distance::Far, Order { hole: Some(Hole::FirstsAlone), ..far }),
        (Distance::Near, Order { hole: Some(Hole::LateNotice), ..Order::default() }),
        (Distance::Far, Order { hole: Some(Hole::LateNotice), ..far }),
        (Distance::Near, Order { looks_early: true, ..Order::default() }),
        (Distance::Far, Order { looks_early: true, ..Order::default() }),
        (Distance::Far, Order { looks_early: true, ..far }),
    ];
    for (distance, order) in wrong {
        assert!(explored(distance, order).failure.is_some(), "{distance:?}, {order:?}: nothing went wrong");
    }
}
