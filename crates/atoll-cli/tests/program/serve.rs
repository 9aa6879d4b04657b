//! `atoll serve`, as Redis and memcached clients use it: the `redis` crate, redis-py, several
//! servers over one pool.

use crate::binary::{PoolName, Serving, printed, refused};
use atoll_sim::requirement::{redis_py, required};
use redis::Commands;
use std::io::{Read, Write};
use std::process::Command;

#[test]
fn the_redis_crate_finds_what_it_set() {
    let server = Serving::start(&["--capacity", "64MiB", "--threads", "2"]);
    let mut redis = server.connect();
    let () = redis.set("k", "v").unwrap();
    assert_eq!(redis.get::<_, String>("k").unwrap(), "v");
    let () = redis.set_ex("t", vec![7u8; 100_000], 100).unwrap();
    assert_eq!(redis.get::<_, Vec<u8>>("t").unwrap(), vec![7; 100_000]);
    assert!((1..=100).contains(&redis.ttl::<_, i64>("t").unwrap()));
    assert_eq!(redis.incr::<_, _, i64>("n", 5).unwrap(), 5);
    assert_eq!(
        redis.mget::<_, Vec<Option<String>>>(&["k", "absent", "n"]).unwrap(),
        [Some("v".to_owned()), None, Some("5".to_owned())]
    );
    let mut pipe = redis::pipe();
    for index in 0..1000 {
        pipe.set(format!("p{index}"), index).ignore();
    }
    let () = pipe.query(&mut redis).unwrap();
    let mut other = server.connect();
    let mut keys: Vec<String> = other.scan_match("p*").unwrap().map(Result::unwrap).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 1000);
    assert_eq!(redis.del::<_, usize>(&["p1", "p2", "absent"]).unwrap(), 2);
    let error = redis.incr::<_, _, i64>("k", 1).unwrap_err();
    assert!(error.to_string().contains("not an integer"), "{error}");
}

#[test]
fn redis_py_and_its_pipelines_work() {
    let Some(()) = required("redis-py", redis_py()) else { return };
    let server = Serving::start(&["--capacity", "64MiB"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/clients.py");
    let output = Command::new("python3").args([script, &server.port.to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn servers_and_the_embedding_api_share_one_pool() {
    let name = PoolName::new("shared");
    printed(&["pool", "create", &name.0, "--capacity", "32MiB"]);
    let (one, two) = (Serving::start(&["--pool", &name.0]), Serving::start(&["--pool", &name.0]));
    let () = one.connect().set("from one", "1").unwrap();
    assert_eq!(two.connect().get::<_, String>("from one").unwrap(), "1");
    let mut cache = atoll::Pool::open(&name.0).unwrap().client().unwrap();
    assert_eq!(cache.get(b"from one").unwrap(), Some(&b"1"[..]));
    cache.set(b"from here", b"2").unwrap();
    assert_eq!(one.connect().get::<_, String>("from here").unwrap(), "2");
    let info = printed(&["pool", "info", &name.0]);
    assert!(info.contains("clients            3"), "{info}");
    assert!(info.contains("objects            2"), "{info}");
}

#[test]
fn memcached_clients_are_served_the_keys_of_redis_clients() {
    let server = Serving::start(&["--capacity", "64MiB", "--memcached", "127.0.0.1:0"]);
    let address = ("127.0.0.1", server.memcached_port.unwrap());
    let mut memcached = std::net::TcpStream::connect(address).unwrap();
    memcached.write_all(b"set k 7 100 1\r\nx\r\nquit\r\n").unwrap();
    let mut said = String::new();
    memcached.read_to_string(&mut said).unwrap();
    assert_eq!(said, "STORED\r\n");
    assert_eq!(server.connect().get::<_, String>("k").unwrap(), "x");
    let open = refused(&["serve", "--port", "0", "--memcached", "0.0.0.0:0"]);
    assert!(open.contains("no password") && open.contains("--protected-mode no"), "{open}");
    assert!(refused(&["serve", "--port", "none"]).contains("--memcached"));
    assert!(refused(&["serve", "--port", "65536"]).contains("none"));
    let config = printed(&["serve", "--port", "none", "--memcached", "127.0.0.1:11211", "--config"]);
    assert!(config.contains("port = \"none\" ") && config.contains("memcached = \"127.0.0.1:11211\" "), "{config}");
}

#[test]
fn a_busy_port_and_an_absent_pool_are_errors_that_say_what_to_do() {
    let server = Serving::start(&["--capacity", "8MiB"]);
    let busy = refused(&["serve", "--capacity", "8MiB", "--port", &server.port.to_string()]);
    assert!(busy.contains("--port") || busy.contains("another port"), "{busy}");
    let absent = refused(&["serve", "--pool", "shm:/nobody-made-this", "--port", "0"]);
    assert!(absent.contains("does not exist") && absent.contains("atoll pool create"), "{absent}");
    assert!(refused(&["serve", "--capacity", "many"]).contains("number of bytes"));
    assert!(printed(&["serve", "--config"]).contains("port = 6379"));
}

/// Whether a connection must name its user first.
fn is_stranger(mut redis: redis::Connection) -> bool {
    redis.get::<_, ()>("a").is_err_and(|error| error.code() == Some("NOAUTH"))
}

#[test]
fn users_of_a_file_have_their_rights_and_those_that_are_saved_come_back() {
    let directory = std::env::temp_dir().join(format!("atoll-users-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("users.acl").display().to_string();
    let serve = || Serving::start(&["--capacity", "16MiB", "--aclfile", &file]);
    let ana = |server: &Serving| server.connect_as("ana", "secret").unwrap();
    assert!(refused(&["serve", "--port", "0", "--capacity", "16MiB", "--aclfile", &file]).contains(&file));

    std::fs::write(&file, "user default off\nuser ana on >secret ~cache:* &* +@all\n").unwrap();
    let server = serve();
    let mut redis = ana(&server);
    let () = redis.set("cache:a", "1").unwrap();
    let denied = redis.set::<_, _, ()>("other", "1").unwrap_err();
    assert_eq!(denied.code(), Some("NOPERM"), "{denied}");
    assert!(server.connect_as("ana", "wrong").is_err() && is_stranger(server.connect()));
    let () =
        redis::cmd("ACL").arg("SETUSER").arg("bob").arg(&["on", ">pass", "%R~*", "+get"]).query(&mut redis).unwrap();
    let () = redis::cmd("ACL").arg("SAVE").query(&mut redis).unwrap();
    drop(server);
    let saved = std::fs::read_to_string(&file).unwrap();
    assert!(saved.contains("user bob on #") && !saved.contains("secret") && !saved.contains("pass\n"), "{saved}");

    let server = serve();
    let mut bob = server.connect_as("bob", "pass").unwrap();
    assert_eq!(bob.get::<_, Option<String>>("cache:a").unwrap(), None);
    assert!(bob.set::<_, _, ()>("cache:a", "1").is_err());
    // A file that is no longer one is not taken, and the users stay.
    std::fs::write(&file, "nonsense\n").unwrap();
    let mut redis = ana(&server);
    let wrong = redis::cmd("ACL").arg("LOAD").query::<()>(&mut redis).unwrap_err();
    assert!(wrong.to_string().contains("should start with user keyword"), "{wrong}");
    assert!(server.connect_as("bob", "pass").is_ok());
    let wrong = refused(&["serve", "--port", "0", "--capacity", "16MiB", "--aclfile", &file]);
    assert!(wrong.contains("should start with user keyword"), "{wrong}");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn users_of_options_have_their_rights_and_their_passwords_are_not_shown() {
    let users = ["--user", "default off", "--user", "ana on >secret ~* +@read", "--user", "bob on >pass ~b:* +@all"];
    let server = Serving::start(&[&["--capacity", "16MiB"][..], &users].concat());
    let (mut ana, mut bob) = (server.connect_as("ana", "secret").unwrap(), server.connect_as("bob", "pass").unwrap());
    let () = bob.set("b:k", "v").unwrap();
    assert_eq!(ana.get::<_, String>("b:k").unwrap(), "v");
    assert!(ana.set::<_, _, ()>("b:k", "w").is_err() && bob.get::<_, Option<String>>("a").is_err());
    assert!(server.connect_as("ana", "pass").is_err() && is_stranger(server.connect()));
    let config = printed(&[&["serve", "--config"][..], &users].concat());
    assert!(config.contains("user = default, ana, bob: the rules") && !config.contains("secret"), "{config}");
    for (args, said) in [
        (&["--user", "ana +nosuch"][..], "nosuch"),
        (&["--user", "ana", "--aclfile", "/nowhere"], "cannot be used with"),
        (&["--password-file", "/nowhere", "--aclfile", "/nowhere"], "cannot be used with"),
    ] {
        let error = refused(&[&["serve", "--port", "0", "--capacity", "16MiB"], args].concat());
        assert!(error.contains(said) && !error.contains("panicked"), "{error}");
    }
}
