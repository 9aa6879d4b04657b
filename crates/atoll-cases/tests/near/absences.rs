//! A memory node that ends and comes back, step by step. Each guard is switched off in turn: then a
//! node reads an old value. In every order it is in `explored`, over many seeds in `swarm`.

use crate::case::DIRECTORY;
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Kind, VerbError};
use atoll_near::{Directory, DirectoryOptions, Hole, Near, NearError, NodeOptions, Object, Promise, Protocol, Switch};
use atoll_sim::sim::region;
use atoll_sim::{Control, Sim, SimEndpoint, SimOptions};

const TABLES: [Address; 2] = [Address::new(0, 0, 6400), Address::new(1, 0, 6400)];
const NODE: NodeOptions = NodeOptions { bytes: 1 << 14, segment_bytes: 1024 };

/// On the memory node that ends.
fn object() -> Object {
    Object::new(Address::new(1, 0, 8192), 8)
}

/// Two compute nodes over two memory nodes.
struct Stage {
    control: Control,
    directory: Directory,
    first: Near<SimEndpoint>,
    second: Near<SimEndpoint>,
}

impl Stage {
    /// A further client of a compute node, whose endpoint is made now.
    async fn attach(&self, to: &Near<SimEndpoint>, hole: Option<Hole>) -> Near<SimEndpoint> {
        let endpoint = self.control.endpoint("further");
        let mut near = Near::attach(endpoint, self.directory.clone(), to.region()).await.unwrap();
        near.open_hole(hole);
        near
    }

    /// The application writes what it has of the object elsewhere.
    async fn restore(&self, value: u64) {
        let mut batch = Batch::new();
        batch.write_word(object().at(), value);
        self.control.endpoint("restorer").post(&mut batch).await.unwrap();
    }
}

fn play<T: 'static>(options: DirectoryOptions, script: impl AsyncFnOnce(Stage) -> T + 'static) -> T {
    let sim = Sim::new(SimOptions::with_nodes(1, vec![vec![region(1 << 14, Kind::Host)]; 2]));
    let control = sim.control();
    let played = sim.block_on(async move {
        let [maker, first, second] = ["maker", "first", "second"].map(|name| control.endpoint(name));
        let directory = Directory::create(&maker, DIRECTORY, &TABLES, options).await.unwrap();
        let first = Near::join(first, directory.clone(), NODE).await.unwrap();
        let second = Near::join(second, directory.clone(), NODE).await.unwrap();
        script(Stage { control, directory, first, second }).await
    });
    played.unwrap()
}

fn options() -> DirectoryOptions {
    DirectoryOptions { stripes: 16, ..DirectoryOptions::default() }
}

async fn read(near: &Near<SimEndpoint>) -> u64 {
    near.read(&object(), Buffer::new()).await.unwrap().words()[0]
}

async fn write(near: &Near<SimEndpoint>, value: u64) -> Result<(), NearError> {
    let mut buffer = Buffer::sized(8);
    buffer.words_mut()[0] = value;
    near.write(&object(), buffer).await.map(drop)
}

/// Switches on, if there are modes, and reads until the node has a copy.
async fn cache(near: &Near<SimEndpoint>) {
    near.switch(&object(), Switch::On).await.unwrap();
    for _ in 0..3 {
        read(near).await;
    }
    assert!(near.counts().hits > 0, "it has a copy");
}

/// What the guarded and the unguarded run end with.
fn with_and_without<T>(hole: Hole, run: impl Fn(Option<Hole>) -> T) -> [T; 2] {
    [run(None), run(Some(hole))]
}

const BEFORE: u64 = 1;
const RESTORED: u64 = 2;
const WRITTEN: u64 = 3;

#[test]
fn a_region_that_is_gone_ends_the_copies_of_its_objects_and_a_new_one_is_used_again() {
    for promise in [Promise::Regular, Promise::Linearizable] {
        play(DirectoryOptions { promise, ..options() }, async |stage| {
            write(&stage.first, BEFORE).await.unwrap();
            cache(&stage.first).await;
            assert!(!stage.second.lose_memory_node(1).await.unwrap(), "it is there");
            assert_eq!(read(&stage.first).await, BEFORE);
            stage.control.take_node_away(1);
            assert_eq!(read(&stage.first).await, BEFORE, "nobody can write another value");
            let refused = write(&stage.second, 9).await;
            assert!(matches!(refused, Err(NearError::Verb(VerbError::PeerDead))), "{refused:?}");
            assert!(stage.second.lose_memory_node(1).await.unwrap());
            assert!(stage.first.read(&object(), Buffer::new()).await.is_err(), "the copy has ended");
            // A compute node joins without the memory node, and uses the other one.
            let endpoint = stage.control.endpoint("newcomer");
            let newcomer = Near::join(endpoint, stage.directory.clone(), NODE).await.unwrap();
            let other = Object::new(Address::new(0, 0, 8192), 8);
            newcomer.write(&other, Buffer::sized(8)).await.unwrap();
            let refused = newcomer.read(&object(), Buffer::new()).await;
            assert!(matches!(refused, Err(NearError::NodeAway { node: 1 })), "{refused:?}");
            stage.control.return_node(1);
            let [first, second] = [stage.attach(&stage.first, None).await, stage.attach(&stage.second, None).await];
            let refused = write(&first, 9).await;
            assert!(matches!(refused, Err(NearError::NodeAway { node: 1 })), "{refused:?}");
            stage.restore(RESTORED).await;
            first.renew_memory_node(1).await.unwrap();
            second.renew_memory_node(1).await.unwrap();
            assert_eq!([read(&first).await, read(&second).await], [RESTORED; 2]);
            cache(&first).await;
            cache(&second).await;
            write(&second, WRITTEN).await.unwrap();
            assert_eq!([read(&first).await, read(&second).await], [WRITTEN; 2]);
        });
    }
}

#[test]
fn a_burial_while_a_memory_node_is_away_frees_the_place() {
    play(DirectoryOptions { promise: Promise::Linearizable, ..options() }, async |stage| {
        cache(&stage.first).await;
        cache(&stage.second).await;
        stage.control.take_node_away(1);
        let Stage { first, second, .. } = stage;
        drop(first);
        assert_eq!(second.look_after_members().await.unwrap(), 1);
        assert_eq!(second.counts().burials, 1);
    });
}

#[test]
fn a_writer_whose_memory_node_ends_leaves_its_turn_to_others() {
    play(DirectoryOptions { promise: Promise::Linearizable, ..options() }, async |stage| {
        cache(&stage.first).await;
        stage.control.lose_node(1);
        assert!(write(&stage.first, 9).await.is_err());
        let successor = stage.attach(&stage.first, None).await;
        stage.restore(RESTORED).await;
        successor.renew_memory_node(1).await.unwrap();
        write(&successor, WRITTEN).await.unwrap();
        cache(&successor).await;
        assert_eq!(read(&successor).await, WRITTEN);
    });
}

#[test]
fn a_write_that_is_refused_leaves_no_bypass_behind() {
    play(DirectoryOptions { promise: Promise::Linearizable, ..options() }, async |stage| {
        // The first mode is Off: this write is a bypass.
        write(&stage.first, BEFORE).await.unwrap();
        stage.control.lose_node(1);
        assert!(write(&stage.first, 9).await.is_err());
        let successor = stage.attach(&stage.first, None).await;
        stage.restore(RESTORED).await;
        successor.renew_memory_node(1).await.unwrap();
        successor.switch(&object(), Switch::Off).await.unwrap();
        assert!(successor.switch(&object(), Switch::On).await.unwrap(), "no bypass is under way");
    });
}

/// What the clients of a new region do first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    Nothing,
    /// One brings it into use.
    Renew,
    /// So it does, and the reader switches on.
    RenewAndSwitch,
}

/// The first node has a copy, and its memory node ends. A further client of it reads from the new
/// region, one of the second node writes there. What the first node reads then.
fn read_after_loss(options: DirectoryOptions, hole: Option<Hole>, begin: Begin) -> Result<u64, NearError> {
    play(options, async move |stage| {
        write(&stage.first, BEFORE).await.unwrap();
        cache(&stage.first).await;
        stage.control.lose_node(1);
        let reader = stage.attach(&stage.first, hole).await;
        let writer = stage.attach(&stage.second, hole).await;
        stage.restore(RESTORED).await;
        if begin != Begin::Nothing {
            writer.renew_memory_node(1).await?;
        }
        if begin == Begin::RenewAndSwitch {
            cache(&reader).await;
        }
        for _ in 0..2 {
            let found = reader.read(&object(), Buffer::new()).await?.words()[0];
            assert!(found == RESTORED || begin == Begin::Nothing, "{found}");
        }
        write(&writer, WRITTEN).await?;
        Ok(read(&reader).await)
    })
}

#[test]
fn a_compute_node_forgets_the_modes_before_it_uses_a_region_made_anew() {
    let run = |hole| read_after_loss(options(), hole, Begin::Renew).unwrap();
    assert_eq!(with_and_without(Hole::ModesOfLostNode, run), [WRITTEN, RESTORED]);
}

#[test]
fn every_node_may_be_an_owner_of_a_stripe_of_a_region_made_anew() {
    for protocol in [Protocol::Difache, Protocol::DifacheNoAc] {
        let options = DirectoryOptions { protocol, owners_from: 1, ..options() };
        let run = |hole| read_after_loss(options, hole, Begin::RenewAndSwitch).unwrap();
        assert_eq!(with_and_without(Hole::OwnersOfLostNode, run), [WRITTEN, RESTORED], "{protocol:?}");
    }
}

#[test]
fn no_client_uses_a_region_that_is_not_known_to_be_in_use() {
    let [guarded, unguarded] =
        with_and_without(Hole::UnmarkedRegions, |hole| read_after_loss(options(), hole, Begin::Nothing));
    assert!(matches!(guarded, Err(NearError::NodeAway { node: 1 })), "{guarded:?}");
    assert!(matches!(unguarded, Ok(BEFORE | RESTORED)), "an old value: {unguarded:?}");
}

#[test]
fn a_newcomer_believes_nothing_of_modes_that_it_cannot_read() {
    let run = |hole| {
        play(options(), async move |stage| {
            write(&stage.first, BEFORE).await.unwrap();
            cache(&stage.first).await;
            stage.control.take_node_away(1);
            let endpoint = stage.control.endpoint("newcomer");
            let newcomer = Near::join_with_hole(endpoint, stage.directory.clone(), NODE, hole).await.unwrap();
            stage.control.return_node(1);
            stage.restore(RESTORED).await;
            let [reader, writer] = [stage.attach(&stage.first, hole).await, stage.attach(&newcomer, hole).await];
            writer.renew_memory_node(1).await.unwrap();
            for _ in 0..2 {
                assert_eq!(read(&reader).await, RESTORED);
            }
            write(&writer, WRITTEN).await.unwrap();
            read(&reader).await
        })
    };
    assert_eq!(with_and_without(Hole::ModesOfLostNode, run), [WRITTEN, RESTORED]);
}

#[test]
fn an_atomic_after_a_loss_relies_on_no_mode_from_before() {
    for promise in [Promise::Regular, Promise::Linearizable] {
        let run = |hole| {
            play(DirectoryOptions { promise, cached_at_first: true, ..options() }, async move |stage| {
                for addend in [BEFORE, 0] {
                    stage.first.fetch_and_add(&object(), 0, addend).await.unwrap();
                }
                assert!(!stage.second.switch(&object(), Switch::On).await.unwrap(), "it is off for good");
                stage.control.lose_node(1);
                let [adder, reader] = [stage.attach(&stage.first, hole).await, stage.attach(&stage.second, hole).await];
                stage.restore(RESTORED).await;
                adder.renew_memory_node(1).await.unwrap();
                cache(&reader).await;
                adder.fetch_and_add(&object(), 0, WRITTEN - RESTORED).await.unwrap();
                read(&reader).await
            })
        };
        assert_eq!(with_and_without(Hole::ModesOfLostNode, run), [WRITTEN, RESTORED], "{promise:?}");
    }
}

#[test]
fn a_write_of_unknown_outcome_refuses_later_ones_of_its_stripe_until_the_memory_node_is_another() {
    play(DirectoryOptions { promise: Promise::Linearizable, ..options() }, async |stage| {
        cache(&stage.first).await;
        let sibling = stage.attach(&stage.first, None).await;
        assert_eq!(read(&sibling).await, 0);
        stage.control.silence_node(1);
        assert!(matches!(write(&stage.first, 9).await, Err(NearError::Verb(VerbError::NodeAbsent(_)))));
        stage.control.hear_node(1);
        for near in [&stage.first, &sibling, &stage.first] {
            let refused = write(near, 9).await;
            assert!(matches!(refused, Err(NearError::Unsettled)), "{refused:?}");
        }
        write(&stage.second, 7).await.unwrap();
        assert_eq!(read(&sibling).await, 7);
        stage.control.lose_node(1);
        let successor = stage.attach(&stage.first, None).await;
        successor.renew_memory_node(1).await.unwrap();
        write(&successor, WRITTEN).await.unwrap();
        cache(&successor).await;
        assert_eq!(read(&successor).await, WRITTEN);
    });
}

#[test]
fn no_copy_outlives_the_region_of_its_object() {
    let run = |hole| {
        play(options(), async move |stage| {
            write(&stage.first, BEFORE).await.unwrap();
            cache(&stage.first).await;
            stage.control.lose_node(1);
            let renewer = stage.attach(&stage.second, hole).await;
            stage.restore(RESTORED).await;
            renewer.renew_memory_node(1).await.unwrap();
            stage.first.read(&object(), Buffer::new()).await.map(|buffer| buffer.words()[0]).ok()
        })
    };
    assert_eq!(with_and_without(Hole::CopiesOfLostNode, run), [None, Some(BEFORE)]);
}
