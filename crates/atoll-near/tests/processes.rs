//! Processes of one host, each a compute node, or several one: real memory, real deaths.
//!
//! Each child process is this test again, told by its environment what to do. Writers write growing
//! numbers, and note each when its write is complete. Readers must never see a number below one
//! that was noted before they began.

use atoll_fabric::shm::{ShmEndpoint, ShmFabric, ShmRegion};
use atoll_fabric::{Address, Batch, Buffer, Clock, Endpoint, Fabric, Reach, block_on_with, run_ready};
use atoll_near::{Directory, DirectoryOptions, HostNode, Near, NearError, NodeOptions, Object, Promise, Switch};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const REGION_BYTES: u64 = 1 << 20;
const HOME: Address = Address::new(0, 0, 0);
const TABLE: Address = Address::new(0, 0, 8192);
const STRIPES: u32 = 16;
const OBJECTS: u64 = 3;
const WORDS: usize = 8;
const PART: &str = "ATOLL_NEAR_PART";
const REGION: &str = "ATOLL_NEAR_REGION";
/// The name of the compute node that the process is of; none if it is one alone.
const NODE: &str = "ATOLL_NEAR_NODE";
const NODE_OPTIONS: NodeOptions = NodeOptions { bytes: 1 << 16, segment_bytes: 1024 };

fn object(number: u64) -> Object {
    Object::new(Address::new(0, 0, (1 << 16) + 256 * number), 8 * WORDS as u32)
}

/// The largest number whose write is complete.
fn noted(number: u64) -> Address {
    Address::new(0, 0, (1 << 15) + 64 * number)
}

/// A word that children watch: 1 to stop.
const STOP: Address = Address::new(0, 0, (1 << 15) + 4096);
/// Not 0 once a child has joined or attached.
const ENTERED: Address = STOP.add(64);

async fn word(endpoint: &ShmEndpoint, at: Address) -> u64 {
    let mut batch = Batch::new();
    let ticket = batch.read_word(at);
    endpoint.post(&mut batch).await.unwrap();
    batch.word(ticket)
}

async fn put_word(endpoint: &ShmEndpoint, at: Address, value: u64) {
    let mut batch = Batch::new();
    batch.write_word(at, value);
    endpoint.post(&mut batch).await.unwrap();
}

/// Until the word is not 0.
fn wait_for(endpoint: &ShmEndpoint, at: Address) {
    let begun = Instant::now();
    while run_ready(word(endpoint, at)) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "no child enters");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reads until all words are of one write.
async fn read_whole(near: &Near<ShmEndpoint>, number: u64) -> Result<u64, NearError> {
    let mut buffer = Buffer::new();
    loop {
        buffer = near.read(&object(number), buffer).await?;
        let words = buffer.words();
        if words.iter().all(|word| *word == words[0]) {
            return Ok(words[0]);
        }
    }
}

async fn write(near: &Near<ShmEndpoint>, number: u64) -> Result<(), NearError> {
    let next = word(near.endpoint(), noted(number)).await + 1;
    let mut buffer = Buffer::sized(8 * WORDS);
    buffer.words_mut().fill(next);
    near.write(&object(number), buffer).await?;
    put_word(near.endpoint(), noted(number), next).await;
    Ok(())
}

/// An operation of a child: a writer of one object, or a reader of all.
async fn act(near: &Near<ShmEndpoint>, part: &str, done: u64) -> Result<(), NearError> {
    let number = done % OBJECTS;
    match part.strip_prefix("writer-") {
        Some(own) => {
            write(near, own.parse().unwrap()).await?;
            near.endpoint().pause(20_000).await;
        }
        None => {
            let complete = word(near.endpoint(), noted(number)).await;
            let read = read_whole(near, number).await?;
            assert!(read >= complete, "object {number}: {read} was read, {complete} was complete before");
        }
    }
    if done.is_multiple_of(1000) {
        near.look_after_members().await?;
    }
    Ok(())
}

#[test]
fn a_child_plays_its_part() {
    let (Ok(part), Ok(region)) = (std::env::var(PART), std::env::var(REGION)) else { return };
    let fabric = ShmFabric::named(&region).unwrap();
    let reach = fabric.reach(fabric.open(0).unwrap());
    let endpoint = reach.endpoint();
    let host = std::env::var(NODE).ok().map(|node| HostNode::open(&node).unwrap());
    block_on_with(std::thread::yield_now, async {
        let directory = Directory::open(&endpoint, HOME).await.unwrap();
        let enter = async |endpoint| match &host {
            Some(host) => host.enter(endpoint, &directory, NODE_OPTIONS).await.unwrap(),
            None => Near::join(endpoint, directory.clone(), NODE_OPTIONS).await.unwrap(),
        };
        let (mut done, mut entered, mut near) = (0, 1, enter(endpoint).await);
        put_word(near.endpoint(), ENTERED, 1).await;
        while word(near.endpoint(), STOP).await == 0 {
            match act(&near, &part, done).await {
                Err(NearError::Ended) if host.is_some() => {
                    near.detach().await.unwrap();
                    near = enter(reach.endpoint()).await;
                    entered += 1;
                }
                acted => acted.unwrap(),
            }
            done += 1;
        }
        println!("{part}: {done} operations, entered {entered} times, {:?}", near.counts());
    });
}

fn child(part: &str, region: &str, node: Option<&str>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["a_child_plays_its_part", "--exact", "--nocapture"]).env(PART, part).env(REGION, region);
    command.envs(node.map(|node| (NODE, node)));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// By child, the compute node that it is of; `None` if it is one alone.
fn play(promise: Promise, nodes: [Option<&str>; 5]) {
    let kind = if nodes.iter().any(Option::is_some) { "shared" } else { "alone" };
    let name = format!("shm:/atoll-near-{}-{promise:?}-{kind}", std::process::id());
    ShmRegion::create(&name, REGION_BYTES).unwrap();
    let fabric = ShmFabric::named(&name).unwrap();
    let reach = fabric.reach(fabric.open(0).unwrap());
    let endpoint = reach.endpoint();
    block_on_with(std::thread::yield_now, async {
        let options = DirectoryOptions { stripes: STRIPES, promise, ..DirectoryOptions::default() };
        let directory = Directory::create(&endpoint, HOME, &[TABLE], options).await.unwrap();
        // Caching is on from the start, so that every death is one among copies.
        let maker = reach.endpoint();
        let near = Near::join(maker, directory, NODE_OPTIONS).await.unwrap();
        for number in 0..OBJECTS {
            near.switch(&object(number), Switch::On).await.unwrap();
        }
        near.leave().await.unwrap();
    });
    let named: Vec<Option<String>> = nodes.iter().map(|node| node.map(|node| format!("{name}{node}"))).collect();
    let mut living: Vec<(String, Child)> = Vec::new();
    for (part, node) in ["writer-0", "writer-1", "writer-2", "reader", "reader"].into_iter().zip(&named) {
        living.push((part.to_owned(), child(part, &name, node.as_deref())));
    }
    let begun = Instant::now();
    let mut turn = 0;
    while begun.elapsed() < Duration::from_secs(3) || turn < 10 {
        std::thread::sleep(Duration::from_millis(300));
        // A writer stays dead until another takes over what it wrote: its object may be torn.
        let victim = [3, 0, 4, 1][turn % 4];
        turn += 1;
        let (part, mut process) = living.remove(victim);
        process.kill().unwrap();
        process.wait().unwrap();
        block_on_with(std::thread::yield_now, put_word(&endpoint, ENTERED, 0));
        living.insert(victim, (part.clone(), child(&part, &name, named[victim].as_deref())));
        // So that another one of its node enters again once this one is killed.
        wait_for(&endpoint, ENTERED);
    }
    std::thread::sleep(Duration::from_millis(500));
    block_on_with(std::thread::yield_now, put_word(&endpoint, STOP, 1));
    let outputs: Vec<_> = living.into_iter().map(|(part, child)| (part, child.wait_with_output().unwrap())).collect();
    fabric.remove(0).unwrap();
    let mut again = 0;
    for (part, output) in outputs {
        let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{part}: {said}{wrong}");
        let line = said.lines().find(|line| line.contains("operations")).unwrap_or_default();
        println!("{line}");
        again += u32::from(!line.contains("entered 1 times"));
    }
    assert_eq!(
        again > 0,
        nodes.iter().any(Option::is_some),
        "those that shared a region of a killed one entered again"
    );
}

/// Numbers of compute nodes are lent again: a node that comes back has that of its predecessor.
#[test]
fn a_node_with_the_number_of_a_dead_one_is_another_member() {
    let region = Arc::new(ShmRegion::anonymous(REGION_BYTES).unwrap());
    let endpoint = || ShmEndpoint::with_regions(vec![region.clone()], Clock::host());
    let node = NODE_OPTIONS;
    run_ready(async {
        let options = DirectoryOptions { stripes: STRIPES, ..DirectoryOptions::default() };
        let directory = Directory::create(&endpoint(), HOME, &[TABLE], options).await.unwrap();
        let dead = Near::join(endpoint(), directory.clone(), node).await.unwrap();
        let base = dead.region();
        drop(dead);
        let second = Near::join(endpoint(), directory.clone(), node).await.unwrap();
        assert_eq!((second.region(), second.counts().burials), (base, 1), "its predecessor is buried");
        let third = Near::attach(endpoint(), directory, second.region()).await.unwrap();
        let mut buffer = Buffer::sized(8 * WORDS);
        buffer.words_mut().fill(7);
        third.write(&object(0), buffer).await.unwrap();
        assert_eq!(second.read(&object(0), Buffer::new()).await.unwrap().words(), [7; WORDS]);
        assert_eq!(second.look_after_members().await.unwrap(), 0);
    });
}

#[test]
fn no_process_reads_what_was_replaced_while_others_are_killed() {
    play(Promise::Regular, [None; 5]);
}

#[test]
fn no_process_reads_what_was_replaced_with_linearizable_reads_while_others_are_killed() {
    play(Promise::Linearizable, [None; 5]);
}

/// Two compute nodes: one of two writers and a reader, one of the others.
const SHARED: [Option<&str>; 5] = [Some("a"), Some("b"), Some("a"), Some("b"), Some("a")];

#[test]
fn processes_that_share_a_near_region_go_on_when_any_of_them_is_killed() {
    play(Promise::Regular, SHARED);
}

#[test]
fn processes_that_share_a_near_region_go_on_with_linearizable_reads_when_any_of_them_is_killed() {
    play(Promise::Linearizable, SHARED);
}

/// The process that exported a region is killed, and the other one that shares it does nothing. So
/// its number is lent to the next one, whose region has the same address.
#[test]
fn a_process_that_does_nothing_keeps_no_other_from_joining_in_place_of_a_killed_one() {
    let name = format!("shm:/atoll-near-idle-{}", std::process::id());
    ShmRegion::create(&name, REGION_BYTES).unwrap();
    let fabric = ShmFabric::named(&name).unwrap();
    let reach = fabric.reach(fabric.open(0).unwrap());
    let host = HostNode::open(&name).unwrap();
    block_on_with(std::thread::yield_now, async {
        let options = DirectoryOptions { stripes: STRIPES, ..DirectoryOptions::default() };
        let directory = Directory::create(&reach.endpoint(), HOME, &[TABLE], options).await.unwrap();
        let other = Near::join(reach.endpoint(), directory.clone(), NODE_OPTIONS).await.unwrap();
        let mut exporter = child("reader", &name, Some(&name));
        wait_for(other.endpoint(), ENTERED);
        let idle = host.enter(reach.endpoint(), &directory, NODE_OPTIONS).await.unwrap();
        exporter.kill().unwrap();
        exporter.wait().unwrap();
        let near = host.enter(reach.endpoint(), &directory, NODE_OPTIONS).await.unwrap();
        assert_eq!(near.region(), idle.region(), "the address is used again");
        assert!(matches!(idle.read(&object(0), Buffer::new()).await, Err(NearError::Ended)));
        other.write(&object(0), Buffer::sized(8 * WORDS)).await.unwrap();
        idle.detach().await.unwrap();
        // With its last client the former node ends.
        let third = host.enter(reach.endpoint(), &directory, NODE_OPTIONS).await.unwrap();
        assert_eq!((third.region(), third.look_after_members().await.unwrap()), (near.region(), 1));
    });
    fabric.remove(0).unwrap();
}
