//! What a running server says of its load.

use super::models::Models;
use super::{Advice, Point, QUARTERS, monitor, see};
use crate::LabError;
use crate::progress::Progress;
use bytesize::ByteSize;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The longest answer to INFO.
const INFO_BYTES_MAX: usize = 1 << 20;
/// The longest line of MONITOR that is looked at; the rest of a longer one is skipped.
const LINE_BYTES_MAX: u64 = 1 << 20;

fn failed(source: std::io::Error) -> LabError {
    LabError::System { what: "talk to the server", source }
}

/// A connection to a server that speaks Redis' protocol.
struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    fn open(address: &str) -> Result<Self, LabError> {
        let refused = |error| LabError::Failed(format!("{address}: {error}: name a trace, or a server that runs"));
        let stream = TcpStream::connect(address).map_err(refused)?;
        stream.set_read_timeout(Some(ANSWER_MAX)).map_err(failed)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    fn send(&mut self, command: &str) -> Result<(), LabError> {
        let sent = format!("*1\r\n${}\r\n{command}\r\n", command.len());
        self.stream.get_mut().write_all(sent.as_bytes()).map_err(failed)
    }

    /// One line without its end. An error of the server is an error.
    fn line(&mut self) -> Result<Vec<u8>, LabError> {
        let mut line = Vec::new();
        Read::take(&mut self.stream, LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(failed)?;
        if !line.ends_with(b"\n") {
            return Err(LabError::Failed("the server closed the connection, or sent no line".to_owned()));
        }
        line.truncate(line.trim_ascii_end().len());
        if let Some(error) = line.strip_prefix(b"-") {
            return Err(LabError::Failed(format!("the server says: {}", String::from_utf8_lossy(error))));
        }
        Ok(line)
    }

    fn info(&mut self) -> Result<String, LabError> {
        self.send("INFO")?;
        let head = self.line()?;
        let bytes = std::str::from_utf8(&head).ok().and_then(|head| head.strip_prefix('$')?.parse::<usize>().ok());
        let Some(bytes) = bytes.filter(|bytes| *bytes <= INFO_BYTES_MAX) else {
            return Err(LabError::Failed("the server does not answer INFO as Redis does".to_owned()));
        };
        let mut text = vec![0; bytes + 2];
        self.stream.read_exact(&mut text).map_err(failed)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// The value of a field of INFO.
fn field<'t>(info: &'t str, name: &str) -> Option<&'t str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn number(info: &str, name: &str) -> Option<u64> {
    field(info, name)?.parse().ok()
}

/// Lookups so far.
fn reads(info: &str) -> u64 {
    number(info, "keyspace_hits").unwrap_or(0) + number(info, "keyspace_misses").unwrap_or(0)
}

/// The advice for the load of a server.
pub(super) fn advice(address: &str, time: Duration, capacity_bytes: Option<u64>) -> Result<Advice, LabError> {
    let mut connection = Connection::open(address)?;
    let info = connection.info()?;
    match field(&info, "atoll_version") {
        Some(_) => of_atoll(address, &info),
        None => of_redis(address, connection, &info, time, capacity_bytes),
    }
}

/// The curve that an Atoll server shows.
fn of_atoll(address: &str, info: &str) -> Result<Advice, LabError> {
    let Some(curve) = field(info, "hit_ratio_by_capacity") else {
        let engine = field(info, "engine").unwrap_or("its engine");
        let why = match reads(info) {
            _ if engine != "forge" => format!("{engine} has no miniatures"),
            0 => "nothing was read from it yet".to_owned(),
            reads => format!(
                "of the {reads} lookups so far, none would have missed in a quarter of its capacity; a smaller pool \
                 would do, unless more keys come: ask again later"
            ),
        };
        return Err(LabError::Failed(format!("{address} shows no curve: {why}")));
    };
    let engine = field(info, "engine").unwrap_or("forge").to_owned();
    let capacity_bytes = number(info, "pool_capacity_bytes").unwrap_or(0);
    let point = |part: &str| {
        let (capacity, ratio) = part.split_once('=')?;
        let (capacity, ratio): (f64, f64) = (capacity.parse().ok()?, ratio.parse().ok()?);
        let capacity_bytes = (capacity * capacity_bytes as f64) as u64;
        Some(Point { capacity_bytes, capacity_objects: None, hit_ratios: [(engine.clone(), ratio)].into() })
    };
    let (objects, used) = (number(info, "objects").filter(|objects| *objects > 0), number(info, "used_memory"));
    Ok(Advice {
        source: address.to_owned(),
        learnt_from: "the miniatures of the server's clients, since it started".to_owned(),
        requests: reads(info),
        objects: None,
        object_bytes_mean: objects.zip(used).map(|(objects, used)| used / objects),
        capacity_bytes: Some(capacity_bytes),
        points: curve.split(',').filter_map(point).collect(),
        engine: None,
    })
}

/// The curve of the requests that MONITOR shows.
fn of_redis(
    address: &str,
    mut connection: Connection,
    info: &str,
    time: Duration,
    capacity_bytes: Option<u64>,
) -> Result<Advice, LabError> {
    let keys: u64 = info
        .lines()
        .filter(|line| line.starts_with("db"))
        .filter_map(|line| line.split_once("keys=")?.1.split(',').next()?.parse::<u64>().ok())
        .sum();
    let Some(used) = number(info, "used_memory").filter(|_| keys > 0) else {
        return Err(LabError::Failed(format!("{address} has no keys: watch it while it is used")));
    };
    let limit = number(info, "maxmemory").filter(|limit| *limit > 0);
    let capacity = capacity_bytes.or(limit).unwrap_or(used);
    let mean = (used / keys).max(1);
    let mut models = Models::new(QUARTERS.map(|quarters| capacity / mean * quarters / 4), 1, None);
    connection.send("MONITOR")?;
    connection.line()?;
    let socket = connection.stream.get_ref().try_clone().map_err(failed)?;
    let (since, progress) = (Instant::now(), Progress::new(time.as_millis() as u64, "watching"));
    let mut requests = 0;
    while let Some(left) = time.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) {
        progress.set(since.elapsed().as_millis() as u64);
        socket
            .set_read_timeout(Some(left.min(Duration::from_millis(200)).max(Duration::from_millis(1))))
            .map_err(failed)?;
        // Nothing within that time is no error, and what a line has so far stays in the buffer.
        match connection.stream.fill_buf() {
            Ok([]) => return Err(LabError::Failed("the server closed the connection".to_owned())),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                continue;
            }
            Err(error) => return Err(failed(error)),
        }
        socket.set_read_timeout(Some(ANSWER_MAX)).map_err(failed)?;
        let line = connection.line()?;
        monitor::requests(&line, |effect, key| {
            requests += 1;
            see(&mut models, effect, key);
        });
    }
    if models.reads() == 0 {
        return Err(LabError::Failed(format!("{address} was asked for nothing in {} s", time.as_secs())));
    }
    Ok(Advice {
        source: address.to_owned(),
        learnt_from: format!(
            "MONITOR for {} s; what was read for the first time counts as missed, so watch longer for larger caches",
            time.as_secs()
        ),
        requests,
        objects: None,
        object_bytes_mean: Some(mean),
        capacity_bytes: Some(ByteSize(capacity).as_u64()),
        engine: models.engine(),
        points: models.points(mean),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A server that answers INFO with this text, and MONITOR with these lines, once.
    fn server(info: &'static str, lines: Vec<String>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 14];
            stream.read_exact(&mut asked).unwrap();
            write!(stream, "${}\r\n{info}\r\n", info.len()).unwrap();
            let mut asked = [0; 17];
            if stream.read_exact(&mut asked).is_ok() {
                write!(stream, "+OK\r\n{}", lines.concat()).unwrap();
                std::thread::sleep(Duration::from_secs(2));
            }
        });
        address
    }

    #[test]
    fn a_redis_server_is_watched() {
        let line = |key: u32| format!("+1.0 [0 127.0.0.1:9] \"get\" \"{}\"\r\n", key % 50);
        let info = "# Memory\r\nused_memory:10000\r\nmaxmemory:0\r\ndb0:keys=100,expires=0\r\n";
        let address = server(info, (0..500).map(line).collect());
        let advice = advice(&address, Duration::from_secs(1), None).unwrap();
        assert_eq!((advice.requests, advice.object_bytes_mean, advice.points.len()), (500, Some(100), 5));
        let at = |point: usize| advice.points[point].hit_ratios["forge"];
        assert!((at(2) - 0.9).abs() < 1e-9, "{advice:?}");
        assert!(at(0) < at(2), "fifty keys do not fit 25 objects: {advice:?}");
    }

    #[test]
    fn an_atoll_server_shows_its_own_curve() {
        let info = "atoll_version:1\r\nengine:forge\r\npool_capacity_bytes:4000\r\nobjects:10\r\nused_memory:1000\r\n\
                    hit_ratio_by_capacity:0.25=0.1000,0.5=0.2000,1=0.4000,2=0.5000,4=0.5500\r\n";
        let found = advice(&server(info, Vec::new()), Duration::from_secs(1), None).unwrap();
        let points: Vec<_> =
            found.points.iter().map(|point| (point.capacity_bytes, point.hit_ratios["forge"])).collect();
        assert_eq!(points, [(1000, 0.1), (2000, 0.2), (4000, 0.4), (8000, 0.5), (16000, 0.55)]);
        let empty = advice(&server("atoll_version:1\r\nengine:kvs\r\n", Vec::new()), Duration::from_secs(1), None);
        assert!(empty.unwrap_err().to_string().contains("kvs has no miniatures"));
    }

    #[test]
    fn a_server_without_a_curve_is_told_why() {
        let said = |info| advice(&server(info, Vec::new()), Duration::from_secs(1), None).unwrap_err().to_string();
        assert!(said("atoll_version:1\r\nengine:forge\r\nkeyspace_hits:0\r\n").contains("nothing was read"));
        let hits = said("atoll_version:1\r\nengine:forge\r\nkeyspace_hits:600\r\nkeyspace_misses:0\r\n");
        assert!(hits.contains("of the 600 lookups so far, none would have missed"), "{hits}");
        assert!(said("atoll_version:1\r\nengine:ditto\r\nkeyspace_hits:9\r\n").contains("ditto has no miniatures"));
    }
}
