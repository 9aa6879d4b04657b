//! Closed-loop load for a server of the memcached protocol: each connection sends so many requests
//! and waits for all their replies. Prints requests a second, and the median and 99th percentile of
//! the time from sending to the last reply, in milliseconds.
//!
//! ```text
//! memcached_load ADDRESS get|set|fill [CONNECTIONS [DEPTH [SECONDS [KEYS [VALUE-BYTES]]]]]
//! ```
//!
//! `fill` sets each key once. Keys have 16 bytes, as those of `redis-benchmark`.

use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// Longer times count as this.
const LONGEST_NS: u64 = 60_000_000_000;

/// The next of a sequence of numbers without a pattern.
fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

struct Connection {
    stream: TcpStream,
    requests: Vec<u8>,
    /// Bytes of `requests` that were sent.
    sent: usize,
    /// Replies that have not come.
    awaited: usize,
    since: Instant,
}

/// What to send.
struct Load {
    writes: bool,
    depth: usize,
    keys: u64,
    value: String,
    random: u64,
    /// The next key of `fill`.
    filled: Option<u64>,
}

impl Load {
    /// Fills in the next requests; returns whether there are any.
    fn write(&mut self, connection: &mut Connection) -> bool {
        (connection.sent, connection.awaited) = (0, 0);
        connection.requests.clear();
        for _ in 0..self.depth {
            let key = match &mut self.filled {
                Some(filled) if *filled == self.keys => break,
                Some(filled) => std::mem::replace(filled, *filled + 1),
                None => next(&mut self.random) % self.keys,
            };
            let written = match self.writes {
                true => write!(connection.requests, "set key:{key:012} 0 0 {}\r\n{}\r\n", self.value.len(), self.value),
                false => write!(connection.requests, "get key:{key:012}\r\n"),
            };
            written.expect("memory takes what is written");
            connection.awaited += 1;
        }
        connection.since = Instant::now();
        connection.awaited > 0
    }
}

impl Connection {
    /// Sends what the socket takes.
    fn send(&mut self) -> std::io::Result<()> {
        while self.sent < self.requests.len() {
            match self.stream.write(&self.requests[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Receives what there is; returns whether all replies have come. Each reply has one `D`: that
    /// of `STORED` or of `END`. Keys and values have none.
    fn receive(&mut self, buffer: &mut [u8]) -> std::io::Result<bool> {
        while self.awaited > 0 {
            match self.stream.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => {
                    let ended = buffer[..bytes].iter().filter(|byte| **byte == b'D').count();
                    assert!(ended <= self.awaited, "the server answers what was asked: {ended} of {}", self.awaited);
                    self.awaited -= ended;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, what, ..] = &args[..] else {
        return Err(
            "usage: memcached_load ADDRESS get|set|fill [CONNECTIONS [DEPTH [SECONDS [KEYS [VALUE-BYTES]]]]]".into()
        );
    };
    let number = |index: usize, otherwise: f64| args.get(index).map_or(Ok(otherwise), |text| text.parse::<f64>());
    let (connections, seconds) = (number(2, 50.0)? as usize, number(4, 4.0)?);
    let mut load = Load {
        writes: what != "get",
        depth: number(3, 1.0)? as usize,
        keys: number(5, 1e6)? as u64,
        value: "x".repeat(number(6, 256.0)? as usize),
        random: 0x9e37_79b9_7f4a_7c15,
        filled: (what == "fill").then_some(0),
    };
    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(1024));
    let mut all = Vec::new();
    for index in 0..connections {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(index), Interest::READABLE | Interest::WRITABLE)?;
        all.push(Connection { stream, requests: Vec::new(), sent: 0, awaited: 0, since: Instant::now() });
    }
    let (began, mut took, mut replies) = (Instant::now(), Histogram::<u64>::new_with_bounds(1, LONGEST_NS, 3)?, 0);
    let length = Duration::from_secs_f64(seconds);
    let mut busy = 0;
    for connection in &mut all {
        if load.write(connection) {
            busy += 1;
            connection.send()?;
        }
    }
    let mut buffer = vec![0; 1 << 16];
    while busy > 0 {
        poll.poll(&mut events, Some(Duration::from_secs(10)))?;
        if events.is_empty() {
            return Err("the server does not answer".into());
        }
        for event in &events {
            let connection = &mut all[event.token().0];
            connection.send()?;
            while connection.awaited > 0 && connection.receive(&mut buffer)? {
                took.saturating_record(connection.since.elapsed().as_nanos() as u64);
                replies += load.depth;
                let is_over = load.filled.is_none() && began.elapsed() >= length;
                if is_over || !load.write(connection) {
                    busy -= 1;
                } else {
                    connection.send()?;
                }
            }
        }
    }
    let ms = |quantile| took.value_at_quantile(quantile) as f64 / 1e6;
    println!("{:.0} {:.3} {:.3}", replies as f64 / began.elapsed().as_secs_f64(), ms(0.5), ms(0.99));
    Ok(())
}
