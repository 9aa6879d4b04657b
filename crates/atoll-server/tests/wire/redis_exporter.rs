//! redis_exporter: what it finds for Redis, it finds for Atoll.

use crate::common::redis_server::Redis;
use crate::common::{Raw, options, start};
use atoll_sim::requirement::offered;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What has no meaning here: Redis' allocator, and how its expiry cycle gets on.
const OF_REDIS_ALONE: [&str; 3] =
    ["redis_allocator_", "redis_expired_stale_percentage", "redis_expired_time_cap_reached"];

/// An exporter, which ends with this.
struct Exporter(Child, SocketAddr);

impl Exporter {
    /// One that is asked for a target at a time, with all that it can look for.
    fn start() -> Option<Self> {
        let name = ["redis_exporter", "prometheus-redis-exporter"]
            .into_iter()
            .find(|name| Command::new(name).arg("-version").output().is_ok())
            .ok_or_else(|| "redis_exporter is not installed: apt-get install prometheus-redis-exporter".to_owned());
        let name = offered("redis-exporter", name)?;
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let process = Command::new(name)
            .args(["-redis.addr", "", "-web.listen-address", &address.to_string()])
            .args(["-include-system-metrics", "-export-client-list", "-set-client-name", "-ping-on-connect"])
            .args(["-check-single-keys", "k1,h,db3=other", "-check-keys", "k*", "-count-keys", "k*"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Some(Self(process, address))
    }

    /// The names of the lines about that server, with the labels that do not differ for each.
    fn finds(&self, server: SocketAddr) -> BTreeSet<String> {
        let began = Instant::now();
        let mut stream = loop {
            match TcpStream::connect(self.1) {
                Ok(stream) => break stream,
                Err(error) => assert!(began.elapsed() < Duration::from_secs(20), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let target = format!("GET /scrape?target=redis://{server} HTTP/1.0\r\n\r\n");
        stream.write_all(target.as_bytes()).unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        assert!(page.contains("\nredis_up 1\n"), "{page}");
        let lines = page.lines().filter_map(|line| line.rsplit_once(' ')).map(|(name, _)| name);
        let of_server = lines.filter(|name| name.starts_with("redis_") && !name.starts_with("redis_exporter_"));
        let differs = |name: &str| name.contains("_info{") || name.contains("_details{");
        let named = of_server.map(|name| if differs(name) { name.split('{').next().unwrap() } else { name });
        named.map(str::to_owned).collect()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_exporter_finds_every_line_that_it_finds_for_redis() {
    let Some(redis) = Redis::start() else { return };
    let Some(exporter) = Exporter::start() else { return };
    let ours = start(options());
    let [theirs, ours] = [redis.address, ours.address].map(|address| {
        let mut raw = Raw::connect(address);
        for args in [
            &["CONFIG", "SET", "slowlog-log-slower-than", "0"][..],
            &["SET", "k1", "text"],
            &["SET", "k2", "5", "EX", "1000"],
            &["HSET", "h", "field", "value"],
            &["GET", "k1"],
            &["GET", "absent"],
            &["GET"],
            &["NOSUCH"],
            &["INCR", "k1"],
            &["EVALSHA", "none", "0"],
            &["CLIENT", "ID"],
            &["SELECT", "3"],
            &["SET", "other", "1"],
        ] {
            raw.call(args);
        }
        // The second time it finds its own first one, too.
        exporter.finds(address);
        exporter.finds(address)
    });
    let is_theirs = |name: &&String| OF_REDIS_ALONE.iter().any(|part| name.contains(part));
    let missing: Vec<&String> = theirs.difference(&ours).filter(|name| !is_theirs(name)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(theirs.len() > 250, "{}", theirs.len());
    for line in
        ["redis_db_keys{db=\"db3\"}", "redis_memory_used_lua_bytes", "redis_commands_total{cmd=\"client|list\"}"]
    {
        assert!(ours.contains(line), "{line}: {ours:#?}");
    }
}
