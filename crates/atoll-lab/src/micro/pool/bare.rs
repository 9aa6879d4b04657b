//! The network without the pool.
//!
//! | figure | is |
//! |---|---|
//! | handshake | how long TCP takes to connect to each memory node: a round trip between two kernels |
//! | ping-pong | a message of a READ's length there and back between two threads of this host, over the same kind of socket |
//! | copy | the same bytes copied in memory |
//!
//! The threads of the ping-pong wait as those of the fabric do ([`BusyPolling`]).

use crate::LabError;
use crate::latency::Latencies;
use atoll_fabric::BusyPolling;
use std::hint::black_box;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Bytes of a READ of 256 bytes on its way there and back, with the heads of their frames.
const THERE: usize = 32;
const BACK: usize = 16 + super::BYTES;
/// Connections whose handshakes are timed.
const HANDSHAKES: usize = 21;

/// What was measured, in microseconds.
#[derive(Debug, Default)]
pub(super) struct Bare {
    /// The median of each memory node, with its address.
    pub(super) handshakes: Vec<(String, f64)>,
    pub(super) ping_p50: f64,
    pub(super) ping_p99: f64,
    pub(super) copy: f64,
}

pub(super) fn measure(address: &str, time: Duration) -> Result<Bare, LabError> {
    let failed = |source| LabError::System { what: "measure the network without the pool", source };
    // The file of an authority may stand behind the nodes.
    let nodes = address.strip_prefix("tcp:").and_then(|nodes| nodes.split('?').next());
    let nodes = nodes.into_iter().flat_map(|nodes| nodes.split(','));
    let mut bare = Bare { copy: copy(), ..Bare::default() };
    for node in nodes {
        bare.handshakes.push((node.to_owned(), handshake(node).map_err(failed)?));
    }
    if !bare.handshakes.is_empty() {
        let latencies = ping_pong(time).map_err(failed)?;
        (bare.ping_p50, bare.ping_p99) = (latencies.quantile(0.5) as f64 / 1e3, latencies.quantile(0.99) as f64 / 1e3);
    }
    Ok(bare)
}

fn handshake(node: &str) -> std::io::Result<f64> {
    let address = node.to_socket_addrs()?.next().ok_or(ErrorKind::AddrNotAvailable)?;
    let mut taken = Vec::with_capacity(HANDSHAKES);
    for _ in 0..HANDSHAKES {
        let since = Instant::now();
        drop(TcpStream::connect_timeout(&address, Duration::from_secs(2))?);
        taken.push(since.elapsed().as_nanos() as f64 / 1e3);
    }
    taken.sort_by(f64::total_cmp);
    Ok(taken[HANDSHAKES / 2])
}

fn ping_pong(time: Duration) -> std::io::Result<Latencies> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut stream = TcpStream::connect(listener.local_addr()?)?;
    let (mut peer, _) = listener.accept()?;
    for end in [&stream, &peer] {
        end.set_nodelay(true)?;
        end.set_nonblocking(true)?;
    }
    let answering = std::thread::spawn(move || {
        let (mut there, back, mut polling) = ([0; THERE], [0; BACK], BusyPolling::default());
        while receive(&mut peer, &mut there, &mut polling).is_ok() && peer.write_all(&back).is_ok() {}
    });
    let (begun, mut latencies, mut polling) = (Instant::now(), Latencies::default(), BusyPolling::default());
    while begun.elapsed() < time {
        let since = Instant::now();
        stream.write_all(&[0; THERE])?;
        receive(&mut stream, &mut [0; BACK], &mut polling)?;
        latencies.record(since.elapsed().as_nanos() as u64);
    }
    drop(stream);
    let _ = answering.join();
    Ok(latencies)
}

/// Waits for the whole message on a socket that does not block.
fn receive(stream: &mut TcpStream, message: &mut [u8], polling: &mut BusyPolling) -> std::io::Result<()> {
    let mut filled = 0;
    while filled < message.len() {
        let (mut received, since) = (Ok(0), Instant::now());
        let has_found = polling.find(Duration::MAX, || {
            received = stream.read(&mut message[filled..]);
            !received.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        });
        if !has_found {
            stream.set_nonblocking(false)?;
            received = stream.read(&mut message[filled..]);
            stream.set_nonblocking(true)?;
            polling.waited(since.elapsed(), true);
        }
        match received? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            bytes => filled += bytes,
        }
    }
    Ok(())
}

fn copy() -> f64 {
    const TIMES: u32 = 10_000;
    let (from, mut to) = ([1_u8; super::BYTES], [0_u8; super::BYTES]);
    let since = Instant::now();
    for _ in 0..TIMES {
        black_box(&mut to).copy_from_slice(black_box(&from));
    }
    since.elapsed().as_nanos() as f64 / f64::from(TIMES) / 1e3
}
