//! A server's counters, by INFO, and what they say between two looks.
//!
//! What the server sends is untrusted: a reply has a limit, a field that is no number counts as 0,
//! and a counter that has gone back (the server was restarted, or CONFIG RESETSTAT) as no change.

use super::{Look, percent, plain};
use bytesize::ByteSize;
use serde_json::json;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The longest silence of a server.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest reply that is read.
const REPLY_BYTES_MAX: u64 = 16 << 20;
/// Commands that are shown: those that took the most time.
const COMMANDS_SHOWN: usize = 10;

trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// A connection to a server.
pub(super) struct Connection(BufReader<Box<dyn Stream>>);

/// What INFO said, and when.
pub(super) struct Sample {
    at: Instant,
    fields: BTreeMap<String, String>,
}

impl Connection {
    pub(super) fn open(target: &str, user: Option<&str>, password: Option<&[u8]>) -> Result<Self, Box<dyn Error>> {
        let failed = |error: std::io::Error| format!("{target}: {error}: is a server there? (`atoll serve`)");
        let stream: Box<dyn Stream> = match target.strip_prefix("unix:") {
            Some(path) => {
                let stream = UnixStream::connect(path).map_err(failed)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Box::new(stream)
            }
            None => {
                let address = target.to_socket_addrs().map_err(|error| {
                    format!("{target} is neither HOST:PORT ({error}) nor unix:PATH nor a pool such as shm:/NAME")
                })?;
                let address = address.into_iter().next().ok_or_else(|| format!("{target} has no address"))?;
                let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Box::new(stream)
            }
        };
        let mut connection = Self(BufReader::new(stream));
        match (user, password) {
            (Some(user), Some(password)) => drop(connection.ask(&[b"AUTH", user.as_bytes(), password])?),
            (None, Some(password)) => drop(connection.ask(&[b"AUTH", password])?),
            _ => {}
        }
        Ok(connection)
    }

    /// A command's reply: a text.
    fn ask(&mut self, words: &[&[u8]]) -> Result<String, Box<dyn Error>> {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            command.extend(format!("${}\r\n", word.len()).into_bytes());
            command.extend(*word);
            command.extend(b"\r\n");
        }
        self.0.get_mut().write_all(&command)?;
        let mut line = String::new();
        (&mut self.0).take(REPLY_BYTES_MAX).read_line(&mut line)?;
        let line = line.trim_end();
        match line.split_at_checked(1) {
            Some(("$", length)) => {
                let bytes = length.parse().ok().filter(|bytes: &u64| *bytes <= REPLY_BYTES_MAX);
                let bytes = bytes.ok_or("the server has sent a reply of an impossible length")?;
                let mut text = Vec::new();
                (&mut self.0).take(bytes + 2).read_to_end(&mut text)?;
                if text.len() as u64 != bytes + 2 {
                    return Err("the server has closed the connection within a reply".into());
                }
                text.truncate(bytes as usize);
                Ok(String::from_utf8_lossy(&text).into_owned())
            }
            Some(("+", text)) => Ok(text.to_owned()),
            Some(("-", error)) if error.starts_with("NOAUTH") => {
                Err("the server asks for a password: give --password-file, and --user if it has users".into())
            }
            Some(("-", error)) => Err(format!("the server refuses: {}", plain(error)).into()),
            None => Err("the server has closed the connection".into()),
            Some(_) => Err("this is no server for Redis clients".into()),
        }
    }

    pub(super) fn sample(&mut self) -> Result<Sample, Box<dyn Error>> {
        let text = self.ask(&[b"INFO", b"everything"])?;
        Ok(Sample { at: Instant::now(), fields: fields(&text) })
    }
}

fn fields(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (plain(name), plain(value))).collect()
}

impl Sample {
    fn text(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    fn number(&self, name: &str) -> f64 {
        self.text(name).parse().ok().filter(|number: &f64| number.is_finite()).unwrap_or(0.0)
    }

    fn bytes(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// A number within a field such as `calls=3,usec=5`.
    fn part(&self, field: &str, name: &str) -> f64 {
        let parts = self.text(field).split(',').filter_map(|part| part.split_once('='));
        let found = parts.filter(|(other, _)| *other == name).find_map(|(_, number)| number.parse().ok());
        found.filter(|number: &f64| number.is_finite()).unwrap_or(0.0)
    }
}

/// A command between two looks.
struct Called {
    name: String,
    calls: f64,
    usec: f64,
    p99_us: f64,
}

/// The commands that were called, the one that took the most time first.
fn called(before: &Sample, now: &Sample) -> Vec<Called> {
    let names = now.fields.keys().filter_map(|field| field.strip_prefix("cmdstat_"));
    let mut called: Vec<Called> = names
        .map(|name| {
            let field = format!("cmdstat_{name}");
            let change = |part| (now.part(&field, part) - before.part(&field, part)).max(0.0);
            let p99_us = now.part(&format!("latency_percentiles_usec_{name}"), "p99");
            Called { name: name.to_owned(), calls: change("calls"), usec: change("usec"), p99_us }
        })
        .filter(|command| command.calls > 0.0)
        .collect();
    called.sort_by(|one, other| other.usec.total_cmp(&one.usec).then_with(|| one.name.cmp(&other.name)));
    called
}

/// What two looks say together.
pub(super) fn look(target: &str, before: &Sample, now: &Sample) -> Look {
    let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
    let change = |name: &str| (now.number(name) - before.number(name)).max(0.0);
    let rate = |name: &str| change(name) / seconds;
    let lookups = change("keyspace_hits") + change("keyspace_misses");
    let (used, capacity) = (now.bytes("pool_used_bytes"), now.bytes("pool_capacity_bytes"));
    let (fabric, engine) = (now.text("fabric"), now.text("engine"));
    let called = called(before, now);
    let usec: f64 = called.iter().map(|command| command.usec).sum();

    let mut text = String::new();
    let mut line = |shown: std::fmt::Arguments<'_>| writeln!(text, "{shown}").expect("a text takes every line");
    let up = Duration::from_secs(now.bytes("uptime_in_seconds"));
    line(format_args!("server      {}, fabric {fabric}, engine {engine}, up {}", plain(target), time(up)));
    line(format_args!(
        "commands    {:.0} a second, {} a second received, {} sent, {:.0} errors a second",
        rate("total_commands_processed"),
        ByteSize(rate("total_net_input_bytes") as u64),
        ByteSize(rate("total_net_output_bytes") as u64),
        rate("total_error_replies"),
    ));
    let hit_percent = percent(change("keyspace_hits"), lookups);
    let hits = if lookups > 0.0 { format!("{hit_percent:.2} %") } else { "no lookup".to_owned() };
    line(format_args!("hit ratio   {hits}, {:.0} lookups a second", lookups / seconds));
    line(format_args!(
        "memory      {} of {} in use ({:.0} %), {} objects",
        ByteSize(used),
        ByteSize(capacity),
        percent(used as f64, capacity as f64),
        now.bytes("objects"),
    ));
    let (evictions, expirations) = (rate("evicted_keys"), rate("expired_keys"));
    line(format_args!("evictions   {evictions:.0} a second, {expirations:.0} expirations a second"));
    line(format_args!(
        "clients     {} of {}, {:.0} refused a second",
        now.bytes("connected_clients"),
        now.bytes("maxclients"),
        rate("rejected_connections"),
    ));
    line(format_args!("nodes       {} absent", now.bytes("memory_nodes_absent")));
    line(format_args!("{:<22} {:>12} {:>8} {:>10} {:>10}", "", "calls/s", "time", "mean us", "p99 us *"));
    for command in called.iter().take(COMMANDS_SHOWN) {
        let (share, mean_us) = (percent(command.usec, usec), command.usec / command.calls);
        line(format_args!(
            "{:<22} {:>12.0} {share:>6.0} % {mean_us:>10.2} {:>10.2}",
            command.name,
            command.calls / seconds,
            command.p99_us,
        ));
    }
    line(format_args!("* since the server began; all else is of the last interval"));
    let commands = called.iter().map(|command| {
        json!({
            "name": command.name, "calls_per_s": command.calls / seconds, "time_percent": percent(command.usec, usec),
            "mean_us": command.usec / command.calls, "p99_us": command.p99_us,
        })
    });
    let json = json!({
        "target": target, "fabric": fabric, "engine": engine, "uptime_s": up.as_secs(), "seconds": seconds,
        "commands_per_s": rate("total_commands_processed"), "received_bytes_per_s": rate("total_net_input_bytes"),
        "sent_bytes_per_s": rate("total_net_output_bytes"), "errors_per_s": rate("total_error_replies"),
        "lookups_per_s": lookups / seconds, "hit_percent": (lookups > 0.0).then_some(hit_percent),
        "used_bytes": used, "capacity_bytes": capacity, "objects": now.bytes("objects"),
        "evictions_per_s": evictions, "expirations_per_s": expirations,
        "clients": now.bytes("connected_clients"), "clients_max": now.bytes("maxclients"),
        "refused_per_s": rate("rejected_connections"), "nodes_absent": now.bytes("memory_nodes_absent"),
        "commands": commands.collect::<Vec<_>>(),
    });
    Look { text, json }
}

fn time(up: Duration) -> String {
    let seconds = up.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match days {
        0 => format!("{hours:02}:{minutes:02}:{:02}", seconds % 60),
        _ => format!("{days} d {hours:02}:{minutes:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: Instant, text: &str) -> Sample {
        Sample { at, fields: fields(text) }
    }

    #[test]
    fn rates_are_the_changes_of_an_interval_and_the_slowest_command_is_first() {
        let begun = Instant::now();
        let before = sample(
            begun,
            "# Stats\r\ntotal_commands_processed:100\r\nkeyspace_hits:10\r\nkeyspace_misses:10\r\nevicted_keys:50\r\n\
             cmdstat_get:calls=20,usec=20,usec_per_call=1.00\r\n",
        );
        let now = sample(
            begun + Duration::from_secs(2),
            "total_commands_processed:300\r\nkeyspace_hits:40\r\nkeyspace_misses:20\r\nevicted_keys:0\r\n\
             pool_used_bytes:5\r\npool_capacity_bytes:20\r\nmaxclients:x\r\n\
             cmdstat_get:calls=60,usec=100,usec_per_call=1.6\r\ncmdstat_set:calls=2,usec=900\r\ncmdstat_del:calls=0\r\n\
             latency_percentiles_usec_set:p50=1.0,p99=7.5\r\n",
        );
        let json = look("here", &before, &now).json;
        assert_eq!(json["commands_per_s"], 100.0);
        assert_eq!((&json["hit_percent"], &json["lookups_per_s"]), (&json!(75.0), &json!(20.0)));
        assert_eq!(json["evictions_per_s"], 0.0, "a server that was restarted counts from 0");
        assert_eq!((&json["used_bytes"], &json["clients_max"]), (&json!(5), &json!(0)));
        let names: Vec<_> = json["commands"].as_array().unwrap().iter().map(|command| &command["name"]).collect();
        assert_eq!(names, ["set", "get"]);
        assert_eq!((&json["commands"][0]["mean_us"], &json["commands"][0]["p99_us"]), (&json!(450.0), &json!(7.5)));
        assert_eq!(json["commands"][1]["calls_per_s"], 20.0);
        let idle = look("here", &now, &sample(begun + Duration::from_secs(3), ""));
        assert!(idle.json["hit_percent"].is_null() && idle.text.contains("no lookup"), "{}", idle.text);
        assert_eq!(time(Duration::from_secs(90_061)), "1 d 01:01");
    }

    /// A connection to what answers so.
    fn answering(reply: &'static [u8]) -> Result<Sample, String> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // What is unread when a socket closes would be another error.
                let read = (&theirs).read(&mut [0; 1024]);
                read.and_then(|_| (&theirs).write_all(reply))
            });
            Connection(BufReader::new(Box::new(ours))).sample().map_err(|error| error.to_string())
        })
    }

    #[test]
    fn replies_of_other_programs_are_errors() {
        assert_eq!(answering(b"$7\r\na:1\r\nb:\r\n").unwrap().number("a"), 1.0);
        for (reply, said) in [
            (&b""[..], "closed the connection"),
            (b"$99999999999\r\n", "impossible length"),
            (b"$-1\r\n", "impossible length"),
            (b"$10\r\nabc", "within a reply"),
            (b"HTTP/1.1 400 Bad Request\r\n", "no server for Redis clients"),
            (b"-NOAUTH Authentication required.\r\n", "--password-file"),
            (b"-ERR \x1b[31mno\r\n", "refuses: ERR [31mno"),
        ] {
            let error = answering(reply).err().unwrap();
            assert!(error.contains(said), "{error}");
        }
    }
}
