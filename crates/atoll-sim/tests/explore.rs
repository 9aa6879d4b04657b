//! Exploration runs what differs, all of it and once; finds what seeds may miss; and replays it.

use atoll_fabric::{Address, Batch, Buffer, Endpoint, Identity, VerbError};
use atoll_sim::history::{Call, Condition, Evictions, History, Outcome};
use atoll_sim::{ExploreOptions, Explored, ExploredFault, Relaxations, Sim, SimEndpoint, SimOptions, explore, replay};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

fn word(index: u64) -> Address {
    Address::new(0, 0, 8 * index)
}

async fn read(endpoint: &SimEndpoint, at: Address) -> Result<u64, VerbError> {
    let mut batch = Batch::new();
    let ticket = batch.read_word(at);
    endpoint.post(&mut batch).await?;
    Ok(batch.word(ticket))
}

async fn write(endpoint: &SimEndpoint, at: Address, value: u64) -> Result<(), VerbError> {
    let mut batch = Batch::new();
    batch.write_word(at, value);
    endpoint.post(&mut batch).await
}

async fn add(endpoint: &SimEndpoint, at: Address) -> Result<u64, VerbError> {
    let mut batch = Batch::new();
    let ticket = batch.fetch_and_add(at, 1);
    endpoint.post(&mut batch).await?;
    Ok(batch.word(ticket))
}

async fn swap(endpoint: &SimEndpoint, at: Address, expected: u64, desired: u64) -> Result<bool, VerbError> {
    let mut batch = Batch::new();
    let ticket = batch.compare_and_swap(at, expected, desired);
    endpoint.post(&mut batch).await?;
    Ok(batch.swapped(ticket))
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Read(u64),
    Write(u64),
    Add(u64),
}

/// Clients that do one verb after the other.
fn programs(sim: &Sim, programs: &[&[Op]]) {
    for (number, program) in programs.iter().enumerate() {
        let (endpoint, program) = (sim.endpoint("plays"), program.to_vec());
        sim.spawn(&format!("client {number}"), async move {
            for op in program {
                let done = match op {
                    Op::Read(at) => read(&endpoint, word(at)).await.map(drop),
                    Op::Write(at) => write(&endpoint, word(at), number as u64 + 1).await,
                    Op::Add(at) => add(&endpoint, word(at)).await.map(drop),
                };
                done.unwrap();
            }
        });
    }
}

fn runs(clients: &[&[Op]]) -> Explored {
    let explored = explore(&ExploreOptions::new(64), |sim| {
        programs(sim, clients);
        sim.run().map(drop).map_err(|error| error.to_string())
    });
    assert!(explored.exhausted && explored.failure.is_none(), "{explored}");
    explored
}

#[test]
fn there_are_as_many_runs_as_orders_of_conflicting_steps() {
    use Op::{Add, Read, Write};
    // All steps conflict: (2 + 2)! / (2! 2!), 3!, 6! / (2! 2! 2!).
    assert_eq!(runs(&[&[Add(0), Add(0)], &[Add(0), Add(0)]]).runs, 6);
    assert_eq!(runs(&[&[Add(0)], &[Add(0)], &[Add(0)]]).runs, 6);
    assert_eq!(runs(&[&[Add(0), Add(0)], &[Add(0), Add(0)], &[Add(0), Add(0)]]).runs, 90);
    // None does.
    assert_eq!(runs(&[&[Add(0), Add(0)], &[Add(1), Add(1)], &[Add(2), Add(2)]]).runs, 1);
    assert_eq!(runs(&[&[Read(0), Read(1)], &[Read(1), Read(0)], &[Read(0), Read(0)]]).runs, 1);
    // Each reader comes before or after the writer, whatever the others do.
    assert_eq!(runs(&[&[Write(0)], &[Read(0)], &[Read(0)], &[Read(0)]]).runs, 8);
    // The last word of each client conflicts with no other; the first words are in two orders.
    assert_eq!(runs(&[&[Write(0), Write(1)], &[Write(0), Write(2)]]).runs, 2);
    // The ring of Abdulla et al.: who reads its neighbour's word sees it written or not, but not
    // all of them unwritten in a ring of writes first.
    assert_eq!(runs(&[&[Write(0), Read(1)], &[Write(1), Read(0)]]).runs, 3);
}

#[test]
fn without_reduction_every_order_of_steps_is_run_up_to_a_bound_on_preemptions() {
    let explored = |max: Option<u32>| {
        let options = ExploreOptions { preemptions_max: max, ..ExploreOptions::new(64) };
        explore(&options, |sim| {
            programs(sim, &[&[Op::Add(0)], &[Op::Add(1)]]);
            sim.run().map(drop).map_err(|error| error.to_string())
        })
    };
    // Each client: a poll, an effect, a poll. All orders of 3 and 3 steps; none with a preemption;
    // with one at either of two places.
    assert_eq!(explored(Some(u32::MAX)).runs, 20);
    assert_eq!(explored(Some(0)).runs, 2);
    assert_eq!(explored(Some(1)).runs, 6);
    assert_eq!(explored(None).runs, 1);
}

#[test]
fn reduction_loses_no_outcome() {
    for (fault, seeds) in [(ExploredFault::None, 60), (ExploredFault::Kill, 24), (ExploredFault::Pause, 24)] {
        let (mut every, mut reduced) = (0, 0);
        for seed in 0..seeds {
            let (all, some) = outcomes_agree(fault, seed);
            (every, reduced) = (every + all, reduced + some);
        }
        println!("{fault:?}: {every} runs, {reduced} with reduction");
        assert!(reduced * 5 < every);
    }
}

/// Random little programs: what the words and the reads come to, with every order and with
/// reduction; the runs of each.
fn outcomes_agree(fault: ExploredFault, seed: u64) -> (u64, u64) {
    {
        let mut random = atoll_sim::Random::new(seed);
        let clients: Vec<Vec<Op>> = (0..2)
            .map(|_| {
                let verbs = 1 + random.below(match (fault, seed % 4 == 3) {
                    (ExploredFault::None, false) => 3,
                    (ExploredFault::None, true) | (_, false) => 2,
                    (_, true) => 1,
                });
                let op = |random: &mut atoll_sim::Random| {
                    let at = random.below(2);
                    random.pick(&[Op::Read(at), Op::Write(at), Op::Add(at)])
                };
                (0..verbs).map(|_| op(&mut random)).collect()
            })
            .collect();
        let outcomes = |max: Option<u32>| {
            let outcomes = Rc::new(std::cell::RefCell::new(BTreeSet::new()));
            let options = ExploreOptions { fault, preemptions_max: max, ..ExploreOptions::new(64) };
            let explored = explore(&options, |sim| {
                let seen = Rc::new(std::cell::RefCell::new(Vec::new()));
                for (number, program) in clients.iter().enumerate() {
                    let (endpoint, program, seen) = (sim.endpoint("plays"), program.clone(), seen.clone());
                    sim.spawn(&format!("client {number}"), async move {
                        for (step, op) in program.into_iter().enumerate() {
                            if seed % 4 == 3 {
                                // With time, and an unawaited batch.
                                let mut batch = Batch::new();
                                batch.write_word(word(1), 1 + number as u64);
                                endpoint.post_unawaited(&mut batch);
                                endpoint.pause(1 + step as u64).await;
                            }
                            let found = match op {
                                Op::Read(at) => read(&endpoint, word(at)).await,
                                Op::Write(at) => write(&endpoint, word(at), 10 * number as u64 + 10).await.map(|()| 0),
                                Op::Add(at) => add(&endpoint, word(at)).await,
                            };
                            seen.borrow_mut().push((number, step, found.unwrap()));
                        }
                    });
                }
                sim.run().unwrap();
                let mut seen = seen.take();
                seen.sort_unstable();
                outcomes.borrow_mut().insert((seen, sim.peek_word(word(0)), sim.peek_word(word(1))));
                Ok(())
            });
            assert!(explored.exhausted, "{explored}");
            (explored.runs, outcomes.take())
        };
        let ((all, every), (reduced, same)) = (outcomes(Some(u32::MAX)), outcomes(None));
        assert_eq!(every, same, "{fault:?} seed {seed}");
        assert!(reduced <= all, "{reduced} of {all}");
        (all, reduced)
    }
}

/// Two clients that add 1 to a word each, twice: with an atomic, by compare-and-swap, or without
/// either.
fn counted(
    sim: &Sim,
    add_one: fn(&SimEndpoint) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>>,
) -> Result<(), String> {
    for name in ["anna", "bert"] {
        let endpoint = sim.endpoint(name);
        sim.spawn(name, async move {
            for _ in 0..2 {
                add_one(&endpoint).await;
            }
        });
    }
    sim.run().map_err(|error| error.to_string())?;
    let sum = sim.peek_word(word(0));
    if sum == 4 { Ok(()) } else { Err(format!("the sum is {sum}")) }
}

fn by_swap(endpoint: &SimEndpoint) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>> {
    Box::pin(async {
        loop {
            let value = read(endpoint, word(0)).await.unwrap();
            if swap(endpoint, word(0), value, value + 1).await.unwrap() {
                return;
            }
        }
    })
}

fn by_write(endpoint: &SimEndpoint) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>> {
    Box::pin(async {
        let value = read(endpoint, word(0)).await.unwrap();
        write(endpoint, word(0), value + 1).await.unwrap();
    })
}

#[test]
fn a_lost_update_is_found_and_replayed_and_a_sound_counter_is_exhausted() {
    let options = ExploreOptions::new(64);
    let sound = explore(&options, |sim| counted(sim, by_swap));
    assert!(sound.exhausted && sound.failure.is_none() && sound.runs > 6, "{sound}");
    let lost = explore(&options, |sim| counted(sim, by_write));
    let failure = lost.failure.expect("an update is lost by some run");
    let (result, trace) = replay(&options, &failure.decisions, |sim| counted(sim, by_write));
    assert_eq!(result, Err(failure.what));
    assert!(trace.contains("anna: READ 0:0+0x0 is 0x0"), "{trace}");
    assert_eq!(failure.decisions.to_string().parse(), Ok(failure.decisions));
    assert!("1:0.x".parse::<atoll_sim::explore::Decisions>().is_err());
}

/// The toy cache of one key: a slot with the number of an object, an object in two words.
async fn set(endpoint: &SimEndpoint, object: u64, value: u64, publish_first: bool) -> Result<bool, VerbError> {
    let mut batch = Batch::new();
    let old = read(endpoint, word(0)).await?;
    let swap = if publish_first { Some(batch.compare_and_swap(word(0), old, object)) } else { None };
    batch.write_word(word(object), value);
    batch.write_word(word(object + 1), value);
    let swap = swap.unwrap_or_else(|| batch.compare_and_swap(word(0), old, object));
    endpoint.post(&mut batch).await?;
    Ok(batch.swapped(swap))
}

async fn get(endpoint: &SimEndpoint) -> Result<Option<u64>, VerbError> {
    let object = read(endpoint, word(0)).await?;
    if object == 0 {
        return Ok(None);
    }
    let mut batch = Batch::new();
    let (one, two) = (batch.read_word(word(object)), batch.read_word(word(object + 1)));
    endpoint.post(&mut batch).await?;
    let (one, two) = (batch.word(one), batch.word(two));
    Ok(Some(if one == two { one } else { u64::MAX }))
}

/// Two writers of the toy cache and a reader, with a history.
fn toy(sim: &Sim, publish_first: bool) -> Result<(), String> {
    let history = Rc::new(History::new());
    for client in 0..2_u64 {
        let (endpoint, history, control) = (sim.endpoint("writer"), history.clone(), sim.control());
        sim.spawn(&format!("writer {client}"), async move {
            for round in 0..1 {
                control.turn().await;
                let value = 10 * (client + 1) + round;
                let call = Call::set_if(value.to_le_bytes(), Condition::IfAbsent);
                let operation = history.begin(client as u32, b"k", call);
                if read(&endpoint, word(0)).await.unwrap() != 0 {
                    history.end(operation, Outcome::stored(false));
                    continue;
                }
                let object = 2 + 4 * client + 2 * round;
                if set(&endpoint, object, value, publish_first).await.unwrap() {
                    history.end(operation, Outcome::stored(true));
                }
            }
        });
    }
    let (endpoint, reader, control) = (sim.endpoint("reader"), history.clone(), sim.control());
    sim.spawn("reader", async move {
        for _ in 0..2 {
            control.turn().await;
            let operation = reader.begin(9, b"k", Call::Get);
            let value = get(&endpoint).await.unwrap();
            reader.end(operation, Outcome::get(value.map(u64::to_le_bytes).as_ref().map(<[u8; 8]>::as_slice)));
        }
    });
    sim.run().map_err(|error| error.to_string())?;
    history.check_with(Evictions::Anytime).map(drop).map_err(|violation| violation.to_string())
}

#[test]
fn a_toy_cache_that_publishes_first_is_found_out_and_histories_are_explored_with_their_order() {
    let options = ExploreOptions { runs_max: 300_000, ..ExploreOptions::new(512) };
    let sound = explore(&options, |sim| toy(sim, false));
    println!("{sound}");
    assert!(sound.exhausted && sound.failure.is_none(), "{sound}");
    let failure = explore(&options, |sim| toy(sim, true)).failure.expect("a reader sees what is not there yet");
    assert!(failure.what.contains("no order of the operations"), "{}", failure.what);
    assert!(replay(&options, &failure.decisions, |sim| toy(sim, true)).0.is_err());
}

/// A writer whose set ends before, or after, it has taken effect, and a reader.
fn set_then_get(sim: &Sim, is_awaited: bool) -> Result<(), String> {
    let history = Rc::new(History::new());
    let (endpoint, writer, control) = (sim.endpoint("writer"), history.clone(), sim.control());
    sim.spawn("writer", async move {
        control.turn().await;
        let operation = writer.begin(0, b"k", Call::set("v"));
        let mut batch = Batch::new();
        batch.write_word(word(0), 1);
        endpoint.post_unawaited(&mut batch);
        if is_awaited {
            endpoint.flush().await.unwrap();
        }
        writer.end(operation, Outcome::stored(true));
    });
    let (endpoint, reader, control) = (sim.endpoint("reader"), history.clone(), sim.control());
    sim.spawn("reader", async move {
        control.turn().await;
        let operation = reader.begin(1, b"k", Call::Get);
        let found = read(&endpoint, word(0)).await.unwrap();
        reader.end(operation, Outcome::get((found == 1).then_some(b"v".as_slice())));
    });
    sim.run().map_err(|error| error.to_string())?;
    history.check_with(Evictions::Never).map(drop).map_err(|violation| violation.to_string())
}

#[test]
fn the_order_of_returns_and_invocations_is_explored() {
    let options = ExploreOptions::new(64);
    let sound = explore(&options, |sim| set_then_get(sim, true));
    assert!(sound.exhausted && sound.failure.is_none(), "{sound}");
    let early = explore(&options, |sim| set_then_get(sim, false));
    assert!(early.failure.is_some(), "{early}");
}

/// A lock that holds its owner. A client that finds it held for long fences the owner, if it can,
/// and takes over.
async fn locked_add(endpoint: &SimEndpoint, is_fenced: bool) -> Result<(), VerbError> {
    let me = u64::from(endpoint.identity().bits());
    loop {
        if swap(endpoint, word(0), 0, me).await? {
            break;
        }
        endpoint.pause(1000).await;
        let found = read(endpoint, word(0)).await?;
        let may_take = found != 0 && (!is_fenced || endpoint.shut_out(Identity::from_bits(found as u32)).await?);
        if may_take && swap(endpoint, word(0), found, me).await? {
            break;
        }
    }
    let value = read(endpoint, word(1)).await?;
    write(endpoint, word(1), value + 1).await?;
    swap(endpoint, word(0), me, 0).await.map(drop)
}

fn locked(sim: &Sim, is_fenced: bool) -> Result<(), String> {
    let done = Rc::new(Cell::new(0));
    for (name, rounds) in [("anna", 1), ("bert", 2)] {
        let (endpoint, done) = (sim.endpoint(name), done.clone());
        sim.spawn(name, async move {
            for _ in 0..rounds {
                locked_add(&endpoint, is_fenced).await.unwrap();
                done.set(done.get() + 1);
            }
        });
    }
    sim.run().map_err(|error| error.to_string())?;
    let (done, dead) = (done.get(), sim.control().killed().len() as u64);
    let sum = sim.peek_word(word(1));
    if (done..=done + dead).contains(&sum) { Ok(()) } else { Err(format!("{sum} of {done} and {dead} dead")) }
}

#[test]
fn a_death_anywhere_is_explored_and_a_takeover_without_a_fence_is_found_out() {
    for (fault, name) in [(ExploredFault::None, "none"), (ExploredFault::Kill, "kill"), (ExploredFault::Pause, "pause")]
    {
        let options = ExploreOptions { fault, jumps_max: 4, ..ExploreOptions::new(64) };
        let sound = explore(&options, |sim| locked(sim, true));
        println!("fault {name}: {sound}");
        assert!(sound.exhausted && sound.failure.is_none(), "{name}: {sound}");
        // Without a fault every other client has to wait before time passes, so no lock is held for
        // long.
        let broken = explore(&options, |sim| locked(sim, false));
        assert_eq!(broken.failure.is_some(), fault != ExploredFault::None, "{name}: {broken}");
    }
}

#[test]
fn a_killed_clients_batch_takes_effect_up_to_every_point() {
    let seen = Rc::new(std::cell::RefCell::new(BTreeSet::new()));
    let options = ExploreOptions { fault: ExploredFault::Kill, ..ExploreOptions::new(64) };
    let explored = explore(&options, |sim| {
        let endpoint = sim.endpoint("dies");
        sim.spawn("dies", async move {
            let mut batch = Batch::new();
            for index in 0..4 {
                batch.write_word(word(index), 1);
            }
            endpoint.post(&mut batch).await.unwrap();
        });
        sim.run().unwrap();
        seen.borrow_mut().insert([0, 1, 2, 3].map(|index| sim.peek_word(word(index))));
        Ok(())
    });
    assert!(explored.exhausted, "{explored}");
    let beginnings: BTreeSet<_> = (0..=4).map(|count| [0, 1, 2, 3].map(|index| u64::from(index < count))).collect();
    assert_eq!(*seen.borrow(), beginnings);
}

#[test]
fn a_case_with_too_many_runs_says_so() {
    let options = ExploreOptions { runs_max: 10, ..ExploreOptions::new(64) };
    let explored = explore(&options, |sim| {
        programs(sim, &[&[Op::Add(0); 4], &[Op::Add(0); 4]]);
        sim.run().map(drop).map_err(|error| error.to_string())
    });
    assert!(!explored.exhausted && explored.failure.is_none());
    assert!(explored.to_string().contains("NOT exhausted"), "{explored}");
}

/// One batch of an explored client: READs of words, WRITEs of its number, additions.
type Verbs = Vec<Op>;

/// What the words and each client's READs come to in a run.
type Ended = (Vec<u64>, Vec<Vec<u64>>);

/// What the words and the READs come to in any run of clients that post one batch each, with these
/// relaxations; and how many runs there were.
fn outcomes_of_batches(batches: &[Verbs], relaxations: Relaxations, max: Option<u32>) -> (BTreeSet<Ended>, u64) {
    let options = ExploreOptions { preemptions_max: max, ..ExploreOptions::new(64) };
    let options = ExploreOptions { sim: SimOptions { relaxations, ..options.sim.clone() }, ..options };
    let outcomes = RefCell::new(BTreeSet::new());
    let explored = explore(&options, |sim| {
        let seen: Rc<RefCell<Vec<Vec<u64>>>> = Rc::new(RefCell::new(vec![Vec::new(); batches.len()]));
        for (number, verbs) in batches.iter().cloned().enumerate() {
            let (endpoint, seen) = (sim.endpoint("plays"), seen.clone());
            sim.spawn(&format!("client {number}"), async move {
                let mut batch = Batch::new();
                let mut reads = Vec::new();
                for op in &verbs {
                    match op {
                        Op::Read(at) => reads.push(batch.read_word(word(*at))),
                        Op::Write(at) => {
                            batch.write_word(word(*at), number as u64 + 1);
                        }
                        Op::Add(at) => {
                            batch.fetch_and_add(word(*at), 1);
                        }
                    }
                }
                endpoint.post(&mut batch).await.unwrap();
                seen.borrow_mut()[number] = reads.iter().map(|read| batch.word(*read)).collect();
            });
        }
        sim.run().map_err(|error| error.to_string())?;
        let words = (0..3).map(|index| sim.peek_word(word(index))).collect();
        outcomes.borrow_mut().insert((words, seen.take()));
        Ok(())
    });
    assert!(explored.exhausted && explored.failure.is_none(), "{explored}");
    (outcomes.into_inner(), explored.runs)
}

const REORDERED: Relaxations = Relaxations { reorder: true, ..Relaxations::none() };
const TORN: Relaxations = Relaxations { tear: true, ..Relaxations::none() };

#[test]
fn verbs_of_a_batch_are_reordered_as_the_contract_permits_and_no_further() {
    use Op::{Read, Write};
    // The second word is written behind the first. A batch that READs it first may see it without
    // the first all the same.
    let batches = [vec![Write(0), Write(1)], vec![Read(1), Read(0)]];
    let reads = |relaxations| -> BTreeSet<Vec<u64>> {
        let (outcomes, _) = outcomes_of_batches(&batches, relaxations, None);
        outcomes.into_iter().map(|(_, seen)| seen[1].clone()).collect()
    };
    let in_order = BTreeSet::from([vec![0, 0], vec![0, 1], vec![1, 1]]);
    assert_eq!(reads(Relaxations::none()), in_order);
    let mut any = in_order.clone();
    any.insert(vec![1, 0]);
    assert_eq!(reads(REORDERED), any);
    // A WRITE has everything behind it in order.
    let batches = [vec![Write(0), Read(1)], vec![Write(1), Read(0)]];
    let (outcomes, _) = outcomes_of_batches(&batches, REORDERED, None);
    assert!(outcomes.iter().all(|(_, seen)| seen[0] != [0] || seen[1] != [0]), "{outcomes:?}");
}

#[test]
fn a_fenced_verb_is_reordered_with_none_before_it() {
    let options = ExploreOptions::new(64);
    let options = ExploreOptions { sim: SimOptions { relaxations: REORDERED, ..options.sim.clone() }, ..options };
    let explored = explore(&options, |sim| {
        let (writer, reader) = (sim.endpoint("writer"), sim.endpoint("reader"));
        sim.spawn("writer", async move {
            write(&writer, word(0), 1).await.unwrap();
            write(&writer, word(1), 1).await.unwrap();
        });
        let seen = Rc::new(Cell::new((0, 0)));
        let told = seen.clone();
        sim.spawn("reader", async move {
            let mut batch = Batch::new();
            let (second, first) = (batch.read_word(word(1)), batch.read_word(word(0)));
            batch.fence();
            reader.post(&mut batch).await.unwrap();
            told.set((batch.word(second), batch.word(first)));
        });
        sim.run().map_err(|error| error.to_string())?;
        if seen.get() == (1, 0) { Err("the fence did not hold".to_owned()) } else { Ok(()) }
    });
    assert!(explored.exhausted && explored.failure.is_none(), "{explored}");
}

#[test]
fn a_read_is_torn_between_every_two_neighbours() {
    let seen = |relaxations| -> BTreeSet<Vec<u64>> {
        let options = ExploreOptions::new(64);
        let options = ExploreOptions { sim: SimOptions { relaxations, ..options.sim.clone() }, ..options };
        let seen = Rc::new(RefCell::new(BTreeSet::new()));
        let explored = explore(&options, |sim| {
            let (writer, reader, seen) = (sim.endpoint("writer"), sim.endpoint("reader"), seen.clone());
            sim.spawn("writer", async move {
                let mut words = Buffer::new();
                words.resize(24);
                words.words_mut().fill(1);
                let mut batch = Batch::new();
                batch.write(word(0), words);
                writer.post(&mut batch).await.unwrap();
            });
            sim.spawn("reader", async move {
                let mut words = Buffer::new();
                words.resize(24);
                let words = reader.read(word(0), words).await.unwrap();
                seen.borrow_mut().insert(words.words().to_vec());
            });
            sim.run().map(drop).map_err(|error| error.to_string())
        });
        assert!(explored.exhausted && explored.failure.is_none(), "{explored}");
        seen.take()
    };
    assert_eq!(seen(Relaxations::none()), BTreeSet::from([vec![0; 3], vec![1; 3]]));
    assert_eq!(seen(TORN), BTreeSet::from([vec![0; 3], vec![1; 3], vec![1, 0, 1], vec![0, 1, 0]]));
}

#[test]
fn reduction_loses_no_outcome_of_reordered_verbs() {
    let (mut every, mut reduced) = (0, 0);
    for seed in 0..60 {
        let mut random = atoll_sim::Random::new(seed);
        let op = |random: &mut atoll_sim::Random| {
            let at = random.below(3);
            random.pick(&[Op::Read(at), Op::Read(at), Op::Write(at), Op::Add(at)])
        };
        let batches: Vec<Verbs> = (0..2).map(|_| (0..1 + random.below(3)).map(|_| op(&mut random)).collect()).collect();
        let (all, runs) = outcomes_of_batches(&batches, REORDERED, Some(u32::MAX));
        let (some, fewer) = outcomes_of_batches(&batches, REORDERED, None);
        assert_eq!(all, some, "seed {seed}");
        (every, reduced) = (every + runs, reduced + fewer);
    }
    println!("{every} runs, {reduced} with reduction");
    assert!(reduced * 3 < every);
}
