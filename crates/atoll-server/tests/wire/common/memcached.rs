//! The memcached protocol: a real memcached, to compare with, and a connection to any server.

use atoll_sim::required;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What ends the replies of [`Text::say`].
const END: &[u8] = b"MN\r\n";

/// A connection that sends bytes and shows what comes back.
pub(crate) struct Text(pub(crate) TcpStream);

impl Text {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        // A server may have closed the connection at the bytes before these.
        let _ = self.0.write_all(bytes);
    }

    /// Sends requests and gives all their replies: `mn` behind them says where they end. What comes
    /// before the end of the connection, if that ends, has ` <end>` behind it.
    pub(crate) fn say_bytes(&mut self, requests: &[u8]) -> Vec<u8> {
        self.send(&[requests, b"mn\r\n"].concat());
        let lines =
            |text: &[u8], begin: &[u8]| text.split_inclusive(|&b| b == b'\n').filter(|l| l.starts_with(begin)).count();
        // The requests may have some of their own, whose replies can come before the others.
        let ends = 1 + lines(requests, b"mn");
        let (mut replies, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
        // Counted are the ends in the whole lines of the replies, up to `counted`.
        let (mut found, mut counted) = (0, 0);
        while found < ends {
            match self.0.read(&mut buffer) {
                Ok(bytes @ 1..) => {
                    replies.extend_from_slice(&buffer[..bytes]);
                    let whole =
                        buffer[..bytes].iter().rposition(|&b| b == b'\n').map(|at| replies.len() - bytes + at + 1);
                    let whole = whole.unwrap_or(counted);
                    found += lines(&replies[counted..whole], END);
                    counted = whole;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    panic!("no end after {:?}", String::from_utf8_lossy(&replies))
                }
                _ => {
                    replies.extend_from_slice(b" <end>");
                    return replies;
                }
            }
        }
        replies.truncate(replies.len() - END.len());
        replies
    }

    /// As [`say_bytes`](Self::say_bytes), as text.
    pub(crate) fn say(&mut self, requests: impl AsRef<[u8]>) -> String {
        String::from_utf8(self.say_bytes(requests.as_ref())).unwrap()
    }

    /// Everything until the server closes the connection.
    pub(crate) fn rest(mut self) -> String {
        let mut rest = Vec::new();
        // A server that closes while bytes of ours are unread resets the connection, behind what it
        // said.
        let _ = self.0.read_to_end(&mut rest);
        String::from_utf8_lossy(&rest).into_owned()
    }
}

/// A memcached, which ends with this.
pub(crate) struct Memcached {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Memcached {
    /// A memcached on a free port; `None` if there is none and the environment permits that.
    pub(crate) fn start() -> Option<Self> {
        required("memcached", Self::is_installed())?;
        let memcached = (0..5).find_map(|_| Self::on_a_free_port());
        Some(memcached.expect("a memcached that listens on one of five ports that were free"))
    }

    /// A memcached on a port that was free a moment ago; `None` if it did not get that port.
    fn on_a_free_port() -> Option<Self> {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        // One thread, and no other one that holds items for a while: what is held is not changed in
        // place, and a number then gets no blanks behind it.
        let process = Command::new("memcached")
            .args([
                "-t",
                "1",
                "-o",
                "no_modern",
                "-l",
                "127.0.0.1",
                "-U",
                "0",
                "-u",
                "root",
                "-m",
                "64",
                "-p",
                &address.port().to_string(),
            ])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // From here on it is ended and waited for, also by a panic.
        let mut memcached = Self { process, address };
        for _ in 0..500 {
            if memcached.answers() {
                return Some(memcached);
            }
            if memcached.process.try_wait().unwrap().is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("memcached does not answer on {address}");
    }

    /// Whether it is this very process that answers on the port, and no other server.
    fn answers(&self) -> bool {
        let pid = format!("STAT pid {}\r\n", self.process.id());
        TcpStream::connect(self.address).is_ok() && Text::connect(self.address).say("stats\r\n").contains(&pid)
    }

    /// Whether there is one of version 1.6.
    fn is_installed() -> Result<(), String> {
        let output = Command::new("memcached").arg("--version").output();
        let output = output.map_err(|error| format!("memcached is not installed: {error}"))?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        if version.contains(" 1.6.") { Ok(()) } else { Err(format!("memcached 1.6 is wanted, and this is {version}")) }
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
