//! OBJECT, MEMORY and LCS.

use crate::common;
use crate::common::redis_server::Redis;
use crate::common::{Random, Raw, options, start, start_on};
use atoll_cache::EngineOptions;
use atoll_cache::ditto::DittoOptions;
use atoll_cache::experts::ExpertSet;

fn text(reply: Vec<u8>) -> String {
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn a_value_is_encoded_as_redis_would_encode_it() {
    let Some(redis) = Redis::start() else { return };
    let ours = start(options());
    let mut servers = [redis.address, ours.address].map(Raw::connect);
    let long = |bytes| "x".repeat(bytes);
    let (fits, too_long) = (long(44), long(45));
    let texts = ["", "0", "12", "-5", "007", "+1", "1.5", " 1", "9223372036854775807", "9223372036854775808"];
    for value in texts.into_iter().chain(["-9223372036854775808", "123456789012345678901", &fits, &too_long]) {
        let [expected, found] = servers.each_mut().map(|server| {
            server.call(&["SET", "k", value]);
            text(server.call(&["OBJECT", "ENCODING", "k"]))
        });
        assert_eq!(expected, found, "{value:?}");
    }
    assert_eq!(text(Raw::connect(ours.address).call(&["OBJECT", "REFCOUNT", "k"])), ":1\r\n");
}

#[test]
fn frequency_or_idle_time_is_told_as_the_policy_that_is_reported_demands() {
    let Some(redis) = Redis::start() else { return };
    let ours = start(options());
    let mut servers = [redis.address, ours.address].map(Raw::connect);
    let policy = text(servers[1].call(&["CONFIG", "GET", "maxmemory-policy"]));
    assert!(policy.ends_with("\r\nallkeys-lfu\r\n"), "{policy}");
    servers[0].call(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"]);
    let [expected, found] = servers.each_mut().map(|server| {
        server.call(&["SET", "k", "v"]);
        text(server.call(&["OBJECT", "IDLETIME", "k"]))
    });
    assert_eq!(expected, found);
    let untold = text(servers[1].call(&["OBJECT", "FREQ", "k"]));
    assert!(untold.starts_with("-ERR the engine keeps nothing"), "the reference engine: {untold}");
    // Redis begins with another number, and counts at random.
    let forge = start_on(&EngineOptions::default(), options());
    let mut forge = Raw::connect(forge.address);
    forge.call(&["SET", "k", "v"]);
    for expected in 0..4 {
        assert_eq!(text(forge.call(&["OBJECT", "FREQ", "k"])), format!(":{expected}\r\n"));
        forge.call(&["GET", "k"]);
    }
    for words in [&["MULTI"][..], &["SET", "new", "v"], &["OBJECT", "FREQ", "new"]] {
        forge.call(words);
    }
    assert_eq!(text(forge.call(&["EXEC"])), "*2\r\n+OK\r\n:0\r\n", "of what the transaction has made");
    let ditto = start_on(&EngineOptions::Ditto(DittoOptions::default()), options());
    let mut ditto = Raw::connect(ditto.address);
    ditto.call(&["SET", "k", "v"]);
    (0..20).for_each(|_| _ = ditto.call(&["GET", "k"]));
    assert_eq!(text(ditto.call(&["OBJECT", "FREQ", "k"])), ":20\r\n");
    let lru = DittoOptions { experts: "lru".parse::<ExpertSet>().unwrap(), ..DittoOptions::default() };
    let lru = start_on(&EngineOptions::Ditto(lru), options());
    let mut lru = Raw::connect(lru.address);
    lru.call(&["SET", "k", "v"]);
    assert!(text(lru.call(&["OBJECT", "FREQ", "k"])).starts_with("-ERR An LFU maxmemory policy is not selected"));
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let idle = text(lru.call(&["OBJECT", "IDLETIME", "k"]));
    assert!(idle == ":1\r\n" || idle == ":2\r\n", "{idle}");
    lru.call(&["GET", "k"]);
    assert_eq!(text(lru.call(&["OBJECT", "IDLETIME", "k"])), ":0\r\n");
}

#[test]
fn a_part_of_a_large_value_is_that_part() {
    for engine in [EngineOptions::default(), EngineOptions::Ditto(DittoOptions::default())] {
        let server = start_on(&engine, options());
        let mut raw = Raw::connect(server.address);
        // Of many chunks, so that the record lists chunks of lists.
        let value: Vec<u8> = (0..3_u32 << 20).map(|index| (index % 251) as u8).collect();
        assert_eq!(raw.call(&[b"SET".as_slice(), b"k", &value]), b"+OK\r\n");
        let length = value.len();
        for (start, end) in [(0, 9), (2_500_000, 2_500_009), (length - 10, length - 1), (1000, 1_500_000), (7, length)]
        {
            let expected = &value[start..length.min(end + 1)];
            let reply = raw.call(&["GETRANGE", "k", &start.to_string(), &end.to_string()]);
            let head = format!("${}\r\n", expected.len());
            assert!(
                reply.starts_with(head.as_bytes()) && reply[head.len()..reply.len() - 2] == *expected,
                "{start} {end}"
            );
        }
        let bit = 8 * 2_900_000 + 3;
        let expected = value[2_900_000] >> 4 & 1;
        assert_eq!(text(raw.call(&["GETBIT", "k", &bit.to_string()])), format!(":{expected}\r\n"));
        assert_eq!(text(raw.call(&["GETBIT", "k", &(8 * length).to_string()])), ":0\r\n");
        assert_eq!(text(raw.call(&["TOUCH", "k", "absent"])), ":1\r\n");
    }
}

#[test]
fn memory_is_that_of_records_and_of_the_pool() {
    let server = start(options());
    let mut raw = Raw::connect(server.address);
    raw.call(&["SET", "key", &"x".repeat(100)]);
    assert_eq!(text(raw.call(&["MEMORY", "USAGE", "key"])), format!(":{}\r\n", 16 + 3 + 100));
    raw.call(&["SELECT", "3"]);
    raw.call(&["SET", "key", ""]);
    // A key in another database than 0 has two bytes more.
    assert_eq!(text(raw.call(&["MEMORY", "USAGE", "key", "SAMPLES", "0"])), ":21\r\n");
    let stats = text(raw.call(&["MEMORY", "STATS"]));
    for field in
        ["$15\r\ntotal.allocated\r\n:140\r\n", "$10\r\nkeys.count\r\n:2\r\n", "$4\r\ndb.0\r\n*6\r\n", "$4\r\ndb.3\r\n"]
    {
        assert!(stats.contains(field), "{stats}");
    }
    raw.call(&["HELLO", "3"]);
    assert!(text(raw.call(&["MEMORY", "STATS"])).contains("$15\r\npeak.percentage\r\n,100\r\n"));
    assert!(text(raw.call(&["MEMORY", "DOCTOR"])).contains("12345678 of 1073741824 bytes are in use"));
    assert!(text(raw.call(&["MEMORY", "MALLOC-STATS"])).ends_with("not supported for the current allocator\r\n"));
    assert!(text(raw.call(&["MEMORY", "HELP"])).contains("\r\n+PURGE\r\n"));
    assert!(text(raw.call(&["OBJECT", "HELP"])).contains("\r\n+REFCOUNT <key>\r\n"));
}

#[test]
fn common_subsequences_are_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let ours = start(options());
    let mut random = Random(20);
    for version in ["2", "3"] {
        let mut servers = [redis.address, ours.address].map(Raw::connect);
        servers.iter_mut().for_each(|server| _ = server.call(&["HELLO", version]));
        for _ in 0..150 {
            let letters = 1 + random.below(4);
            let mut value =
                |most: usize| -> Vec<u8> { (0..random.below(most)).map(|_| b"abcd"[random.below(letters)]).collect() };
            let (one, other) = (value(80), value(200));
            servers.iter_mut().for_each(|server| _ = server.call(&[&b"MSET"[..], b"a", &one, b"b", &other]));
            for command in [
                &["LCS", "a", "b"][..],
                &["LCS", "b", "a"],
                &["LCS", "a", "b", "LEN"],
                &["LCS", "a", "b", "IDX"],
                &["LCS", "b", "a", "IDX", "WITHMATCHLEN"],
                &["LCS", "a", "b", "IDX", "MINMATCHLEN", "3", "WITHMATCHLEN"],
                &["LCS", "a", "absent", "IDX"],
                &["LCS", "a", "b", "IDX", "LEN"],
                &["LCS", "a", "b", "MINMATCHLEN"],
                &["LCS", "a", "b", "MINMATCHLEN", "x"],
                &["LCS", "a"],
            ] {
                let [expected, found] = servers.each_mut().map(|server| text(server.call(command)));
                let values = (String::from_utf8_lossy(&one), String::from_utf8_lossy(&other));
                assert_eq!(expected, found, "{command:?} of {values:?}");
            }
        }
    }
}

#[test]
fn a_long_comparison_is_refused_and_one_that_is_not_lets_others_run() {
    let server = start(options());
    let (mut raw, mut other) = (Raw::connect(server.address), Raw::connect(server.address));
    let pattern = |bytes: usize| (0..bytes).map(|index| b'a' + (index * index % 7) as u8).collect::<Vec<u8>>();
    raw.call(&[&b"MSET"[..], b"a", &pattern(11_600), b"b", &pattern(11_600), b"c", &pattern(11_000)]);
    let refused = "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len\r\n";
    assert_eq!(text(raw.call(&["LCS", "a", "b", "LEN"])), refused);
    raw.send(&common::command(&["LCS", "c", "c"]));
    let answered = raw.answered_meanwhile(&mut other);
    assert_eq!(raw.reply().len(), 11_000 + 10);
    assert!(answered >= 5, "{answered}");
}
