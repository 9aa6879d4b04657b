//! A peer between client and agent, for tests: it does what a network may do, drawn from a seed.
//!
//! | fault | what it does |
//! |---|---|
//! | delay | each piece arrives so much later, with as much again drawn at random if it is to |
//! | cut | a connection ends behind any byte: what was read before arrives, or only a part of it |
//! | stall | nothing arrives any more, and the connection stays |
//! | repeat | all that a client has sent is sent once more, on a connection of its own |

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a proxy does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// From which everything is drawn.
    pub seed: u64,
    /// How much later a piece arrives, in each direction.
    pub delay: Duration,
    /// Whether as much again is drawn at random.
    pub jitters: bool,
    /// Of a thousand pieces, behind how many the connection is cut.
    pub cut_per_mille: u64,
    /// Of a thousand pieces, behind how many nothing arrives any more.
    pub stall_per_mille: u64,
    /// Of a thousand connections, how many are repeated when they end.
    pub repeat_per_mille: u64,
}

/// What its threads share.
struct Shared {
    target: Mutex<SocketAddr>,
    faults: Faults,
    drawn: AtomicU64,
    /// While it is set, nothing arrives anywhere and no connection is made.
    is_parted: AtomicBool,
    is_quiet: AtomicBool,
    is_over: AtomicBool,
    /// Both ends of the connection that was made last.
    latest: Mutex<Option<[TcpStream; 2]>>,
}

impl Shared {
    /// A random word (SplitMix64).
    fn draw(&self) -> u64 {
        let mut x = self.drawn.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed);
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    fn happens(&self, per_mille: u64) -> bool {
        !self.is_quiet.load(Relaxed) && self.draw() % 1000 < per_mille
    }

    fn target(&self) -> SocketAddr {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A proxy, until it is dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Begins to pass on what arrives at its address.
    ///
    /// # Panics
    /// If it cannot listen on loopback.
    pub fn start(target: SocketAddr, faults: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port left");
        let address = listener.local_addr().expect("it listens");
        let shared = Arc::new(Shared {
            target: Mutex::new(target),
            faults,
            drawn: AtomicU64::new(faults.seed),
            is_parted: AtomicBool::new(false),
            is_quiet: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            latest: Mutex::new(None),
        });
        let own = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if own.is_over.load(Relaxed) {
                    return;
                }
                let connection = own.clone();
                std::thread::spawn(move || pass_on(&connection, client));
            }
        });
        Self { address, shared }
    }

    /// Where clients find it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes later connections on to another agent.
    pub fn point_to(&self, target: SocketAddr) {
        *self.shared.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// From now on nothing arrives anywhere, or everything does again.
    pub fn part(&self, is_parted: bool) {
        self.shared.is_parted.store(is_parted, Relaxed);
    }

    /// Cuts the connection that was made last.
    pub fn cut_latest(&self) {
        let latest = self.shared.latest.lock().unwrap_or_else(PoisonError::into_inner).take();
        latest.iter().flatten().for_each(|end| drop(end.shutdown(Shutdown::Both)));
    }

    /// From now on it only delays.
    pub fn calm(&self) {
        self.shared.is_quiet.store(true, Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
        // The listener looks once more.
        drop(TcpStream::connect(self.address));
    }
}

/// Passes a connection on, in both directions.
fn pass_on(shared: &Arc<Shared>, client: TcpStream) {
    let Ok(agent) = TcpStream::connect(shared.target()) else { return };
    let _ = (client.set_nodelay(true), agent.set_nodelay(true));
    let (Ok(client_too), Ok(agent_too)) = (client.try_clone(), agent.try_clone()) else { return };
    if let (Ok(client), Ok(agent)) = (client.try_clone(), agent.try_clone()) {
        *shared.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some([client, agent]);
    }
    let own = shared.clone();
    let back = std::thread::spawn(move || one_way(&own, &agent_too, &client_too));
    let sent = one_way(shared, &client, &agent);
    let _ = back.join();
    if shared.happens(shared.faults.repeat_per_mille) {
        repeat(shared.target(), &sent);
    }
}

/// Sends once more what a client has sent.
fn repeat(target: SocketAddr, sent: &[u8]) {
    let Ok(mut agent) = TcpStream::connect(target) else { return };
    let _ = agent.write_all(sent);
    let _ = agent.shutdown(Shutdown::Write);
    let _ = agent.read_to_end(&mut Vec::new());
}

/// Passes one direction on until it ends; gives all bytes of it, as far as they can be repeated.
fn one_way(shared: &Arc<Shared>, from: &TcpStream, to: &TcpStream) -> Vec<u8> {
    const KEPT_BYTES: usize = 1 << 20;
    let (pieces, arrived) = channel::<(Instant, Vec<u8>)>();
    let (Ok(mut from), Ok(mut into)) = (from.try_clone(), to.try_clone()) else { return Vec::new() };
    let own = shared.clone();
    let writer = std::thread::spawn(move || {
        for (due, piece) in arrived {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            while own.is_parted.load(Relaxed) && !own.is_over.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            if into.write_all(&piece).is_err() {
                break;
            }
        }
        let _ = into.shutdown(Shutdown::Write);
    });
    let (mut sent, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    let faults = shared.faults;
    while let Ok(bytes @ 1..) = from.read(&mut piece) {
        let is_cut = shared.happens(faults.cut_per_mille);
        let bytes = if is_cut { shared.draw() as usize % (bytes + 1) } else { bytes };
        let jitter =
            if faults.jitters { faults.delay.mul_f64((shared.draw() % 1000) as f64 / 1e3) } else { Duration::ZERO };
        let due = Instant::now() + faults.delay + jitter;
        if sent.len() + bytes <= KEPT_BYTES {
            sent.extend_from_slice(&piece[..bytes]);
        }
        if pieces.send((due, piece[..bytes].to_vec())).is_err() {
            break;
        }
        if is_cut {
            drop(pieces);
            let _ = writer.join();
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            return sent;
        }
        if shared.happens(faults.stall_per_mille) {
            // The peer waits until it loses patience.
            while !shared.is_over.load(Relaxed) && matches!(from.read(&mut piece), Ok(1..)) {
                std::hint::spin_loop();
            }
            break;
        }
    }
    drop(pieces);
    let _ = writer.join();
    sent
}
