//! What an application may do with objects.

use crate::case::{DIRECTORY, NearCase};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, VerbError};
use atoll_near::mode::{Mode, ModeWord};
use atoll_near::{
    Directory, DirectoryOptions, Hole, Manager, Near, NearError, NodeOptions, Object, Promise, Protocol, Switch,
};
use atoll_sim::sim::region;
use atoll_sim::{Sim, SimEndpoint, SimOptions};

const TABLE: Address = Address::new(0, 0, 6400);
const MEMORY: u64 = 1 << 16;

/// Runs a script with two compute nodes over one memory node.
fn script<T: 'static>(
    options: DirectoryOptions,
    play: impl AsyncFnOnce(Near<SimEndpoint>, Near<SimEndpoint>) -> T + 'static,
) -> T {
    let sim = Sim::new(SimOptions::with_nodes(1, vec![vec![region(MEMORY, atoll_fabric::Kind::Host)]]));
    let (first, second) = (sim.endpoint("first"), sim.endpoint("second"));
    let node = NodeOptions { bytes: 1 << 14, segment_bytes: 1024 };
    let played = sim.block_on(async move {
        let directory = Directory::create(&first, DIRECTORY, &[TABLE], options).await.unwrap();
        assert_eq!(Directory::open(&second, DIRECTORY).await.unwrap(), directory, "it is read as it was written");
        let first = Near::join(first, directory.clone(), node).await.unwrap();
        let second = Near::join(second, directory, node).await.unwrap();
        play(first, second).await
    });
    played.unwrap()
}

/// The same beside a central manager.
fn managed_script<T: 'static>(
    play: impl AsyncFnOnce(Near<SimEndpoint>, Near<SimEndpoint>) -> T + 'static,
) -> (T, atoll_near::Counts) {
    let sim = Sim::new(SimOptions::with_nodes(1, vec![vec![region(MEMORY, atoll_fabric::Kind::Host)]]));
    let (first, second, manager) = (sim.endpoint("first"), sim.endpoint("second"), sim.endpoint("manager"));
    let options = DirectoryOptions { protocol: Protocol::CmCache, ..stripes(16) };
    let prepared = sim.block_on(async move {
        let directory = Directory::create(&first, DIRECTORY, &[TABLE], options).await.unwrap();
        let node = NodeOptions { bytes: 1 << 16, segment_bytes: 1 << 13 };
        let first = Near::join(first, directory.clone(), node).await.unwrap();
        let unanswered = first.read(&object(0, 8), Buffer::new()).await;
        assert!(matches!(unanswered, Err(NearError::NoManager)), "no manager is there yet");
        let manager = Manager::start(manager, directory.clone()).await.unwrap();
        let second = Near::join(second, directory, node).await.unwrap();
        (first, second, manager)
    });
    let (first, second, manager) = prepared.unwrap();
    let present = std::rc::Rc::new(());
    let goes_on = std::rc::Rc::downgrade(&present);
    let counts = std::rc::Rc::new(std::cell::Cell::default());
    let counted = counts.clone();
    sim.spawn_spared("manager", async move {
        manager.serve(|| goes_on.strong_count() > 0).await.unwrap();
        counted.set(manager.counts());
    });
    let played = sim.block_on(async move {
        let played = play(first, second).await;
        drop(present);
        played
    });
    (played.unwrap(), counts.get())
}

fn stripes(stripes: u32) -> DirectoryOptions {
    DirectoryOptions { stripes, cached_at_first: false, ..DirectoryOptions::default() }
}

fn object(number: u64, bytes: u32) -> Object {
    Object::new(Address::new(0, 0, 8192 + 256 * number), bytes)
}

fn words(words: &[u64]) -> Buffer {
    let mut buffer = Buffer::sized(8 * words.len());
    buffer.words_mut().copy_from_slice(words);
    buffer
}

/// Switches on, and reads until the node has a copy.
async fn cached(near: &Near<SimEndpoint>, object: &Object) {
    assert!(near.switch(object, Switch::On).await.unwrap());
    near.read(object, Buffer::new()).await.unwrap();
    near.read(object, Buffer::new()).await.unwrap();
    let hits = near.counts().hits;
    near.read(object, Buffer::new()).await.unwrap();
    assert_eq!(near.counts().hits, hits + 1, "it has a copy");
}

async fn read(near: &Near<SimEndpoint>, object: &Object) -> Vec<u64> {
    near.read(object, Buffer::new()).await.unwrap().words().to_vec()
}

#[test]
fn a_write_of_one_node_is_read_by_another_that_had_a_copy() {
    script(stripes(16), async |first, second| {
        let object = object(0, 24);
        cached(&second, &object).await;
        first.write(&object, words(&[1, 2, 3])).await.unwrap();
        assert_eq!(read(&second, &object).await, [1, 2, 3]);
        assert_eq!(first.counts().invalidations_sent, 1);
    });
}

#[test]
fn what_is_read_often_is_cached_by_itself_and_what_is_written_often_is_not() {
    script(stripes(64), async |first, second| {
        let (popular, changing) = (object(0, 8), object(1, 8));
        for round in 0..400 {
            read(&first, &popular).await;
            second.write(&changing, words(&[round])).await.unwrap();
            read(&first, &changing).await;
            first.write(&changing, words(&[round])).await.unwrap();
        }
        let counts = first.counts();
        assert!(counts.hits > 350, "{counts:?}");
        assert!(counts.bypasses > 350 && counts.writes_invalidating < 20, "{counts:?}");
    });
}

#[test]
fn an_object_of_which_nothing_is_known_is_cached_at_its_first_read() {
    script(DirectoryOptions { cached_at_first: true, ..stripes(16) }, async |first, second| {
        let object = object(0, 8);
        first.write(&object, words(&[3])).await.unwrap();
        assert_eq!((read(&second, &object).await, read(&second, &object).await), (vec![3], vec![3]));
        assert_eq!((second.counts().misses, second.counts().hits), (1, 1));
        first.write(&object, words(&[4])).await.unwrap();
        assert_eq!(read(&second, &object).await, [4]);
        assert!(second.switch(&object, Switch::Off).await.unwrap());
        first.write(&object, words(&[5])).await.unwrap();
        assert_eq!((read(&second, &object).await, read(&first, &object).await), (vec![5], vec![5]));
    });
}

#[test]
fn parts_of_an_object_are_read_from_its_copy_and_a_written_part_ends_the_copy() {
    script(stripes(16), async |first, second| {
        let object = object(0, 64);
        first.write(&object, words(&[0, 1, 2, 3, 4, 5, 6, 7])).await.unwrap();
        cached(&second, &object).await;
        let hits = second.counts().hits;
        let part = second.read_part(&object, 16..32, Buffer::new()).await.unwrap();
        assert_eq!((part.words(), second.counts().hits), (&[2, 3][..], hits + 1));
        first.write_part(&object, 24, words(&[9])).await.unwrap();
        let part = second.read_part(&object, 16..32, Buffer::new()).await.unwrap();
        assert_eq!(part.words(), [2, 9]);
    });
}

#[test]
fn an_uncached_sub_range_is_read_from_memory_and_its_writes_invalidate_nothing() {
    script(stripes(16), async |first, second| {
        let object = object(0, 32).without(8..16);
        first.write(&object, words(&[1, 2, 3, 4])).await.unwrap();
        cached(&second, &object).await;
        let (hits, sent) = (second.counts().hits, first.counts().invalidations_sent);
        first.write_part(&object, 8, words(&[7])).await.unwrap();
        assert_eq!(first.compare_and_swap(&object, 8, 7, 8).await.unwrap(), Ok(()));
        assert_eq!(read(&second, &object).await, [1, 8, 3, 4]);
        assert_eq!((second.counts().hits, first.counts().invalidations_sent), (hits + 1, sent));
    });
}

#[test]
fn atomics_switch_caching_off_for_good_and_all_nodes_see_their_results() {
    script(stripes(16), async |first, second| {
        let object = object(0, 16);
        cached(&second, &object).await;
        assert_eq!(first.fetch_and_add(&object, 8, 5).await.unwrap(), 0);
        assert_eq!(read(&second, &object).await, [0, 5]);
        assert!(!second.switch(&object, Switch::On).await.unwrap(), "it stays off");
        assert_eq!(second.compare_and_swap(&object, 8, 4, 9).await.unwrap(), Err(5));
        assert_eq!(second.compare_and_swap(&object, 8, 5, 9).await.unwrap(), Ok(()));
        assert_eq!(read(&first, &object).await, [0, 9]);
    });
}

#[test]
fn many_objects_are_read_in_few_round_trips() {
    script(stripes(64), async |first, second| {
        let objects: Vec<Object> = (0..40).map(|number| object(number, 16)).collect();
        for (number, object) in objects.iter().enumerate() {
            first.write(object, words(&[number as u64, 7])).await.unwrap();
        }
        for _ in 0..3 {
            let read = second.read_many(&objects, objects.iter().map(|_| Buffer::new()).collect()).await.unwrap();
            assert!(read.iter().enumerate().all(|(number, buffer)| buffer.words() == [number as u64, 7]));
        }
    });
}

#[test]
fn objects_that_are_too_large_for_a_segment_are_read_without_a_copy() {
    script(stripes(16), async |first, second| {
        let large = Object::new(Address::new(0, 0, 1 << 15), 2048);
        second.switch(&large, Switch::On).await.unwrap();
        first.write(&large, words(&vec![3; 256])).await.unwrap();
        for _ in 0..3 {
            assert_eq!(read(&second, &large).await, vec![3; 256]);
        }
        assert_eq!(second.counts().copies, 0);
    });
}

#[test]
fn the_near_cache_never_takes_more_than_its_segments() {
    script(stripes(64), async |first, _| {
        for round in 0..3 {
            for number in 0..200 {
                let object = object(number % 100, 200);
                if round == 0 {
                    first.switch(&object, Switch::On).await.unwrap();
                }
                read(&first, &object).await;
            }
        }
        let counts = first.counts();
        assert!(counts.copies > 200 && counts.segments_evicted > 20, "{counts:?}");
    });
}

#[test]
fn a_node_that_left_or_died_is_told_nothing_more() {
    script(stripes(16), async |first, second| {
        let object = object(0, 8);
        cached(&second, &object).await;
        second.leave().await.unwrap();
        first.write(&object, words(&[1])).await.unwrap();
        let sent = first.counts().invalidations_sent;
        first.write(&object, words(&[2])).await.unwrap();
        first.write(&object, words(&[3])).await.unwrap();
        assert!(first.counts().invalidations_sent <= sent + 1, "the first look finds that it has left");
    });
}

#[test]
fn a_transition_of_a_dead_client_is_ended_by_another() {
    let hits = |hole| {
        script(stripes(1), async move |first, mut second| {
            second.open_hole(hole);
            let object = object(0, 8);
            let transition = ModeWord::from_bits(0).with_mode(Mode::Transition);
            let mut batch = Batch::new();
            batch.write_word(TABLE.add(64), transition.bits());
            first.endpoint().post(&mut batch).await.unwrap();
            // Reads and writes go on; the first decision of a reader ends the transition.
            for round in 0..60 {
                if round == 3 {
                    first.write(&object, words(&[7])).await.unwrap();
                }
                read(&second, &object).await;
                second.endpoint().pause(100_000).await;
            }
            assert_eq!(read(&second, &object).await, [7]);
            second.counts().hits
        })
    };
    let (helped, left) = (hits(None), hits(Some(Hole::HelpedTransition)));
    assert!(helped > 10 && left == 0, "{helped} hits, {left} where no client ends it");
}

#[test]
fn bad_options_and_foreign_words_are_refused() {
    let sim = Sim::new(SimOptions::with_nodes(1, vec![vec![region(MEMORY, atoll_fabric::Kind::Host)]]));
    let endpoint = sim.endpoint("client");
    let nodes: Vec<SimEndpoint> = (0..4).map(|_| sim.endpoint("node")).collect();
    let played = sim.block_on(async move {
        let create = async |options| Directory::create(&endpoint, DIRECTORY, &[TABLE], options).await;
        assert!(matches!(Directory::open(&endpoint, DIRECTORY).await, Err(NearError::NoDirectory { .. })));
        let error = create(stripes(3)).await.unwrap_err().to_string();
        assert!(error.contains("3: choose a power of two"), "{error}");
        let promise = Promise::Linearizable;
        let nocc = DirectoryOptions { promise, protocol: atoll_near::Protocol::NoCc, ..stripes(4) };
        assert!(matches!(create(nocc).await, Err(NearError::Option { .. })));
        let directory = create(stripes(4)).await.unwrap();
        let refused = [(1 << 14, 100), (1 << 14, 1 << 21), (300, 128), (1 << 30, 64)];
        for ((bytes, segment_bytes), node) in refused.into_iter().zip(nodes) {
            let options = NodeOptions { bytes, segment_bytes };
            let refused = Near::join(node, directory.clone(), options).await;
            assert!(matches!(refused, Err(NearError::Option { .. })), "{options:?}");
        }
    });
    played.unwrap();
}

#[test]
fn a_directory_has_so_many_members_and_the_next_is_refused() {
    let sim = Sim::new(SimOptions::with_nodes(1, vec![vec![region(MEMORY, atoll_fabric::Kind::Host)]]));
    let maker = sim.endpoint("maker");
    let endpoints: Vec<SimEndpoint> = (0..65).map(|_| sim.endpoint("node")).collect();
    let played = sim.block_on(async move {
        let directory = Directory::create(&maker, DIRECTORY, &[TABLE], stripes(4)).await.unwrap();
        let mut nodes = Vec::new();
        for (number, endpoint) in endpoints.into_iter().enumerate() {
            let options = NodeOptions { bytes: 2048, segment_bytes: 128 };
            match Near::join(endpoint, directory.clone(), options).await {
                Ok(near) => nodes.push(near),
                Err(error) => {
                    assert_eq!(number, 64, "{error}");
                    assert!(matches!(error, NearError::Full { members_max: 64 }), "{error}");
                }
            }
        }
        let object = object(0, 8);
        cached(&nodes[63], &object).await;
        nodes[0].write(&object, words(&[5])).await.unwrap();
        assert_eq!(read(&nodes[63], &object).await, [5]);
    });
    played.unwrap();
}

#[test]
fn a_verb_that_reaches_outside_is_an_error_and_nothing_is_cached() {
    script(stripes(16), async |first, _| {
        let outside = Object::new(Address::new(0, 0, MEMORY), 8);
        let refused = first.read(&outside, Buffer::new()).await;
        assert!(matches!(refused, Err(NearError::Verb(VerbError::Unreachable(_)))));
    });
}

/// The litmus test of the promises: node A still reads the old value after node B has read the new
/// one. The write is under way: it has landed, and has told no node.
fn inversions(promise: Promise) -> usize {
    let inverted = |seed: &u64| {
        let case =
            NearCase { promise, objects: 1, words: 1, writes: 15, switches: 2, nodes: 3, ..NearCase::drawn(*seed) };
        // Checked as if it were linearizable.
        case.run_checked(Promise::Linearizable).is_err()
    };
    (0..200).filter(inverted).count()
}

#[test]
fn a_write_under_way_may_be_seen_by_one_node_and_not_yet_by_another() {
    let found = inversions(Promise::Regular);
    println!("{found} of 200 seeds");
    assert!(found > 0, "the regular mode shows it");
    assert_eq!(inversions(Promise::Linearizable), 0, "the linearizable mode does not");
}

#[test]
fn a_central_manager_tells_the_sharers_alone_and_the_writer_keeps_a_copy() {
    let ((), counts) = managed_script(async |first, second| {
        let object = object(0, 24);
        for value in 0..3 {
            first.write(&object, words(&[value, 8, 9])).await.unwrap();
            assert_eq!(read(&first, &object).await, [value, 8, 9]);
            assert_eq!(first.counts().hits, value + 1, "the writer has a copy");
        }
        assert_eq!((read(&second, &object).await, read(&second, &object).await), (vec![2, 8, 9], vec![2, 8, 9]));
        assert_eq!((second.counts().misses, second.counts().hits), (1, 1));
        first.write_part(&object, 8, words(&[7])).await.unwrap();
        assert_eq!((read(&first, &object).await, read(&second, &object).await), (vec![2, 7, 9], vec![2, 7, 9]));
        assert_eq!(first.counts().misses, 1, "a part is no copy");
    });
    // Three writes tell the writer's node, the written part tells both.
    assert_eq!(counts.invalidations_sent, 5);
}

#[test]
fn atomics_of_managed_objects_end_their_copies() {
    managed_script(async |first, second| {
        let object = object(0, 16);
        assert_eq!(read(&second, &object).await, [0, 0]);
        assert_eq!(first.fetch_and_add(&object, 8, 5).await.unwrap(), 0);
        assert_eq!(read(&second, &object).await, [0, 5]);
        assert_eq!(second.compare_and_swap(&object, 8, 4, 9).await.unwrap(), Err(5));
        assert_eq!(first.compare_and_swap(&object, 8, 5, 9).await.unwrap(), Ok(()));
        assert_eq!((read(&first, &object).await, read(&second, &object).await), (vec![0, 9], vec![0, 9]));
    });
}

#[test]
fn managed_objects_of_several_messages_come_whole_although_messages_are_lost() {
    managed_script(async |first, second| {
        let large = Object::new(Address::new(0, 0, 1 << 14), 12_000);
        for round in 0..20 {
            let value: Vec<u64> = (0..1500).map(|word| word * 7 + round).collect();
            first.write(&large, words(&value)).await.unwrap();
            let many = second.read_many(&[large, large], vec![Buffer::new(), Buffer::new()]).await.unwrap();
            assert!(many.iter().all(|buffer| buffer.words() == value));
        }
        let outside = Object::new(Address::new(0, 0, MEMORY), 8);
        let refused = first.read(&outside, Buffer::new()).await;
        assert!(matches!(refused, Err(NearError::Verb(VerbError::Unreachable(_)))));
        let refused = first.write(&outside, words(&[1])).await;
        assert!(matches!(refused, Err(NearError::Verb(VerbError::Unreachable(_)))));
    });
}

#[test]
fn a_directory_has_one_manager_and_none_that_it_does_not_need() {
    let sim = Sim::new(SimOptions::with_nodes(1, vec![vec![region(MEMORY, atoll_fabric::Kind::Host)]]));
    let endpoints: Vec<SimEndpoint> = (0..4).map(|_| sim.endpoint("manager")).collect();
    let played = sim.block_on(async move {
        let [maker, first, second, third] = endpoints.try_into().ok().unwrap();
        let options = DirectoryOptions { protocol: Protocol::CmCache, ..stripes(4) };
        let directory = Directory::create(&maker, DIRECTORY, &[TABLE], options).await.unwrap();
        let manager = Manager::start(first, directory.clone()).await.unwrap();
        let refused = Manager::start(second, directory).await;
        assert!(matches!(refused, Err(NearError::NoDirectory { .. })));
        drop(manager);
        let directory = Directory::create(&maker, DIRECTORY, &[TABLE], stripes(4)).await.unwrap();
        let refused = Manager::start(third, directory).await;
        assert!(matches!(refused, Err(NearError::NoDirectory { .. })));
    });
    played.unwrap();
}
