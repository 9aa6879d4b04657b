//! A pool that grows over memory nodes, while the list of their addresses grows, too.

use crate::binary::{Serving, printed};
use crate::tcp::{Node, until};
use redis::Commands;

/// The memory nodes as `pool info` names them.
fn nodes(pool: &str) -> Vec<String> {
    let info: serde_json::Value = serde_json::from_str(&printed(&["pool", "info", pool, "--json"])).unwrap();
    info["nodes"].as_array().unwrap().iter().map(|node| node["region"].as_str().unwrap().to_owned()).collect()
}

/// Node `n` is made on agent `n` of the list, counted around it. It stays there when the list
/// grows.
#[test]
fn a_node_is_named_by_the_agent_that_has_it_and_comes_back_there_though_the_list_of_addresses_grew() {
    let [home, further, last] = std::array::from_fn(|_| Node::start("127.0.0.1:0", &[]));
    let (one, listen) = (home.pool(), further.address().to_string());
    let two = format!("{one},{listen}");
    printed(&["pool", "create", &one, "--capacity", "16MiB", "--capacity-max", "64MiB"]);
    assert!(printed(&["pool", "grow", &one, "--by", "8MiB"]).contains(&format!("({one}+1)")));
    assert!(printed(&["pool", "grow", &two, "--by", "8MiB"]).contains(&format!("({one}+2)")));
    assert!(printed(&["pool", "grow", &two, "--by", "8MiB"]).contains(&format!("(tcp:{listen}+3)")));
    let names = [one.clone(), format!("{one}+1"), format!("{one}+2"), format!("tcp:{listen}+3")];
    // By this list nodes 1 and 3 would be made elsewhere.
    let all = format!("{one},{},{listen}", last.address());
    assert_eq!([nodes(&two), nodes(&all)], [names.clone(), names.clone()]);

    // A server that never saw the region of node 3 finds its place.
    drop(further);
    let server = Serving::start(&["--pool", &all]);
    let mut redis = server.connect();
    let set = |redis: &mut redis::Connection, key: u32| redis.set::<_, _, ()>(key, [7_u8; 4000].as_slice());
    until("the server goes on without the node", || (0..200).any(|key| set(&mut redis, key).is_ok()));
    assert_eq!(nodes(&all), names);
    let further = Node::start(&listen, &[]);
    until("the node is there again", || !printed(&["pool", "info", &all]).contains("absent"));
    // The server's clients join anew, and commands that come meanwhile fail.
    until("every key can be set", || (0..200).all(|key| set(&mut redis, key).is_ok()));
    assert_eq!(nodes(&all), names);
    drop(server);
    let removed = printed(&["pool", "remove", &all]);
    assert!(names.iter().all(|name| removed.contains(name)), "{removed}");
    drop((home, further, last));
}
