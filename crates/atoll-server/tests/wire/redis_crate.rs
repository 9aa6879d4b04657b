//! The `redis` crate as a client: plain calls, pipelines, RESP3, a Unix socket.

use crate::common::{options, start};
use redis::{Client, Commands, Connection, RedisResult, Value};
use std::collections::HashMap;

fn connect(url: &str) -> Connection {
    Client::open(url).unwrap().get_connection().unwrap()
}

#[test]
fn strings_numbers_and_expiry_work() {
    let server = start(options());
    let mut c = connect(&format!("redis://{}/0", server.address));
    let () = c.set("k", "v").unwrap();
    assert_eq!(c.get::<_, String>("k").unwrap(), "v");
    assert_eq!(c.get::<_, Option<String>>("absent").unwrap(), None);
    assert_eq!(c.incr::<_, _, i64>("n", 41).unwrap(), 41);
    assert_eq!(c.incr::<_, _, i64>("n", 1).unwrap(), 42);
    assert_eq!(c.incr::<_, _, f64>("f", 0.1).unwrap(), 0.1);
    assert_eq!(c.incr::<_, _, String>("f", 0.2).unwrap(), "0.3");
    assert!(c.set_nx::<_, _, bool>("once", 1).unwrap());
    assert!(!c.set_nx::<_, _, bool>("once", 2).unwrap());
    let () = c.set_ex("e", "x", 100).unwrap();
    assert_eq!(c.ttl::<_, i64>("e").unwrap(), 100);
    assert!(c.persist::<_, bool>("e").unwrap());
    assert_eq!(c.ttl::<_, i64>("e").unwrap(), -1);
    assert_eq!(c.append::<_, _, usize>("k", "w").unwrap(), 2);
    assert_eq!(c.getrange::<_, String>("k", -1, -1).unwrap(), "w");
    let () = c.mset(&[("a", "1"), ("b", "2")]).unwrap();
    assert_eq!(
        c.mget::<_, Vec<Option<String>>>(&["a", "none", "b"]).unwrap(),
        [Some("1".to_owned()), None, Some("2".to_owned())]
    );
    assert_eq!(c.del::<_, usize>(&["a", "b", "none"]).unwrap(), 2);
    let error = c.incr::<_, _, i64>("k", 1).unwrap_err();
    assert_eq!(error.detail(), Some("value is not an integer or out of range"));
}

#[test]
fn scan_shows_every_key_that_matches() {
    let server = start(options());
    let mut c = connect(&format!("redis://{}/", server.address));
    for index in 0..500 {
        let () = c.set(format!("{}:{index}", if index % 2 == 0 { "even" } else { "odd" }), index).unwrap();
    }
    let mut found: Vec<String> = c.scan_match::<_, String>("even:*").unwrap().map(Result::unwrap).collect();
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 250);
    assert_eq!(redis::cmd("DBSIZE").query::<u64>(&mut c).unwrap(), 500);
    let key: String = redis::cmd("RANDOMKEY").query(&mut c).unwrap();
    assert!(c.exists::<_, bool>(key).unwrap());
    let () = redis::cmd("FLUSHALL").query(&mut c).unwrap();
    assert_eq!(redis::cmd("DBSIZE").query::<u64>(&mut c).unwrap(), 0);
}

#[test]
fn a_pipeline_longer_than_the_output_bound_gets_all_replies_in_order() {
    let server = start(options());
    let mut c = connect(&format!("redis://{}/", server.address));
    let value = vec![b'x'; 20_000];
    let () = c.set("large", &value).unwrap();
    let mut pipeline = redis::pipe();
    for index in 0..300 {
        pipeline.cmd("ECHO").arg(index).cmd("GET").arg("large");
    }
    let replies: Vec<Vec<u8>> = pipeline.query(&mut c).unwrap();
    for (index, pair) in replies.chunks(2).enumerate() {
        assert_eq!(pair[0], index.to_string().into_bytes());
        assert_eq!(pair[1], value);
    }
}

#[test]
fn values_of_all_sizes_come_back_whole() {
    let server = start(options());
    let mut c = connect(&format!("redis://{}/", server.address));
    for bytes in [0, 1, 255, 16 << 10, (32 << 10) - 1, 32 << 10, 1 << 20, (9 << 20) + 7] {
        let value: Vec<u8> = (0..bytes).map(|index: usize| ((index * 31) >> 3) as u8).collect();
        let () = c.set("k", &value).unwrap();
        let got: Vec<Vec<u8>> = redis::pipe().get("k").cmd("ECHO").arg("between").get("k").query(&mut c).unwrap();
        assert!(got[0] == value && got[1] == b"between" && got[2] == value, "{bytes}");
    }
}

#[test]
fn resp3_has_its_own_nulls_and_maps() {
    let server = start(options());
    let mut c = connect(&format!("redis://{}/?protocol=resp3", server.address));
    assert_eq!(redis::cmd("GET").arg("absent").query::<Value>(&mut c).unwrap(), Value::Nil);
    let hello: HashMap<String, Value> = redis::cmd("HELLO").query(&mut c).unwrap();
    assert_eq!(hello["proto"], Value::Int(3));
    assert!(matches!(redis::cmd("HELLO").query::<Value>(&mut c).unwrap(), Value::Map(_)));
    let docs: HashMap<String, HashMap<String, Value>> = redis::cmd("COMMAND").arg("DOCS").query(&mut c).unwrap();
    assert_eq!(docs["get"]["group"], Value::BulkString(b"string".to_vec()));
    let info: redis::InfoDict = redis::cmd("INFO").query(&mut c).unwrap();
    assert_eq!(info.get::<String>("redis_mode").unwrap(), "standalone");
    let refused: RedisResult<Value> = redis::cmd("NOTHING").query(&mut c);
    assert!(refused.unwrap_err().to_string().contains("unknown command 'NOTHING'"));
}

#[test]
fn a_unix_socket_serves_and_goes_with_the_server() {
    let path = std::env::temp_dir().join(format!("atoll-test-{}.sock", std::process::id()));
    let mut server = start(atoll_server::ServerOptions { unix: Some(path.clone()), ..options() });
    let mut c = connect(&format!("redis+unix://{}", path.display()));
    let () = c.set("k", "v").unwrap();
    assert_eq!(c.get::<_, String>("k").unwrap(), "v");
    server.stop();
    assert!(!path.exists());
}
