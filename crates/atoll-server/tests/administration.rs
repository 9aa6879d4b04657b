//! What clients, dashboards and operators ask besides keys: the bytes of a real redis-server come
//! back.

mod common;

use common::redis_server::Redis;
use common::{Raw, options, start};

/// Commands about connections and their server, whose replies do not depend on what ran before.
const ADMINISTRATION: &[&[&str]] = &[
    &["CLIENT"],
    &["CLIENT", "nosuch"],
    &["CLIENT", "LIST", "TYPE", "x"],
    &["CLIENT", "LIST", "TYPE", "pubsub"],
    &["CLIENT", "LIST", "type", "Master"],
    &["CLIENT", "LIST", "TYPE"],
    &["CLIENT", "LIST", "TYPE", "normal", "x"],
    &["CLIENT", "LIST", "ID"],
    &["CLIENT", "LIST", "ID", "x"],
    &["CLIENT", "LIST", "ID", "-1", "99999999"],
    &["CLIENT", "LIST", "what", "1"],
    &["CLIENT", "INFO", "x"],
    &["CLIENT", "KILL"],
    &["CLIENT", "KILL", "x"],
    &["CLIENT", "KILL", "ADDR"],
    &["CLIENT", "KILL", "ADDR", "1.2.3.4:5"],
    &["CLIENT", "KILL", "LADDR", "1.2.3.4:5", "ID", "99999999"],
    &["CLIENT", "KILL", "ID", "x"],
    &["CLIENT", "KILL", "ID", "0"],
    &["CLIENT", "KILL", "id", "99999999"],
    &["CLIENT", "KILL", "ID", "1", "what", "2"],
    &["CLIENT", "KILL", "ID", "1", "TYPE"],
    &["CLIENT", "KILL", "TYPE", "x"],
    &["CLIENT", "KILL", "TYPE", "replica"],
    &["CLIENT", "KILL", "TYPE", "slave", "SKIPME", "no"],
    &["CLIENT", "KILL", "USER", "nobody"],
    &["CLIENT", "KILL", "SKIPME", "what"],
    &["CLIENT", "REPLY", "what"],
    &["CLIENT", "REPLY"],
    &["CLIENT", "PAUSE"],
    &["CLIENT", "PAUSE", "x"],
    &["CLIENT", "PAUSE", "-1"],
    &["CLIENT", "PAUSE", "1.5", "WRITE"],
    &["CLIENT", "PAUSE", "1", "what"],
    &["CLIENT", "PAUSE", "9223372036854775807", "WRITE"],
    &["CLIENT", "UNPAUSE"],
    &["CLIENT", "UNPAUSE", "x"],
    &["CLIENT", "NO-EVICT", "on"],
    &["CLIENT", "NO-EVICT", "off"],
    &["CLIENT", "NO-EVICT", "what"],
    &["CLIENT", "UNBLOCK", "x"],
    &["CLIENT", "UNBLOCK", "99999999"],
    &["CLIENT", "UNBLOCK", "99999999", "timeout"],
    &["CLIENT", "UNBLOCK", "99999999", "ERROR"],
    &["CLIENT", "UNBLOCK", "99999999", "what"],
    &["CLIENT", "TRACKING", "off"],
    &["CLIENT", "TRACKING", "what"],
    &["CLIENT", "TRACKING", "on", "what"],
    &["CLIENT", "TRACKINGINFO"],
    &["CLIENT", "GETREDIR"],
    &["CLIENT", "CACHING", "yes"],
    &["CLIENT", "SETNAME", "a b"],
    &["CLIENT", "SETNAME", "name"],
    &["CLIENT", "GETNAME"],
    &["RESET"],
    &["CLIENT", "GETNAME"],
    &["RESET", "x"],
];

#[test]
fn administration_gets_the_replies_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let ours = start(options());
    for version in ["2", "3"] {
        let mut servers = [redis.address, ours.address].map(Raw::connect);
        servers.iter_mut().for_each(|server| _ = server.call(&["HELLO", version]));
        for command in ADMINISTRATION {
            let [expected, found] =
                servers.each_mut().map(|server| String::from_utf8_lossy(&server.call(command)).into_owned());
            assert_eq!(expected, found, "{command:?}");
        }
    }
}
