//! Processes that share a near region, of which one stops or dies at every step.

use crate::case::NearCase;
use atoll_fabric::{Buffer, Endpoint, Kind};
use atoll_near::{Directory, Hole, Near, NearError, Promise, Switch};
use atoll_sim::sim::region;
use atoll_sim::{After, ClientId, Control, Fault, History, Sim, SimEndpoint, SimOptions};
use std::future::Future;
use std::rc::Rc;

/// What the writer writes.
const WRITTEN: u64 = 7;
/// More steps than a write has.
const STEPS: u64 = 60;
/// Longer than a write takes.
const WRITE_NS: u64 = 100_000;

/// Three compute nodes, and a process that shares the region of the third and writes the object.
struct Scene {
    case: NearCase,
    control: Control,
    directory: Directory,
    second: Near<SimEndpoint>,
    third: Near<SimEndpoint>,
    exporter: Near<SimEndpoint>,
}

impl Scene {
    /// Plays on a scene whose object nodes know to be off, or have copies of.
    fn play<T, F>(cached_at_first: bool, promise: Promise, act: impl FnOnce(Self) -> F + 'static) -> T
    where
        T: 'static,
        F: Future<Output = T> + 'static,
    {
        let case = NearCase { promise, stripes: 1, cached_at_first, objects: 1, words: 1, ..NearCase::drawn(0) };
        let sim = Sim::new(SimOptions::with_nodes(1, vec![vec![region(1 << 14, Kind::Host)]; 2]));
        let directory = case.prepare(&sim, &Rc::new(History::new())).unwrap();
        let control = sim.control();
        let played = sim.block_on(async move {
            let mut nodes = Vec::new();
            for name in ["second", "third", "exporter"] {
                let near = Near::join(control.endpoint(name), directory.clone(), case.node_options()).await.unwrap();
                near.read(&case.object(0), Buffer::new()).await.unwrap();
                nodes.push(near);
            }
            let [second, third, exporter] = <[_; 3]>::try_from(nodes).map_err(|_| "three").unwrap();
            act(Self { case, control, directory, second, third, exporter }).await
        });
        played.unwrap()
    }

    /// Begins a write by the process that shares the region; the fault hits it after so many steps.
    async fn write(&self, fault: Fault, steps: u64) -> ClientId {
        let endpoint = self.control.endpoint("writer");
        let writer = Near::attach(endpoint, self.directory.clone(), self.exporter.region()).await.unwrap();
        let (object, from) = (self.case.object(0), self.case.buffer(WRITTEN));
        let client = self.control.spawn("writer", async move {
            let written = writer.write(&object, from).await;
            assert!(matches!(written, Ok(_) | Err(NearError::Ended)), "{written:?}");
            writer.detach().await.unwrap();
        });
        self.control.fault(client, fault, After::Steps(steps));
        self.second.endpoint().pause(WRITE_NS).await;
        client
    }

    async fn read(&self, near: &Near<SimEndpoint>) -> u64 {
        near.read(&self.case.object(0), Buffer::new()).await.unwrap().words()[0]
    }
}

/// The writer stops after so many steps. The region's exporter ends; another node switches the
/// object on, and reads it; the writer goes on. What a third node reads then, and what the second
/// reads after it.
fn read_behind_a_stopped_writer(steps: u64, hole: Option<Hole>) -> [u64; 2] {
    Scene::play(false, Promise::Linearizable, async move |mut scene: Scene| {
        scene.second.open_hole(hole);
        let writer = scene.write(Fault::Pause { ns: u64::MAX }, steps).await;
        let Scene { case, control, second, third, exporter, .. } = scene;
        drop(exporter);
        let object = case.object(0);
        second.switch(&object, Switch::On).await.unwrap();
        second.read(&object, Buffer::new()).await.unwrap();
        control.resume(writer);
        second.endpoint().pause(WRITE_NS).await;
        let new = third.read(&object, Buffer::new()).await.unwrap().words()[0];
        [new, second.read(&object, Buffer::new()).await.unwrap().words()[0]]
    })
}

/// A client of an ended region writes what it believes to be off, while another node switches it on
/// and reads. With the hole some stop shows a third node the new value, and then the old one to the
/// second.
pub(crate) fn an_orphan_writes_while_a_stripe_is_switched_on(hole: Hole) {
    let is_inverted = |steps: u64, hole| {
        let [third, second] = read_behind_a_stopped_writer(steps, hole);
        third == WRITTEN && second != WRITTEN
    };
    let shown = |hole| (0..STEPS).filter(|steps| is_inverted(*steps, hole)).collect::<Vec<_>>();
    assert_eq!(shown(None), Vec::<u64>::new());
    let shown = shown(Some(hole));
    println!("the old value after the new one, where the writer stopped after {shown:?} steps");
    assert!(!shown.is_empty());
}

/// The writer dies alone, and all nodes look after it. Then they read what the memory node has, and
/// copies of it are made again.
#[test]
fn a_process_that_dies_alone_leaves_neither_old_copies_nor_a_bit() {
    for promise in [Promise::Regular, Promise::Linearizable] {
        for steps in 0..STEPS {
            Scene::play(true, promise, async move |scene: Scene| {
                let nodes = [&scene.second, &scene.third, &scene.exporter];
                for near in nodes {
                    scene.read(near).await;
                }
                scene.write(Fault::Kill, steps).await;
                for near in nodes {
                    assert_eq!(near.look_after_members().await.unwrap(), 0, "no node has died");
                }
                let present = scene.second.endpoint().read(scene.case.object(0).at(), Buffer::sized(8)).await.unwrap();
                for near in nodes {
                    let before = near.counts().hits;
                    for _ in 0..4 {
                        assert_eq!(scene.read(near).await, present.words()[0], "{promise:?}, {steps} steps");
                    }
                    assert!(near.counts().hits > before, "{promise:?}, {steps} steps: no copies are made any more");
                }
                // Its place is free for another member.
                let Scene { case, control, directory, exporter, .. } = scene;
                exporter.leave().await.unwrap();
                let newcomer = Near::join(control.endpoint("newcomer"), directory, case.node_options()).await.unwrap();
                newcomer.write(&case.object(0), case.buffer(WRITTEN + 1)).await.unwrap();
            });
        }
    }
}

/// The exporter dies after its write has landed and before it has invalidated a copy. A client that
/// shares its region looks after members, before it releases what the dead one had locked: then no
/// node has an old copy.
#[test]
fn a_client_of_a_dead_exporter_ends_the_copies_that_it_left() {
    for steps in 0..STEPS {
        Scene::play(true, Promise::Regular, async move |scene: Scene| {
            let Scene { case, control, directory, second, third, exporter } = scene;
            let object = case.object(0);
            let region = exporter.region();
            let shares = Near::attach(control.endpoint("shares"), directory, region).await.unwrap();
            for near in [&second, &third, &shares] {
                near.read(&object, Buffer::new()).await.unwrap();
            }
            let from = case.buffer(WRITTEN);
            // An endpoint's owner is the client that uses it.
            let dying = control.spawn("exporter", async move {
                exporter.write(&object, from).await.unwrap();
                std::future::pending::<()>().await;
            });
            control.fault(dying, Fault::Kill, After::Steps(steps));
            second.endpoint().pause(WRITE_NS).await;
            if control.is_alive(dying) {
                control.kill(dying);
            }
            let looked = shares.look_after_members().await;
            assert!(matches!(looked, Err(NearError::Ended)), "{steps} steps: {looked:?}");
            let present = second.endpoint().read(object.at(), Buffer::sized(8)).await.unwrap().words()[0];
            for near in [&second, &third] {
                assert_eq!(near.read(&object, Buffer::new()).await.unwrap().words()[0], present, "{steps} steps");
            }
            shares.detach().await.unwrap();
            assert_eq!(second.look_after_members().await.unwrap(), 1, "nothing keeps its place");
        });
    }
}
