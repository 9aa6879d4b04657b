//! CLIENT TRACKING: who is told of which change, by this server or elsewhere.

use crate::common::memcached::Text;
use crate::common::redis_server::Redis;
use crate::common::{Random, Raw, Running, TestPool, command, options, start_with, with_memcached};
use atoll_cache::EngineOptions;
use atoll_cache::ditto::DittoOptions;
use atoll_server::ServerOptions;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn text(reply: Vec<u8>) -> String {
    String::from_utf8_lossy(&reply).into_owned()
}

fn engines() -> [EngineOptions; 2] {
    [EngineOptions::default(), EngineOptions::Ditto(DittoOptions::default())]
}

/// A server of a process that uses the pool. Its connections are on different workers.
fn server(pool: &TestPool) -> Running {
    start_with(ServerOptions { threads: 2, ..with_memcached() }, pool.process())
}

/// That a key has changed, in RESP3.
fn changed(key: &str) -> String {
    format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n{key}\r\n", key.len())
}

/// That everything has changed.
const ALL_CHANGED: &str = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

/// A connection that is told of changes in this way.
fn tracking(address: SocketAddr, options: &[&str]) -> Raw {
    let mut raw = Raw::connect(address);
    raw.call(&["HELLO", "3"]);
    assert_eq!(text(raw.call(&[&["CLIENT", "TRACKING", "ON"], options].concat())), "+OK\r\n");
    raw
}

/// That nothing has come, or comes within 20 ms.
fn assert_silent(raw: &mut Raw) {
    raw.stream().set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    assert_eq!(raw.stream().peek(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    raw.stream().set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(raw.call(&["PING"]), b"+PONG\r\n");
}

fn info(raw: &mut Raw, name: &str) -> u64 {
    let info = text(raw.call(&["INFO"]));
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned));
    line.unwrap_or_else(|| panic!("{name}")).trim().parse().unwrap()
}

/// What both servers reply to one connection.
const CONVERSATION: &[&[&str]] = &[
    &["CLIENT", "TRACKING"],
    &["CLIENT", "TRACKING", "MAYBE"],
    &["CLIENT", "TRACKING", "ON", "NOSUCH"],
    &["CLIENT", "TRACKING", "ON", "PREFIX"],
    &["CLIENT", "TRACKING", "ON", "REDIRECT"],
    &["CLIENT", "TRACKING", "ON", "REDIRECT", "x"],
    &["CLIENT", "TRACKING", "ON", "REDIRECT", "123456789"],
    &["CLIENT", "TRACKING", "OFF", "REDIRECT", "123456789"],
    &["CLIENT", "TRACKING", "ON", "PREFIX", "a"],
    &["CLIENT", "TRACKING", "ON", "OPTIN", "OPTOUT"],
    &["CLIENT", "TRACKING", "ON", "BCAST", "OPTIN"],
    &["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "ab", "PREFIX", "a"],
    &["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "ab", "PREFIX", "ab"],
    &["CLIENT", "TRACKINGINFO"],
    &["CLIENT", "GETREDIR"],
    &["CLIENT", "CACHING", "YES"],
    &["CLIENT", "CACHING"],
    &["CLIENT", "TRACKING", "OFF"],
    &["CLIENT", "TRACKING", "ON"],
    &["CLIENT", "TRACKING", "on"],
    &["CLIENT", "GETREDIR"],
    &["CLIENT", "TRACKINGINFO"],
    &["CLIENT", "CACHING", "YES"],
    &["CLIENT", "CACHING", "NO"],
    &["CLIENT", "CACHING", "MAYBE"],
    &["CLIENT", "TRACKING", "ON", "BCAST"],
    &["CLIENT", "TRACKING", "OFF"],
    &["CLIENT", "TRACKINGINFO"],
    &["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a", "PREFIX", "b", "NOLOOP"],
    &["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "ac"],
    &["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a"],
    &["CLIENT", "TRACKING", "ON"],
    &["CLIENT", "TRACKING", "ON", "OPTIN"],
    &["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "c"],
    &["CLIENT", "CACHING", "NO"],
    &["CLIENT", "TRACKING", "OFF"],
    &["CLIENT", "TRACKING", "ON", "BCAST"],
    &["CLIENT", "TRACKINGINFO"],
    &["CLIENT", "TRACKING", "OFF"],
    &["CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"],
    &["CLIENT", "CACHING", "NO"],
    &["CLIENT", "CACHING", "YES"],
    &["CLIENT", "TRACKINGINFO"],
    &["PING"],
    &["CLIENT", "TRACKINGINFO"],
    &["CLIENT", "TRACKING", "ON", "OPTOUT"],
    &["CLIENT", "TRACKING", "OFF"],
    &["CLIENT", "TRACKING", "ON", "OPTOUT"],
    &["CLIENT", "CACHING", "YES"],
    &["CLIENT", "CACHING", "NO"],
    &["MULTI"],
    &["CLIENT", "TRACKINGINFO"],
    &["PING"],
    &["CLIENT", "TRACKINGINFO"],
    &["EXEC"],
    &["CLIENT", "TRACKINGINFO"],
    &["RESET"],
    &["CLIENT", "TRACKINGINFO"],
    &["CONFIG", "GET", "tracking-table-max-keys"],
];

#[test]
fn conversations_about_tracking_are_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let ours = server(&TestPool::new(&EngineOptions::default()));
    for version in ["2", "3"] {
        let mut servers = [redis.address, ours.address].map(Raw::connect);
        servers.iter_mut().for_each(|server| _ = server.call(&["HELLO", version]));
        for command in CONVERSATION {
            let [expected, found] = servers.each_mut().map(|server| text(server.call(command)));
            assert_eq!(expected, found, "{command:?} in RESP{version}");
        }
    }
}

/// How the connections of a story are told of changes; the fourth one is not.
const ROLES: [&[&str]; 3] = [&[], &["BCAST", "PREFIX", "k", "NOLOOP"], &["OPTIN", "NOLOOP"]];

/// Commands of the connections, one after the other, at keys that are there when they are read.
const STORY: &[(usize, &[&str])] = &[
    (3, &["MSET", "k1", "1", "k2", "2", "other", "3"]),
    (0, &["GET", "k1"]),
    (0, &["GET", "k1"]),
    (3, &["SET", "k1", "x"]),
    (3, &["SET", "k1", "y"]),
    (0, &["MGET", "k1", "k2", "other"]),
    (2, &["CLIENT", "CACHING", "YES"]),
    (2, &["GET", "k2"]),
    (2, &["GET", "other"]),
    (3, &["APPEND", "k2", "z"]),
    (3, &["INCR", "other"]),
    (0, &["STRLEN", "k1"]),
    (0, &["SET", "k1", "own"]),
    (0, &["GETRANGE", "k1", "0", "1"]),
    (1, &["SET", "k1", "of a client that is not told of its own"]),
    (0, &["TTL", "k1"]),
    (3, &["EXPIRE", "k1", "1000"]),
    (0, &["EXISTS", "k1"]),
    (3, &["PERSIST", "k1"]),
    (0, &["GET", "k1"]),
    (3, &["SETNX", "k1", "is there"]),
    (3, &["DEL", "k1", "nosuch"]),
    (3, &["HSET", "kh", "f", "1"]),
    (0, &["HGET", "kh", "f"]),
    (3, &["HINCRBY", "kh", "f", "1"]),
    (0, &["GET", "k2"]),
    (3, &["RENAME", "k2", "k3"]),
    (0, &["GET", "k3"]),
    (3, &["GETDEL", "k3"]),
    (3, &["SET", "k4", "1"]),
    (0, &["MULTI"]),
    (0, &["GET", "k4"]),
    (0, &["INCR", "k4"]),
    (0, &["EXEC"]),
    (0, &["GET", "k4"]),
    (3, &["MULTI"]),
    (3, &["INCR", "k4"]),
    (3, &["INCR", "k4"]),
    (3, &["EXEC"]),
    (0, &["EVAL_RO", "return redis.call('GET', KEYS[1])", "1", "k4"]),
    (3, &["EVAL", "return redis.call('INCR', KEYS[1])", "1", "k4"]),
    (0, &["GET", "k4"]),
    (0, &["CLIENT", "TRACKING", "OFF"]),
    (3, &["INCR", "k4"]),
    (0, &["CLIENT", "TRACKING", "ON"]),
    (0, &["GET", "k4"]),
    (3, &["FLUSHDB"]),
    (3, &["SET", "k4", "1"]),
    (0, &["GET", "k4"]),
    (3, &["SELECT", "1"]),
    (3, &["FLUSHALL"]),
];

/// All messages up to the next reply, each of one key and no two alike, and that.
fn until_reply(raw: &mut Raw) -> String {
    let mut all = String::new();
    loop {
        let next = text(raw.reply());
        match next.strip_prefix(">2\r\n$10\r\ninvalidate\r\n*") {
            Some(keys) => {
                for message in keys.split("\r\n").skip(2).step_by(2).map(changed) {
                    if !all.contains(&message) {
                        all += &message;
                    }
                }
            }
            None => {
                if next == ALL_CHANGED {
                    all.clear();
                }
                all += &next;
            }
        }
        if !next.starts_with('>') {
            return all;
        }
    }
}

#[test]
fn a_story_of_four_clients_is_told_as_redis_tells_it() {
    let Some(redis) = Redis::start() else { return };
    for engine in engines() {
        let ours = server(&TestPool::new(&engine));
        let [expected, found] = [redis.address, ours.address].map(|address| {
            Raw::connect(address).call(&["FLUSHALL"]);
            let mut clients: Vec<Raw> = ROLES.iter().map(|options| tracking(address, options)).collect();
            clients.push(Raw::connect(address));
            clients[3].call(&["HELLO", "3"]);
            let mut told = Vec::new();
            for (index, command) in STORY {
                clients[*index].send(&crate::common::command(command));
                // Each connection has what it was told by the reply to its next command.
                let reply = until_reply(&mut clients[*index]);
                let lines = clients.iter_mut().map(|raw| {
                    raw.send(&crate::common::command(&["PING"]));
                    until_reply(raw)
                });
                told.push((command, reply, lines.collect::<Vec<_>>()));
            }
            told
        });
        for (expected, found) in expected.iter().zip(&found) {
            assert_eq!(expected, found);
        }
    }
}

#[test]
fn what_other_processes_change_is_told() {
    for engine in engines() {
        let pool = TestPool::new(&engine);
        let (ours, other) = (server(&pool), server(&pool));
        let mut writer = Raw::connect(other.address);
        let mut reader = tracking(ours.address, &[]);
        let mut broad = tracking(ours.address, &["BCAST", "PREFIX", "k"]);
        writer.call(&["MSET", "k", "0", "l", "0"]);
        for round in 1..20 {
            assert_eq!(text(reader.call(&["MGET", "k", "l"])).matches('$').count(), 2);
            broad.call(&["GET", "k"]);
            match round % 4 {
                0 => drop(writer.call(&["SET", "k", &round.to_string()])),
                1 => drop(writer.call(&["INCR", "k"])),
                2 => drop(writer.call(&["PEXPIRE", "k", "1000000"])),
                _ => drop(Text::connect(other.memcached()).say("set k 0 0 1\r\n7\r\n")),
            }
            assert_eq!(text(reader.reply()), changed("k"));
            assert_eq!(text(broad.reply()), changed("k"));
            assert_silent(&mut reader);
            writer.call(&["SET", "l", "1"]);
            assert_eq!(text(reader.reply()), changed("l"));
            assert_silent(&mut broad);
        }
        // A key that goes, and one that another protocol of this server changes.
        reader.call(&["MGET", "k", "l"]);
        Text::connect(ours.memcached()).say("set l 0 0 1\r\nx\r\n");
        assert_eq!(text(reader.reply()), changed("l"));
        writer.call(&["DEL", "k"]);
        assert_eq!(text(reader.reply()), changed("k"));
        // Everything goes, elsewhere.
        writer.call(&["MSET", "k", "0", "l", "0"]);
        reader.call(&["MGET", "k", "l"]);
        writer.call(&["FLUSHALL"]);
        let mut both = [text(reader.reply()), text(reader.reply())];
        both.sort();
        assert_eq!(both, [changed("k"), changed("l")]);
        assert_eq!(info(&mut reader, "tracking_total_keys"), 0);
        assert_eq!(info(&mut reader, "tracking_clients"), 2);
    }
}

#[test]
fn what_expires_or_is_evicted_is_told() {
    for engine in engines() {
        let pool = TestPool::new(&engine);
        let ours = server(&pool);
        let mut writer = Raw::connect(ours.address);
        let mut reader = tracking(ours.address, &[]);
        let began = Instant::now();
        writer.call(&["SET", "k", "1", "PX", "150"]);
        // Another server of the pool fills it later. What it writes is in no group that an idle
        // client is filling.
        let other = server(&pool);
        let (mut filler, value) = (Raw::connect(other.address), "7".repeat(10_000));
        filler.call(&["SET", "l", &value]);
        reader.call(&["MGET", "k", "l"]);
        assert_eq!(text(reader.reply()), changed("k"));
        assert!((Duration::from_millis(150)..Duration::from_secs(5)).contains(&began.elapsed()));
        // What is looked up again and again takes the place of what is not.
        reader.stream().set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut is_told = false;
        for number in 0..40_000 {
            let key = format!("key {number}");
            let gets = command(&["GET", &key]).repeat(4);
            filler.send(&[command(&["SET", &key, &value]), gets].concat());
            (0..5).for_each(|_| drop(filler.reply()));
            is_told = number % 100 == 0 && reader.stream().peek(&mut [0]).is_ok();
            if is_told {
                break;
            }
        }
        assert!(is_told, "what nobody looks up is evicted, and that is told");
        assert_eq!(text(reader.reply()), changed("l"));
    }
}

#[test]
fn a_key_that_is_not_there_is_told_behind_the_reply() {
    let ours = server(&TestPool::new(&EngineOptions::default()));
    let mut reader = tracking(ours.address, &["NOLOOP"]);
    reader.send(&[command(&["GET", "k"]), command(&["PING"])].concat());
    assert_eq!([(); 3].map(|()| text(reader.reply())), ["_\r\n".to_owned(), changed("k"), "+PONG\r\n".to_owned()]);
    // In a transaction, behind that.
    for one in [&["MULTI"][..], &["GET", "k"], &["GET", "l"]] {
        reader.call(one);
    }
    reader.send(&command(&["EXEC"]));
    assert_eq!([(); 3].map(|()| text(reader.reply())), ["*2\r\n_\r\n_\r\n".to_owned(), changed("k"), changed("l")]);
    let script = "return redis.call('GET', KEYS[1])";
    reader.send(&command(&["EVAL", script, "1", "k"]));
    assert_eq!([(); 2].map(|()| text(reader.reply())), ["_\r\n".to_owned(), changed("k")]);
}

/// How a client is told of changes, a database, and commands that read `k` of it.
type Step = (&'static [&'static str], &'static str, &'static [&'static [&'static str]]);

/// Transactions and scripts.
const STEPS: &[Step] = &[
    (&[], "0", &[&["MULTI"], &["GET", "k"], &["EXEC"]]),
    (&["NOLOOP"], "0", &[&["MULTI"], &["SET", "k", "v"], &["GET", "k"], &["EXEC"]]),
    (&["NOLOOP"], "0", &[&["EVAL", "redis.call('set', KEYS[1], 'v') return redis.call('get', KEYS[1])", "1", "k"]]),
    (&["NOLOOP"], "0", &[&["EVAL", "redis.call('set', 'k', 'v') return redis.call('get', 'k')", "2", "k", "l"]]),
    (&[], "1", &[&["MULTI"], &["SELECT", "1"], &["EVAL", "return redis.call('get', KEYS[1])", "1", "k"], &["EXEC"]]),
    (&[], "1", &[&["EVAL", "redis.call('select', 1) return redis.call('get', KEYS[1])", "1", "k"]]),
    (&[], "0", &[&["EVAL", "redis.call('get', 'l') return redis.call('get', 'k')", "1", "l"]]),
    (&["OPTIN"], "0", &[&["CLIENT", "CACHING", "YES"], &["EVAL_RO", "return redis.call('get', KEYS[1])", "1", "k"]]),
    (
        &["OPTIN"],
        "0",
        &[
            &["MULTI"],
            &["CLIENT", "CACHING", "YES"],
            &["EVAL", "return redis.call('get', KEYS[1])", "1", "k"],
            &["EXEC"],
        ],
    ),
    (&["BCAST", "PREFIX", "k"], "0", &[&["MULTI"], &["GET", "k"], &["STRLEN", "k"], &["EXEC"]]),
    (&[], "0", &[&["OBJECT", "ENCODING", "k"]]),
    (&[], "0", &[&["SUBSCRIBE", "c"], &["MULTI"], &["GET", "k"], &["EXEC"]]),
];

#[test]
fn what_steps_and_scripts_read_is_told_when_it_changes_or_at_once() {
    let pool = TestPool::new(&EngineOptions::default());
    let (ours, other) = (server(&pool), server(&pool));
    let mut writer = Raw::connect(other.address);
    for (options, database, step) in STEPS {
        for database in ["0", "1"] {
            writer.call(&["SELECT", database]);
            writer.call(&["MSET", "k", "1", "l", "1"]);
        }
        let mut reader = tracking(ours.address, options);
        let mut heard = false;
        for command_of_step in *step {
            reader.send(&command(command_of_step));
            if command_of_step[0] == "SUBSCRIBE" {
                // Its reply is a message, too.
                reader.reply();
                continue;
            }
            heard |= until_reply(&mut reader).contains(&changed("k"));
        }
        reader.send(&command(&["PING"]));
        heard |= until_reply(&mut reader).contains(&changed("k"));
        writer.call(&["SELECT", database]);
        writer.call(&["SET", "k", "2"]);
        if !heard {
            println!("{options:?} {step:?}");
            assert_eq!(text(reader.reply()), changed("k"), "{options:?} {step:?}");
        }
    }
}

#[test]
fn messages_are_redirected_and_a_client_hears_if_its_helper_is_gone() {
    let Some(redis) = Redis::start() else { return };
    let ours = server(&TestPool::new(&EngineOptions::default()));
    let [expected, found] = [redis.address, ours.address].map(|address| {
        let mut told = Vec::new();
        let mut helper = Raw::connect(address);
        let id = text(helper.call(&["CLIENT", "ID"])).trim().trim_start_matches(':').to_owned();
        let mut resp2 = Raw::connect(address);
        told.push(text(resp2.call(&["CLIENT", "TRACKING", "ON", "REDIRECT", &id])));
        told.push(text(resp2.call(&["CLIENT", "GETREDIR"])).replace(&id, "ID"));
        let mut resp3 = tracking(address, &["REDIRECT", &id]);
        resp3.call(&["SET", "k", "1"]);
        // No message before the helper has subscribed.
        told.push(text(resp2.call(&["GET", "k"])));
        resp3.call(&["SET", "k", "2"]);
        told.push(text(helper.call(&["SUBSCRIBE", "__redis__:invalidate"])));
        told.push(text(resp2.call(&["GET", "k"])));
        told.push(text(resp3.call(&["GET", "k"])));
        resp3.call(&["SET", "k", "3"]);
        told.push(text(helper.reply()));
        told.push(text(helper.reply()));
        resp3.call(&["FLUSHALL"]);
        // Redis sends a null of RESP3 to the helper, which cannot read it.
        told.push(text(helper.reply()));
        told.push(text(helper.reply()).replace("_\r\n", "$-1\r\n"));
        resp3.call(&["SET", "k", "1"]);
        told.push(text(resp3.call(&["GET", "k"])));
        drop(helper);
        let waits = Instant::now();
        while text(resp2.call(&["CLIENT", "LIST", "ID", &id])).contains("id=") {
            assert!(waits.elapsed() < Duration::from_secs(20), "the helper is still there");
        }
        resp2.call(&["SET", "k", "4"]);
        let without_id = |reply: Vec<u8>| text(reply).replace(&format!(":{id}\r\n"), ":ID\r\n");
        told.push(without_id(resp3.reply()));
        told.push(without_id(resp3.call(&["CLIENT", "TRACKINGINFO"])));
        let list = text(resp3.call(&["CLIENT", "LIST"]));
        let shown = list.lines().filter(|line| line.contains(&format!(" redir={id} "))).map(|line| {
            let words: Vec<&str> = line.split(' ').filter(|word| word.starts_with("flags=")).collect();
            words.join(" ")
        });
        told.extend(shown);
        told
    });
    assert_eq!(expected, found);
}

#[test]
fn so_many_keys_are_tracked_as_the_parameter_says() {
    let ours = server(&TestPool::new(&EngineOptions::default()));
    let mut reader = tracking(ours.address, &[]);
    reader.call(&["CONFIG", "SET", "tracking-table-max-keys", "100"]);
    let mut told = 0;
    for number in 0..1000 {
        let key = format!("key {number}");
        for command_of_key in [&["SET", &key, "x"][..], &["GET", &key]] {
            reader.send(&command(command_of_key));
            told += until_reply(&mut reader).matches("invalidate").count();
        }
    }
    let mut other = Raw::connect(ours.address);
    let keys = info(&mut other, "tracking_total_keys");
    assert!((1..=100).contains(&keys), "{keys} keys are tracked, with no wait");
    reader.send(&command(&["PING"]));
    told += until_reply(&mut reader).matches("invalidate").count();
    assert_eq!(told as u64, 1000 - keys);
    assert_eq!(info(&mut other, "tracking_total_items"), keys);
}

/// A client that keeps what it reads until it is told that it has changed.
struct Keeping {
    raw: Raw,
    kept: HashMap<String, u64>,
}

impl Keeping {
    /// Takes what has come.
    fn hear(&mut self) {
        self.raw.send(&command(&["PING"]));
        loop {
            match text(self.raw.reply()) {
                pong if pong == "+PONG\r\n" => return,
                all if all == ALL_CHANGED => self.kept.clear(),
                one => drop(self.kept.remove(one.lines().last().unwrap())),
            }
        }
    }

    fn get(&mut self, key: &str) -> u64 {
        if let Some(value) = self.kept.get(key) {
            return *value;
        }
        self.raw.send(&command(&["GET", key]));
        loop {
            let reply = text(self.raw.reply());
            if let Some(push) = reply.strip_prefix('>') {
                self.kept.remove(push.lines().last().unwrap());
                continue;
            }
            let value = reply.lines().nth(1).unwrap().parse().unwrap();
            self.kept.insert(key.to_owned(), value);
            return value;
        }
    }
}

/// A change of another server is told after a look, which comes once a second at the least.
const TOLD: Duration = Duration::from_secs(2);

#[test]
fn no_client_keeps_what_is_old() {
    const KEYS: usize = 8;
    for engine in engines() {
        let pool = TestPool::new(&engine);
        let (ours, other) = (server(&pool), server(&pool));
        let written: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
        let has_ended = AtomicBool::new(false);
        let mut first = Raw::connect(ours.address);
        (0..KEYS).for_each(|key| drop(first.call(&["SET", &format!("k{key}"), "0"])));
        std::thread::scope(|scope| {
            let writers = [ours.address, other.address].map(|address| {
                let (written, has_ended) = (&written, &has_ended);
                scope.spawn(move || {
                    let (mut raw, mut random) = (Raw::connect(address), Random(address.port().into()));
                    while !has_ended.load(Ordering::Relaxed) {
                        let key = random.below(KEYS);
                        let value = text(raw.call(&["INCR", &format!("k{key}")]));
                        let value = value.trim().trim_start_matches(':').parse().unwrap();
                        written[key].fetch_max(value, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_micros(random.next() % 2000));
                    }
                })
            });
            let readers = [0, 1, 2].map(|number| {
                let (written, has_ended) = (&written, &has_ended);
                let address = if number == 2 { other.address } else { ours.address };
                scope.spawn(move || {
                    let mut random = Random(number);
                    let mut client = Keeping { raw: tracking(address, &[]), kept: HashMap::new() };
                    let (mut last, mut from_own) = (Instant::now(), 0);
                    let mut before: Vec<u64> = vec![0; KEYS];
                    while !has_ended.load(Ordering::Relaxed) {
                        let key = random.below(KEYS);
                        from_own += u32::from(client.kept.contains_key(&format!("k{key}")));
                        client.get(&format!("k{key}"));
                        if last.elapsed() > TOLD {
                            client.hear();
                            for (key, least) in before.iter().enumerate() {
                                assert!(client.get(&format!("k{key}")) >= *least, "k{key}");
                            }
                            before = written.iter().map(|value| value.load(Ordering::SeqCst)).collect();
                            last = Instant::now();
                        }
                    }
                    std::thread::sleep(TOLD);
                    client.hear();
                    (client, from_own)
                })
            });
            std::thread::sleep(3 * TOLD);
            has_ended.store(true, Ordering::Relaxed);
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            for reader in readers {
                let (mut client, from_own) = reader.join().unwrap();
                assert!(from_own > 100, "{from_own}");
                for (key, value) in written.iter().enumerate() {
                    assert_eq!(client.get(&format!("k{key}")), value.load(Ordering::SeqCst), "k{key} at the end");
                }
            }
        });
    }
}

#[test]
fn all_is_told_to_have_changed_if_the_server_can_vouch_for_nothing() {
    for engine in engines() {
        let pool = TestPool::new(&engine);
        let ours = server(&pool);
        let mut reader = tracking(ours.address, &[]);
        let mut broad = tracking(ours.address, &["BCAST"]);
        reader.call(&["SET", "k", "1"]);
        assert_eq!(text(broad.reply()), changed("k"));
        reader.call(&["GET", "k"]);
        // As when a memory node is lost.
        pool.end_all_copies();
        assert_eq!(text(reader.reply()), ALL_CHANGED);
        assert_eq!(text(broad.reply()), ALL_CHANGED);
        assert_eq!(info(&mut reader, "tracking_total_keys"), 0);
        broad.call(&["GET", "k"]);
        reader.call(&["GET", "k"]);
        assert_silent(&mut reader);
        reader.call(&["SWAPDB", "0", "3"]);
        assert_eq!(text(reader.reply()), ALL_CHANGED);
        assert_eq!(text(broad.reply()), ALL_CHANGED);
    }
}

#[test]
fn a_server_without_a_pool_says_that_it_tells_nothing() {
    let ours = crate::common::start(options());
    let refused = text(Raw::connect(ours.address).call(&["CLIENT", "TRACKING", "ON"]));
    assert!(refused.starts_with("-ERR CLIENT TRACKING is not possible here"), "{refused}");
}
