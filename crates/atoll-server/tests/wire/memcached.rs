//! The memcached protocol on a socket: limits, both protocols on one key, many clients.

use crate::common::memcached::Text;
use crate::common::{Raw, Running, start, start_on, with_memcached};
use atoll_cache::EngineOptions;
use atoll_cache::ditto::DittoOptions;
use atoll_server::ServerOptions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Connections of both protocols to one server.
fn both(server: &Running) -> (Text, Raw) {
    (Text::connect(server.memcached()), Raw::connect(server.address))
}

#[test]
fn a_value_of_one_protocol_is_read_through_the_other() {
    let server = start(with_memcached());
    let (mut memcached, mut redis) = both(&server);
    assert_eq!(memcached.say("set k 7 100 1\r\nx\r\n"), "STORED\r\n");
    assert_eq!(redis.call(&["GET", "k"]), b"$1\r\nx\r\n");
    assert_eq!(redis.call(&["TTL", "k"]), b":100\r\n");
    assert_eq!(redis.call(&["TYPE", "k"]), b"+string\r\n");
    // What Redis changes of a value leaves the flags, and what it sets has none.
    assert_eq!(redis.call(&["APPEND", "k", "yz"]), b":3\r\n");
    assert_eq!(memcached.say("get k\r\n"), "VALUE k 7 3\r\nxyz\r\nEND\r\n");
    assert_eq!(redis.call(&["SET", "k", "5"]), b"+OK\r\n");
    assert_eq!(memcached.say("get k\r\nincr k 2\r\nmg k t\r\n"), "VALUE k 0 1\r\n5\r\nEND\r\n7\r\nHD t-1\r\n");
    assert_eq!(redis.call(&["INCR", "k"]), b":8\r\n");
    assert_eq!(memcached.say("touch k 50\r\n"), "TOUCHED\r\n");
    assert_eq!(redis.call(&["TTL", "k"]), b":50\r\n");
    // A stale item is a string like any other.
    assert_eq!(memcached.say("md k I\r\n"), "HD\r\n");
    assert_eq!(redis.call(&["INCR", "k"]), b":9\r\n");
    assert_eq!(memcached.say("mg k v\r\n"), "VA 1 X W\r\n9\r\n");
    assert_eq!(redis.call(&["DEL", "k"]), b":1\r\n");
    assert_eq!(memcached.say("get k\r\n"), "END\r\n");
    // Keys of other databases are not seen; those that look like them are.
    redis.call(&["SELECT", "1"]);
    redis.call(&["SET", "k", "one"]);
    assert_eq!(memcached.say("get k\r\n"), "END\r\n");
    let mut bytes = Text::connect(server.memcached());
    assert_eq!(
        bytes.say_bytes(b"set \xff\x01k 0 0 1\r\nx\r\nget \xff\x01k z\r\n"),
        b"STORED\r\nVALUE \xff\x01k 0 1\r\nx\r\nEND\r\n"
    );
    assert_eq!(redis.call(&["GET", "k"]), b"$3\r\none\r\n");
    // A flush is for database 0.
    assert_eq!(memcached.say("flush_all\r\n"), "OK\r\n");
    assert_eq!(redis.call(&["DBSIZE"]), b":1\r\n");
    redis.call(&["SELECT", "0"]);
    assert_eq!(redis.call(&["DBSIZE"]), b":0\r\n");
}

#[test]
fn a_hash_of_redis_is_no_item_of_memcached() {
    let server = start_on(&EngineOptions::default(), with_memcached());
    let (mut c, mut redis) = both(&server);
    redis.call(&["HSET", "h", "f", "1"]);
    for (request, reply) in [
        ("get h\r\ngats 9 h\r\n", "END\r\nEND\r\n"),
        ("mg h v\r\nmg h v N9\r\nmg h T9\r\nmg h T9 N9 v t\r\nme h\r\n", "EN\r\nEN\r\nEN\r\nEN\r\nEN\r\n"),
        ("incr h 1\r\nma h\r\nma h N0 v\r\nmd h I\r\n", "NOT_FOUND\r\nNF\r\nNF\r\nNF\r\n"),
        ("append h 0 0 1\r\nx\r\nms h 1 MP\r\nx\r\n", "NOT_STORED\r\nNS\r\n"),
        ("add h 0 0 1\r\nx\r\ncas h 0 0 1 1\r\nx\r\n", "NOT_STORED\r\nEXISTS\r\n"),
    ] {
        assert_eq!(c.say(request), reply);
        assert_eq!(redis.call(&["HGET", "h", "f"]), b"$1\r\n1\r\n", "{request}");
        assert_eq!(redis.call(&["TTL", "h"]), b":-1\r\n", "{request}");
    }
    assert_eq!(c.say("touch h 50\r\n"), "TOUCHED\r\n");
    assert_eq!(redis.call(&["TTL", "h"]), b":50\r\n");
    assert_eq!(c.say("delete h\r\nget h\r\n"), "DELETED\r\nEND\r\n");
    // What sets a whole value replaces it, as SET does; and a stale item is no hash.
    redis.call(&["HSET", "h", "f", "1"]);
    assert_eq!(c.say("replace h 5 0 1\r\nx\r\nmd h I\r\nget h\r\n"), "STORED\r\nHD\r\nVALUE h 5 1\r\nx\r\nEND\r\n");
    assert!(redis.call(&["HGET", "h", "f"]).starts_with(b"-WRONGTYPE "));
    assert_eq!(redis.call(&["APPEND", "h", "y"]), b":2\r\n");
}

#[test]
fn a_change_of_memcached_ends_a_watch_and_is_told_as_an_event() {
    let server = start(with_memcached());
    let (mut memcached, mut redis) = both(&server);
    redis.call(&["WATCH", "k"]);
    assert_eq!(memcached.say("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
    redis.call(&["MULTI"]);
    redis.call(&["GET", "k"]);
    assert_eq!(redis.call(&["EXEC"]), b"*-1\r\n");
    let mut listener = Raw::connect(server.address);
    listener.call(&["CONFIG", "SET", "notify-keyspace-events", "EA"]);
    listener.call(&["PSUBSCRIBE", "__keyevent@0__:*"]);
    let mut event = |name: &str, key: &str| {
        let message = String::from_utf8(listener.reply()).unwrap();
        assert!(message.contains(&format!("__keyevent@0__:{name}\r\n")), "{name}: {message}");
        assert!(message.ends_with(&format!("\r\n{key}\r\n")), "{key}: {message}");
    };
    memcached
        .say("ms YWI= 1 b T9\r\n1\r\nincr ab 1\r\nappend ab 0 0 1\r\nx\r\ntouch ab 0\r\ngat 5 ab\r\ndelete ab\r\n");
    for name in ["set", "expire", "incrby", "append", "persist", "expire", "del"] {
        event(name, "ab");
    }
}

#[test]
fn the_binary_protocol_is_refused_with_a_line_and_the_connection_ends() {
    let server = start(with_memcached());
    let mut version = [0_u8; 24];
    (version[0], version[1]) = (0x80, 0x0b);
    let mut memcached = Text::connect(server.memcached());
    memcached.send(&version);
    assert_eq!(memcached.rest(), "CLIENT_ERROR the binary protocol is not spoken here: use text or meta commands\r\n");
}

#[test]
fn keys_lines_and_values_have_limits() {
    let server = start_on(&EngineOptions::default(), with_memcached());
    let (mut c, mut redis) = both(&server);
    let info = String::from_utf8(c.say_bytes(b"stats settings\r\n")).unwrap();
    let max = info.lines().find_map(|line| line.strip_prefix("STAT item_size_max ")).unwrap();
    let max: usize = max.trim().parse().unwrap();
    // The longest value, and one byte more. What `set` would have replaced is out of date.
    let set = |name: &str, bytes: usize| {
        let head = format!("{name} k 1 0 {bytes}\r\n");
        [head.as_bytes(), &vec![b'v'; bytes], b"\r\nversion\r\n"].concat()
    };
    assert_eq!(c.say(set("set", max)), "STORED\r\nVERSION 1.6.18\r\n");
    assert_eq!(redis.call(&["STRLEN", "k"]), format!(":{max}\r\n").as_bytes());
    let too_large = "SERVER_ERROR object too large for cache\r\nVERSION 1.6.18\r\n";
    assert_eq!(c.say(set("add", max + 1)), too_large);
    assert_eq!(redis.call(&["EXISTS", "k"]), b":1\r\n");
    assert_eq!(c.say("append k 0 0 1\r\nx\r\nms k 1 MP\r\nx\r\n"), "NOT_STORED\r\nNS\r\n");
    assert_eq!(c.say(set("set", max + 1)), too_large);
    assert_eq!(redis.call(&["EXISTS", "k"]), b":0\r\n");
    let head = format!("ms a2V5 {} b\r\n", max + 1);
    assert_eq!(c.say("ms a2V5 1 b\r\nx\r\n"), "HD\r\n");
    assert_eq!(
        c.say([head.as_bytes(), &vec![b'v'; max + 1], b"\r\nget key\r\n"].concat()),
        "SERVER_ERROR object too large for cache\r\nEND\r\n"
    );
    // Lines.
    let say = |bytes: Vec<u8>| {
        let mut connection = Text::connect(server.memcached());
        connection.send(&bytes);
        connection.0.shutdown(std::net::Shutdown::Write).unwrap();
        connection.rest()
    };
    assert_eq!(say(vec![b'x'; 2048]), "", "more may come");
    assert_eq!(say(vec![b'x'; 2049]), "CLIENT_ERROR line too long\r\n");
    assert_eq!(say([&[b'x'; 2047], b"\r\n".as_slice()].concat()), "ERROR\r\n");
    assert_eq!(say([&[b'x'; 2049], b"\r\nversion\r\n".as_slice()].concat()), "CLIENT_ERROR line too long\r\n");
    let keys = |bytes: usize| [b"gets ".as_slice(), &b"0123456 ".repeat(bytes / 8 - 1), b"1\r\n"].concat();
    assert_eq!(say(keys(1 << 20)), "END\r\n");
    assert_eq!(say(keys((1 << 20) + 16)), "CLIENT_ERROR line too long\r\n");
}

#[test]
fn requests_may_come_in_pieces() {
    let server = start(with_memcached());
    let requests = "set k 1 0 4\r\na\r\nb\r\nget k x k\r\nms k 2\r\nzz\r\ngat 9 k\r\nset n 0 0 -1\r\nmg k v\r\n";
    let expected = Text::connect(server.memcached()).say(requests);
    assert!(expected.starts_with("STORED\r\n") && expected.ends_with("VA 2\r\nzz\r\n"), "{expected}");
    let mut pieces = Text::connect(server.memcached());
    for byte in requests.bytes() {
        pieces.send(&[byte]);
        std::thread::sleep(Duration::from_micros(200));
    }
    assert_eq!(pieces.say(""), expected);
}

#[test]
fn lines_of_many_large_values_are_answered_in_parts() {
    let server = start(with_memcached());
    let mut c = Text::connect(server.memcached());
    let value = "v".repeat(300_000);
    assert_eq!(c.say(format!("set k 0 0 300000\r\n{value}\r\nset s 0 0 1\r\ns\r\n")), "STORED\r\nSTORED\r\n");
    let (large, small) = (format!("VALUE k 0 300000\r\n{value}\r\n"), "VALUE s 0 1\r\ns\r\n");
    let line = "k s none ".repeat(40);
    let expected = format!("{}END\r\n", [large.as_str(), small].concat().repeat(40));
    for name in ["get", "gat 0"] {
        let found = c.say(format!("{name} {line}\r\nget s\r\n{name} s\r\nversion\r\n{name}   {line}  \nget none\r\n"));
        let s = format!("{small}END\r\n");
        assert!(found == format!("{expected}{s}{s}VERSION 1.6.18\r\n{expected}END\r\n"), "{name}: {}", found.len());
    }
}

#[test]
fn nobody_who_asks_for_no_reply_gets_one() {
    let server = start(with_memcached());
    let mut c = Text::connect(server.memcached());
    let requests = "set k 0 0 1 noreply\r\n5\r\nadd k 0 0 1 noreply\r\n6\r\nreplace z 0 0 1 noreply\r\n6\r\n\
        append k 0 0 1 noreply\r\n0\r\nprepend z 0 0 1 noreply\r\n0\r\ncas k 0 0 1 1000000 noreply\r\n6\r\n\
        incr k 5 noreply\r\ndecr k 1 noreply\r\nincr z 1 noreply\r\ntouch k 100 noreply\r\ntouch z 1 noreply\r\n\
        delete z noreply\r\nverbosity 1 noreply\r\nincr k x noreply\r\ntouch k x noreply\r\n\
        set k x 0 1 noreply\r\nset s 0 0 1 noreply\r\nx\r\nincr s 1 noreply\r\nset s 0 0 3 noreply\r\nabcd\r\n";
    // What is behind the data that was announced is read as a request.
    assert_eq!(c.say(requests), "ERROR\r\n");
    assert_eq!(c.say("get k\r\n"), "VALUE k 0 2\r\n54\r\nEND\r\n");
    assert_eq!(c.say("flush_all 0 noreply\r\nget k\r\n"), "END\r\n");
    assert_eq!(c.say("ms k 1 q\r\nx\r\nmg z q v\r\nmd k q\r\nma z N0\r\nma z q\r\n"), "HD\r\n");
}

#[test]
fn items_expire_when_their_numbers_say() {
    let server = start(with_memcached());
    let mut c = Text::connect(server.memcached());
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let mut left = |exptime: u64| {
        let reply = c.say(format!("set k 0 {exptime} 1\r\nx\r\nmg k t\r\n"));
        reply.trim_end().strip_prefix("STORED\r\nHD t").map(|left| left.parse::<i64>().unwrap())
    };
    assert_eq!(left(0), Some(-1));
    assert_eq!(left(2_592_000), Some(2_592_000));
    assert_eq!(left(2_592_001), None, "a moment of the year 1970");
    assert!(left(now_s + 100).is_some_and(|left| (98..=101).contains(&left)));
    assert_eq!(c.say("set k 0 -1 1\r\nx\r\nget k\r\n"), "STORED\r\nEND\r\n");
    let say = |c: &mut Text, request: &str| c.say(request);
    assert_eq!(
        say(&mut c, "set k 0 1 1\r\nx\r\nset l 0 0 1\r\nx\r\ntouch l 1\r\nget k l\r\n"),
        "STORED\r\nSTORED\r\nTOUCHED\r\nVALUE k 0 1\r\nx\r\nVALUE l 0 1\r\nx\r\nEND\r\n"
    );
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(c.say("get k l\r\n"), "END\r\n");
}

#[test]
fn a_flush_may_be_set_for_later_and_taken_back() {
    let server = start(with_memcached());
    let mut c = Text::connect(server.memcached());
    assert_eq!(c.say("set k 0 0 1\r\nx\r\nflush_all 1000\r\nflush_all 1\r\n"), "STORED\r\nOK\r\nOK\r\n");
    assert_eq!(c.say("get k\r\n"), "VALUE k 0 1\r\nx\r\nEND\r\n");
    let began = Instant::now();
    while c.say("get k\r\n") != "END\r\n" {
        assert!(began.elapsed() < Duration::from_secs(20), "the flush never came");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(began.elapsed() > Duration::from_millis(500));
    // One without a delay is the last one.
    assert_eq!(c.say("flush_all 1\r\nflush_all\r\nset k 0 0 1\r\nx\r\n"), "OK\r\nOK\r\nSTORED\r\n");
    std::thread::sleep(Duration::from_millis(1300));
    assert_eq!(c.say("get k\r\n"), "VALUE k 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn clients_that_count_and_compare_lose_nothing() {
    for engine in [EngineOptions::default(), EngineOptions::Ditto(DittoOptions::default())] {
        let server = start_on(&engine, ServerOptions { threads: 2, ..with_memcached() });
        const CLIENTS: usize = 4;
        const ROUNDS: usize = 200;
        let address = server.memcached();
        let wins = std::thread::scope(|scope| {
            Text::connect(address).say("set n 3 0 1\r\n0\r\nset c 3 0 1\r\n0\r\n");
            let client = move |_| {
                let (mut c, mut wins) = (Text::connect(address), 0);
                for round in 0..ROUNDS {
                    c.say("incr n 1\r\n");
                    // A token is good for one change.
                    loop {
                        let item = c.say("gets c\r\n");
                        let mut words = item.split_whitespace();
                        let (token, number) = (words.nth(4).unwrap(), words.next().unwrap());
                        let number = (number.parse::<usize>().unwrap() + 1).to_string();
                        let request = format!("cas c 3 0 {} {token}\r\n{number}\r\n", number.len());
                        match c.say(request).as_str() {
                            "STORED\r\n" => break,
                            reply => assert_eq!(reply, "EXISTS\r\n"),
                        }
                    }
                    // One client is told to fill a new item.
                    wins += usize::from(c.say(format!("mg v{round} v N100\r\n")).starts_with("VA 0 W"));
                }
                wins
            };
            let clients: Vec<_> = (0..CLIENTS).map(|index| scope.spawn(move || client(index))).collect();
            clients.into_iter().map(|client| client.join().unwrap()).sum::<usize>()
        });
        let total = (CLIENTS * ROUNDS).to_string();
        let bytes = total.len();
        let expected = format!("VALUE n 3 {bytes}\r\n{total}\r\nVALUE c 3 {bytes}\r\n{total}\r\nEND\r\n");
        assert_eq!(Text::connect(address).say("get n c\r\n"), expected, "{engine}");
        assert_eq!(wins, ROUNDS, "{engine}");
    }
}

#[test]
fn one_client_wins_a_stale_item() {
    let server = start_on(&EngineOptions::default(), ServerOptions { threads: 2, ..with_memcached() });
    let (address, mut c) = (server.memcached(), Text::connect(server.memcached()));
    for round in 0..50 {
        c.say("set k 0 100 1\r\nx\r\nmd k I T30\r\n");
        let (winners, token) = std::thread::scope(|scope| {
            let look = || Text::connect(address).say("mg k c v\r\n");
            let clients: Vec<_> = (0..3).map(|_| scope.spawn(look)).collect();
            let replies: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
            let winner = replies.iter().find(|reply| reply.contains(" W")).unwrap();
            let token = winner.split([' ', '\r']).find_map(|word| word.strip_prefix('c')).unwrap().to_owned();
            (replies.iter().filter(|reply| reply.contains(" W")).count(), token)
        });
        assert_eq!(winners, 1, "round {round}");
        // The winner's token stores, and the item is fresh.
        assert_eq!(c.say(format!("ms k 1 C{token}\r\ny\r\nmg k v\r\n")), "HD\r\nVA 1\r\ny\r\n");
        assert_eq!(
            c.say(format!("ms k 1 C{token}\r\nz\r\nms k 1 I C{token}\r\nz\r\nmg k v\r\n")),
            "EX\r\nHD\r\nVA 1 X W\r\nz\r\n"
        );
    }
}

#[test]
fn what_is_counted_is_shown_by_stats_info_and_the_metrics() {
    let metrics = Some("127.0.0.1:0".parse().unwrap());
    let server = start(ServerOptions { metrics, ..with_memcached() });
    let (mut c, mut redis) = both(&server);
    c.say("set k 0 0 1\r\nx\r\nget k none k\r\ngat 0 k\r\ngat 0 none\r\ndelete none\r\nincr k 1\r\ncas k 0 0 1 99999\r\nx\r\ncas none 0 0 1 1\r\nx\r\nmg k v\r\nmg none v\r\n");
    let stats = c.say("stats\r\n");
    let has = |line: &str| assert!(stats.contains(&format!("STAT {line}\r\n")), "{line}: {stats}");
    for line in [
        "cmd_get 7",
        "get_hits 4",
        "get_misses 3",
        "cmd_set 3",
        "cmd_touch 2",
        "touch_hits 1",
        "touch_misses 1",
        "delete_misses 1",
        "delete_hits 0",
        "incr_hits 1",
        "cas_badval 1",
        "cas_misses 1",
        "cas_hits 0",
        "curr_items 1",
        "curr_connections 2",
        "connection_structures 2",
        "store_too_large 0",
        "store_no_memory 0",
        "auth_cmds 0",
        "threads 1",
        "version 1.6.18",
    ] {
        has(line);
    }
    // The reply comes before the data, which would be passed over.
    let mut other = TcpStream::connect(server.memcached()).unwrap();
    other.write_all(b"set large 0 0 1073741824\r\n").unwrap();
    let mut reply = [0; 41];
    other.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"SERVER_ERROR object too large for cache\r\n");
    assert!(c.say("stats\r\n").contains("STAT store_too_large 1\r\n"));
    assert_eq!(c.say("stats sizes\r\n"), "STAT sizes_status disabled\r\nEND\r\n");
    let settings = c.say("stats settings\r\n");
    for line in ["ssl_enabled no", "tcp_backlog 1024", "track_sizes no", "binding_protocol ascii"] {
        assert!(settings.contains(&format!("STAT {line}\r\n")), "{line}: {settings}");
    }
    assert!(settings.contains(&format!("STAT tcpport {}\r\n", server.memcached().port())), "{settings}");
    assert!(c.say("stats items\r\n").starts_with("STAT items:1:number 1\r\n"));
    assert!(c.say("stats slabs\r\n").starts_with("STAT active_slabs 0\r\n"));
    let peer = c.0.local_addr().unwrap();
    let connections = c.say("stats conns\r\n");
    assert!(
        connections.contains(&format!(":addr tcp:{peer}\r\n")) && connections.ends_with("END\r\n"),
        "{connections}"
    );
    let info = String::from_utf8(redis.call(&["INFO", "commandstats"])).unwrap();
    assert!(
        info.contains("cmdstat_memcached_get:calls=3,") && info.contains("cmdstat_memcached_cas:calls=2,"),
        "{info}"
    );
    std::thread::sleep(Duration::from_millis(1100));
    let (mut text, mut http) = (String::new(), TcpStream::connect(server.metrics.unwrap()).unwrap());
    http.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    http.read_to_string(&mut text).unwrap();
    assert!(text.contains("\natoll_commands_total{command=\"memcached_get\"} 3\n"), "{text}");
    assert_eq!(c.say("stats reset\r\n"), "RESET\r\n");
    assert!(c.say("stats\r\n").contains("STAT cmd_get 0\r\n"));
}

#[test]
fn a_server_without_a_port_for_redis_serves_the_others() {
    let path = std::env::temp_dir().join(format!("atoll-memcached-{}", std::process::id()));
    let options = ServerOptions { port: None, unix: Some(path.clone()), clients_max: 2, ..with_memcached() };
    let server = start(options);
    let mut c = Text::connect(server.memcached());
    assert_eq!(c.say("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
    let mut redis = std::os::unix::net::UnixStream::connect(&path).unwrap();
    redis.write_all(b"GET k\r\n").unwrap();
    let mut reply = [0; 7];
    redis.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"$1\r\nx\r\n");
    assert_eq!(Text::connect(server.memcached()).rest(), "ERROR Too many open connections\r\n");
}

#[test]
fn memcached_is_served_at_a_unix_socket_too() {
    let path = std::env::temp_dir().join(format!("atoll-memcached-{}.sock", std::process::id()));
    let server = start(ServerOptions { second_unix: Some(path.clone()), ..with_memcached() });
    let mut over_unix = UnixStream::connect(&path).unwrap();
    over_unix.write_all(b"set k 0 0 1\r\nv\r\nstats settings\r\nstats conns\r\nquit\r\n").unwrap();
    let mut said = String::new();
    over_unix.read_to_string(&mut said).unwrap();
    let path = path.display();
    assert!(said.starts_with("STORED\r\n") && said.contains(&format!("STAT domain_socket {path}\r\n")), "{said}");
    assert!(said.contains(&format!(":listen_addr unix:{path}\r\n")), "{said}");
    assert_eq!(Text::connect(server.memcached()).say("get k\r\n"), "VALUE k 0 1\r\nv\r\nEND\r\n");
}

#[test]
fn a_meta_get_tells_whether_and_when_an_item_was_hit() {
    let ditto = EngineOptions::Ditto(DittoOptions::default());
    for (engine, notes_times) in [(EngineOptions::default(), false), (ditto, true)] {
        let server = start_on(&engine, with_memcached());
        let mut c = Text::connect(server.memcached());
        let idle = |seconds| if notes_times { seconds } else { -1 };
        assert_eq!(c.say("mg made h l N9\r\n"), "HD h0 l0 W\r\n");
        assert_eq!(c.say("ms k 1\r\nx\r\n"), "HD\r\n");
        assert_eq!(c.say("mg k l h s\r\n"), format!("HD l{} h0 s1\r\n", idle(0)));
        assert_eq!(c.say("mg k h v\r\n"), "VA 1 h1\r\nx\r\n");
        std::thread::sleep(Duration::from_millis(1500));
        let found = c.say("mg k h l\r\n");
        let expected = |seconds| format!("HD h1 l{}\r\n", idle(seconds));
        assert!(found == expected(1) || found == expected(2), "{found}");
        assert_eq!(c.say("mg k l\r\n"), format!("HD l{}\r\n", idle(0)));
        assert_eq!(c.say("mg none h l\r\n"), "EN\r\n");
    }
}
