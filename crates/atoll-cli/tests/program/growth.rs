//! A pool that grows over memory nodes whose addresses come one after the other.

use crate::binary::{Serving, printed};
use crate::tcp::{Node, until};
use redis::Commands;

/// The memory nodes as `pool info` names them.
fn nodes(pool: &str) -> Vec<String> {
    let info: serde_json::Value = serde_json::from_str(&printed(&["pool", "info", pool, "--json"])).unwrap();
    info["nodes"].as_array().unwrap().iter().map(|node| node["region"].as_str().unwrap().to_owned()).collect()
}

/// By the numbers of nodes and addresses alone, the last node would be on the first agent.
#[test]
fn a_new_address_gets_the_next_node_and_has_it_again_after_its_agent_ended() {
    let (home, further) = (Node::start("127.0.0.1:0", &[]), Node::start("127.0.0.1:0", &[]));
    let (one, listen) = (home.pool(), further.address().to_string());
    let both = format!("{one},{listen}");
    printed(&["pool", "create", &one, "--capacity", "16MiB", "--capacity-max", "64MiB"]);
    assert!(printed(&["pool", "grow", &one, "--by", "8MiB"]).contains(&format!("{one}+1")));
    assert!(printed(&["pool", "grow", &both, "--by", "8MiB"]).contains(&format!("tcp:{listen}+2")));
    let names = [one.clone(), format!("{one}+1"), format!("tcp:{listen}+2")];
    assert_eq!(nodes(&both), names);

    // A server that never saw the node's region finds its place.
    drop(further);
    let server = Serving::start(&["--pool", &both]);
    let mut redis = server.connect();
    let set = |redis: &mut redis::Connection, key: u32| redis.set::<_, _, ()>(key, [7_u8; 4000].as_slice());
    until("the server goes on without the node", || (0..200).any(|key| set(&mut redis, key).is_ok()));
    assert_eq!(nodes(&both), names);
    let further = Node::start(&listen, &[]);
    until("every key can be set", || (0..200).all(|key| set(&mut redis, key).is_ok()));
    assert_eq!(nodes(&both), names);
    assert!(!printed(&["pool", "info", &both]).contains("absent"));
    drop(server);
    let removed = printed(&["pool", "remove", &both]);
    assert!(names.iter().all(|name| removed.contains(name)), "{removed}");
    drop((home, further));
}
