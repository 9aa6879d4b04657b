//! Some seed shows every relaxation of the contract. No seed shows one where a fence or the
//! contract forbids it, or once the relaxation is switched off.

use atoll_fabric::{Address, Batch, Buffer, Endpoint, Kind};
use atoll_sim::sim::region;
use atoll_sim::{Relaxations, Sim, SimEndpoint, SimOptions};
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

const SEEDS: u64 = 400;

fn word(index: u64) -> Address {
    Address::new(0, 0, 8 * index)
}

fn simulation(seed: u64, relaxations: Relaxations) -> Sim {
    let nodes = vec![vec![region(4096, Kind::Host), region(4096, Kind::Device)], vec![region(4096, Kind::Host)]];
    Sim::new(SimOptions { relaxations, ..SimOptions::with_nodes(seed, nodes) })
}

/// Runs one client, which decides.
fn one<F: Future<Output = bool> + 'static>(sim: &Sim, first: impl FnOnce(SimEndpoint) -> F) -> Rc<Cell<bool>> {
    let seen = Rc::new(Cell::new(false));
    let (first, cell) = (first(sim.endpoint("first")), seen.clone());
    sim.spawn("first", async move { cell.set(first.await) });
    seen
}

/// Runs a client, which decides, beside one that only WRITEs words, in one batch.
fn beside_writes<F: Future<Output = bool> + 'static>(
    sim: &Sim,
    first: impl FnOnce(SimEndpoint) -> F,
    writes: impl IntoIterator<Item = (Address, u64)> + 'static,
) -> Rc<Cell<bool>> {
    let seen = one(sim, first);
    let endpoint = sim.endpoint("other");
    sim.spawn("other", async move { write(&endpoint, writes).await });
    seen
}

/// In how many runs a program of one or two clients saw a relaxation.
fn taken(program: impl Fn(&Sim) -> Rc<Cell<bool>>, relaxations: Relaxations) -> u64 {
    let runs = (0..SEEDS).filter(|seed| {
        let sim = simulation(*seed, relaxations);
        let seen = program(&sim);
        sim.run().unwrap();
        seen.get()
    });
    runs.count() as u64
}

#[track_caller]
fn is_taken(program: impl Fn(&Sim) -> Rc<Cell<bool>> + Copy, switched_off: Relaxations) {
    assert!(taken(program, Relaxations::all()) > 0, "no seed of {SEEDS} takes the relaxation");
    assert_eq!(taken(program, Relaxations::none()), 0, "taken without relaxations");
    assert_eq!(taken(program, switched_off), 0, "taken though its switch is off");
}

#[track_caller]
fn is_never_taken(program: impl Fn(&Sim) -> Rc<Cell<bool>>) {
    assert_eq!(taken(program, Relaxations::all()), 0);
}

const NO_REORDER: Relaxations = Relaxations { reorder: false, ..Relaxations::all() };
const NO_TEAR: Relaxations = Relaxations { tear: false, ..Relaxations::all() };

async fn post(endpoint: &SimEndpoint, batch: &mut Batch) {
    endpoint.post(batch).await.unwrap();
}

/// WRITEs words in one batch.
async fn write(endpoint: &SimEndpoint, words: impl IntoIterator<Item = (Address, u64)>) {
    let mut batch = Batch::new();
    for (at, value) in words {
        batch.write_word(at, value);
    }
    post(endpoint, &mut batch).await;
}

/// READs two words in one batch, the second behind a fence or not.
async fn read_two(endpoint: &SimEndpoint, at: [Address; 2], fenced: bool) -> [u64; 2] {
    let mut batch = Batch::new();
    let tickets = at.map(|at| batch.read_word(at));
    if fenced {
        batch.fence();
    }
    post(endpoint, &mut batch).await;
    tickets.map(|ticket| batch.word(ticket))
}

async fn read(endpoint: &SimEndpoint, at: Address) -> u64 {
    let mut batch = Batch::new();
    let ticket = batch.read_word(at);
    post(endpoint, &mut batch).await;
    batch.word(ticket)
}

/// Posts `first` and `second` to one word, the second fenced or not, and asks `is_reordered` for
/// the words found and left.
fn pair(
    sim: &Sim,
    fenced: bool,
    first: fn(&mut Batch) -> atoll_fabric::Ticket,
    second: fn(&mut Batch) -> atoll_fabric::Ticket,
    is_reordered: fn(&Batch, u64) -> bool,
) -> Rc<Cell<bool>> {
    one(sim, async move |endpoint: SimEndpoint| {
        let mut batch = Batch::new();
        first(&mut batch);
        second(&mut batch);
        if fenced {
            batch.fence();
        }
        post(&endpoint, &mut batch).await;
        is_reordered(&batch, read(&endpoint, word(0)).await)
    })
}

fn found(batch: &Batch, index: usize) -> u64 {
    use atoll_fabric::batch::Operation;
    match batch.verbs()[index].operation {
        Operation::ReadWord { value } => value,
        Operation::CompareAndSwap { found, .. } | Operation::FetchAndAdd { found, .. } => found,
        _ => panic!("no word"),
    }
}

fn read_write(sim: &Sim, fenced: bool) -> Rc<Cell<bool>> {
    pair(sim, fenced, |b| b.read_word(word(0)), |b| b.write_word(word(0), 1), |batch, _| found(batch, 0) == 1)
}

fn read_atomic(sim: &Sim, fenced: bool) -> Rc<Cell<bool>> {
    pair(sim, fenced, |b| b.read_word(word(0)), |b| b.fetch_and_add(word(0), 1), |batch, _| found(batch, 0) == 1)
}

fn atomic_write(sim: &Sim, fenced: bool) -> Rc<Cell<bool>> {
    pair(sim, fenced, |b| b.fetch_and_add(word(0), 10), |b| b.write_word(word(0), 1), |_, left| left == 11)
}

fn atomic_atomic(sim: &Sim, fenced: bool) -> Rc<Cell<bool>> {
    let second = |b: &mut Batch| b.compare_and_swap(word(0), 0, 2);
    pair(sim, fenced, |b| b.compare_and_swap(word(0), 0, 1), second, |_, left| left == 2)
}

#[test]
fn verbs_of_a_batch_are_reordered_where_the_contract_permits_and_never_across_a_fence() {
    is_taken(|sim| read_write(sim, false), NO_REORDER);
    is_never_taken(|sim| read_write(sim, true));
    is_taken(|sim| read_atomic(sim, false), NO_REORDER);
    is_never_taken(|sim| read_atomic(sim, true));
    is_taken(|sim| atomic_write(sim, false), NO_REORDER);
    is_never_taken(|sim| atomic_write(sim, true));
    is_taken(|sim| atomic_atomic(sim, false), NO_REORDER);
    is_never_taken(|sim| atomic_atomic(sim, true));
}

#[test]
fn what_follows_a_write_and_a_read_that_follows_an_atomic_stay_in_order() {
    is_never_taken(|sim| {
        pair(sim, false, |b| b.write_word(word(0), 1), |b| b.read_word(word(0)), |batch, _| found(batch, 1) != 1)
    });
    is_never_taken(|sim| {
        pair(sim, false, |b| b.write_word(word(0), 1), |b| b.write_word(word(0), 2), |_, left| left != 2)
    });
    is_never_taken(|sim| {
        pair(sim, false, |b| b.write_word(word(0), 1), |b| b.fetch_and_add(word(0), 1), |_, left| left != 2)
    });
    is_never_taken(|sim| {
        pair(sim, false, |b| b.fetch_and_add(word(0), 1), |b| b.read_word(word(0)), |batch, _| found(batch, 1) != 1)
    });
}

#[test]
fn two_reads_of_a_batch_are_reordered() {
    // The other client writes word 0, then word 1. In order, a client that sees the second sees the
    // first.
    let first = async |endpoint: SimEndpoint| read_two(&endpoint, [word(1), word(0)], false).await == [1, 0];
    is_taken(|sim| beside_writes(sim, first, [(word(0), 1), (word(1), 1)]), NO_REORDER);
}

#[test]
fn verbs_to_different_nodes_are_in_no_order() {
    const ELSEWHERE: Address = Address::new(1, 0, 0);
    let first = async |endpoint: SimEndpoint| {
        let second = read(&endpoint, ELSEWHERE).await;
        second == 1 && read(&endpoint, word(0)).await == 0
    };
    is_taken(|sim| beside_writes(sim, first, [(word(0), 1), (ELSEWHERE, 1)]), NO_REORDER);
}

/// `WORDS` fit a bit each, `WORDS_LONG` do not.
const WORDS: usize = 8;
const WORDS_LONG: usize = 100;

/// The other client writes the first word, then the last one. Whole READs never see only the last.
fn torn_read(sim: &Sim, words: usize) -> Rc<Cell<bool>> {
    let first = async move |endpoint: SimEndpoint| {
        let (mut batch, mut buffer) = (Batch::new(), Buffer::new());
        buffer.resize(8 * words);
        let ticket = batch.read(word(0), buffer);
        post(&endpoint, &mut batch).await;
        let buffer = batch.take(ticket);
        buffer.words()[0] == 0 && buffer.words()[words - 1] == 1
    };
    beside_writes(sim, first, [(word(0), 1), (word(words as u64 - 1), 1)])
}

fn torn_write(sim: &Sim, words: usize) -> Rc<Cell<bool>> {
    let last = word(words as u64 - 1);
    let seen = one(sim, async move |endpoint| read_two(&endpoint, [last, word(0)], true).await == [1, 0]);
    let endpoint = sim.endpoint("other");
    sim.spawn("other", async move {
        let (mut batch, mut buffer) = (Batch::new(), Buffer::new());
        buffer.resize(8 * words);
        buffer.words_mut().fill(1);
        batch.write(word(0), buffer);
        post(&endpoint, &mut batch).await;
    });
    seen
}

#[test]
fn the_words_of_a_read_and_of_a_write_are_torn_apart() {
    is_taken(|sim| torn_read(sim, WORDS), NO_TEAR);
    is_taken(|sim| torn_read(sim, WORDS_LONG), NO_TEAR);
    is_taken(|sim| torn_write(sim, WORDS), NO_TEAR);
    is_taken(|sim| torn_write(sim, WORDS_LONG), NO_TEAR);
}

#[test]
fn verbs_of_other_clients_come_between_the_verbs_of_a_batch() {
    let first = async |endpoint: SimEndpoint| {
        let [first, second] = read_two(&endpoint, [word(0); 2], true).await;
        first != second
    };
    let atomic_batches = Relaxations { interleave: false, ..Relaxations::all() };
    is_taken(|sim| beside_writes(sim, first, [(word(0), 1)]), atomic_batches);
}

#[test]
fn an_unawaited_post_is_overtaken_by_awaited_ones_and_by_later_unawaited_ones_until_a_flush() {
    fn late(sim: &Sim, flush: bool, rounds: u64) -> Rc<Cell<bool>> {
        one(sim, async move |endpoint: SimEndpoint| {
            let mut batch = Batch::new();
            batch.write_word(word(0), 1);
            endpoint.post_unawaited(&mut batch);
            if flush {
                endpoint.flush().await.unwrap();
            }
            let mut seen = 0;
            for _ in 0..rounds {
                seen = read(&endpoint, word(0)).await;
            }
            endpoint.flush().await.unwrap();
            seen == 0
        })
    }
    assert!(taken(|sim| late(sim, false, 1), Relaxations::all()) > 0);
    assert!(taken(|sim| late(sim, false, 100), Relaxations::all()) > 0, "none is held back for long");
    is_never_taken(|sim| late(sim, true, 1));

    let overtaken = async |endpoint: SimEndpoint| {
        let mut batch = Batch::new();
        for value in [1, 2] {
            batch.write_word(word(0), value);
            endpoint.post_unawaited(&mut batch);
        }
        endpoint.flush().await.unwrap();
        read(&endpoint, word(0)).await == 1
    };
    assert!(taken(|sim| one(sim, overtaken), Relaxations::all()) > 0);
}

#[test]
fn a_dropped_post_takes_effect_after_later_ones() {
    let dropping = async |endpoint: SimEndpoint| {
        let mut batch = Batch::new();
        batch.write_word(word(0), 1);
        {
            let mut dropped = pin!(endpoint.post(&mut batch));
            std::future::poll_fn(|context| Poll::Ready(dropped.as_mut().poll(context).is_ready())).await;
        }
        write(&endpoint, [(word(0), 2)]).await;
        endpoint.pause(100_000_000).await;
        read(&endpoint, word(0)).await == 1
    };
    assert!(taken(|sim| one(sim, dropping), Relaxations::all()) > 0);
}

#[test]
fn a_completion_arrives_after_others_have_gone_on() {
    // By the time this client hears of its WRITE, the other has read several times.
    let program = |sim: &Sim| {
        let seen = one(sim, async |endpoint: SimEndpoint| {
            let begun_ns = endpoint.now_ns();
            write(&endpoint, [(word(0), 1)]).await;
            endpoint.now_ns() - begun_ns > 10_000
        });
        let endpoint = sim.endpoint("other");
        sim.spawn("other", async move {
            for _ in 0..20 {
                read(&endpoint, word(0)).await;
            }
        });
        seen
    };
    let only = Relaxations { interleave: true, late_completion: true, ..Relaxations::none() };
    assert!(taken(program, only) > 0);
    assert_eq!(taken(program, Relaxations::none()), 0);
}

#[test]
fn wall_clocks_differ_and_jump_within_their_bound_and_monotone_clocks_have_origins_of_their_own() {
    let sim = simulation(3, Relaxations { wall_clock_skew_ms_max: 20, ..Relaxations::all() });
    let endpoints: Vec<SimEndpoint> = (0..8).map(|index| sim.endpoint(&index.to_string())).collect();
    let mut differ = false;
    for _ in 0..1000 {
        let times: Vec<u64> = endpoints.iter().map(Endpoint::unix_ms).collect();
        differ |= times.iter().any(|ms| *ms != times[0]);
        assert!(times.iter().all(|ms| ms.abs_diff(1_700_000_000_000) <= 20), "{times:?}");
    }
    assert!(differ && endpoints[0].now_ns() != endpoints[1].now_ns());
    assert_eq!(simulation(3, Relaxations::none()).endpoint("right").unix_ms(), 1_700_000_000_000);
}

#[test]
fn some_endpoints_of_some_runs_have_no_agent_clock_and_all_that_have_one_read_the_same() {
    let clocks = |seed, relaxations| -> Vec<Option<u64>> {
        let sim = simulation(seed, relaxations);
        (0..8).map(|index| sim.endpoint(&index.to_string()).agent_ms()).collect()
    };
    let with = |seed| clocks(seed, Relaxations::all()).iter().flatten().count();
    let counts: Vec<usize> = (0..40).map(with).collect();
    assert!(
        counts.contains(&0) && counts.contains(&8) && counts.iter().any(|count| (1..8).contains(count)),
        "{counts:?}"
    );
    let all = clocks(3, Relaxations { absent_agent_clocks: false, ..Relaxations::all() });
    assert!(all.iter().all(|ms| ms.is_some() && *ms == all[0]), "{all:?}");
    let sim = simulation(3, Relaxations::none());
    let endpoint = sim.endpoint("client");
    sim.control().restart_agent();
    assert_eq!(endpoint.agent_ms(), Some(0));
}

#[test]
fn regions_have_attributes_and_bytes_of_their_own() {
    let sim = simulation(1, Relaxations::all());
    let endpoint = sim.endpoint("client");
    assert_eq!(endpoint.attributes(0, 1).map(|attributes| attributes.kind), Some(Kind::Device));
    assert_eq!((endpoint.attributes(1, 1), endpoint.attributes(2, 0)), (None, None));
    sim.poke_word(Address::new(0, 1, 8), 7);
    let at = [Address::new(0, 1, 8), Address::new(0, 0, 8), Address::new(1, 0, 8)];
    let words = sim.block_on(async move {
        let mut batch = Batch::new();
        let tickets = at.map(|at| batch.fetch_and_add(at, 1));
        post(&endpoint, &mut batch).await;
        tickets.map(|ticket| batch.word(ticket))
    });
    assert_eq!(words, Ok([7, 0, 0]));
    assert_eq!(at.map(|at| sim.peek_word(at)), [8, 1, 1]);
}
