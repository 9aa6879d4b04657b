//! Objects over `tcp:`, whose memory node ends and comes back: agents that are threads of the test,
//! and connections over loopback. In every order it is in `explored`.

use atoll_fabric::tcp::{Agent, AgentOptions, RunningAgent, TcpEndpoint, TcpFabric};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Fabric, Reach, block_on};
use atoll_near::{Directory, DirectoryOptions, Near, NearError, NodeOptions, Object, Promise, Switch};
use std::time::Duration;

const REGION_BYTES: u64 = 1 << 16;
const HOME: Address = Address::new(0, 0, 0);
const TABLES: [Address; 2] = [Address::new(0, 0, 8192), Address::new(1, 0, 8192)];
const NODE: NodeOptions = NodeOptions { bytes: 1 << 14, segment_bytes: 1024 };

/// On the memory node that ends.
fn object() -> Object {
    Object::new(Address::new(1, 0, 16384), 64)
}

fn agent(listen: &str) -> RunningAgent {
    // A process that follows its near regions keeps its lease on a busy machine.
    let options = AgentOptions { watch_lease: Duration::from_secs(10), ..AgentOptions::default() };
    Agent::bind(listen, options).unwrap().start().unwrap()
}

type Nears = [Near<TcpEndpoint>; 2];

fn read(near: &Near<TcpEndpoint>) -> Result<u64, NearError> {
    block_on(near.endpoint(), near.read(&object(), Buffer::new())).map(|read| read.words()[0])
}

fn write(near: &Near<TcpEndpoint>, value: u64) -> Result<(), NearError> {
    let mut buffer = Buffer::sized(64);
    buffer.words_mut()[0] = value;
    block_on(near.endpoint(), near.write(&object(), buffer)).map(drop)
}

/// Both compute nodes have a copy of the value, and one writes another: both read that.
fn is_coherent(nears: &Nears, value: u64) {
    for near in nears {
        block_on(near.endpoint(), near.switch(&object(), Switch::On)).unwrap();
        let before = near.counts().hits;
        (0..4).for_each(|_| assert_eq!(read(near).unwrap(), value));
        assert!(near.counts().hits > before, "it has a copy");
    }
    write(&nears[1], value + 1).unwrap();
    assert_eq!(nears.each_ref().map(|near| read(near).unwrap()), [value + 1; 2]);
}

fn play(promise: Promise) {
    let [home, further] = [(); 2].map(|()| agent("127.0.0.1:0"));
    let addresses = [&home, &further].map(|agent| agent.address().to_string());
    let fabric = || TcpFabric::named(&format!("tcp:{}", addresses.join(","))).unwrap();
    let first = fabric();
    let reach = first.reach(first.create(0, REGION_BYTES, REGION_BYTES).unwrap());
    assert!(reach.admit(1, first.create(1, REGION_BYTES, REGION_BYTES).unwrap()));
    let maker = reach.endpoint();
    let options = DirectoryOptions { stripes: 16, promise, ..DirectoryOptions::default() };
    let directory = block_on(&maker, Directory::create(&maker, HOME, &TABLES, options)).unwrap();
    let nears: Nears = [(); 2].map(|()| {
        let endpoint = reach.endpoint();
        block_on(&maker, Near::join(endpoint, directory.clone(), NODE)).unwrap()
    });
    write(&nears[0], 1).unwrap();
    is_coherent(&nears, 1);
    let lose = |near: &Near<TcpEndpoint>| block_on(near.endpoint(), near.lose_memory_node(1));
    assert!(!lose(&nears[1]).unwrap(), "it is there");

    drop(further);
    assert!(write(&nears[1], 9).is_err(), "the memory node is gone");
    assert!(lose(&nears[1]).unwrap(), "and it is proven to be");
    assert!(nears.each_ref().iter().all(|near| read(near).is_err()), "no copy of its objects is served");

    // It comes back, empty: the application makes its region anew, and writes its objects there.
    let _back = agent(&addresses[1]);
    let again = fabric();
    let reach = again.reach(again.open(0).unwrap());
    assert!(reach.admit(1, again.create(1, REGION_BYTES, REGION_BYTES).unwrap()));
    let renewed: Nears = nears.each_ref().map(|near| {
        let attached = Near::attach(reach.endpoint(), directory.clone(), near.region());
        block_on(&maker, attached).unwrap()
    });
    let early = write(&renewed[0], 9);
    assert!(matches!(early, Err(NearError::NodeAway { node: 1 })), "{early:?}");
    let mut batch = Batch::new();
    batch.write_word(object().at(), 5);
    let restorer = reach.endpoint();
    block_on(&restorer, restorer.post(&mut batch)).unwrap();
    renewed.iter().for_each(|near| block_on(near.endpoint(), near.renew_memory_node(1)).unwrap());
    is_coherent(&renewed, 5);
}

#[test]
fn no_copy_outlives_a_memory_node_that_is_reached_over_tcp() {
    [Promise::Regular, Promise::Linearizable].into_iter().for_each(play);
}
