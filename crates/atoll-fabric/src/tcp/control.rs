//! A connection for calls, one after the other: it blocks.

use super::call::{Answer, Call};
use super::tls::{self, Tunnel};
use super::wire::{GREETING_WORDS, HEAD_WORDS, Head, Kind, Status, decode_greeting};
use super::{TcpOptions, configure, secret};
use crate::FabricError;
use crate::shm::process::random_word;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long a call may take. Making a region takes as long as the host needs for its first pages.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the agent may take to end what the connection was.
const END_TIMEOUT: Duration = Duration::from_millis(500);
/// Pause before a call is repeated that another process excludes.
const ASK_AGAIN: Duration = Duration::from_millis(3);

/// A connection that has proved itself.
pub(super) struct Control {
    stream: TcpStream,
    tunnel: Option<Tunnel>,
    address: String,
    number: u32,
    /// The agent, and the session of this connection.
    pub(super) agent: u64,
    pub(super) session: u64,
    /// The boot of the agent's host; 0 if it is unknown.
    pub(super) boot: u64,
    /// Its clock when it answered; 0 if it has none.
    pub(super) clock_ms: u64,
}

impl Control {
    /// Connects, and lets each side prove that it knows the secret.
    ///
    /// # Errors
    /// [`FabricError::System`] if there is no agent, or it knows another secret.
    pub(super) fn connect(address: &str, options: &TcpOptions) -> Result<Self, FabricError> {
        let system = |source| FabricError::System {
            name: format!("tcp:{address}"),
            what: "reach the memory node (atoll node)",
            source,
        };
        Self::try_connect(address, options).map_err(system)
    }

    fn try_connect(address: &str, options: &TcpOptions) -> io::Result<Self> {
        let deadline = Instant::now() + options.connect_timeout;
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for resolved in address.to_socket_addrs()? {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            match TcpStream::connect_timeout(&resolved, left) {
                Ok(stream) => return Self::greet(stream, address, options),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn greet(stream: TcpStream, address: &str, options: &TcpOptions) -> io::Result<Self> {
        configure(&stream)?;
        let tunnel = options.authority.as_ref().map(|authority| Tunnel::to_agent(authority, address)).transpose()?;
        stream.set_read_timeout(Some(options.connect_timeout))?;
        stream.set_write_timeout(Some(options.connect_timeout))?;
        let mut control =
            Self { stream, tunnel, address: address.to_owned(), number: 0, agent: 0, session: 0, boot: 0, clock_ms: 0 };
        let mut words = [0; GREETING_WORDS];
        control.fill(bytemuck::cast_slice_mut(&mut words)).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock if control.tunnel.is_none() => io::Error::new(
                io::ErrorKind::TimedOut,
                "it says nothing: if it wants TLS, name the file of its authority behind the address (?ca=FILE)",
            ),
            _ => tls::explained(error),
        })?;
        let refused = |why: &str| io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned());
        let not_an_agent = || io::Error::new(io::ErrorKind::InvalidData, "it is no agent of this version of Atoll");
        let (challenge, needs_secret) = decode_greeting(&words).ok_or_else(not_an_agent)?;
        let secret = options.secret.as_ref();
        if needs_secret && secret.is_none() {
            return Err(refused("it wants a secret: name the file that holds it in ATOLL_SECRET_FILE"));
        }
        // An agent that wants no secret is not asked for a proof: it listens on this host alone.
        let secret = secret.filter(|_| needs_secret);
        let nonce: [u64; 4] = std::array::from_fn(|_| random_word());
        let [proof0, proof1, proof2, proof3] = secret::of_client(secret, challenge, nonce);
        let [nonce0, nonce1, nonce2, nonce3] = nonce;
        let hello = Call::Hello { proof0, proof1, proof2, proof3, nonce0, nonce1, nonce2, nonce3 };
        let Answer::Welcome { agent, session, boot, clock, proof0, proof1, proof2, proof3 } =
            control.try_ask(&hello)?
        else {
            return Err(not_an_agent());
        };
        if !secret::is_of_agent(secret, challenge, nonce, [proof0, proof1, proof2, proof3]) {
            return Err(refused("it does not know the secret of the file that ATOLL_SECRET_FILE names"));
        }
        (control.agent, control.session, control.boot, control.clock_ms) = (agent, session, boot, clock);
        control.stream.set_read_timeout(Some(CALL_TIMEOUT))?;
        control.stream.set_write_timeout(Some(CALL_TIMEOUT))?;
        Ok(control)
    }

    /// The connection, for batches. The number is that of the next frame.
    pub(super) fn into_stream(self) -> (TcpStream, Option<Tunnel>, u32) {
        let Self { stream, tunnel, number, .. } = self;
        (stream, tunnel, number)
    }

    /// Calls, and waits for the answer. A call that another process excludes for a time is
    /// repeated.
    pub(super) fn ask(&mut self, call: &Call) -> Result<Answer, FabricError> {
        loop {
            match self.ask_once(call)? {
                Answer::Busy {} => std::thread::sleep(ASK_AGAIN),
                answer => return Ok(answer),
            }
        }
    }

    /// The same without repeating.
    pub(super) fn ask_once(&mut self, call: &Call) -> Result<Answer, FabricError> {
        self.try_ask(call).map_err(|source| FabricError::System {
            name: format!("tcp:{}", self.address),
            what: "call the memory node",
            source,
        })
    }

    /// Sends all of it.
    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let Some(tunnel) = &mut self.tunnel else { return self.stream.write_all(bytes) };
        while !bytes.is_empty() {
            let sent = tunnel.write(&self.stream, bytes)?;
            bytes = &bytes[sent..];
        }
        tunnel.flush(&self.stream).map(drop)
    }

    /// Receives so much.
    fn fill(&mut self, mut into: &mut [u8]) -> io::Result<()> {
        let Some(tunnel) = &mut self.tunnel else { return self.stream.read_exact(into) };
        while !into.is_empty() {
            match tunnel.read(&self.stream, into)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => into = &mut into[bytes..],
            }
        }
        Ok(())
    }

    fn try_ask(&mut self, call: &Call) -> io::Result<Answer> {
        let mut frame = vec![0; HEAD_WORDS];
        call.encode(&mut frame);
        let head = Head::new(Kind::Call, self.number, frame.len() - HEAD_WORDS);
        frame[..HEAD_WORDS].copy_from_slice(&head.encode());
        self.send(bytemuck::cast_slice(&frame))?;
        let mut head = [0; HEAD_WORDS];
        self.fill(bytemuck::cast_slice_mut(&mut head))?;
        let strange = || io::Error::new(io::ErrorKind::InvalidData, "the memory node answers with strange bytes");
        let head = Head::decode(head).ok_or_else(strange)?;
        if head.kind == Kind::End {
            return Err(ended(head.status));
        }
        if head.kind != Kind::Answer || head.number != self.number {
            return Err(strange());
        }
        let mut body = vec![0; head.words];
        self.fill(bytemuck::cast_slice_mut(&mut body))?;
        self.number = self.number.wrapping_add(1);
        Answer::decode(&body).ok_or_else(strange)
    }
}

/// Why the agent has ended a connection.
pub(super) fn ended(status: Status) -> io::Error {
    let (kind, why) = match status {
        Status::Secret => (
            io::ErrorKind::PermissionDenied,
            "it refuses the secret: the file that ATOLL_SECRET_FILE names must hold that of the node's --secret-file",
        ),
        Status::Fenced => (io::ErrorKind::ConnectionAborted, "it has shut this client out"),
        Status::Full => (io::ErrorKind::OutOfMemory, "it has no memory for so long a batch at the moment"),
        _ => (io::ErrorKind::InvalidData, "it does not understand this version of Atoll"),
    };
    io::Error::new(kind, why)
}

/// Closes a connection, and waits until the agent has ended what it was.
pub(super) fn close(stream: &TcpStream) {
    let _ = stream.set_nonblocking(false);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(END_TIMEOUT));
    let deadline = Instant::now() + END_TIMEOUT;
    let mut rest = [0; 4096];
    while let Ok(1..) = (&*stream).read(&mut rest) {
        if Instant::now() >= deadline {
            return;
        }
    }
}
