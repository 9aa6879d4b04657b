//! A redis-server of our own on a unix socket, and a connection with one command in flight.

use super::subject::{Key, Source, Subject, VALUE_BYTES};
use crate::LabError;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the server may take until it listens.
const START_MAX: Duration = Duration::from_secs(5);

/// Room for the buffers of the connections of one measurement, which count against the server's
/// limit.
const CONNECTION_BYTES: u64 = 1 << 20;

fn failed(source: std::io::Error) -> LabError {
    LabError::System { what: "talk to redis-server", source }
}

/// A server that ends with this value.
pub(super) struct Server {
    child: Child,
    socket: PathBuf,
}

impl Server {
    /// Starts one, without persistence; `None` if none is installed.
    pub(super) fn start() -> Result<Option<Self>, LabError> {
        let socket = std::env::temp_dir().join(format!("atoll-micro-{}.sock", std::process::id()));
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(&socket);
        let child = match command.stdin(Stdio::null()).stdout(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let server = Self { child, socket };
        let since = Instant::now();
        while let Err(error) = Connection::open(&server.socket) {
            if since.elapsed() > START_MAX {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Some(server))
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Empties it and lets it use `bytes_max` bytes for objects, beyond what it needs empty; `None`
    /// for no limit.
    pub(super) fn reset(&self, bytes_max: Option<u64>) -> Result<(), LabError> {
        let mut connection = Connection::open(&self.socket)?;
        connection.command(&[b"CONFIG", b"SET", b"maxmemory-policy", b"allkeys-lru"])?;
        connection.command(&[b"CONFIG", b"SET", b"maxmemory", b"0"])?;
        connection.command(&[b"FLUSHALL"])?;
        if let Some(bytes_max) = bytes_max {
            let limit = connection.used_bytes()? + CONNECTION_BYTES + bytes_max;
            connection.command(&[b"CONFIG", b"SET", b"maxmemory", limit.to_string().as_bytes()])?;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// One connection.
pub(super) struct Connection {
    stream: BufReader<UnixStream>,
    out: Vec<u8>,
    line: Vec<u8>,
    into: Vec<u8>,
}

impl Connection {
    pub(super) fn open(socket: &Path) -> Result<Self, LabError> {
        let stream = BufReader::new(UnixStream::connect(socket).map_err(failed)?);
        Ok(Self { stream, out: Vec::new(), line: Vec::new(), into: Vec::new() })
    }

    /// Sends one command and reads its answer, which may be a status or one string; says whether it
    /// was not nil.
    fn command(&mut self, parts: &[&[u8]]) -> Result<bool, LabError> {
        self.out.clear();
        let mut write = || {
            write!(self.out, "*{}\r\n", parts.len())?;
            for part in parts {
                write!(self.out, "${}\r\n", part.len())?;
                self.out.extend_from_slice(part);
                self.out.extend_from_slice(b"\r\n");
            }
            self.stream.get_mut().write_all(&self.out)
        };
        write().map_err(failed)?;
        self.answer().map_err(failed)
    }

    /// What the server says that it uses; a limit below it would have it refuse every SET.
    fn used_bytes(&mut self) -> Result<u64, LabError> {
        self.command(&[b"INFO", b"memory"])?;
        let text = String::from_utf8_lossy(&self.into);
        let used = text.lines().find_map(|line| line.strip_prefix("used_memory:")?.parse().ok());
        used.ok_or_else(|| failed(std::io::Error::other("it does not tell its used_memory")))
    }

    fn answer(&mut self) -> std::io::Result<bool> {
        self.line.clear();
        self.stream.read_until(b'\n', &mut self.line)?;
        let text = String::from_utf8_lossy(&self.line);
        match self.line.first() {
            Some(b'+') => Ok(true),
            Some(b'$') => match text[1..].trim_end().parse() {
                Ok(bytes) => {
                    let bytes: usize = bytes;
                    self.into.resize(bytes + 2, 0);
                    self.stream.read_exact(&mut self.into)?;
                    Ok(true)
                }
                Err(_) => Ok(false),
            },
            _ => Err(std::io::Error::other(format!("it answered {text:?}"))),
        }
    }
}

impl Subject for Connection {
    fn get(&mut self, key: &Key) -> Result<bool, LabError> {
        self.command(&[b"GET", key])
    }

    fn set(&mut self, key: &Key) -> Result<(), LabError> {
        self.command(&[b"SET", key, &[b'v'; VALUE_BYTES]])?;
        Ok(())
    }
}

/// Connections to one redis-server.
pub(super) struct RedisSource(pub(super) PathBuf);

impl Source for RedisSource {
    type Subject = Connection;

    fn subject(&self) -> Result<Connection, LabError> {
        Connection::open(&self.0)
    }
}
